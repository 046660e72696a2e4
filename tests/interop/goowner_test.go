package interop_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/kit"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
)

// goOwner is an owner in Go: a context with an owner, and the holds that it has, innermost last.
type goOwner struct {
	ctx      context.Context
	sessions []*holdfast.Session
	kind     kind
	mutex    kit.Locker
	holds    []*holdfast.Hold
	last     *holdfast.Hold // the last grant, held or not
}

func newGoOwner(t *testing.T, f *fleet, k kind, lock string) owner {
	t.Helper()
	return newGoUser(holdfast.NewOwner(t.Context()), f.sessions, k, lock)
}

func newGoUser(owner context.Context, sessions []*holdfast.Session, k kind, lock string) *goOwner {
	return &goOwner{ctx: owner, sessions: sessions, kind: k, mutex: k.golang(sessions, lock, k.lease)}
}

// with is under the innermost hold, if there is one: its context carries the owner then, as it does in a program.
func (o *goOwner) with(_ *testing.T, k kind, lock string) owner {
	ctx := o.ctx
	if len(o.holds) > 0 {
		ctx = context.WithoutCancel(o.holds[len(o.holds)-1].Context(ctx)) // it is used when the hold has ended, too
	}
	return newGoUser(ctx, o.sessions, k, lock)
}

func (o *goOwner) granted(hold *holdfast.Hold) {
	o.holds = append(o.holds, hold)
	o.last = hold
}

func (o *goOwner) lock(t *testing.T) {
	t.Helper()
	hold, err := o.mutex.Lock(o.ctx)
	require.NoError(t, err)
	o.granted(hold)
}

func (o *goOwner) start() *attempt {
	return o.begin(func() (*holdfast.Hold, error) { return o.mutex.Lock(o.ctx) })
}

func (o *goOwner) startFor(wait time.Duration) *attempt {
	ctx, cancel := context.WithTimeoutCause(o.ctx, wait, errGaveUp)
	return o.begin(func() (*holdfast.Hold, error) {
		defer cancel()
		return o.mutex.Lock(ctx)
	})
}

func (o *goOwner) begin(lock func() (*holdfast.Hold, error)) *attempt {
	a := &attempt{done: make(chan struct{})}
	go func() {
		defer close(a.done)
		var hold *holdfast.Hold
		hold, a.err = lock()
		a.granted = time.Now()
		if a.err == nil {
			o.granted(hold)
		}
	}()
	return a
}

func (o *goOwner) tryLock(t *testing.T, wait time.Duration) bool {
	t.Helper()
	hold, err := o.mutex.TryLockFor(o.ctx, wait)
	// On a machine that is very busy, the last attempt may be under way when the time is over: unknown, but not
	// granted.
	if errors.Is(err, holdfast.ErrBusy) || errors.Is(err, holdfast.ErrUnknown) {
		return false
	}
	require.NoError(t, err)
	o.granted(hold)
	return true
}

func (o *goOwner) lockAgain(t *testing.T) bool {
	t.Helper()
	hold, err := o.mutex.Lock(o.ctx)
	if errors.Is(err, holdfast.ErrAlreadyHeld) {
		return false
	}
	require.NoError(t, err)
	o.granted(hold)
	return true
}

// pop takes the innermost hold.
func (o *goOwner) pop() *holdfast.Hold {
	last := len(o.holds) - 1
	hold := o.holds[last]
	o.holds = o.holds[:last]
	return hold
}

func (o *goOwner) unlock(t *testing.T) {
	t.Helper()
	hold := o.pop()
	require.NoError(t, hold.Err(), "lost its lock")
	require.NoError(t, hold.Release())
}

func (o *goOwner) unlockLost(t *testing.T) {
	t.Helper()
	require.ErrorIs(t, o.pop().Release(), holdfast.ErrLost)
}

func (o *goOwner) forceUnlock(t *testing.T) bool {
	t.Helper()
	return must(o.mutex.ForceUnlock(o.ctx))(t)
}

func (o *goOwner) locked(t *testing.T) bool {
	t.Helper()
	return must(o.mutex.Locked(o.ctx))(t)
}

func (o *goOwner) held(t *testing.T) bool {
	t.Helper()
	return must(o.mutex.Held(o.ctx))(t)
}

func (o *goOwner) holdCount(t *testing.T) int {
	t.Helper()
	return must(o.mutex.HoldCount(o.ctx))(t)
}

func (o *goOwner) remaining(t *testing.T) time.Duration {
	t.Helper()
	return must(o.mutex.RemainingLease(o.ctx))(t)
}

func (o *goOwner) of() kind     { return o.kind }
func (o *goOwner) id() string   { return o.last.ID() }
func (o *goOwner) token() int64 { return o.last.Token() }

func (o *goOwner) asleep(*testing.T) bool { return true }

// must is the value of a call that may not fail.
func must[T any](value T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		require.NoError(t, err)
		return value
	}
}
