package core

import "time"

// Guarding says that a call is about to be sent which the server executes only if the hold's wire owner has the lock
// then. told is to be called with its outcome: a wire owner of which it is not known never passes to another owner, for
// whom a copy of the call would be executed. If the wire owner does not have the lock, the hold is lost. For as long as
// it is early, nothing may be sent: a late copy of the acquisition would bring the owner back for a late copy of that.
func (h *Single) Guarding() (told func(known, holds bool), early time.Duration, err error) {
	g, c, sent := h.grant, h.grant.claim, h.lock.Session().Now()
	c.Lock()
	defer c.Unlock()
	if e := h.ended.Load(); e != nil {
		return nil, 0, e.err
	}
	if early = g.Copies() - sent; early > 0 {
		return nil, early, nil
	}
	g.Guarding(1)
	return func(known, holds bool) {
		if known {
			c.Lock()
			g.Guarding(-1)
			c.Unlock()
		}
		if !holds {
			g.lose(sent)
		}
	}, 0, nil
}
