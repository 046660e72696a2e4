package core

import (
	"context"
	"time"
)

// Acquire waits for n permits of a lock that has no owners for at most limit, or until ctx ends: all of them, or none.
func (l *Lock) Acquire(ctx context.Context, operation string, n int, limit time.Duration) ([]*Hold, error) {
	a := newAcquisition()
	if n > 1 {
		a.more = &morePermits{n: n - 1}
	}
	h, err := a.call(ctx, l, operation, limit)
	holds := a.public(h)
	a.free()
	return holds, err
}

// public are the permits that were granted as their users get them.
func (a *acquisition) public(h *Single) []*Hold {
	if h == nil {
		return nil
	}
	holds := make([]*Hold, 1, 1+len(a.more.holds))
	holds[0] = h.Public()
	for _, other := range a.more.holds {
		holds = append(holds, other.Public())
	}
	return holds
}

// all returns the permits that were granted, with h as the first.
func (a *acquisition) all(h *Single) []*Single {
	return append([]*Single{h}, a.more.holds...)
}
