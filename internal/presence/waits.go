package presence

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/deadlock"
)

// Told is everything that a session publishes.
type Told struct {
	Process
	Count  uint64          `json:"told,omitempty"` // how often it has told of waits
	Waits  []deadlock.Wait `json:"waits,omitempty"`
	Itself []string        `json:"itself,omitempty"` // the keys that it has had for long, and waits for

	Notes map[string]string `json:"notes,omitempty"` // of its holds, by their ids
}

// Telling returns the session's report of its waits.
func (t *Told) Telling(session string) deadlock.Telling {
	return deadlock.Telling{Session: session, Count: t.Count, Waits: t.Waits}
}

const (
	long      = 500 * time.Millisecond // shorter waits are not published
	mostTold  = 4096                   // owners in the waits of a session, of which the longest ones come first
	mostAsked = 256                    // names, for which a call each finds out who has them
	mostSeen  = 4096                   // sessions, by one that looks for a cycle of its own
)

// A Nested is a call that waits while its owner holds something.
type Nested struct {
	Kind, Name string                                      // of the lock it waits for: as errors call it, and its key
	For        func(ctx context.Context) ([]string, error) // asks for the wire owners that have that
	Holds      func() []string                             // the wire owners of the owner's holds
	Wake       func()                                      // makes the call look whether it must fail

	of    *waits // the teller's
	id    uint64
	began time.Duration
	since time.Time
	cycle atomic.Pointer[deadlock.Cycle]
}

// Cycle returns the cycle because of which the call must fail, or nil.
func (n *Nested) Cycle() deadlock.Cycle {
	if n == nil || n.cycle.Load() == nil {
		return nil
	}
	return *n.cycle.Load()
}

// End says that the call waits no longer.
func (n *Nested) End() {
	if n != nil {
		n.of.mu.Lock()
		defer n.of.mu.Unlock()
		delete(n.of.nested, n.id)
	}
}

// waits are the waiting calls that a teller knows.
type waits struct {
	mu     sync.Mutex // guards the rest but the finder, which is the goroutine's alone
	last   uint64
	nested map[uint64]*Nested
	itself []string
	finder deadlock.Finder
}

// Wait makes the session publish a call once it has waited for long, until its End.
func (t *Teller) Wait(n *Nested) {
	w := &t.waits
	n.of, n.began, n.since = w, t.session.Now(), time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last++
	n.id = w.last
	w.nested[n.id] = n
	if len(w.nested) == 1 {
		t.stir()
	}
}

// Itself makes the session publish the keys that it waits for though it has held them for long.
func (t *Teller) Itself(keys []string) {
	w := &t.waits
	w.mu.Lock()
	defer w.mu.Unlock()
	if slices.Sort(keys); !slices.Equal(keys, w.itself) {
		w.itself = keys
		t.stir()
	}
}

// stir makes the goroutine look soon whether there is something to publish.
func (t *Teller) stir() {
	select {
	case t.stirs <- struct{}{}:
	default:
	}
}

// any reports whether there may be something to publish before the next telling is due.
func (w *waits) any() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.nested) > 0
}

// long returns the waits that have lasted for long, the longest ones first.
func (w *waits) long(now time.Duration) []*Nested {
	var all []*Nested
	for _, n := range w.nested {
		if now-n.began >= long {
			all = append(all, n)
		}
	}
	slices.SortFunc(all, func(a, b *Nested) int { return cmp.Compare(a.id, b.id) })
	return all
}

// tellMore publishes what is new, and repeatedly the calls that have waited for long; and, when that is due, that the
// session is alive.
func (t *Teller) tellMore() {
	w := &t.waits
	w.mu.Lock()
	nested, itself := w.long(t.session.Now()), w.itself
	w.mu.Unlock()
	notes := t.notes.told(t.session.Now())
	same := len(nested)+len(t.said.Waits) == 0 && slices.Equal(itself, t.said.Itself) && maps.Equal(notes, t.said.Notes)
	if (t.mute || same) && t.session.Now() < t.due {
		return
	}
	ctx, cancel := context.WithTimeout(t.ctx, t.session.Lease/6)
	defer cancel()
	t.said.Waits, t.said.Itself, t.said.Notes = nil, itself, notes
	type lock struct{ kind, name string }
	having := map[lock][]string{} // many calls may wait for one lock
	told, asked := 0, 0
	for _, n := range nested {
		if told >= mostTold {
			break
		}
		its := lock{n.Kind, n.Name}
		holders, known := having[its]
		if !known {
			if asked++; asked > mostAsked {
				continue
			}
			var err error
			if holders, err = n.For(ctx); err != nil {
				continue // the next time
			}
			having[its] = holders
		}
		wait := deadlock.Wait{
			ID: n.id, Kind: n.Kind, Name: n.Name, Since: n.since.UnixMilli(), For: holders, Holds: n.Holds(),
		}
		told += len(wait.For) + len(wait.Holds)
		t.said.Waits = append(t.said.Waits, wait)
	}
	if len(t.said.Waits) > 0 {
		t.said.Count++
	}
	if t.tell() != nil && len(t.said.Waits) > 0 {
		t.said.Count-- // what is told next was found out after the last report was there
	}
	if t.session.Breaks && len(t.said.Waits) > 0 {
		ctx, cancel := context.WithTimeout(t.ctx, t.session.Lease/6) // however long the others took
		defer cancel()
		t.breakCycles(ctx)
	}
}

// value returns the text that the session publishes.
func (t *Teller) value() string {
	if len(t.said.Waits)+len(t.said.Itself)+len(t.said.Notes) == 0 {
		return t.text
	}
	text, _ := json.Marshal(&t.said) // never fails, as above
	return string(text)
}

// breakCycles makes those calls of the session fail that are the youngest in a cycle.
func (t *Teller) breakCycles(ctx context.Context) {
	told, ok := t.reachable(ctx)
	if !ok {
		return
	}
	for _, c := range t.waits.finder.Look(told) {
		youngest := c.Youngest()
		if youngest.Session != t.session.ID {
			continue
		}
		t.waits.mu.Lock()
		n := t.waits.nested[youngest.ID]
		t.waits.mu.Unlock()
		if n != nil && n.cycle.CompareAndSwap(nil, &c) {
			n.Wake()
		}
	}
}

// reachable asks for the reports of all sessions for which this session waits, directly or through others.
func (t *Teller) reachable(ctx context.Context) (all []deadlock.Telling, ok bool) {
	seen := map[string]bool{t.session.ID: true}
	for next := []string{t.session.ID}; len(next) > 0; {
		if len(seen) > mostSeen {
			return nil, false
		}
		told, err := Ask(ctx, t.session.Client, next)
		if err != nil {
			return nil, false
		}
		next = nil
		for session, said := range told {
			all = append(all, said.Telling(session))
			for _, wait := range said.Waits {
				for _, owner := range wait.For {
					if of := sessionOf(owner); of != "" && !seen[of] {
						seen[of] = true
						next = append(next, of)
					}
				}
			}
		}
	}
	return all, true
}
