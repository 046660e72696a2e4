package rwreplaymodel_test

import (
	"fmt"
	"slices"
)

// A world is one state of everything. It is comparable, so that a map can tell which worlds have been seen.
type world struct {
	server  server
	session session
	g       [2]reader
	writer  writer
	stray   [maxStrays]message // sent, given up on, not executed yet; these three in order, so that equal sets are equal states
	debt    [maxDebts]debt     // to be given back, again and again until it is answered; not in turn
	fix     [maxFixes]fix      // counts to be set right, likewise, but in turn
	bounds  bounds             // what is left of them
}

// A server holds the lock: what it has of the session's one wire owner, and X, who is anybody else.
type server struct {
	reads  int8   // count of read holds, 0: no field
	keys   uint16 // of read holds, one bit each, by their numbers
	writes bool
	x      someone
}

// Someone else reads, or writes, or does nothing.
type someone int8

const (
	nothingOfX someone = iota
	xReads
	xWrites
)

// free: there is nothing to be seen of the lock.
func (s *server) free() bool { return s.reads == 0 && !s.writes && s.x == nothingOfX }

// writing is the lock's mode.
func (s *server) writing() bool { return s.writes || s.x == xWrites }

// alive reports whether one of the holds that count has a key.
func (s *server) alive() bool { return s.keys&numbers(1, s.reads) != 0 }

// numbers are the keys' bits from one number to another.
func numbers(from, to int8) (bits uint16) {
	for n := from; n <= to; n++ {
		bits |= 1 << n
	}
	return bits
}

// A session knows of its one wire owner's read half.
type session struct {
	undone   bool  // an undo may have taken along what has ended
	tenure   int8  // the one that has the holds, or had them last; it begins when the first hold is granted
	top      int8  // the highest number asked for; 0 stands for 1
	floor    int8  // a release may yet be executed that knows of numbers up to this one
	copies   int8  // ticks until no copy of an acquisition of the tenure's can be executed
	returned uint8 // of which tenures a last release was executed, or may have been; one bit each
}

// A reader is a goroutine that takes the read half and gives it back. At most one operation of it is in flight.
type reader struct {
	doing    activity
	msg      message
	answer   answer // none: msg is on its way there; otherwise: on its way back
	repeated bool   // an earlier attempt at msg has had no reply
	reenters bool   // msg does; its outcome is the tenure's
	sweeps   bool   // when msg, a release, was sent, copies of an acquisition could still be executed
	tenure   int8
	number   int8 // asked for beside the write half, in an attempt before
	until    int8 // ticks until no copy of those attempts can be executed; -1: there are none
	locks    int8 // acquisitions left
}

// A writer is the goroutine that has the write half from the beginning.
type writer struct {
	doing    activity
	msg      message
	answer   answer
	repeated bool
	sweeps   bool
	copies   int8 // ticks until no copy of its acquisition can be executed
}

type activity int8

const (
	idle      activity = iota
	wanting            // between two attempts
	acquiring          // in flight
	holding
	ended     // given up here, the release waits for its turn
	releasing // in flight
	owing     // the release had no reply, and somebody is to repeat it
)

// A message is a request to run a script.
type message struct {
	verb    verb
	count   int8 // the target; of an acquisition its hold's number
	ceiling int8
	open    int8 // of an acquisition: ticks until its not-after has passed
	outer   bool // of an acquisition: it is not nested, and may create
}

type verb int8

const (
	noVerb verb = iota
	acquireRead
	releaseRead
	acquireWrite
	releaseWrite
)

func (m message) String() string {
	switch m.verb {
	case acquireRead:
		return fmt.Sprintf("acquire read(→%d)", m.count)
	case releaseRead:
		return fmt.Sprintf("release read(→%d, ceiling %d)", m.count, m.ceiling)
	case acquireWrite:
		return "acquire write"
	case releaseWrite:
		return "release write"
	}
	return "nothing"
}

// A debt is a release that is to be made, when a not-after has passed.
type debt struct {
	verb    verb
	ceiling int8
	wait    int8 // ticks
}

func (d debt) message() message { return message{verb: d.verb, ceiling: d.ceiling} }

// A fix is a release of what is true by then.
type fix struct {
	tenure int8
	wait   int8
	due    bool
	begun  bool // it was sent before
}

func start(b bounds) world {
	w := world{bounds: b}
	for i := range w.g {
		w.g[i] = reader{locks: b.locks[i], until: -1}
	}
	// Copies of the first acquisition may be under way.
	first := message{open: openFor, count: 1, outer: true}
	if b.reads {
		first.verb = acquireRead
		w.g[0].doing, w.g[0].tenure = holding, 1
		w.session.tenure, w.session.copies = 1, openFor
		w.server.reads, w.server.keys = 1, numbers(1, 1)
	} else {
		first.verb = acquireWrite
		w.writer.doing, w.writer.copies = holding, openFor
		w.server.writes = true
	}
	w.stray[0] = first
	w.tidy(allRules())
	return w
}

// live is how many read holds are believed in, of one tenure or, with 0, of all.
func (w *world) live(tenure int8) (n int8) {
	for _, g := range w.g {
		if g.doing == holding && (tenure == 0 || g.tenure == tenure) {
			n++
		}
	}
	return n
}

// held reports whether the wire owner has anything, as far as the session knows.
func (w *world) held() bool { return w.writer.doing == holding || w.live(0) > 0 }

// flying reports whether an operation is in flight.
func (w *world) flying() bool {
	for _, g := range w.g {
		if g.doing == acquiring || g.doing == releasing {
			return true
		}
	}
	return w.writer.doing == releasing
}

// keep leaves a copy of m in the network. It reports whether there was room.
func (w *world) keep(m message) bool {
	i := slices.Index(w.stray[:w.bounds.strays], message{})
	if i < 0 {
		return false
	}
	w.stray[i] = m
	return true
}

// owe has a last release made, after so many ticks.
func (w *world) owe(m message, wait int8) {
	d := debt{m.verb, m.ceiling, wait}
	if slices.Contains(w.debt[:], d) {
		return
	}
	i := slices.Index(w.debt[:], debt{})
	if i < 0 {
		panic("too many debts")
	}
	w.debt[i] = d
}

func (w *world) correct(tenure, wait int8) {
	f := fix{tenure: tenure, wait: wait, due: true}
	if slices.Contains(w.fix[:], f) {
		return
	}
	i := slices.Index(w.fix[:], fix{})
	if i < 0 {
		panic("too many corrections")
	}
	w.fix[i] = f
}

func (m message) rank() int {
	n := (((int(m.verb)*16+int(m.count))*16+int(m.ceiling))*4 + int(m.open)) * 2
	if m.outer {
		n++
	}
	return n
}

func (d debt) rank() int { return (int(d.verb)*16+int(d.ceiling))*4 + int(d.wait) }

func (f fix) rank() int {
	n := int(f.tenure)*8 + int(f.wait)*2
	if f.begun {
		n++
	}
	if f.due {
		n += 1000
	}
	return n
}

// tidy makes worlds equal that differ only in what can no longer matter.
func (w *world) tidy(r rules) {
	for i, m := range w.stray {
		acquires := m.verb == acquireRead || m.verb == acquireWrite
		if acquires && m.open == 0 && r.notAfter { // it refuses itself
			w.stray[i] = message{}
		}
	}
	if s := &w.session; !w.held() && w.g[0].doing != acquiring && w.g[1].doing != acquiring { // nobody takes a number any more
		s.top, s.floor = 0, 0
	}
	slices.SortFunc(w.stray[:], func(a, b message) int { return b.rank() - a.rank() })
	slices.SortFunc(w.debt[:], func(a, b debt) int { return b.rank() - a.rank() })
	slices.SortFunc(w.fix[:], func(a, b fix) int {
		return b.rank() - a.rank()
	})
}

// quiet reports whether nothing is left to happen but new calls.
func (w *world) quiet() bool {
	for _, g := range w.g {
		if g.doing != idle {
			return false
		}
	}
	return w.writer.doing == idle && w.stray == [maxStrays]message{} && w.debt == [maxDebts]debt{} && w.fix == [maxFixes]fix{}
}
