package replaymodel_test

import (
	"fmt"
	"slices"
)

// An owner is a wire owner of the session (1, 2, …), nobody, or X.
type owner int8

const (
	nobody owner = 0
	other  owner = -1 // X
)

func (o owner) String() string {
	if o == other {
		return "X"
	}
	return fmt.Sprintf("#%d", int8(o))
}

// A world is one state of everything. It is comparable, so that a map can tell which worlds have been seen.
type world struct {
	server  server
	session session
	g       [2]goroutine
	stray   [maxStrays]message  // sent, given up on, not executed yet; in order, so that equal sets are equal states
	sweep   [maxOwners + 1]int8 // of each wire owner, the second undo: 0 none planned, 1 due, above that the ticks until then, plus 1
	ahead   bool                // the server's clock has ticked, the session's has not yet
	bounds  bounds              // the same in all worlds of a search

	drift bool // history: a stray, a given-up release or a lapse may have left the server's count different from the session's
}

// A server holds the lock's key.
type server struct {
	owner owner
	count int8
	ttl   int8 // ticks left; X's key does not expire

	remains bool // history: its last holder here has ended by the clock; it runs out with its lease
}

// A session maps the owner that the goroutines share to a wire owner.
type session struct {
	wire  owner // nobody: the next acquisition is an outermost one
	count int8  // holds under wire
	drawn owner // wire owners handed out
}

// A goroutine takes and releases the lock. At most one operation of it is in flight.
type goroutine struct {
	doing    activity
	msg      message // in flight; of a hold, only its owner
	answer   answer  // none: msg is on its way there; otherwise: on its way back
	repeated bool    // an earlier attempt at msg has had no reply
	trust    int8    // ticks until the hold is no longer trusted
	locks    int8    // acquisitions left

	gone    cause // history: how the hold vanished from the server
	doubted bool  // history: the acquisition was repeated
}

type activity int8

const (
	idle activity = iota
	acquiring
	holding
	releasing
	undoing
)

// A cause is a good reason for a hold to vanish. A script of the session's own is none.
type cause int8

const (
	notGone cause = iota
	expired
	forced
)

// A message is a request to run a script.
type message struct {
	verb  verb
	owner owner
	count int8 // the target
	open  int8 // of an acquire: ticks until its not-after has passed
}

type verb int8

const (
	noVerb verb = iota
	acquire
	release
)

func (m message) String() string {
	name := [...]string{"nothing", "acquire", "release"}[m.verb]
	return fmt.Sprintf("%s(%v→%d)", name, m.owner, m.count)
}

func start(b bounds) world {
	w := world{bounds: b}
	for i := range w.g {
		w.g[i].locks = b.locks[i]
	}
	return w
}

func (g goroutine) inFlight() bool {
	return g.doing == acquiring || g.doing == releasing || g.doing == undoing
}

// believes reports whether g's program may think that it has the lock.
func (g goroutine) believes() bool { return g.doing == holding && g.trust > 0 }

// rest ends whatever g was doing.
func (g goroutine) rest() goroutine { return goroutine{locks: g.locks} }

// inFlight counts the operations in flight for a wire owner.
func (w *world) inFlight(o owner) int8 {
	var n int8
	for _, g := range w.g {
		if g.inFlight() && g.msg.owner == o {
			n++
		}
	}
	return n
}

// keep leaves a copy of m in the network. It reports whether there was room.
func (w *world) keep(m message) bool {
	i := slices.Index(w.stray[:w.bounds.strays], message{})
	if i < 0 {
		return false
	}
	w.stray[i] = m
	w.sortStrays()
	return true
}

func (w *world) sortStrays() {
	slices.SortFunc(w.stray[:], func(a, b message) int { return b.rank() - a.rank() })
}

func (m message) rank() int {
	return ((int(m.verb)*16+int(m.owner))*16+int(m.count))*16 + int(m.open)
}

// doubt records that a stray may have brought back a key that an operator had removed: no reply can tell.
func (w *world) doubt(o owner) {
	for i, g := range w.g {
		if g.msg.owner == o && g.doing != idle && g.doing != undoing {
			w.g[i].doubted = true
		}
	}
}

// tidy makes worlds equal that differ only in what can no longer matter.
func (w *world) tidy(r rules) {
	if w.server.owner <= nobody || w.server.owner != w.session.wire {
		w.drift = false
	}
	for i, m := range w.stray {
		if m.verb != noVerb && w.inert(r, m) {
			w.stray[i] = message{}
		}
	}
	w.sortStrays()
}

// inert reports whether a stray can change nothing any more: it would refuse itself, or it is the release of a wire owner that is
// neither on the server nor can come back.
func (w *world) inert(r rules, m message) bool {
	if m.verb == acquire {
		return m.open == 0 && r.notAfter && r.notAfterToo
	}
	for _, s := range w.stray {
		if s.verb == acquire && s.owner == m.owner {
			return false
		}
	}
	return r.freshOwner && m.owner != w.session.wire && m.owner != w.server.owner && w.inFlight(m.owner) == 0
}

// quiet reports whether nothing is left to happen but the passing of time, and new calls.
func (w *world) quiet() bool {
	for _, g := range w.g {
		if g.doing != idle {
			return false
		}
	}
	return w.stray == [maxStrays]message{} && w.sweep == [maxOwners + 1]int8{}
}
