package adopt

import (
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/session"
)

// Arrivals are the wire owners that are being handed to a session. A call about one of them, which no hold of the
// session has yet, may be executed after the renewal by which it comes, and be answered before the hold is there, or
// have ended before.
type Arrivals struct {
	session *session.Session

	mu     sync.Mutex // guards what follows and what is in it
	all    []*arrival
	doubts []doubt
}

type arrival struct {
	wire string
	then []Then // when the hold is there
}

// Then is what an arrival means for a call. The renewal by which the wire owner has come was sent then.
type Then func(renewed time.Duration)

// A doubt is a call that has ended, and may be executed until then.
type doubt struct {
	wires []string
	until time.Duration
	then  Then
}

// ArrivalsOf are those of a session.
func ArrivalsOf(s *session.Session) *Arrivals {
	return session.Attached(s, func(s *session.Session) *Arrivals { return &Arrivals{session: s} })
}

// Then has do called when one of these wire owners has arrived, which is on its way now, or sets out before until. Do
// it after that for the holds that are there, or one that arrives in between is left out.
func (a *Arrivals) Then(wires []string, until time.Duration, do Then) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, one := range a.all {
		if slices.Contains(wires, one.wire) {
			one.then = append(one.then, do)
		}
	}
	a.doubts = append(a.doubts, doubt{wires, until, do})
	a.forget()
}

// forget forgets the calls that cannot be executed any more.
func (a *Arrivals) forget() {
	now := a.session.Now()
	a.doubts = slices.DeleteFunc(a.doubts, func(d doubt) bool { return d.until <= now })
}

// expect begins an arrival. Its end is to be called when the hold is there, or none will be.
func (a *Arrivals) expect(wire string) (end Then) {
	one := &arrival{wire: wire}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forget()
	for _, d := range a.doubts {
		if slices.Contains(d.wires, wire) {
			one.then = append(one.then, d.then)
		}
	}
	a.all = append(a.all, one)
	return func(renewed time.Duration) {
		a.mu.Lock()
		a.all = slices.DeleteFunc(a.all, func(other *arrival) bool { return other == one })
		a.mu.Unlock()
		for _, do := range one.then {
			do(renewed)
		}
	}
}
