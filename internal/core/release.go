package core

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/owner"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/session"
)

// Release ends the hold and gives it back, once.
func (h *Single) Release() error {
	return h.ReleaseWithin(lease.Bound(h.lock.Length()))
}

// ReleaseWithin is Release within a limit.
func (h *Single) ReleaseWithin(limit time.Duration) error {
	s := h.lock.Session()
	if !s.Enter() {
		return h.leaveToClose()
	}
	now := s.Now()
	if err := h.end(now, releasedEnd); err != nil {
		s.Leave()
		return err
	}
	ctx, cancel := s.Within(now, limit)
	ending, err := h.giveBack(ctx)
	cancel()
	s.Leave() // the observer may close the session, which waits for calls
	h.tellEnd(ending, h.held())
	return err
}

// leaveToClose ends the hold because the session is being closed, and has Close give it back.
func (h *Single) leaveToClose() error {
	t := h.tenure
	if err := h.end(t.lock.Session().Now(), closedEnd); err != nil {
		return err
	}
	if t.left() == 0 {
		t.lock.keeper.closed.leave(t)
	}
	h.tellEnd(closedEnd, h.held())
	return session.ErrClosed
}

// giveBack tells the server that the hold has ended. Only then it is known how.
func (h *Single) giveBack(ctx context.Context) (*ending, error) {
	reply, rest, err := h.tenure.lower(ctx)
	return h.gaveBack(ctx, reply, rest, err)
}

// gaveBack is the outcome of a release whose calls under ctx ended so, with the end of the hold.
func (h *Single) gaveBack(ctx context.Context, reply int64, rest Rest, err error) (*ending, error) {
	t := h.tenure
	switch {
	case err == errNoTurn: //nolint:errorlint // nobody wraps it
		t.correct(0)
		err = session.Unknown(errNoTurn.Err)
	case err == nil && reply == owner.Absent:
		t.lose(t.lock.Session().Now()) // lowered has seen to copies
		ending := h.dropped()
		return ending, ending.err
	case err != nil && (script.ClassOf(err) == script.Unknown || ctx.Err() != nil):
		t.owe(rest)
		err = session.Unknown(err)
	case err != nil:
		t.owe(rest)
	}
	if err != nil {
		err = h.lock.Fail("release", err)
	}
	return releasedEnd, err
}

// errNoTurn is why a release was not sent: another operation of the same owner is under way, such
// as a re-entry, of which nobody knows what is left when it is over.
var errNoTurn = &script.Failure{
	Class: script.Unknown, Temporary: true, Err: errors.New("another call of this owner takes too long"),
}

// lower tells the server how many holds are left, again and again until it is known. Its
// result is absent only if no copy of a release was executed before: one that finds nothing
// after that found the work of an earlier one.
func (t *tenure) lower(ctx context.Context) (reply int64, rest Rest, err error) {
	if t.claim.enter(ctx) != nil {
		return 0, rest, errNoTurn
	}
	defer t.claim.leave()
	rest = t.rest()
	for delay := session.FirstRetry; ; delay = min(2*delay, session.LastRetry) {
		reply, err = t.lowerOnce(ctx, rest)
		if err == nil || !script.IsTemporary(err) || session.Pause(ctx, delay) != nil {
			return reply, rest, err
		}
	}
}

func (t *tenure) lowerOnce(ctx context.Context, rest Rest) (reply int64, err error) {
	s := t.lock.Session()
	call, sent := t.lock.protocol.Release(rest), t.lowering(rest)
	err = s.Runner().Run(ctx, script.Return, call)
	if err == nil {
		reply, err = call.ReadInt()
	}
	call.Free()
	return t.lowered(rest, sent, reply, err)
}

// lowering says that a release is about to be sent, and returns when.
func (t *tenure) lowering(rest Rest) (sent time.Duration) {
	s := t.lock.Session()
	if rest.Count == 0 && !t.lock.Shared {
		s.Lines().Releasing(t.lock.Line())
	}
	return s.Now()
}

// lowered records what became of a release, and returns what that means.
func (t *tenure) lowered(rest Rest, sent time.Duration, reply int64, err error) (int64, error) {
	s := t.lock.Session()
	c := t.claim
	if err != nil {
		if script.ClassOf(err) != script.Refused {
			c.mu.Lock()
			c.InDoubt(&t.Grant, rest)
			c.mu.Unlock()
		}
		return 0, t.lock.final(err)
	}
	c.mu.Lock()
	reply, again := c.Replied(&t.Grant, rest, sent, s.Now(), reply, t.lock.memory())
	c.mu.Unlock()
	t.lock.keeper.debts.add(t.lock, again)
	if reply != owner.Absent && (rest.Count > 0 || t.lock.Shared) { // else all is gone, or the server has seen to it
		t.slack()
	}
	if reply != owner.Lowered {
		s.Lines().Released(t.lock.Line(), s.Listeners(reply-owner.Freed))
	}
	return reply, nil
}

// owe has a release repeated in the background that was refused, or whose outcome is not known.
func (t *tenure) owe(rest Rest) {
	t.claim.mu.Lock()
	duty := t.claim.Owe(&t.Grant, rest, t.lock.Session().Now())
	t.claim.mu.Unlock()
	t.do(duty)
}

// correct tells the server in the background, not before then, how many holds are left: what
// is true when the claim's turn comes, as a re-entry that is under way may have revived the
// tenure.
func (t *tenure) correct(then time.Duration) {
	s := t.lock.Session()
	if t.lock.Wires.Reused { // as with debts
		return
	}
	s.Start(func() {
		defer t.leaveToClose()
		if session.Pause(s.Context(), then-s.Now()) != nil {
			return
		}
		t.claim.mu.Lock()
		returned := t.Returned()
		t.claim.mu.Unlock()
		if !returned {
			t.correctNow()
		}
	})
}

// correctNow is correct whose time has come. What the server refuses for good, but perhaps not for ever, is tried
// again ever more rarely, for as long as it may have the lock; one that does so is enough.
func (t *tenure) correctNow() {
	s, mine := t.lock.Session(), false
	defer func() {
		if mine {
			t.setCorrecting(false)
		}
	}()
	for delay, longest := session.FirstRetry, session.LastRetry; ; delay = min(2*delay, longest) {
		ctx, cancel := context.WithTimeoutCause(s.Context(), s.Bound(), session.ErrNoReply)
		reply, _, err := t.lower(ctx)
		cancel()
		if err == nil && reply == owner.Absent { // the holds that are left are lost: what is owed now would take a new one
			t.lose(t.lock.Session().Now())
		}
		switch {
		case err == nil || script.ClassOf(err) == script.Broken:
			return
		case !script.IsTemporary(err) && script.ClassOf(err) != script.Unknown:
			mine, longest = mine || t.setCorrecting(true), session.RareRetry
			if !mine || t.forgotten() {
				return
			}
		}
		if session.Pause(s.Context(), delay) != nil {
			return
		}
	}
}

// setCorrecting notes whether somebody tries a refused correction again now and then, and reports whether that is new.
func (t *tenure) setCorrecting(correcting bool) (changed bool) {
	t.claim.mu.Lock()
	defer t.claim.mu.Unlock()
	return t.SetCorrecting(correcting)
}

// forgotten reports whether the server's lease is over.
func (t *tenure) forgotten() bool {
	t.claim.mu.Lock()
	defer t.claim.mu.Unlock()
	return t.Over(t.lock.Session().Now())
}

// leaveToClose has Close give the tenure back, if it came before the session did.
func (t *tenure) leaveToClose() {
	s := t.lock.Session()
	if s.Context().Err() != nil && t.left() == 0 {
		now := s.Now()
		t.claim.mu.Lock()
		debt := t.Return(0, now, lease.Add(now, t.lock.memory()))
		t.claim.mu.Unlock()
		t.lock.keeper.debts.add(t.lock, debt)
	}
}
