package core

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/script"
)

// The replies of a release.
const (
	absent  = 0 // the server has nothing of this wire owner
	lowered = 1
	freed   = 2 // and above: so many clients less 2 listen
)

// Release ends the hold and gives it back, once.
func (h *Single) Release() error {
	return h.ReleaseWithin(lease.Bound(h.lock.length()))
}

// ReleaseWithin is Release that takes so long at the most.
func (h *Single) ReleaseWithin(limit time.Duration) error {
	s := h.lock.session
	if !s.calls.enter() {
		return h.leaveToClose()
	}
	now := s.now()
	if err := h.end(now, releasedEnd); err != nil {
		s.calls.leave()
		return err
	}
	ctx, cancel := s.within(now, limit)
	ending, err := h.giveBack(ctx)
	cancel()
	s.calls.leave() // the observer may close the session, which waits for calls
	h.tellEnd(ending, h.held())
	return err
}

// leaveToClose ends the hold because the session is being closed, and has Close give it back.
func (h *Single) leaveToClose() error {
	t := h.tenure
	if err := h.end(t.lock.session.now(), closedEnd); err != nil {
		return err
	}
	if t.left() == 0 {
		t.lock.session.closed.leave(t)
	}
	h.tellEnd(closedEnd, h.held())
	return ErrClosed
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
		err = unknown(errNoTurn.Err)
	case err == nil && reply == absent:
		t.lose()
		ending := h.dropped()
		return ending, ending.err
	case err != nil && (script.ClassOf(err) == script.Unknown || ctx.Err() != nil):
		t.owe(rest)
		err = unknown(err)
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
	for delay := firstRetry; ; delay = min(2*delay, lastRetry) {
		reply, err = t.lowerOnce(ctx, rest)
		if err == nil || !script.IsTemporary(err) || pause(ctx, delay) != nil {
			return reply, rest, err
		}
	}
}

func (t *tenure) lowerOnce(ctx context.Context, rest Rest) (reply int64, err error) {
	s := t.lock.session
	call, sent := t.lock.protocol.Release(rest), t.lowering(rest)
	err = s.runner.Run(ctx, script.Return, call)
	if err == nil {
		reply, err = call.ReadInt()
	}
	call.Free()
	return t.lowered(rest, sent, reply, err)
}

// lowering says that a release is about to be sent, and returns when.
func (t *tenure) lowering(rest Rest) (sent time.Duration) {
	s := t.lock.session
	if rest.Count == 0 && !t.lock.Shared {
		s.lines.Releasing(t.lock.line())
	}
	return s.now()
}

// lowered takes in what became of a release, and returns what that means.
func (t *tenure) lowered(rest Rest, sent time.Duration, reply int64, err error) (int64, error) {
	s := t.lock.session
	last := rest.Count == 0
	if err != nil {
		if script.ClassOf(err) != script.Refused {
			t.doubt()
			if last {
				t.setReturned(0)
			}
		}
		return 0, t.lock.final(err)
	}
	if reply == absent && t.wasTaken() {
		reply = freed
	}
	if last || reply == absent {
		t.setReturned(max(reply-freed, 0))
		s.debts.recheck(t, sent)
	}
	if reply != absent && (!last || t.lock.Shared) { // else all is gone, or the server has seen to it
		t.slack()
	}
	if reply != lowered {
		s.lines.Released(t.lock.line(), s.listeners(reply-freed))
	}
	return reply, nil
}

// listeners is how many clients may have got a message, of whom the server counted so many. In a
// cluster a plain message goes on to other nodes, whose listeners nobody counts.
func (s *Session) listeners(got int64) int {
	if s.cluster && !s.config.Sharded {
		return max(int(got), 2)
	}
	return int(got)
}

func (t *tenure) wasReturned() bool {
	t.claim.mu.Lock()
	defer t.claim.mu.Unlock()
	return t.returned
}

// wasTaken reports whether a release that finds nothing may have been forestalled: by an earlier copy
// of it, or, where tenures follow each other under one wire owner, by what gave another one back.
func (t *tenure) wasTaken() bool {
	c := t.claim
	c.mu.Lock()
	defer c.mu.Unlock()
	return t.returned || t.lock.Shared && c.crowd != nil && c.crowd.emptied
}

func (t *tenure) setReturned(heard int64) {
	t.claim.mu.Lock()
	defer t.claim.mu.Unlock()
	t.returned, t.heard = true, int32(heard)
	if t.lock.Shared && t.claim.crowd != nil {
		t.claim.crowd.emptied = true
	}
}

// owe has a release repeated in the background that was refused, or whose outcome is not known: of the last hold
// as a debt, which takes away no more than the release would have; of a nested one under the
// claim's turn, with what is true by then.
func (t *tenure) owe(rest Rest) {
	t.claim.mu.Lock()
	until := t.until
	t.claim.mu.Unlock()
	if rest.Count == 0 {
		t.lock.session.debts.release(t, rest.Ceiling, until)
		return
	}
	t.correct(0)
}

// sweep gives back what a lost tenure may leave behind: the name would stay locked for the
// longest of its leases though its last hold, with a shorter one, is gone.
func (t *tenure) sweep() {
	s := t.lock.session
	t.claim.mu.Lock()
	over, shared, until := t.lost && t.count() == 0 && !t.returned, t.claim.owner != nil, t.until
	if over {
		t.until = 0 // once is enough
	}
	over = over && (until > s.now()+time.Second || until > 0 && t.kept())
	if over && !shared {
		t.returned = true // a release that is on its way finds nothing then, and has not lost it
	}
	t.claim.mu.Unlock()
	switch {
	case !over:
	case shared:
		t.correct(0) // in turn: a re-entry may be under way
	default:
		s.debts.release(t, 0, until)
	}
}

// kept reports whether the server does not let go of the tenure when its lease is over, because
// the other half is held under the same wire owner. claim.mu is held.
func (t *tenure) kept() bool {
	other := t.claim.parts[1-t.lock.part]
	return !t.lock.Shared && other != nil && other.wire == t.wire
}

// correct tells the server in the background, not before then, how many holds are left: what
// is true when the claim's turn comes, as a re-entry that is under way may have revived the
// tenure.
func (t *tenure) correct(then time.Duration) {
	s := t.lock.session
	if t.lock.Token != "" { // as with debts
		return
	}
	s.start(func() {
		defer t.leaveToClose()
		if pause(s.ctx, then-s.now()) != nil {
			return
		}
		if t.wasReturned() {
			return
		}
		t.correctNow()
	})
}

// correctNow is correct whose time has come. What the server refuses for good, but perhaps not for ever, is tried
// again ever more rarely, for as long as it may have the lock; one that does so is enough.
func (t *tenure) correctNow() {
	s, mine := t.lock.session, false
	defer func() {
		if mine {
			t.setCorrecting(false)
		}
	}()
	for delay, longest := firstRetry, lastRetry; ; delay = min(2*delay, longest) {
		ctx, cancel := context.WithTimeoutCause(s.ctx, s.bounds.limit, errNoReply)
		_, _, err := t.lower(ctx)
		cancel()
		switch {
		case err == nil || script.ClassOf(err) == script.Broken:
			return
		case !script.IsTemporary(err) && script.ClassOf(err) != script.Unknown:
			mine, longest = mine || t.setCorrecting(true), rareRetry
			if !mine || t.forgotten() {
				return
			}
		}
		if pause(s.ctx, delay) != nil {
			return
		}
	}
}

// setCorrecting notes whether somebody tries a refused correction again now and then, and reports whether that is new.
func (t *tenure) setCorrecting(correcting bool) (changed bool) {
	t.claim.mu.Lock()
	defer t.claim.mu.Unlock()
	changed = t.correcting != correcting
	t.correcting = correcting
	return changed
}

// forgotten reports whether the server's lease is over.
func (t *tenure) forgotten() bool {
	t.claim.mu.Lock()
	defer t.claim.mu.Unlock()
	return t.until <= t.lock.session.now()
}

// leaveToClose has Close give the tenure back, if it came before the session did.
func (t *tenure) leaveToClose() {
	s := t.lock.session
	if s.ctx.Err() != nil && t.left() == 0 {
		s.debts.release(t, 0, lease.Add(s.now(), t.lock.memory()))
	}
}

// pause sleeps for d, or returns why ctx ended first.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
