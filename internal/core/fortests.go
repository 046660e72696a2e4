package core

import (
	"context"
	"slices"

	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/session"
)

// What package holdfasttest does to sessions and holds.

// CatchUp has the session notice what Skip has skipped: leases that ended meanwhile have ended when it returns, and
// their holds are lost; the others have less left, and are renewed if they are due.
func CatchUp(s *session.Session) {
	k := keeperOf(s)
	for _, g := range k.dog.All() {
		for _, h := range g.live() {
			if h.trusted() {
				h.rearm()
			} else if tell := h.endLost(); tell != nil {
				tell()
			}
		}
	}
	k.dog.Look()
}

// Telling reports whether users of the session are being told that a hold was lost.
func Telling(s *session.Session) bool { return keeperOf(s).telling.Load() > 0 }

// Overdue reports whether a hold of the session is to be renewed by now, as far as MaxHold allows, and has not been.
func Overdue(s *session.Session) bool {
	k := keeperOf(s)
	fresh := lease.Trust(s.Now()-s.Lease()/3, s.Lease())
	for _, g := range k.withinMax(k.dog.All()) {
		for _, h := range g.live() {
			if h.watched() && h.Err() == nil && h.Trust() < fresh {
				return true
			}
		}
	}
	return false
}

// Lose makes the hold end as lost, with those nested with it.
func (h *Single) Lose(why error) (tell func(ctx context.Context), err error) {
	if err = h.Err(); err == nil {
		h.grant.fail(why)
	}
	return h.grant.tell, err
}

// Lose does so with all that the session holds of a name, and returns how many grants of it that were.
func Lose(ctx context.Context, s *session.Session, name string, why error) int {
	of := slices.DeleteFunc(keeperOf(s).dog.All(), func(g *grant) bool {
		return g.lock.Name != name || len(g.live()) == 0
	})
	for _, g := range of {
		g.fail(why)
	}
	for _, g := range of {
		g.tell(ctx)
	}
	return len(of)
}

// fail ends all holds as lost because of why.
func (g *grant) fail(why error) {
	live := g.live()
	g.claim.Lock()
	for _, h := range live {
		h.setFailure(why)
	}
	g.claim.Unlock()
	for _, h := range live {
		if tell := h.endLost(); tell != nil {
			tell()
		}
	}
}

// tell tells the server how many holds are left.
func (g *grant) tell(ctx context.Context) {
	if s := g.lock.Session(); s.Enter() {
		defer s.Leave()
		_, _, _ = g.lower(ctx)
	}
}
