package core

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wait"
)

// A Taking is an acquisition of what has no owner and no lease: what is taken can only be given
// back. Its call cannot be repeated, so one that has no reply is unknown for good.
type Taking struct {
	Take func(w script.Window) *script.Call // replies {1, now, left}, {0, now, free} or {-2, now}
	Back func() *script.Call                // gives back what Take took; replies {listeners}
	Retries
	took bool // and whoever has called does not know yet
}

// Run is a whole call, which waits for at most limit.
func (t *Taking) Run(ctx context.Context, o *Object, operation string, limit time.Duration) error {
	if err := o.begin(ctx, operation); err != nil {
		return err
	}
	defer o.session.calls.leave()
	t.About(ctx, o)
	defer t.unwind()
	err := t.WaitFor(ctx, limit, func() error {
		within, stop := until(ctx, time.Now().Add(lease.NotAfter(o.session.config.Lease)))
		defer stop()
		_, err := t.try(within)
		return err
	}, t.wait)
	if err != nil {
		err = o.Fail(operation, explain(ctx, err))
	}
	t.Tell(err)
	t.took = false
	return err
}

// unwind gives back what the call has taken if it does not return, because the observer panics or ends the goroutine.
func (t *Taking) unwind() {
	if t.took && !t.object.session.start(t.giveBack) {
		t.giveBack()
	}
}

// wait attempts at once if nobody of the session waits, then as the first of its line.
func (t *Taking) wait(ctx, sleep context.Context) (err error) {
	o, s := t.object, t.object.session
	taken := time.Duration(0)
	defer func() { t.LeaveTo(taken, (*wait.Place).LeaveSome) }()
	return t.Until(sleep, s.lines.Empty(o.line()), wait.Caller{
		Attempt: func() (done bool, retry time.Duration, err error) {
			left, err := t.try(ctx)
			switch {
			case err == nil && left == 0:
				taken = time.Hour // there is nothing for the next one until something is given back
				return true, 0, nil
			case err == nil || script.ClassOf(err) == script.Unknown:
				return true, 0, err
			}
			retry, err = t.Again(ctx, -1, err, nil)
			return false, retry, err
		},
		Place: func() *wait.Place {
			if t.Place == nil {
				t.Stay(s.lines.Join(o.line(), true, false))
			}
			return t.Place
		},
	})
}

// try makes one attempt, tells the observer, and returns how many are left.
func (t *Taking) try(ctx context.Context) (left int64, err error) {
	t.Asked++
	done := t.object.Attempting(ctx)
	left, err = t.tryTo(ctx)
	t.took = err == nil
	if done != nil {
		done(err)
	}
	return left, err
}

// tryTo makes one attempt, and returns how many are left. The attempt goes on until there is a reply,
// or none can come any more: if ctx ends, or the session, what it takes is given back.
func (t *Taking) tryTo(ctx context.Context) (left int64, err error) {
	type result struct {
		left int64
		err  error
	}
	s := t.object.session
	results, away := make(chan result), make(chan struct{})
	defer close(away)
	if s.isClosed() || !s.start(func() {
		ctx, cancel := s.whileItLasts()
		defer cancel()
		left, err := t.attempt(ctx)
		if err == nil && s.isClosed() {
			t.giveBack()
			err = ErrClosed
		}
		select {
		case results <- result{left, err}:
		case <-away:
			if err == nil {
				t.giveBack()
			}
		}
	}) {
		return 0, ErrClosed
	}
	select {
	case r := <-results:
		return r.left, r.err
	case <-ctx.Done():
		why := context.Cause(ctx)
		if errors.Is(why, errWaited) { // while no reply came: nobody knows whether there are any
			why = errNoReply
		}
		return 0, &script.Failure{Class: script.Refused, Err: why}
	}
}

// attempt sends the call.
func (t *Taking) attempt(ctx context.Context) (left int64, err error) {
	s, o := t.object.session, t.object
	reply, err := s.runner.Timed(ctx, o.key, lease.NotAfter(s.config.Lease), t.Take)
	switch {
	case err != nil:
		return 0, err
	case reply.Code == script.Granted && reply.Len == 1:
		return reply.Rest[0], nil
	case reply.Code == script.Busy:
		return 0, ErrBusy
	}
	return 0, reply.Unexpected()
}

// giveBack gives back what nobody waits for any more, however long the server refuses it.
func (t *Taking) giveBack() {
	o, g := t.object, Gift{Call: t.Back, Read: t.object.Given}
	if err := o.give(g); err != nil && !o.session.gifts.owe(o, g, err) {
		o.warnOfGift(err)
	}
}

// Given takes in the reply {listeners} of a call that gave something back to those who wait.
func (o *Object) Given(c *script.Call) error {
	n, err := c.ReadInts(nil)
	if err != nil {
		return err
	}
	if len(n) != 1 {
		return c.Unexpected()
	}
	o.Released(n[0])
	return nil
}
