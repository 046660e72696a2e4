package semaphore

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/session"
)

// A taking takes n permits of a counting semaphore.
type taking struct {
	semaphore *Semaphore
	n         int
}

// untilAnyBack is longer than anybody sleeps.
const untilAnyBack = time.Hour

// Try makes one attempt. It goes on until there is a reply, or none can come any more: if ctx ends, or the session,
// what it takes is given back.
func (t *taking) Try(ctx context.Context) (none time.Duration, err error) {
	type result struct {
		none time.Duration
		err  error
	}
	o := &t.semaphore.object
	results, away := make(chan result), make(chan struct{})
	defer close(away)
	if !o.Go(func(lasting context.Context) {
		none, err := t.attempt(lasting)
		if err == nil && o.Session().Closed() {
			t.GiveBack()
			err = holdfast.ErrClosed
		}
		select {
		case results <- result{none, err}:
		case <-away:
			if err == nil {
				t.GiveBack()
			}
		}
	}) {
		return 0, holdfast.ErrClosed
	}
	select {
	case r := <-results:
		return r.none, r.err
	case <-ctx.Done():
		return 0, &script.Failure{Class: script.Refused, Err: context.Cause(ctx)}
	}
}

// attempt sends the call.
func (t *taking) attempt(ctx context.Context) (none time.Duration, err error) {
	p := t.semaphore
	reply, err := p.object.Timed(ctx, func(w script.Window) *script.Call {
		return p.call(acquireScript).Int(int64(t.n)).Int(w.NotAfter)
	})
	switch {
	case err != nil:
		return 0, err
	case reply.Code == script.Granted && reply.Len == 1:
		if left := reply.Rest[0]; left == 0 {
			none = untilAnyBack
		}
		return none, nil
	case reply.Code == script.Busy:
		return 0, holdfast.ErrBusy
	}
	return 0, reply.Unexpected()
}

// GiveBack gives back what nobody waits for any more.
func (t *taking) GiveBack() {
	p := t.semaphore
	p.object.Return(session.Gift{Call: func() *script.Call { return p.add(t.n, create) }, Read: p.object.Given})
}
