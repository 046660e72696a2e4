package core

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/session"
)

// errTrimming is why no longer lease is asked for.
var errTrimming = &script.Failure{
	Class: script.Refused, Temporary: true, Err: errors.New("a call that makes the lease shorter may be under way"),
}

// ask says that a lease of d is asked for without the claim's turn: no trim goes below it until the claim's Asked is
// called. One that has been sent before is waited for, but not if its reply was lost.
func (g *grant) ask(ctx context.Context, d time.Duration) error {
	var tries session.Tries
	for underWay := true; underWay && tries.Next(ctx); {
		var may bool
		g.claim.Lock()
		may, underWay = g.claim.Ask(g.Wire, d, g.lock.Session().Now())
		g.claim.Unlock()
		if may {
			return nil
		}
	}
	return errTrimming
}

// tooLong are the grants under the grant's wire owner whose leases may be too long.
func (g *grant) tooLong() []*grant {
	g.claim.Lock()
	defer g.claim.Unlock()
	return g.claim.Slack(&g.Grant, g.lock.Session().Now(), g.lock.Session().Lease())
}

// slack trims, in the background, the leases under the grant's wire owner if they may be too long.
func (g *grant) slack() {
	s, parts := g.lock.Session(), g.tooLong()
	if len(parts) == 0 {
		return
	}
	s.Start(func() {
		for _, part := range parts {
			tries, err := session.Tries{}, error(errTrimming) // if it may not even begin
			for tries.Next(s.Context()) {
				if err = part.trim(); !errors.Is(err, session.ErrUnknown) && !script.IsTemporary(err) {
					break
				}
			}
			if err != nil && s.Closed() { // Close has cut it off, and does it instead
				part.lock.keeper.leave(part)
			}
		}
	})
}

// slackens reports whether a lease with that much left is too long.
func (g *grant) slackens(lasts time.Duration) bool {
	g.claim.Lock()
	defer g.claim.Unlock()
	s := g.lock.Session()
	return g.claim.Slackens(&g.Grant, lasts, s.Now(), s.Lease())
}

// trim trims the grant's lease to what the longest hold under its wire owner needs.
func (g *grant) trim() error {
	l, s, c := g.lock, g.lock.Session(), g.claim
	trimmer, ok := l.protocol.(kind.Trimmer)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(s.Context(), s.Bound(), session.ErrNoReply)
	defer cancel()
	if err := c.Enter(ctx); err != nil {
		return errNoTurn
	}
	defer c.Leave()
	c.Lock()
	most := c.BeginTrim(&g.Grant, s.Now(), s.Lease())
	c.Unlock()
	if most == 0 { // nothing is left
		return nil
	}
	window := s.NotAfter() / 2
	_, err := l.InTime(ctx, "trim", window, func(w script.Window) *script.Call {
		return trimmer.Trim(kind.Trim{Owner: g.Wire, Most: lease.Millis(most), Window: w})
	})
	c.Lock()
	defer c.Unlock()
	switch {
	case err == nil:
		c.Trimmed(&g.Grant, s.Now())
	case errors.Is(err, session.ErrUnknown) || script.ClassOf(err) == script.Broken:
		c.TrimInDoubt(s.Now(), window)
	default:
		c.NotTrimmed()
	}
	return err
}
