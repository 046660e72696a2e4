package inspect

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/internal/presence"
)

// Kinds of objects, as far as the server tells them apart.
const (
	kindLock     = "rlock|fairlock"  // also Redisson's spin and non-reentrant locks; a fair lock nobody waits for
	kindFair     = "fairlock"        // somebody waits
	kindFenced   = "fenced"          // an rlock that gives tokens
	kindRW       = "rwlock"          //
	kindSet      = "setlock"         // a string that looks like one of this toolkit's
	kindString   = "setlock|other"   // any other string with a time to live
	kindNumber   = "semaphore|latch" // of either kind of semaphore, or a counter of anybody's
	kindPermits  = "expirable"       // a semaphore some of whose permits are taken
	stateHeld    = "held"
	stateFree    = "free"
	ModeRead     = "read"
	ModeWrite    = "write"
	neverExpires = -1
)

// kindNames are what may be asked for.
var kindNames = []string{"rlock", "fairlock", "fenced", "rwlock", "setlock", "semaphore", "latch", "expirable"}

// isKind reports whether an object can be of a kind.
func isKind(kind, asked string) bool {
	for one := range strings.SplitSeq(kind, "|") {
		if one == asked {
			return true
		}
	}
	return false
}

// An Object is what is known of one name. Its JSON is part of the command's interface.
type Object struct {
	Name       string `json:"name"`                  // what is no UTF-8 in it as U+FFFD
	NameBase64 string `json:"name_base64,omitempty"` // the very bytes, if Name is not all
	Kind       string `json:"kind"`
	State      string `json:"state,omitempty"` // held or free, of locks

	Holders     []Holder `json:"holders,omitempty"`      // some of them, if there are many
	HolderCount *int64   `json:"holder_count,omitempty"` // of locks: how many there are
	LeaseMS     *int64   `json:"lease_ms,omitempty"`     // of the key; -1: it has no end

	Waiters     []Waiter `json:"waiters,omitempty"` // of a fair lock in order; some of them if there are many
	WaiterCount *int64   `json:"waiter_count,omitempty"`

	Value *int64 `json:"value,omitempty"` // permits that are free, or the count of a latch
	Taken *int64 `json:"taken,omitempty"` // of an expirable semaphore

	Permits []Permit `json:"permits,omitempty"` // that are taken, some of them if there are many
	Token   *int64   `json:"token,omitempty"`   // the last fencing token
	Content *string  `json:"content,omitempty"` // of a setlock: the holder's token

	Listening map[string]int64 `json:"listening,omitempty"` // by channel: how many clients
}

// A Holder has a hold.
type Holder struct {
	ID      string            `json:"id"` // "<session>:<number>"
	Session string            `json:"session,omitempty"`
	Mode    string            `json:"mode,omitempty"` // of read-write locks
	Count   int64             `json:"count"`
	LeaseMS *int64            `json:"lease_ms,omitempty"` // -1: without end
	Process *presence.Process `json:"process,omitempty"`
}

// A Waiter waits.
type Waiter struct {
	ID      string            `json:"id"`
	Session string            `json:"session,omitempty"`
	Mode    string            `json:"mode,omitempty"`
	AliveMS *int64            `json:"alive_ms,omitempty"` // then it is taken for dead
	Process *presence.Process `json:"process,omitempty"`
}

// A Permit is taken.
type Permit struct {
	ID      string `json:"id"`
	LeaseMS int64  `json:"lease_ms"` // -1: without end
}

func newObject(name, kind string) *Object {
	o := &Object{Name: name, Kind: kind}
	if !utf8.ValidString(name) {
		o.NameBase64 = base64.StdEncoding.EncodeToString([]byte(name))
	}
	return o
}

// sessionOf is the part of an owner that tells its session; "" if it is no owner.
func sessionOf(owner string) string {
	if parts := cli.Owner.FindStringSubmatch(owner); parts != nil {
		return parts[1]
	}
	return ""
}
