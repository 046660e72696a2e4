package interop_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/tests/interop"
)

// Semaphores and latches have no owners: who uses one is a language, which in Java has a thread of its own. What cannot
// fail unless the thing is broken fails the test.

// pool is a semaphore as a language uses it.
type pool interface {
	sleeper
	trySet(t *testing.T, n int) bool
	trySetFor(t *testing.T, n int, ttl time.Duration) bool
	add(t *testing.T, n int)
	acquire(t *testing.T, n int)
	start(n int) *attempt // begins to wait for permits
	tryAcquire(t *testing.T, n int, wait time.Duration) bool
	release(t *testing.T, n int)
	releaseIfExists(t *testing.T, n int) bool
	drain(t *testing.T) int
	available(t *testing.T) int
	remove(t *testing.T) bool
}

// expirable is a semaphore whose permits have leases, as a language uses it. Permits go by their ids. A lease of 0 is
// [expirable.usual].
type expirable interface {
	sleeper
	trySet(t *testing.T, n int) bool
	set(t *testing.T, n int)
	add(t *testing.T, n int)
	usual() time.Duration // the lease of permits for which none is asked
	acquire(t *testing.T, n int, lease time.Duration) []string
	tryAcquire(t *testing.T, n int, lease, wait time.Duration) []string // none if so many are not free
	start(n int) *attempt                                               // begins to wait for permits with the usual lease
	granted() []string                                                  // the permits that the last wait has got
	give(t *testing.T, ids ...string)                                   // gives back as who has taken them does
	release(t *testing.T, ids ...string)                                // gives back as whoever knows the ids does
	tryRelease(t *testing.T, ids ...string) bool
	updateLease(t *testing.T, id string, lease time.Duration) bool
	remaining(t *testing.T, id string) time.Duration // 0: it is not taken
	free(t *testing.T) int
	taken(t *testing.T) int
	all(t *testing.T) int
	remove(t *testing.T) bool
}

// gate is a countdown latch as a language uses it.
type gate interface {
	sleeper
	trySet(t *testing.T, n int) bool
	countDown(t *testing.T)
	start() *attempt // begins to wait until it is open
	awaitFor(t *testing.T, wait time.Duration) bool
	count(t *testing.T) int
	remove(t *testing.T) bool
}

// sleeper is whose wait can be seen.
type sleeper interface {
	// asleep reports whether a wait that somebody listens for misses no message from now on. Scripts is how many the
	// servers have run since it began, and nobody else has been busy.
	asleep(t *testing.T, scripts int64) bool
}

// waitOn begins a wait, and returns once the waiter can do nothing but sleep until a message or a timer wakes it.
func (f *fleet) waitOn(t *testing.T, channel string, w sleeper, start func() *attempt) *attempt {
	t.Helper()
	before := f.scripts(t)
	a := start()
	await(t, "the waiter sleeps", func() bool {
		sharded, plain := f.listeners(t, channel)
		return sharded+plain > 0 && w.asleep(t, f.scripts(t)-before)
	})
	requireWaiting(t, a)
	return a
}

// waitFor is waitOn for permits.
func (f *fleet) waitFor(t *testing.T, mapped string, p pool, n int) *attempt {
	t.Helper()
	return f.waitOn(t, prefixed("redisson_sc", mapped), p, func() *attempt { return p.start(n) })
}

// waitForPermits is waitOn for permits that have leases.
func (f *fleet) waitForPermits(t *testing.T, mapped string, e expirable, n int) *attempt {
	t.Helper()
	return f.waitOn(t, prefixed("redisson_sc", mapped), e, func() *attempt { return e.start(n) })
}

// waitAt is waitOn at a latch.
func (f *fleet) waitAt(t *testing.T, mapped string, g gate) *attempt {
	t.Helper()
	return f.waitOn(t, latchChannel(mapped), g, g.start)
}

// latchChannel is where the latch of that mapped name is told of: in braces, whatever the name.
func latchChannel(mapped string) string { return "redisson_countdownlatch__channel__{" + mapped + "}" }

// goUser is a user in Go.
type goUser struct {
	ctx context.Context
}

// asleep: it has looked, listens, and has looked again.
func (u *goUser) asleep(_ *testing.T, scripts int64) bool { return scripts >= 2 }

func (u *goUser) begin(wait func(ctx context.Context) error) *attempt {
	a := &attempt{done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.err = wait(u.ctx)
		a.granted = time.Now()
	}()
	return a
}

type goPool struct {
	goUser
	semaphore *semaphore.Semaphore
}

func newGoPool(t *testing.T, f *fleet, name string) pool {
	t.Helper()
	return &goPool{goUser{t.Context()}, semaphore.New(f.session, name)}
}

func (p *goPool) trySet(t *testing.T, n int) bool {
	t.Helper()
	return must(p.semaphore.TrySetPermits(p.ctx, n))(t)
}

func (p *goPool) trySetFor(t *testing.T, n int, ttl time.Duration) bool {
	t.Helper()
	return must(p.semaphore.TrySetPermitsFor(p.ctx, n, ttl))(t)
}

func (p *goPool) add(t *testing.T, n int) {
	t.Helper()
	require.NoError(t, p.semaphore.AddPermits(p.ctx, n))
}

func (p *goPool) acquire(t *testing.T, n int) {
	t.Helper()
	require.NoError(t, p.semaphore.Acquire(p.ctx, n))
}

func (p *goPool) start(n int) *attempt {
	return p.begin(func(ctx context.Context) error { return p.semaphore.Acquire(ctx, n) })
}

func (p *goPool) tryAcquire(t *testing.T, n int, wait time.Duration) bool {
	t.Helper()
	err := p.semaphore.TryAcquireFor(p.ctx, n, wait)
	if errors.Is(err, holdfast.ErrBusy) {
		return false
	}
	require.NoError(t, err)
	return true
}

func (p *goPool) release(t *testing.T, n int) {
	t.Helper()
	require.NoError(t, p.semaphore.Release(p.ctx, n))
}

func (p *goPool) releaseIfExists(t *testing.T, n int) bool {
	t.Helper()
	return must(p.semaphore.ReleaseIfExists(p.ctx, n))(t)
}

func (p *goPool) drain(t *testing.T) int {
	t.Helper()
	return must(p.semaphore.DrainPermits(p.ctx))(t)
}

func (p *goPool) available(t *testing.T) int {
	t.Helper()
	return must(p.semaphore.AvailablePermits(p.ctx))(t)
}

func (p *goPool) remove(t *testing.T) bool {
	t.Helper()
	return must(p.semaphore.Delete(p.ctx))(t)
}

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
	if errors.Is(err, holdfast.ErrBusy) {
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

type goGate struct {
	goUser
	latch *latch.Latch
}

func newGoGate(t *testing.T, f *fleet, name string) gate {
	t.Helper()
	return &goGate{goUser{t.Context()}, latch.New(f.session, name)}
}

func (g *goGate) trySet(t *testing.T, n int) bool {
	t.Helper()
	return must(g.latch.TrySetCount(g.ctx, n))(t)
}

func (g *goGate) countDown(t *testing.T) {
	t.Helper()
	require.NoError(t, g.latch.CountDown(g.ctx))
}

func (g *goGate) start() *attempt { return g.begin(g.latch.Wait) }

func (g *goGate) awaitFor(t *testing.T, wait time.Duration) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(g.ctx, wait)
	defer cancel()
	err := g.latch.Wait(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	require.NoError(t, err)
	return true
}

func (g *goGate) count(t *testing.T) int {
	t.Helper()
	return must(g.latch.Count(g.ctx))(t)
}

func (g *goGate) remove(t *testing.T) bool {
	t.Helper()
	return must(g.latch.Delete(g.ctx))(t)
}

// javaUser is a user in Java: a thread.
type javaUser struct {
	thread *interop.Thread
	object *interop.Object
}

func newJavaUserOf(t *testing.T, f *fleet, kind interop.Kind, name string) javaUser {
	t.Helper()
	thread := f.client.Thread(t, fmt.Sprint("thread ", f.threads.Add(1)))
	return javaUser{thread, thread.Object(kind, name)}
}

func (u *javaUser) asleep(t *testing.T, _ int64) bool {
	t.Helper()
	return u.thread.Asleep(t)
}

func (u *javaUser) begin(method string, args ...any) *attempt {
	return begin(u.object.Start(method, args...), func(answer interop.Answer) error { return answer.Err })
}

func (u *javaUser) remove(t *testing.T) bool {
	t.Helper()
	return u.object.Do(t, "delete").Bool()
}

type javaPool struct{ javaUser }

func newJavaPool(t *testing.T, f *fleet, name string) pool {
	t.Helper()
	return &javaPool{newJavaUserOf(t, f, interop.Semaphore, name)}
}

func (p *javaPool) trySet(t *testing.T, n int) bool {
	t.Helper()
	return p.object.Do(t, "trySetPermits", n).Bool()
}

func (p *javaPool) trySetFor(t *testing.T, n int, ttl time.Duration) bool {
	t.Helper()
	return p.object.Do(t, "trySetPermits", n, ttl).Bool()
}

func (p *javaPool) add(t *testing.T, n int) {
	t.Helper()
	p.object.Do(t, "addPermits", n)
}

func (p *javaPool) acquire(t *testing.T, n int) {
	t.Helper()
	p.object.Do(t, "acquire", n)
}

func (p *javaPool) start(n int) *attempt { return p.begin("acquire", n) }

func (p *javaPool) tryAcquire(t *testing.T, n int, wait time.Duration) bool {
	t.Helper()
	return p.object.Do(t, "tryAcquire", n, wait).Bool()
}

func (p *javaPool) release(t *testing.T, n int) {
	t.Helper()
	p.object.Do(t, "release", n)
}

func (p *javaPool) releaseIfExists(t *testing.T, n int) bool {
	t.Helper()
	return p.object.Do(t, "releaseIfExists", n).Bool()
}

func (p *javaPool) drain(t *testing.T) int {
	t.Helper()
	return int(p.object.Do(t, "drainPermits").Int())
}

func (p *javaPool) available(t *testing.T) int {
	t.Helper()
	return int(p.object.Do(t, "availablePermits").Int())
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

type javaGate struct{ javaUser }

func newJavaGate(t *testing.T, f *fleet, name string) gate {
	t.Helper()
	return &javaGate{newJavaUserOf(t, f, interop.Latch, name)}
}

func (g *javaGate) trySet(t *testing.T, n int) bool {
	t.Helper()
	return g.object.Do(t, "trySetCount", n).Bool()
}

func (g *javaGate) countDown(t *testing.T) {
	t.Helper()
	g.object.Do(t, "countDown")
}

func (g *javaGate) start() *attempt { return g.begin("await") }

func (g *javaGate) awaitFor(t *testing.T, wait time.Duration) bool {
	t.Helper()
	return g.object.Do(t, "await", wait).Bool()
}

func (g *javaGate) count(t *testing.T) int {
	t.Helper()
	return int(g.object.Do(t, "getCount").Int())
}
