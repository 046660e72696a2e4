// Package turn lets the calls of one owner take turns at one name.
package turn

import (
	"context"
	"slices"
	"sync"
)

// A Turn belongs to one operation at a time; the others follow in the order in which they came. Calls that wait for the
// same thing are told when it is there. The zero value is nobody's turn.
type Turn struct {
	sync.Mutex // guards the rest, and whatever the turn is about
	crowd      *crowd
	Refs       int32 // how many use the object of the turn; they count themselves
	busy       bool  // an operation is in flight
}

// A crowd is the part of a turn that is needed only when several calls meet.
type crowd struct {
	turns []chan struct{} // operations that wait for their turn
	waits []Waker         // calls that wait for the object of the turn
}

// A Waker is a waiting call that can be told to look again. Wake must not block.
type Waker interface{ Wake() }

// gather returns the turn's crowd. The mutex is held.
func (t *Turn) gather() *crowd {
	if t.crowd == nil {
		t.crowd = new(crowd)
	}
	return t.crowd
}

// Free reports whether no operation is in flight, and no call waits. The mutex is held.
func (t *Turn) Free() bool { return !t.Busy() && (t.crowd == nil || len(t.crowd.waits) == 0) }

// Busy reports whether an operation is in flight. The mutex is held.
func (t *Turn) Busy() bool { return t.busy }

// Enter waits for the turn of an operation. Give it back with Leave.
func (t *Turn) Enter(ctx context.Context) error {
	t.Lock()
	if !t.busy {
		t.busy = true
		t.Unlock()
		return nil
	}
	turn := make(chan struct{})
	crowd := t.gather()
	crowd.turns = append(crowd.turns, turn)
	t.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	t.Lock()
	if i := slices.Index(crowd.turns, turn); i >= 0 {
		crowd.turns = slices.Delete(crowd.turns, i, i+1)
		t.Unlock()
		return context.Cause(ctx)
	}
	t.Unlock()
	t.Leave() // the turn came at the same moment: pass it on
	return context.Cause(ctx)
}

// Leave passes the turn on.
func (t *Turn) Leave() {
	t.Lock()
	defer t.Unlock()
	if t.crowd == nil || len(t.crowd.turns) == 0 {
		t.busy = false
		return
	}
	close(t.crowd.turns[0])
	t.crowd.turns = slices.Delete(t.crowd.turns, 0, 1)
}

// Await adds a call that waits, until Forgo. The mutex is held.
func (t *Turn) Await(w Waker) {
	crowd := t.gather()
	crowd.waits = append(crowd.waits, w)
}

// Forgo ends Await.
func (t *Turn) Forgo(w Waker) {
	t.Lock()
	defer t.Unlock()
	if t.crowd != nil { // otherwise the object of the turn was handed over
		t.crowd.waits = slices.DeleteFunc(t.crowd.waits, func(other Waker) bool { return other == w })
	}
}

// Waits are the calls that wait, to be woken without the mutex, which is held.
func (t *Turn) Waits() []Waker {
	if t.crowd == nil {
		return nil
	}
	return slices.Clone(t.crowd.waits)
}
