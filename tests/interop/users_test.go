package interop_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/interop"
	"github.com/holdfast-go/holdfast/tests/kit"
)

// Semaphores and latches have no owners: who uses one is a language, which in Java has a thread of its own. What cannot
// fail unless the thing is broken fails the test.

// permits is what both sorts of semaphore do alike, as a language uses one. Permits go by ids; those of a plain
// semaphore have none, and no lease, whatever is asked.
type permits interface {
	sleeper
	trySet(t *testing.T, n int) bool
	add(t *testing.T, n int)
	acquire(t *testing.T, n int, lease time.Duration) []string
	tryAcquire(t *testing.T, n int, lease, wait time.Duration) []string // none if so many are not free
	start(n int) *attempt                                               // begins to wait for permits with the usual lease
	granted() []string                                                  // the permits that the last wait has got
	give(t *testing.T, ids ...string)                                   // gives back as who has taken them does
	release(t *testing.T, ids ...string)                                // gives back as whoever knows the ids does
	free(t *testing.T) int
	remove(t *testing.T) bool
}

// permits makes a user of a semaphore of that sort.
func (l language) permits(t *testing.T, f *fleet, sort kind, name string) permits {
	t.Helper()
	if sort.name == expirableRow {
		return l.expirable(t, f, name)
	}
	return l.pool(t, f, name)
}

// pool is a plain semaphore.
type pool interface {
	permits
	trySetFor(t *testing.T, n int, ttl time.Duration) bool
	releaseIfExists(t *testing.T, n int) bool
	drain(t *testing.T) int
}

// plainPermits stand for permits without ids.
func plainPermits(n int) []string { return make([]string, n) }

// expirable is a semaphore whose permits have leases. A lease of 0 is [expirable.usual].
type expirable interface {
	permits
	set(t *testing.T, n int)
	usual() time.Duration // the lease of permits for which none is asked
	tryRelease(t *testing.T, ids ...string) bool
	updateLease(t *testing.T, id string, lease time.Duration) bool
	remaining(t *testing.T, id string) time.Duration // 0: it is not taken
	taken(t *testing.T) int
	all(t *testing.T) int
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
	kit.Await(t, "the waiter sleeps", func() bool {
		sharded, plain := f.listeners(t, channel)
		return sharded+plain > 0 && w.asleep(t, f.scripts(t)-before)
	})
	requireWaiting(t, a)
	return a
}

// waitFor is waitOn for permits.
func (f *fleet) waitFor(t *testing.T, mapped string, p permits, n int) *attempt {
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
