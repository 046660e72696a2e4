package inspect

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/presence"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// Kinds of objects, as far as the server tells them apart.
const (
	kindLock    = "rlock|fairlock"  // also Redisson's spin and non-reentrant locks; a fair lock without waiters
	kindFair    = "fairlock"        // somebody waits
	kindFenced  = "fenced"          // an rlock that gives tokens
	kindRW      = "rwlock"          //
	kindSet     = "setlock"         // a string that looks like one of this toolkit
	kindString  = "setlock|other"   // any other string with a time to live
	kindNumber  = "semaphore|latch" // of either kind of semaphore, or a counter of another program
	kindPermits = "expirable"       // a semaphore some of whose permits are taken
)

const (
	stateHeld    = "held"
	stateFree    = "free"
	neverExpires = -1
)

// kindNames are what may be asked for.
var kindNames = []string{"rlock", "fairlock", "fenced", "rwlock", "setlock", "semaphore", "latch", "expirable"}

// packages are the packages of those kinds that are not named after theirs.
var packages = map[string]string{kindFenced: "rlock", kindPermits: "semaphore"}

// isKind reports whether an object can be of a kind.
func isKind(kind, asked string) bool { return strings.Contains("|"+kind+"|", "|"+asked+"|") }

// An Object is what is known of one name. Its JSON is part of the command's interface.
type Object struct {
	Name       string `json:"name"`                  // U+FFFD stands for what is not UTF-8
	NameBase64 string `json:"name_base64,omitempty"` // the very bytes, if Name lacks some
	Kind       string `json:"kind"`
	State      string `json:"state,omitempty"` // held or free, of locks

	Holders     []*Party `json:"holders,omitempty"`      // some of them, if there are many
	HolderCount *int64   `json:"holder_count,omitempty"` // of locks: how many there are
	LeaseMS     *int64   `json:"lease_ms,omitempty"`     // of the key; -1: it has no end

	Waiters     []*Party `json:"waiters,omitempty"` // of a fair lock in order; some of them if there are many
	WaiterCount *int64   `json:"waiter_count,omitempty"`

	Value *int64 `json:"value,omitempty"` // permits that are free, or the count of a latch
	Taken *int64 `json:"taken,omitempty"` // of an expirable semaphore

	Permits []*Permit `json:"permits,omitempty"` // that are taken, some of them if there are many
	Token   *int64    `json:"token,omitempty"`   // the last fencing token

	Listening map[string]int64 `json:"listening,omitempty"` // clients by channel
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

// waiter is a party that waits.
func waiter(id, mode string) *Party {
	session, _, _ := wire.ParseOwner(id)
	return &Party{ID: id, Session: session, Mode: mode}
}

// HolderOf is a holder that the library knows of.
func HolderOf(h holdfast.Holder, mode string) *Party {
	lease := max(h.Lease.Milliseconds(), neverExpires)
	p := waiter(h.ID, mode)
	p.Count, p.LeaseMS = int64(h.Count), &lease
	if h.Host != "" || h.PID != 0 {
		p.Process = &presence.Process{Host: h.Host, PID: h.PID, Program: h.Program, Label: h.Label, Started: h.Started}
	}
	return p
}

// channels are those where the waiters for such an object listen, if they share one.
func (o *Object) channels() (names []string) {
	for kind := range strings.SplitSeq(o.Kind, "|") {
		for _, c := range wire.Channels {
			if !c.PerOwner && (c.Kind == kind || c.Kind == packages[kind]) {
				names = append(names, c.Of(o.Name))
			}
		}
	}
	return names
}
