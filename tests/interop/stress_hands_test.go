package interop_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/tests/interop"
	"github.com/holdfast-go/holdfast/tests/worker"
)

// goHands are those of sessions, until ctx ends.
type goHands struct {
	ctx         context.Context
	session     *holdfast.Session
	independent []*holdfast.Session // on the servers of RedLocks
}

// passed is an error, or that there was none but the end of the wait.
func (h *goHands) passed(err error) error {
	if errors.Is(err, holdfast.ErrBusy) || err != nil && h.ctx.Err() != nil && errors.Is(err, h.ctx.Err()) {
		return errPassed
	}
	return err
}

func (h *goHands) take(k stressKind, names []string, n int, wait time.Duration) (grip, error) {
	if k.golang == nil {
		s := semaphore.New(h.session, names[0])
		err := func() error {
			if wait == 0 {
				return s.Acquire(h.ctx, n)
			}
			err := s.TryAcquireFor(h.ctx, n, wait)
			if isPassed(err, wait) {
				err = errPassed
			}
			return err
		}()
		return grip{release: func() error { return s.Release(context.Background(), n) }}, h.passed(err)
	}
	l := k.golang(h, names)
	lock := func(ctx context.Context) (*holdfast.Hold, error) {
		if wait > 0 {
			return l.TryLockFor(ctx, wait)
		}
		return l.Lock(ctx)
	}
	hold, err := lock(h.ctx)
	if wait > 0 && errors.Is(err, holdfast.ErrUnknown) {
		return grip{}, errPassed // on a busy machine the time was over in an attempt, which the session undoes
	}
	if err != nil {
		return grip{}, h.passed(err)
	}
	if hold == nil {
		return grip{}, errors.New("there is no hold, and no error")
	}
	return grip{
		token: hold.Token(),
		ended: func() (time.Duration, bool) {
			if hold.Err() == nil {
				return 0, false
			}
			return worker.Now() + time.Until(hold.Deadline()), true
		},
		again: func() error {
			inner, err := lock(hold.Context(h.ctx))
			if err != nil {
				return h.passed(err)
			}
			return inner.Release()
		},
		release: hold.Release,
	}, nil
}

func (h *goHands) gate(name string) stressGate {
	l := latch.New(h.session, name)
	within := func(do func(ctx context.Context) error) func() error {
		return func() error {
			ctx, cancel := context.WithTimeout(context.Background(), stressLimit)
			defer cancel()
			return do(ctx)
		}
	}
	return stressGate{
		set: within(func(ctx context.Context) error {
			_, err := l.TrySetCount(ctx, 2*goers)
			return err
		}),
		countDown: within(l.CountDown),
		await:     within(l.Wait),
	}
}

// javaHands are those of a thread.
type javaHands struct {
	thread      *interop.Thread
	independent *interop.Thread // the same, for the servers of RedLocks
}

// call is a call that must end by itself.
func (h *javaHands) call(o *interop.Object, method string, args ...any) (interop.Answer, error) {
	call := o.Start(method, args...)
	select {
	case <-call.Done():
		return call.Answer(), call.Answer().Err
	case <-time.After(stressLimit):
		return interop.Answer{}, fmt.Errorf("%s does not return", method)
	}
}

// do is a call whose result does not matter.
func (h *javaHands) do(o *interop.Object, method string, args ...any) func() error {
	return func() error {
		_, err := h.call(o, method, args...)
		return err
	}
}

func (h *javaHands) take(k stressKind, names []string, n int, wait time.Duration) (grip, error) {
	thread := h.thread
	if k.java == interop.RedLock {
		thread = h.independent
	}
	o := thread.Object(k.java, strings.Join(names, ", "))
	var lock, release string
	var args []any
	switch k.java {
	case interop.Semaphore:
		lock, release, args = "acquire", "release", []any{n}
	case interop.Expirable:
		lock, release, args = "acquire", "release", []any{stressLease} // which nobody renews
	case interop.Fenced:
		lock, release = "lockAndGetToken", "unlock"
	default:
		lock, release = "lock", "unlock"
	}
	taking := func() (interop.Answer, error) {
		if wait == 0 {
			return h.call(o, lock, args...)
		}
		timed := []any{wait}
		switch k.java {
		case interop.Semaphore:
			timed = []any{n, wait}
		case interop.Expirable:
			timed = append(timed, args...)
		default:
			timed = append(timed, javaRenewed)
		}
		answer, err := h.call(o, "try"+strings.ToUpper(lock[:1])+lock[1:], timed...)
		if err == nil && (answer.Value == "false" || answer.Value == "null") || isHurried(err) {
			err = errPassed
		}
		return answer, err
	}
	answer, err := taking()
	if err != nil {
		return grip{}, err
	}
	g := grip{
		again: func() error {
			if _, err := taking(); err != nil {
				return err
			}
			return h.do(o, release)()
		},
	}
	switch k.java {
	case interop.Semaphore:
		g.release = h.do(o, release, n)
	case interop.Expirable:
		g.release = h.do(o, release, answer.Value)
	case interop.Fenced:
		g.token = answer.Int()
		g.release = h.do(o, release)
	default:
		g.release = h.do(o, release)
	}
	return g, nil
}

// isHurried reports whether Redisson threw because the time to wait was over when it could begin to listen.
func isHurried(err error) bool {
	var exception *interop.JavaError
	return errors.As(err, &exception) && exception.Class == "RedisTimeoutException" &&
		strings.Contains(exception.Message, "subscription lock")
}

// javaRenewed is Java's word for a lease that is renewed.
const javaRenewed = -time.Millisecond

func (h *javaHands) gate(name string) stressGate {
	o := h.thread.Object(interop.Latch, name)
	return stressGate{set: h.do(o, "trySetCount", 2*goers), countDown: h.do(o, "countDown"), await: h.do(o, "await")}
}
