package session

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wait"
)

// A Taking takes something that has no owner and no lease, and can only be given back.
type Taking interface {
	// Try makes one attempt. It returns for how long there is nothing left for others, unless something comes back.
	// Its call cannot be repeated, so an attempt without a reply is unknown for good.
	Try(ctx context.Context) (none time.Duration, err error)
	// GiveBack gives back what an attempt has taken.
	GiveBack()
}

// A take is one call that takes something.
type take struct {
	Taking
	Retries
	took bool // and the caller does not know yet
}

// Take makes attempts until one takes something or has no reply, for at most limit: at once if nobody of the session
// waits for the object, then as the first of its line.
func (o *Object) Take(ctx context.Context, operation string, limit time.Duration, what Taking) error {
	if err := o.Begin(ctx, operation); err != nil {
		return err
	}
	defer o.session.Leave()
	t := take{Taking: what}
	t.About(ctx, o)
	defer t.unwind()
	err := t.WaitFor(ctx, limit, func() error {
		within, stop := until(ctx, time.Now().Add(lease.NotAfter(o.session.Lease())))
		defer stop()
		_, err := t.try(within)
		return err
	}, t.wait)
	if err != nil {
		err = o.Fail(operation, Explain(ctx, err))
	}
	t.Tell(err)
	t.took = false
	return err
}

// unwind gives back what the call has taken if it does not return, because the observer panics or ends the goroutine.
func (t *take) unwind() {
	if t.took && !t.object.session.Start(t.GiveBack) {
		t.GiveBack()
	}
}

func (t *take) wait(ctx, sleep context.Context) (err error) {
	lines, line := t.object.session.Lines(), t.object.Line()
	none := time.Duration(0)
	defer func() { t.LeaveTo(none, (*wait.Place).LeaveSome) }()
	return t.Until(sleep, lines.Empty(line), wait.Caller{
		Attempt: func() (done bool, retry time.Duration, err error) {
			none, err = t.try(ctx)
			if err == nil || script.ClassOf(err) == script.Unknown {
				return true, 0, err
			}
			retry, err = t.Again(ctx, -1, err, nil)
			return false, retry, err
		},
		Place: func() *wait.Place {
			if t.Place == nil {
				t.Stay(lines.Join(line, true, false))
			}
			return t.Place
		},
	})
}

// try makes one attempt, and tells the observer.
func (t *take) try(ctx context.Context) (none time.Duration, err error) {
	t.Asked++
	done := t.object.Attempting(ctx)
	none, err = t.Try(ctx)
	t.took = err == nil
	if errors.Is(err, errWaited) { // while no reply came: nobody knows whether there is anything
		err = &script.Failure{Class: script.Refused, Err: ErrNoReply}
	}
	if done != nil {
		done(err)
	}
	return none, err
}
