package core

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/script"
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
	lock    *Lock
	claim   *claim
	private bool          // the claim is this call's alone
	wire    string        // of an outermost acquisition; drawn at the first attempt
	until   time.Duration // copies whose outcome is not known may be executed until then; 0: none are

	attempts int
	trouble  error         // of the last attempt, other than the lock being taken
	delay    time.Duration // after it
}

// init makes a an acquisition of l by ctx's owner. (A constructor would cost an allocation.)
func (a *acquisition) init(ctx context.Context, l *Lock) {
	a.lock = l
	a.claim, a.private = claimOf(ctx, l.claimKey())
}

// finish ends the call: after an error nothing of it stays. The error is made presentable.
func (a *acquisition) finish(ctx context.Context, operation string, err error) error {
	if err == nil {
		return nil // the hold keeps the reference to the claim
	}
	a.giveUp()
	a.claim.unref()
	return a.lock.fail(operation, explain(ctx, err))
}

// giveUp has the wire owner given back if the server may have it, or may get it yet.
func (a *acquisition) giveUp() {
	if a.until > 0 {
		a.lock.session.debts.owe(a.lock, a.wire, a.until)
	}
	a.wire, a.until = "", 0
}

// try makes one attempt: a re-entry if the owner holds the lock, else under the call's wire
// owner. Of a lock that is taken it returns ErrBusy, and for how long at least.
func (a *acquisition) try(ctx context.Context) (h *Hold, inTheWay time.Duration, err error) {
	if a.lock.session.isClosed() {
		return nil, 0, ErrClosed
	}
	if !a.private {
		if err := a.claim.enter(ctx); err != nil {
			return nil, 0, &script.Failure{Class: script.Refused, Err: err}
		}
		defer a.claim.leave()
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
		return t, len(t.holds) + int(t.detached)
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
		both := new(struct { // they come and go together
			tenure tenure
			hold   Hold
		})
		t, h := &both.tenure, &both.hold
		t.lock, t.claim, t.wire, t.token, t.copies = l, a.claim, a.wire, answer.token, a.until
		h.init(l, t, sent, answer.at)
		if answer.at >= h.trust() || s.isClosed() {
			a.until = max(a.until, sent)
			a.giveUp()
			return nil, 0, a.tooLate()
		}
		t.add(h, sent)
		return h, 0, nil
	case busy:
		if answer.at >= a.until {
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
			t.lasts(l.length())
			// The count may be one too high, now or when a copy is executed.
			t.correct(0)
			t.correct(lease.Add(sent, lease.NotAfter(l.length())))
		}
		return nil, err
	case answer.outcome == granted:
		h := new(Hold)
		h.init(l, t, sent, answer.at)
		if answer.at >= h.trust() || s.isClosed() {
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

// init makes h what was granted to a call sent at sent, by a reply that came at received.
func (h *Hold) init(l *Lock, t *tenure, sent, received time.Duration) {
	h.lock, h.tenure = l, t
	h.lease, h.watched, h.acquired = l.length(), l.FixedLease == 0, received
	h.deadline.Store(int64(lease.Trust(sent, h.lease)))
}

// An answer is the reply to an acquisition.
type answer struct {
	at      time.Duration // when it came
	outcome int64
	pttl    time.Duration // busy; below zero: no expiry
	token   int64         // granted
}

// ask sends one acquisition and reads the reply.
func (l *Lock) ask(ctx context.Context, sent time.Duration, w Want) (answer, error) {
	s := l.session
	w.Lease, w.NotAfter = l.millis, l.notAfter(sent)
	call := l.protocol.Acquire(w)
	defer call.Free()
	reply, err := s.runner.Run(ctx, script.Take, call)
	if err != nil {
		return answer{}, err
	}
	at := s.now()
	var room [3]int64
	n, err := call.ReadInts(reply, room[:0])
	if err != nil {
		return answer{}, err
	}
	switch {
	case len(n) == 3 && n[0] == granted:
		s.clocks.Learn(l.key, n[1], at)
		return answer{at: at, outcome: granted, token: n[2]}, nil
	case len(n) == 2 && n[0] == busy:
		return answer{at: at, outcome: busy, pttl: time.Duration(n[1]) * time.Millisecond}, nil
	case len(n) == 1 && n[0] == gone && w.Target > 1:
		return answer{at: at, outcome: gone}, nil
	case len(n) == 2 && n[0] == late:
		s.clocks.Learn(l.key, n[1], at)
		return answer{at: at, outcome: late}, nil
	}
	return answer{}, call.Unexpected(slices.Clone(n))
}
