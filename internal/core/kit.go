package core

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
)

// What package holdfasttest does to sessions and holds.

// Skip has the session believe that so much time has passed at once. It is for tests on a server whose
// clock is put forward as far. Nobody is told; CatchUp does that.
func (s *Session) Skip(d time.Duration) { s.clock.skipped.Add(int64(d)) }

// CatchUp has the session notice what Skip has skipped: leases that ended meanwhile have ended when it
// returns, and their holds are lost; what is left of the others is shorter, and they are renewed if they
// are due.
func (s *Session) CatchUp() {
	for _, t := range s.tenures.all() {
		for _, h := range t.live() {
			if h.trusted() {
				h.rearm()
			} else if tell := h.endLost(); tell != nil {
				tell()
			}
		}
	}
	s.dog.Look()
}

// Overdue reports whether a hold of the session is to be renewed by now and has not been.
func (s *Session) Overdue() bool {
	fresh := lease.Trust(s.now()-s.config.Lease/3, s.config.Lease)
	for _, t := range s.tenures.all() {
		for _, h := range t.live() {
			if h.watched() && h.Err() == nil && h.Trust() < fresh {
				return true
			}
		}
	}
	return false
}

// Reach waits until the server answers the session, which may have to connect again, or until ctx or the
// session ends.
func (s *Session) Reach(ctx context.Context) {
	client := s.config.Client
	for !s.isClosed() && client.Do(ctx, client.B().Ping().Build()).Error() != nil {
		if pause(ctx, time.Millisecond) != nil {
			return
		}
	}
}

// Lose makes the hold end as lost, with those nested with it.
func (h *Single) Lose(why error) (tell func(ctx context.Context), err error) {
	if err = h.Err(); err == nil {
		h.tenure.fail(why)
	}
	return h.tenure.tell, err
}

// Lose does so with all that the session holds of a name, and returns how many tenures of it that were.
func (s *Session) Lose(ctx context.Context, name string, why error) int {
	of := slices.DeleteFunc(s.tenures.all(), func(t *tenure) bool { return t.lock.Name != name || len(t.live()) == 0 })
	for _, t := range of {
		t.fail(why)
	}
	for _, t := range of {
		t.tell(ctx)
	}
	return len(of)
}

// fail has all holds be lost because of why.
func (t *tenure) fail(why error) {
	live := t.live()
	t.claim.mu.Lock()
	for _, h := range live {
		h.failure = why
	}
	t.claim.mu.Unlock()
	for _, h := range live {
		if tell := h.endLost(); tell != nil {
			tell()
		}
	}
}

// tell tells the server how many holds are left.
func (t *tenure) tell(ctx context.Context) {
	if calls := t.lock.session.calls; calls.enter() {
		defer calls.leave()
		_, _, _ = t.lower(ctx)
	}
}
