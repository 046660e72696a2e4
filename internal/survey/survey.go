// Package survey reads from the keys of a server which locks, semaphores and latches there are, who holds them and who
// waits, with package wire's knowledge of the keys. It reads with plain commands, no more of any key than a few hundred
// entries, so it is safe on any server. Between two commands the world may change; a key that has gone in between is
// left out.
package survey

import (
	"context"
	"encoding/base64"
	"strings"
	"unicode/utf8"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/presence"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// Kinds of objects, as far as the server distinguishes them.
const (
	KindLock    = "rlock|fairlock"  // also Redisson's spin and non-reentrant locks; nobody waits in a line or a queue
	KindRLock   = "rlock"           // sessions stand in its line
	KindFair    = "fairlock"        // somebody waits
	KindFenced  = "fenced"          // an rlock that gives tokens
	KindRW      = "rwlock"          // held for reading or for writing, or waited for
	KindSet     = "setlock"         // a string that looks like one of this toolkit
	KindString  = "setlock|other"   // any other string with a time to live
	KindNumber  = "semaphore|latch" // of either kind of semaphore, or a counter of another program
	KindPermits = "expirable"       // a semaphore some of whose permits are taken
)

// The states of locks.
const (
	Held = "held"
	Free = "free"
)

// NoEnd stands for the ms of a lease without end.
const NoEnd = -1

// Kinds are the kinds that callers may ask for.
var Kinds = []string{"rlock", "fairlock", "fenced", "rwlock", "setlock", "semaphore", "latch", "expirable"}

// packages are the packages of those kinds that are not named after theirs.
var packages = map[string]string{KindFenced: "rlock", KindPermits: "semaphore"}

// Is reports whether an object can be of a kind.
func Is(kind, asked string) bool { return strings.Contains("|"+kind+"|", "|"+asked+"|") }

// Named is a name in JSON.
type Named struct {
	Name       string `json:"name"`                  // U+FFFD stands for what is not UTF-8
	NameBase64 string `json:"name_base64,omitempty"` // the very bytes, if Name lacks some
}

// NewNamed returns a name for JSON.
func NewNamed(name string) Named {
	n := Named{Name: name}
	if !utf8.ValidString(name) {
		n.NameBase64 = base64.StdEncoding.EncodeToString([]byte(name))
	}
	return n
}

// An Object is what is known about one name. Its JSON is part of the interface of the command holdfast.
type Object struct {
	Named
	Kind  string `json:"kind"`
	State string `json:"state,omitempty"` // held or free, of locks

	Holders     []*Party `json:"holders,omitempty"`      // some of them, if there are many
	HolderCount *int64   `json:"holder_count,omitempty"` // of locks: how many there are
	LeaseMS     *int64   `json:"lease_ms,omitempty"`     // of the key; -1: it has no end

	// Of all but latches in order; some of them if there are many.
	Waiters     []*Party `json:"waiters,omitempty"`
	WaiterCount *int64   `json:"waiter_count,omitempty"`

	Value *int64 `json:"value,omitempty"` // permits that are free, or the count of a latch
	Taken *int64 `json:"taken,omitempty"` // of an expirable semaphore

	Permits []*Permit `json:"permits,omitempty"` // that are taken, some of them if there are many
	Token   *int64    `json:"token,omitempty"`   // the last fencing token

	Leader *Leader `json:"leader,omitempty"` // of an election, which is a fair lock

	Barrier *Barrier `json:"barrier,omitempty"` // whose parties the permits are

	Listening map[string]int64 `json:"listening,omitempty"` // clients by channel

	line, queue int64 // how many wait in the line of a lock or a semaphore, and in the queue of a fair lock
}

// A Party holds or waits.
type Party struct {
	ID      string            `json:"id"` // "<session>:<number>"
	Session string            `json:"session,omitempty"`
	Mode    string            `json:"mode,omitempty"`     // of read-write locks
	Count   int64             `json:"count,omitempty"`    // of a holder
	LeaseMS *int64            `json:"lease_ms,omitempty"` // of a holder; -1: without end
	AliveMS *int64            `json:"alive_ms,omitempty"` // of a waiter: when it counts as dead
	Process *presence.Process `json:"process,omitempty"`
	Note    string            `json:"note,omitempty"` // of a holder, for people

	// Of a holder: its session has calls that have waited for the name for long as well, perhaps of other goroutines.
	WaitsForItself bool `json:"waits_for_itself,omitempty"`
	// Of a holder: the names for which its owner has waited for long.
	WaitsFor []string `json:"waits_for,omitempty"`

	text  string   // of a waiter in a line or a queue: what stands there
	alive []string // and the keys that have until when it is alive; the last one decides
}

// A Leader is who holds the lock of an election.
type Leader struct {
	Term    int64 `json:"term"`
	SinceMS int64 `json:"since_ms"` // by the server's clock

	owner string
}

// A Barrier is how far the parties are.
type Barrier struct {
	Generation int64 `json:"generation"` // that they wait for
	Arrived    int64 `json:"arrived"`
}

// A Permit is taken.
type Permit struct {
	ID      string            `json:"id"`
	LeaseMS int64             `json:"lease_ms"`          // -1: without end
	Process *presence.Process `json:"process,omitempty"` // only together with a note
	Note    string            `json:"note,omitempty"`
}

// Ordered reports whether the waiters are served in the order in which they are listed.
func (o *Object) Ordered() bool { return o.line > 0 && o.queue == 0 || o.line == 0 && o.queue > 0 }

// NewObject returns an object about which nothing else is known.
func NewObject(name, kind string) *Object { return &Object{Named: NewNamed(name), Kind: kind} }

// NewParty is the party with an id.
func NewParty(id, mode string) *Party {
	session, _, _ := wire.ParseOwner(id)
	return &Party{ID: id, Session: session, Mode: mode}
}

// Channels are those where the waiters for such an object listen, if they share one.
func (o *Object) Channels() (names []string) {
	for kind := range strings.SplitSeq(o.Kind, "|") {
		for _, c := range wire.Channels {
			if !c.PerOwner && (c.Kind == kind || c.Kind == packages[kind]) {
				names = append(names, c.Of(o.Name))
			}
		}
	}
	return names
}

// CountListeners counts the clients that listen on the object's channels, if the server says.
func (o *Object) CountListeners(ctx context.Context, client rueidis.Client) {
	o.Listening = Listeners(ctx, client, o.Channels()...)
}

// Listeners counts the clients that listen on channels; nil if the server does not say.
func Listeners(ctx context.Context, client rueidis.Client, channels ...string) map[string]int64 {
	ctx, cancel := context.WithTimeout(ctx, courtesy)
	defer cancel()
	counts := map[string]int64{}
	for _, channel := range channels {
		for _, node := range client.Nodes() { // each knows its own
			n, err := node.Do(ctx, node.B().PubsubNumsub().Channel(channel).Build()).AsIntMap()
			if err != nil {
				return nil
			}
			counts[channel] += n[channel]
		}
		if client.Mode() == rueidis.ClientModeCluster { // where servers before 7.0 know no sharded messages
			n, _ := client.Do(ctx, client.B().PubsubShardnumsub().Channel(channel).Build()).AsIntMap()
			counts[channel] += n[channel]
		}
	}
	return counts
}
