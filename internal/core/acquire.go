package core

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wait"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// The first number of an acquisition's reply.
const (
	granted = 1  // {1, now, token}
	busy    = 0  // {0, pttl}
	gone    = -1 // {-1}: nothing there to re-enter
	late    = -2 // {-2, now}: executed after its not-after, nothing changed
)

// lateTries is how often an acquisition is sent at once because the server refused it as
// late. The first refusal brings the server's clock; more mean that calls are that slow.
const lateTries = 3

// An acquisition is one call that wants the lock, with as many attempts as it takes.
type acquisition struct {
	lock  *Lock
	claim *claim
	wire  string        // of an outermost acquisition; drawn at the first attempt
	until time.Duration // copies whose outcome is not known may be executed until then; 0: none are
	// trouble is what the last attempt failed of, other than the lock being taken.
	trouble error
}

func (l *Lock) acquisition(ctx context.Context) *acquisition {
	return &acquisition{lock: l, claim: claimOf(ctx, l.claimKey())}
}

// finish ends the call: after an error nothing of it stays. The error is made presentable.
func (a *acquisition) finish(ctx context.Context, operation string, err error) error {
	if err == nil {
		return nil // the hold keeps the reference to the claim
	}
	a.giveUp()
	a.claim.unref()
	if errors.Is(err, wait.ErrClosed) {
		err = ErrClosed
	}
	return a.lock.fail(operation, explain(ctx, err))
}

// giveUp has the wire owner given back if the server may have it, or may get it yet.
func (a *acquisition) giveUp() {
	if a.until > 0 {
		a.lock.session.debts.owe(a.lock, a.wire, a.until)
	}
	a.wire, a.until = "", 0
}

// once makes one attempt, repeated only while its reply is lost and it may still be executed.
func (a *acquisition) once(ctx context.Context) (*Hold, error) {
	end := a.lock.session.now() + lease.NotAfter(a.lock.length())
	for delay := firstRetry; ; delay = min(2*delay, lastRetry) {
		h, _, err := a.try(ctx)
		if script.ClassOf(err) != script.Unknown || !script.IsTemporary(err) {
			return h, err
		}
		if a.lock.session.now()+delay >= end || pause(ctx, delay) != nil {
			return nil, err
		}
	}
}

// wait attempts until the lock is granted: at once if nobody of the session waits for it,
// then as the first of the session's line. Attempts end with ctx, sleep with sleep.
func (a *acquisition) wait(ctx, sleep context.Context) (*Hold, error) {
	l := a.lock
	var place *wait.Place
	var taken time.Duration
	var delay time.Duration // after a failure that may pass
	retry := time.Duration(0)
	for n := 0; ; {
		if a.mayTry(place) {
			h, inTheWay, err := a.try(ctx)
			n++
			switch {
			case err == nil:
				taken = h.lease
				return h, nil
			case errors.Is(err, ErrBusy):
				a.trouble, delay = nil, 0
				retry = a.interval(n, inTheWay)
			case script.IsTemporary(err) && ctx.Err() == nil:
				a.trouble = err
				delay = min(max(2*delay, firstRetry), lastRetry)
				retry = wait.Interval(delay)
				l.session.config.Logger.Info("holdfast: waiting for the server", slog.String("kind", l.Kind), slog.String("name", l.Name), slog.Any("error", err))
			default:
				return nil, err
			}
		}
		if place == nil {
			place = l.session.lines.Join(l.Channel, l.Backoff == nil)
			a.claim.await(place)
			defer func() {
				a.claim.forgo(place)
				place.Leave(taken)
			}()
		}
		if err := place.Wait(sleep, retry); err != nil {
			return nil, a.interrupted(ctx, err)
		}
	}
}

// interrupted is why a wait ended, with what the last attempt failed of.
func (a *acquisition) interrupted(ctx context.Context, why error) error {
	switch {
	case errors.Is(why, errWaited) && ctx.Err() == nil:
		return cmp.Or(a.trouble, ErrBusy)
	case a.trouble != nil && ctx.Err() != nil:
		return fmt.Errorf("%w; last attempt: %w", stopped(ctx), explain(ctx, a.trouble))
	}
	return why
}

// mayTry reports whether it is this call's turn to look at the server: nobody of the session
// waits, or this is who waits first, or its owner has got the lock by another call meanwhile.
func (a *acquisition) mayTry(place *wait.Place) bool {
	if place == nil && a.lock.session.lines.Empty(a.lock.Channel) || place != nil && place.Head() {
		return true
	}
	a.claim.mu.Lock()
	defer a.claim.mu.Unlock()
	return a.claim.parts[a.lock.part] != nil
}

// interval is how long to sleep after attempt n found the lock taken for so much longer.
func (a *acquisition) interval(n int, inTheWay time.Duration) time.Duration {
	if backoff := a.lock.Backoff; backoff != nil {
		return max(backoff(n), time.Millisecond)
	}
	return wait.Interval(inTheWay)
}

// try makes one attempt: a re-entry if the owner holds the lock, else under the call's wire
// owner. Of a lock that is taken it returns ErrBusy, and for how long at least.
func (a *acquisition) try(ctx context.Context) (h *Hold, inTheWay time.Duration, err error) {
	if err := a.claim.enter(ctx); err != nil {
		return nil, 0, &script.Failure{Class: script.Refused, Err: err}
	}
	defer a.claim.leave()
	if a.lock.session.isClosed() {
		return nil, 0, ErrClosed
	}
	if t, count := a.claim.held(a.lock.part); count > 0 {
		if a.lock.NonReentrant {
			return nil, 0, ErrAlreadyHeld
		}
		a.giveUp() // what an earlier attempt may have left would be a second hold
		err = unlessLate(func() error {
			h, err = a.reenter(ctx, t, count)
			return err
		})
		return h, 0, err
	}
	err = unlessLate(func() error {
		h, inTheWay, err = a.first(ctx)
		return err
	})
	return h, inTheWay, err
}

// unlessLate attempts again at once what the server refused as late: the refusal brought the
// server's clock, which is not known at first.
func unlessLate(attempt func() error) (err error) {
	for range lateTries {
		if err = attempt(); !errors.Is(err, errLate) {
			break
		}
	}
	return err
}

var errLate = &script.Failure{
	Class: script.Refused, Temporary: true,
	Err: errors.New("the call reached the server too late to be executed"),
}

// held returns what the claim's owner holds of a part, and how many holds there are.
func (c *claim) held(part uint8) (*tenure, int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.parts[part]; t != nil {
		return t, len(t.holds) + t.detached
	}
	return nil, 0
}

// first attempts an outermost acquisition.
func (a *acquisition) first(ctx context.Context) (*Hold, time.Duration, error) {
	l, s := a.lock, a.lock.session
	if a.wire == "" {
		a.wire = wire.Owner(s.id, s.numbers.Add(1))
	}
	sent := s.now()
	answer, err := l.ask(ctx, sent, Want{Owner: a.wire, Target: 1})
	if err != nil {
		if c := script.ClassOf(err); c == script.Unknown || c == script.Broken {
			a.until = lease.Add(sent, lease.NotAfter(l.length()))
		}
		return nil, 0, err
	}
	switch answer.outcome {
	case granted:
		t := &tenure{lock: l, claim: a.claim, wire: a.wire, token: answer.token, copies: a.until}
		h := newHold(l, t, sent)
		if !h.trusted() || s.isClosed() {
			a.until = max(a.until, sent)
			a.giveUp()
			return nil, 0, a.tooLate()
		}
		t.add(h, sent)
		return h, 0, nil
	case busy:
		if s.now() >= a.until {
			a.until = 0
		}
		return nil, answer.pttl, ErrBusy
	default:
		return nil, 0, errLate
	}
}

// tooLate is why a granted attempt is given back: its reply came after trust had ended (G1),
// or after the session had.
func (a *acquisition) tooLate() error {
	if a.lock.session.isClosed() {
		return ErrClosed
	}
	return &script.Failure{Class: script.Unknown, Temporary: true, Err: errors.New("granted too late to be trusted, and given back")}
}

// reenter attempts to raise the count of a tenure.
func (a *acquisition) reenter(ctx context.Context, t *tenure, count int) (*Hold, error) {
	l, s := a.lock, a.lock.session
	sent := s.now()
	answer, err := l.ask(ctx, sent, Want{Owner: t.wire, Target: count + 1, Tokened: t.token != 0})
	switch {
	case err != nil:
		if script.ClassOf(err) == script.Unknown {
			t.owe() // the count may be one too high
		}
		return nil, err
	case answer.outcome == granted:
		h := newHold(l, t, sent)
		if !h.trusted() || s.isClosed() {
			t.owe()
			return nil, a.tooLate()
		}
		t.claim.mu.Lock()
		t.token = max(t.token, answer.token)
		t.claim.mu.Unlock()
		t.add(h, sent)
		return h, nil
	case answer.outcome == late:
		return nil, errLate
	default: // the server has nothing of the outer hold
		t.lose()
		return nil, fmt.Errorf("re-entry: %w", ErrLost)
	}
}

func newHold(l *Lock, t *tenure, sent time.Duration) *Hold {
	h := &Hold{lock: l, tenure: t, lease: l.length(), watched: l.FixedLease == 0, acquired: l.session.now()}
	h.deadline.Store(int64(lease.Trust(sent, h.lease)))
	return h
}

// An answer is the reply to an acquisition.
type answer struct {
	outcome int64
	pttl    time.Duration // busy; below zero: no expiry
	token   int64         // granted
}

// ask sends one acquisition and reads the reply.
func (l *Lock) ask(ctx context.Context, sent time.Duration, w Want) (answer, error) {
	s := l.session
	w.Lease = l.millis
	if w.NotAfter = s.clocks.At(l.key, sent); w.NotAfter > 0 {
		w.NotAfter += lease.NotAfter(l.length()).Milliseconds()
	}
	call := l.protocol.Acquire(w)
	defer call.Free()
	reply, err := s.runner.Run(ctx, script.Take, call)
	if err != nil {
		return answer{}, err
	}
	var room [3]int64
	n, err := call.ReadInts(reply, room[:0])
	if err != nil {
		return answer{}, err
	}
	switch {
	case len(n) == 3 && n[0] == granted:
		s.clocks.Learn(l.key, n[1])
		return answer{outcome: granted, token: n[2]}, nil
	case len(n) == 2 && n[0] == busy:
		return answer{outcome: busy, pttl: time.Duration(n[1]) * time.Millisecond}, nil
	case len(n) == 1 && n[0] == gone && w.Target > 1:
		return answer{outcome: gone}, nil
	case len(n) == 2 && n[0] == late:
		s.clocks.Learn(l.key, n[1])
		return answer{outcome: late}, nil
	}
	return answer{}, call.Unexpected(n)
}
