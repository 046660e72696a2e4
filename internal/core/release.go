package core

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/owner"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/internal/wait"
)

// Release ends the hold and gives it back, once.
func (h *Single) Release() error {
	s := h.lock.Session()
	if !s.Enter() {
		return h.leaveToClose()
	}
	now := s.Now()
	done, last := h.handOver(now)
	if done {
		s.Leave()
		h.tellEnd(releasedEnd, h.held())
		return nil
	}
	if err := last.end(now, releasedEnd); err != nil {
		s.Leave()
		if last != h {
			h.tellEnd(last.ended.Load(), h.held())
		}
		return err
	}
	ctx, cancel := s.Within(now, lease.Bound(h.lock.Length()))
	ending, err := h.giveBack(ctx)
	cancel()
	s.Leave() // the observer may close the session, which waits for calls
	h.tellEnd(ending, h.held())
	return err
}

// leaveToClose ends the hold because the session is being closed, and has Close give it back.
func (h *Single) leaveToClose() (err error) {
	h.lock.Session().Delay(func() {
		err = h.end(h.lock.Session().Now(), closedEnd)
		if g := h.grant; err == nil && len(g.live()) == 0 {
			g.lock.keeper.leave(g)
		}
	})
	if err == nil {
		h.tellEnd(closedEnd, h.held())
		err = session.ErrClosed
	}
	return err
}

// giveBack tells the server that the hold has ended. Only then it is known how.
func (h *Single) giveBack(ctx context.Context) (*ending, error) {
	means, remaining, err := h.grant.lower(ctx)
	return h.gaveBack(ctx, means, remaining, err)
}

// gaveBack is the outcome of a release whose calls under ctx ended so, with the end of the hold.
func (h *Single) gaveBack(
	ctx context.Context, means owner.Outcome, remaining kind.Remaining, err error,
) (*ending, error) {
	g := h.grant
	switch {
	case err == errNoTurn: //nolint:errorlint // nobody wraps it
		g.correct(0)
		err = session.Unknown(errNoTurn.Err)
	case err == nil && means == owner.Absent:
		g.lose(g.lock.Session().Now()) // lowered has seen to copies
		g.lock.Wake()                  // nobody was told
		ending := lostEnd(&h.lock.Label, h.lock.Session(), h.held(), nil)
		return ending, ending.err
	case err != nil && (script.ClassOf(err) == script.Unknown || ctx.Err() != nil):
		g.owe(remaining)
		err = session.Unknown(err)
	case err != nil:
		g.owe(remaining)
	}
	if err != nil {
		err = h.lock.Fail("release", err)
	}
	return releasedEnd, err
}

// errNoTurn is why a release was not sent: another operation of the same owner is under way, such as a re-entry, so
// nobody knows which holds are left when it is over.
var errNoTurn = &script.Failure{
	Class: script.Unknown, Temporary: true, Err: errors.New("another call of this owner takes too long"),
}

// lower tells the server how many holds are left, repeatedly until it has answered. Its result is absent only if no
// copy of a release was executed before: one that finds nothing after that found the work of an earlier one.
func (g *grant) lower(ctx context.Context) (means owner.Outcome, remaining kind.Remaining, err error) {
	if g.claim.Enter(ctx) != nil {
		return 0, remaining, errNoTurn
	}
	defer g.claim.Leave()
	remaining = g.remaining()
	var tries session.Tries
	for tries.Next(ctx) {
		means, err = g.lowerOnce(ctx, remaining)
		if err == nil || !script.IsTemporary(err) {
			break
		}
	}
	if err != nil && remaining.Count == 0 {
		g.doubt(remaining) // it becomes a debt, which needs no turn
	}
	return means, remaining, err
}

// doubt records that a release may be executed at any time.
func (g *grant) doubt(remaining kind.Remaining) {
	g.claim.Lock()
	g.claim.InDoubt(&g.Grant, remaining)
	g.claim.Unlock()
}

func (g *grant) lowerOnce(ctx context.Context, remaining kind.Remaining) (means owner.Outcome, err error) {
	s, reply := g.lock.Session(), int64(0)
	call, sent := g.lock.protocol.Release(remaining), g.lowering(remaining)
	err = s.Runner().Run(ctx, script.Return, call)
	if err == nil {
		reply, err = call.ReadInt()
	}
	call.Free()
	return g.lowered(remaining, sent, owner.ReadReleased(reply), err)
}

// lowering says that a release is about to be sent, and returns when.
func (g *grant) lowering(remaining kind.Remaining) (sent time.Duration) {
	s := g.lock.Session()
	if remaining.Count == 0 && !g.lock.Shared {
		s.Lines().Releasing(g.lock.Line())
	}
	return s.Now()
}

// lowered records what became of a release, and returns what that means.
func (g *grant) lowered(
	remaining kind.Remaining, sent time.Duration, done owner.Released, err error,
) (means owner.Outcome, _ error) {
	s := g.lock.Session()
	c := g.claim
	if err != nil {
		if script.ClassOf(err) != script.Refused {
			g.doubt(remaining)
		}
		return 0, g.lock.Final(err)
	}
	c.Lock()
	means, again := c.Replied(&g.Grant, remaining, sent, s.Now(), done, g.lock.memory())
	c.Unlock()
	g.lock.owe(again)
	if means != owner.Absent { // what is left may need less, be it of the other half
		g.slack()
	}
	if means != owner.Lowered {
		s.Lines().Released(g.lock.Line(), s.Listeners(done.Heard))
	}
	return means, nil
}

// owe has a release repeated in the background that was refused, or whose outcome is not known.
func (g *grant) owe(remaining kind.Remaining) {
	g.do(func() owner.Duty { return g.claim.Owe(&g.Grant, remaining, g.lock.Session().Now(), g.lock.memory()) })
}

// correct tells the server in the background, not before then, how many holds are left: what
// is true when the claim's turn comes, as a re-entry that is under way may have revived the
// grant.
func (g *grant) correct(then time.Duration) {
	s := g.lock.Session()
	if g.lock.Wires.Reused { // as with debts
		return
	}
	s.Start(func() {
		defer g.leaveToClose()
		if session.Pause(s.Context(), then-s.Now()) != nil {
			return
		}
		g.claim.Lock()
		returned := g.Returned()
		g.claim.Unlock()
		if !returned {
			g.correctNow()
		}
	})
}

// correctNow is correct whose time has come. A release that the server refuses, but perhaps not for ever, is tried
// again ever more rarely, for as long as the server may have the lock; one that does so is enough.
func (g *grant) correctNow() {
	s, mine := g.lock.Session(), false
	defer func() {
		if mine {
			g.setCorrecting(false)
		}
	}()
	for delay, retry := time.Duration(0), wait.Retry; ; {
		ctx, cancel := context.WithTimeoutCause(s.Context(), s.Bound(), session.ErrNoReply)
		means, _, err := g.lower(ctx)
		cancel()
		if err == nil && means == owner.Absent { // the holds that are left are lost: what is owed now would take a new one
			g.lose(g.lock.Session().Now())
		}
		switch {
		case err == nil || script.ClassOf(err) == script.Broken:
			return
		case !script.IsTemporary(err) && script.ClassOf(err) != script.Unknown:
			mine, retry = mine || g.setCorrecting(true), wait.RetryRarely
			if !mine || g.forgotten() {
				return
			}
		}
		if delay = retry(delay); session.Pause(s.Context(), delay) != nil {
			return
		}
	}
}

// setCorrecting notes whether somebody tries a refused correction again now and then, and reports whether that is new.
func (g *grant) setCorrecting(correcting bool) (changed bool) {
	g.claim.Lock()
	defer g.claim.Unlock()
	return g.SetCorrecting(correcting)
}

// forgotten reports whether the server's lease is over.
func (g *grant) forgotten() bool {
	g.claim.Lock()
	defer g.claim.Unlock()
	return g.Over(g.lock.Session().Now())
}

// leaveToClose has Close give the grant back, if it came before the session did.
func (g *grant) leaveToClose() {
	if g.lock.Session().Context().Err() != nil && len(g.live()) == 0 {
		g.lock.keeper.leave(g)
	}
}

// debt is that of giving the grant back.
func (g *grant) debt() owner.Debt {
	now := g.lock.Session().Now()
	g.claim.Lock()
	defer g.claim.Unlock()
	return g.Return(0, now, lease.Add(now, g.lock.memory()))
}
