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
	f.threads++
	thread := f.client.Thread(t, fmt.Sprint("thread ", f.threads))
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
