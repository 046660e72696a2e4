package interop_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/tests/interop"
)

type goExpirable struct {
	goUser
	session *holdfast.Session
	name    string
	lease   time.Duration             // of the session
	holds   map[string]*holdfast.Hold // by id
	last    []string                  // granted
}

func newGoExpirable(t *testing.T, f *fleet, name string) expirable {
	t.Helper()
	lease := f.options.lease
	if lease == 0 {
		lease = 30 * time.Second
	}
	return &goExpirable{
		goUser: goUser{t.Context()}, session: f.session, name: name, lease: lease, holds: map[string]*holdfast.Hold{},
	}
}

// lasting is the semaphore with permits of a fixed lease, or renewed ones for 0.
func (e *goExpirable) lasting(lease time.Duration) *semaphore.Expirable {
	return semaphore.NewExpirable(e.session, e.name, &semaphore.ExpirableOptions{FixedLease: lease})
}

// keep keeps holds that were granted, and returns their ids.
func (e *goExpirable) keep(holds ...*holdfast.Hold) (ids []string) {
	for _, h := range holds {
		e.holds[h.ID()] = h
		ids = append(ids, h.ID())
	}
	return ids
}

func (e *goExpirable) usual() time.Duration { return e.lease }

func (e *goExpirable) trySet(t *testing.T, n int) bool {
	t.Helper()
	return must(e.lasting(0).TrySetPermits(e.ctx, n))(t)
}

func (e *goExpirable) set(t *testing.T, n int) {
	t.Helper()
	require.NoError(t, e.lasting(0).SetPermits(e.ctx, n))
}

func (e *goExpirable) add(t *testing.T, n int) {
	t.Helper()
	require.NoError(t, e.lasting(0).AddPermits(e.ctx, n))
}

func (e *goExpirable) acquire(t *testing.T, n int, lease time.Duration) []string {
	t.Helper()
	if n == 1 {
		return e.keep(must(e.lasting(lease).Acquire(e.ctx))(t))
	}
	return e.keep(must(e.lasting(lease).AcquireN(e.ctx, n))(t)...)
}

func (e *goExpirable) tryAcquire(t *testing.T, n int, lease, wait time.Duration) []string {
	t.Helper()
	s := e.lasting(lease)
	holds := make([]*holdfast.Hold, 1)
	var err error
	switch {
	case n == 1 && wait == 0:
		holds[0], err = s.TryAcquire(e.ctx)
	case n == 1:
		holds[0], err = s.TryAcquireFor(e.ctx, wait)
	case wait == 0:
		holds, err = s.TryAcquireN(e.ctx, n)
	default:
		holds, err = s.TryAcquireNFor(e.ctx, n, wait)
	}
	if isPassed(err, wait) {
		return nil
	}
	require.NoError(t, err)
	return e.keep(holds...)
}

func (e *goExpirable) start(n int) *attempt {
	return e.begin(func(ctx context.Context) error {
		holds, err := e.lasting(0).AcquireN(ctx, n)
		e.last = e.keep(holds...)
		return err
	})
}

func (e *goExpirable) granted() []string { return e.last }

func (e *goExpirable) give(t *testing.T, ids ...string) {
	t.Helper()
	for _, id := range ids {
		hold := e.holds[id]
		require.NoError(t, hold.Err(), "lost its permit")
		require.NoError(t, hold.Release())
		delete(e.holds, id)
	}
}

func (e *goExpirable) release(t *testing.T, ids ...string) {
	t.Helper()
	require.NoError(t, e.lasting(0).Release(e.ctx, ids...))
}

func (e *goExpirable) tryRelease(t *testing.T, ids ...string) bool {
	t.Helper()
	return isHeld(t, e.lasting(0).Release(e.ctx, ids...))
}

// isHeld is what a call has to say whose only error may be that a permit is not taken.
func isHeld(t *testing.T, err error) bool {
	t.Helper()
	if errors.Is(err, holdfast.ErrNotHeld) {
		return false
	}
	require.NoError(t, err)
	return true
}

func (e *goExpirable) updateLease(t *testing.T, id string, lease time.Duration) bool {
	t.Helper()
	return isHeld(t, e.lasting(0).UpdateLease(e.ctx, id, lease))
}

func (e *goExpirable) remaining(t *testing.T, id string) time.Duration {
	t.Helper()
	left, err := e.lasting(0).RemainingLease(e.ctx, id)
	if !isHeld(t, err) {
		return 0
	}
	require.Positive(t, left)
	return left
}

func (e *goExpirable) free(t *testing.T) int {
	t.Helper()
	return must(e.lasting(0).AvailablePermits(e.ctx))(t)
}

func (e *goExpirable) taken(t *testing.T) int {
	t.Helper()
	return must(e.lasting(0).AcquiredPermits(e.ctx))(t)
}

func (e *goExpirable) all(t *testing.T) int {
	t.Helper()
	return must(e.lasting(0).Permits(e.ctx))(t)
}

func (e *goExpirable) remove(t *testing.T) bool {
	t.Helper()
	return must(e.lasting(0).Delete(e.ctx))(t)
}

type javaExpirable struct {
	javaUser
	last []string // granted
}

func newJavaExpirable(t *testing.T, f *fleet, name string) expirable {
	t.Helper()
	return &javaExpirable{javaUser: newJavaUserOf(t, f, interop.Expirable, name)}
}

// javaForever is Java's word for a lease without end.
const javaForever = -time.Millisecond

func javaLease(lease time.Duration) time.Duration {
	if lease == semaphore.Forever || lease == 0 {
		return javaForever
	}
	return lease
}

func (e *javaExpirable) usual() time.Duration { return semaphore.Forever }

func (e *javaExpirable) trySet(t *testing.T, n int) bool {
	t.Helper()
	return e.object.Do(t, "trySetPermits", n).Bool()
}

func (e *javaExpirable) set(t *testing.T, n int) {
	t.Helper()
	e.object.Do(t, "setPermits", n)
}

func (e *javaExpirable) add(t *testing.T, n int) {
	t.Helper()
	e.object.Do(t, "addPermits", n)
}

// wanting are the arguments of how many permits and with what lease, which are left out where they can be.
func wanting(n int, lease time.Duration) (args []any) {
	if n != 1 {
		args = append(args, n)
	}
	if d := javaLease(lease); d != javaForever {
		args = append(args, d)
	}
	return args
}

func (e *javaExpirable) acquire(t *testing.T, n int, lease time.Duration) []string {
	t.Helper()
	return e.object.Do(t, "acquire", wanting(n, lease)...).Strings()
}

func (e *javaExpirable) tryAcquire(t *testing.T, n int, lease, wait time.Duration) []string {
	t.Helper()
	args := []any{wait, javaLease(lease)}
	switch {
	case wait == 0 && args[1] == javaForever:
		args = wanting(n, lease)
	case n != 1:
		args = []any{n, wait, args[1]}
	}
	return e.object.Do(t, "tryAcquire", args...).Strings()
}

func (e *javaExpirable) start(n int) *attempt {
	return begin(e.object.Start("acquire", wanting(n, 0)...), func(answer interop.Answer) error {
		e.last = answer.Strings()
		return answer.Err
	})
}

func (e *javaExpirable) granted() []string { return e.last }

// these are permits as an argument: one, or a list.
func these(ids []string) any {
	if len(ids) == 1 {
		return ids[0]
	}
	return ids
}

func (e *javaExpirable) give(t *testing.T, ids ...string) {
	t.Helper()
	e.release(t, ids...)
}

func (e *javaExpirable) release(t *testing.T, ids ...string) {
	t.Helper()
	e.object.Do(t, "release", these(ids))
}

func (e *javaExpirable) tryRelease(t *testing.T, ids ...string) bool {
	t.Helper()
	answer := e.object.Do(t, "tryRelease", these(ids))
	if len(ids) == 1 {
		return answer.Bool()
	}
	require.Contains(t, []int64{0, int64(len(ids))}, answer.Int(), "all or none")
	return answer.Int() > 0
}

func (e *javaExpirable) updateLease(t *testing.T, id string, lease time.Duration) bool {
	t.Helper()
	return e.object.Do(t, "updateLeaseTime", id, javaLease(lease)).Bool()
}

func (e *javaExpirable) remaining(t *testing.T, id string) time.Duration {
	t.Helper()
	answer := e.object.Try(t, "getLeaseTime", id)
	if answer.Err != nil {
		requireNoPermit(t, answer.Err)
		return 0
	}
	if answer.Int() < 0 {
		return semaphore.Forever
	}
	return time.Duration(answer.Int()) * time.Millisecond
}

// requireNoPermit wants what Redisson throws at who names a permit that is not taken.
func requireNoPermit(t *testing.T, err error) {
	t.Helper()
	var exception *interop.JavaError
	require.ErrorAs(t, err, &exception)
	require.Equal(t, "IllegalArgumentException", exception.Class, exception.Message)
}

func (e *javaExpirable) free(t *testing.T) int {
	t.Helper()
	return int(e.object.Do(t, "availablePermits").Int())
}

func (e *javaExpirable) taken(t *testing.T) int {
	t.Helper()
	return int(e.object.Do(t, "acquiredPermits").Int())
}

func (e *javaExpirable) all(t *testing.T) int {
	t.Helper()
	return int(e.object.Do(t, "getPermits").Int())
}
