package semaphore

import (
	"cmp"
	"context"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/internal/wait"
)

// A taking is a call that takes n permits of a counting semaphore. Its script cannot be called again, so an attempt
// without a reply is unknown for good.
type taking struct {
	session.Retries
	ctx       context.Context //nolint:containedctx // the caller's, of which that of an attempt may be derived
	semaphore *Semaphore
	n         int
	waits     bool   // and so does not pass over others that wait
	waiter    string // which may have a place in the line on the server; "": none has
	took      bool   // and the caller does not know yet
}

// run is the whole call, which waits for at most limit.
func (t *taking) run(ctx context.Context, operation string, limit time.Duration) error {
	o := &t.semaphore.object
	if err := o.Begin(ctx, operation); err != nil {
		return err
	}
	defer o.Session().Leave()
	t.About(ctx, o)
	defer t.unwind()
	t.ctx = ctx
	over := o.Session().Over(limit)
	err := t.WaitFor(ctx, limit, t)
	if err != nil {
		err = o.FailBy(ctx, over, operation, session.Explain(ctx, err))
	}
	t.Tell(err)
	t.took = false
	return err
}

// unwind gives back what the call has taken if it does not return, because the observer panics or ends the goroutine.
func (t *taking) unwind() {
	if t.took && !t.semaphore.object.Session().Start(t.giveBack) {
		t.giveBack()
	}
}

// Once makes one attempt.
func (t *taking) Once(ctx context.Context) error {
	within, stop := t.semaphore.object.UntilLate(ctx)
	defer stop()
	return t.try(within)
}

// Wait attempts at once if nobody of the session waits, then as the first of its line.
func (t *taking) Wait(ctx, sleep context.Context) (err error) {
	t.waits = true
	lines, line := t.semaphore.object.Session().Lines(), t.semaphore.object.Line()
	defer func() {
		t.leave(err)
		t.LeaveTo(0)
	}()
	return wait.Until(ctx, sleep, lines.Empty(line) && t.StandFirst(&t.semaphore.line, t), t)
}

// Attempt tries once, or takes over what another call has left.
func (t *taking) Attempt(ctx, _ context.Context) (done bool, retry time.Duration, err error) {
	t.succeed()
	err = t.try(ctx)
	if err == nil || script.ClassOf(err) == script.Unknown {
		return true, 0, err
	}
	retry, err = t.Again(ctx, breath, err, nil)
	return false, retry, err
}

// try makes one attempt, and tells the observer.
func (t *taking) try(ctx context.Context) error {
	t.Asked++
	done := t.semaphore.object.Attempting(ctx)
	err := t.tryTo(ctx)
	if t.took = err == nil; t.took {
		t.waiter = "" // its place went with the permits
	}
	if done != nil {
		done(err)
	}
	return err
}

// tryTo makes one attempt. It goes on until there is a reply, or none can come any more: if its context or the session
// ends, the permits that it takes are given back.
func (t *taking) tryTo(ctx context.Context) error {
	if ctx.Err() != nil { // what it would take is lost if its reply is
		return &script.Failure{Class: script.Refused, Err: context.Cause(ctx)}
	}
	o := &t.semaphore.object
	// Only as long as the caller waits: what it would take later is lost if the reply is.
	if err := o.Session().Runner().Ready(ctx, o.Key()); err != nil {
		return cmp.Or(t.late(ctx), err)
	}
	waiter, results, away := t.stands(), make(chan error), make(chan struct{})
	defer close(away)
	if !o.Go(func(lasting context.Context) {
		err := t.send(&script.Outlasting{Context: lasting, Caller: ctx}, waiter)
		if err == nil && o.Session().Closed() {
			t.giveBack()
			err = holdfast.ErrClosed
		}
		select {
		case results <- err:
		case <-away:
			if err == nil {
				t.giveBack()
				return
			}
			if script.InDoubt(err) {
				o.WarnOfGift(err) // they may be taken, and the caller was told that they are not
			}
			t.semaphore.leave(waiter, err)
		}
	}) {
		return holdfast.ErrClosed
	}
	select {
	case err := <-results:
		return err
	case <-ctx.Done():
		t.waiter = ""
		return t.late(ctx)
	}
}

// late is why an attempt has failed whose context has ended before there was a reply; nil: it has not ended.
func (t *taking) late(ctx context.Context) error {
	why := context.Cause(ctx)
	switch {
	case why == nil:
		return nil
	case t.ctx.Err() == nil: // the wait is over while no reply came: nobody knows whether there are any
		why = holdfast.ErrNoReply
	}
	return &script.Failure{Class: script.Refused, Err: why}
}

// send sends the call.
func (t *taking) send(ctx context.Context, waiter string) error {
	p, n, waits := t.semaphore, t.n, t.waits
	var reply script.Reply
	s := p.object.Session()
	err := s.Runner().Timed(ctx, &reply, p.object.Key(), s.NotAfter(), func(w script.Window) *script.Call {
		c := p.call(acquireScript).Int(int64(n)).Int(w.NotAfter)
		if waits {
			p.line.publishing(c.Arg(waiter, waiterMillis))
		}
		return c
	})
	switch {
	case err != nil:
		return err
	case reply.Code == script.Granted:
		return nil
	case reply.Code == script.Busy:
		return holdfast.ErrBusy
	}
	return reply.Unexpected()
}

// giveBack gives back permits that nobody waits for any more, unless the semaphore has gone, and they with it.
func (t *taking) giveBack() {
	p := t.semaphore
	p.object.Return(session.Gift{Call: func() *script.Call { return p.add(t.n, keep) }, Read: p.object.Given})
}
