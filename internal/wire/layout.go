package wire

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The contents of a name's keys. The key that has the name itself is
//
//	of a lock               a hash {owner -> hold count}
//	of a read-write lock    the same with the field "mode"; a writer's owner ends with ":write"
//	of a setlock            a string: the owner, or the token of another library
//	of a semaphore, latch   a string: the number of free permits, or of those that have to count down
//
// and the keys beside it are listed in [Keys].

// A Role is the part that a key plays for the name that it is made of.
type Role int

// The roles. A key of a role after Beside shows by itself that something is there.
const (
	Main       Role = iota // the key has the name
	Beside                 // the key means nothing without the others
	Sessions               // the sessions in the line of an rlock, or of a semaphore whose key shows that it is one
	Queue                  // the waiters of a fair lock
	Writers                // the writers behind which readers of a read-write lock wait
	WriterLine             // the sessions in the line of those who wait to write
	Token                  // the last fencing token
)

// A Key is one of the keys that are made of a name.
type Key struct {
	Kind string                   // the package that makes it; "" for all
	Type string                   // as TYPE answers; "" for different ones
	Role Role                     // what it is for
	Of   func(name string) string // where there are several, with * for what tells them apart
}

// Keys are all keys that are made of a name.
var Keys = []Key{
	{"", "", Main, func(name string) string { return name }},
	{"rlock", "string", Token, TokenKey},
	{"rlock", "list", Sessions, Line},
	{"rlock", "zset", Beside, LineAlive},
	{"fairlock", "list", Queue, FairQueue},
	{"fairlock", "zset", Beside, FairDue},
	{"fairlock", "list", Beside, FairOurs},
	{"fairlock", "zset", Beside, FairAlive},
	{"leader", "hash", Beside, LeaderKey},
	{"rwlock", "string", Beside, func(name string) string { return Suffix(name, "*"+readHold+"*") }},
	{"rwlock", "zset", Writers, RWWriters},
	{"rwlock", "list", WriterLine, RWLine},
	{"rwlock", "zset", Beside, RWAlive},
	{"rwlock", "string", Beside, RWWaiting},
	{"semaphore", "zset", Beside, PermitsKey},
	{"semaphore", "list", Beside, Line},
	{"semaphore", "zset", Beside, LineAlive},
	{"barrier", "hash", Beside, BarrierKey},
	{"ask", "hash", Beside, Asked}, // of no kind: only if locks are asked for
}

// A Channel is one of the channels that are made of a name.
type Channel struct {
	Kind     string // the package whose waiters listen there
	Of       func(name string) string
	PerOwner bool // each waiter has its own, with its owner in place of *
}

// Channels are all channels that are made of a name.
var Channels = []Channel{
	{Kind: "rlock", Of: LockChannel},
	{Kind: "rlock", Of: func(name string) string { return LineChannel(name) + "*" }, PerOwner: true},
	{Kind: "fairlock", Of: func(name string) string { return FairChannel(name) + "*" }, PerOwner: true},
	{Kind: "fairlock", Of: func(name string) string { return FairTold(name) + "*" }, PerOwner: true},
	{Kind: "leader", Of: LeaderKey},
	{Kind: "rwlock", Of: RWChannel},
	{Kind: "rwlock", Of: func(name string) string { return RWLineChannel(name) + "*" }, PerOwner: true},
	{Kind: "setlock", Of: SetChannel},
	{Kind: "semaphore", Of: SemaphoreChannel},
	{Kind: "semaphore", Of: func(name string) string { return LineChannel(name) + "*" }, PerOwner: true},
	{Kind: "barrier", Of: BarrierKey},
	{Kind: "latch", Of: LatchChannel},
}

// Endless is the score of a permit whose lease has no end.
const Endless = 922337203685477

// ModeField is the field of a read-write lock's hash that says which half is held.
const ModeField = "mode"

// The modes.
const (
	ModeRead  = "read"
	ModeWrite = "write"
)

// OwnerGlob matches every text that [ParseOwner] accepts, and few others.
const OwnerGlob = "????????-????-????-????-????????????:*"

// The session and the number of an owner. Redisson appends the id of a transaction.
const ownerText = `([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}):-?[0-9]+`

var (
	ownerForm    = regexp.MustCompile(`^` + ownerText + `(:write)?(:[^:]+)?$`)
	readHoldForm = regexp.MustCompile(`:` + ownerText + `(:[^:]+)?` + readHold + `[0-9]+$`)
)

// ParseOwner returns the session of an owner, and whether it writes.
func ParseOwner(text string) (session string, writes, ok bool) {
	parts := ownerForm.FindStringSubmatch(text)
	if parts == nil {
		return "", false, false
	}
	return parts[1], parts[2] != "", true
}

// A Hold is the content of one field of a lock's hash.
type Hold struct {
	Owner, Session string // without ":write"
	Writes         bool
	Count          int64
}

// ParseHold reads a field of a lock's hash. It is not ok if the field has nothing to do with a lock.
func ParseHold(field, count string) (h Hold, ok bool) {
	h.Session, h.Writes, ok = ParseOwner(field)
	n, whole := Number(count)
	if !ok || !whole || n < 1 {
		return Hold{}, false
	}
	h.Owner, h.Count = field, n
	if h.Writes {
		h.Owner = strings.TrimSuffix(field, ":write")
	}
	return h, true
}

// Number is the number that Redis reads in a text.
func Number(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == text
}

// Globs are the globs over the keys of those names that a glob matches; none if the keys begin with the name. Globs can
// be put together as names are.
func (k Key) Globs(glob string) []string {
	if k.prefix() == "" {
		return nil
	}
	return []string{k.prefix() + "{" + glob + "}", strings.TrimSuffix(k.Of("{"), "{") + glob}
}

// prefix is the beginning of the key, whatever the name; "" if it begins with the name.
func (k Key) prefix() string { return before(k.Of) }

// before is what stands in front of a name and its braces.
func before(of func(string) string) string {
	text, _, ok := strings.Cut(of("x"), "{x}")
	if !ok {
		return ""
	}
	return text
}

// KeyOf returns the role of a key, and the names to which it may belong. There are two such names where one has the
// other in braces: they share their keys.
func KeyOf(key string) (k Key, names []string) {
	for _, k := range Keys {
		if rest, ok := strings.CutPrefix(key, k.prefix()); ok && rest != key {
			names := slices.DeleteFunc(namesOf(rest), func(name string) bool { return k.Of(name) != key })
			if len(names) > 0 {
				return k, names
			}
		}
	}
	// Redisson makes the second one for each unlock.
	for _, prefix := range []string{before(SessionKey), "redisson_unlock_latch:"} {
		if rest, ok := strings.CutPrefix(key, prefix); ok && strings.Contains(rest, "{") {
			return Key{Role: Beside}, nil
		}
	}
	if readHoldForm.MatchString(key) {
		return Key{Role: Beside}, nil
	}
	return Keys[0], []string{key}
}

// namesOf returns the names from which [Prefix], or own, may have made the part behind the word.
func namesOf(rest string) []string {
	inner := strings.TrimSuffix(strings.TrimPrefix(rest, "{"), "}")
	return slices.Compact([]string{inner, rest, strings.TrimPrefix(rest, ":")})
}
