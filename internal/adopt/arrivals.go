package adopt

import (
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast/internal/session"
)

// Arrivals are the wire owners that are being handed to a session. A call about one of them, which no hold of the
// session has yet, may be executed after the renewal by which it comes, and be answered before the hold is there.
type Arrivals struct {
	mu  sync.Mutex // guards all and what is in them
	all []*arrival
}

type arrival struct {
	wire string
	then []func() // when the hold is there
}

// ArrivalsOf are those of a session.
func ArrivalsOf(s *session.Session) *Arrivals {
	return session.Attached(s, func(*session.Session) *Arrivals { return new(Arrivals) })
}

// Then has do called when one of these wire owners, which is on its way now, has arrived. Do it after that for the
// holds that are there, or one that arrives in between is left out.
func (a *Arrivals) Then(wires []string, do func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, one := range a.all {
		if slices.Contains(wires, one.wire) {
			one.then = append(one.then, do)
		}
	}
}

// expect begins an arrival. Its end is to be called when the hold is there, or none will be.
func (a *Arrivals) expect(wire string) (end func()) {
	one := &arrival{wire: wire}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = append(a.all, one)
	return func() {
		a.mu.Lock()
		a.all = slices.DeleteFunc(a.all, func(other *arrival) bool { return other == one })
		a.mu.Unlock()
		for _, do := range one.then {
			do()
		}
	}
}
