package core

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/session"
)

// Observe says that the hold has begun.
func (h *Single) Observe(ctx context.Context) {
	s := h.lock.Session()
	ended := s.Holding(ctx, &h.lock.Label, h)
	if ended == nil && !s.Config().Places {
		return
	}
	h.grant.claim.Lock()
	h.setRare().observed = ended
	if s.Config().Places {
		h.rare.taken = session.PlaceOf(ctx)
	}
	h.grant.claim.Unlock()
	if why := h.ended.Load(); why != nil && why != releasedEnd { // meanwhile
		held := h.held()
		if why.loss != nil {
			held = min(held, h.Trust()-h.Acquired()) // though it may have been noticed later
		}
		h.observeEnd(why, held)
	}
}

// tellEnd reports that the hold has ended, and how long it lasted. It runs code of the user's, so it must be the last
// thing that its caller does, without a mutex or the claim's turn.
func (h *Single) tellEnd(why *ending, held time.Duration) {
	defer h.observeEnd(why, held)
	h.lock.Session().LogLoss(&h.lock.Label, why.loss, held)
}

// observeEnd tells the observer that the hold has ended, unless it already knows.
func (h *Single) observeEnd(why *ending, held time.Duration) {
	h.grant.claim.Lock()
	var ended func(held time.Duration, why error)
	if h.rare != nil {
		ended, h.rare.observed = h.rare.observed, nil
	}
	h.grant.claim.Unlock()
	switch {
	case ended == nil:
	case why == releasedEnd || why == detachedEnd || why == movedEnd:
		ended(held, nil)
	default:
		ended(held, why.err)
	}
}

// LogUnreachable logs that nobody can release what the label names: the hold, or several of which it is one.
func (h *Single) LogUnreachable(label *session.Label) {
	h.lock.Session().LogUnreachable(session.Held{Label: label, Of: h, For: h.held(), Taken: h.place()})
}
