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

type goPool struct {
	goUser
	semaphore *semaphore.Semaphore
	last      []string // granted
}

func newGoPool(t *testing.T, f *fleet, name string) pool {
	t.Helper()
	return &goPool{goUser: goUser{t.Context()}, semaphore: semaphore.New(f.session, name)}
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

func (p *goPool) acquire(t *testing.T, n int, _ time.Duration) []string {
	t.Helper()
	require.NoError(t, p.semaphore.Acquire(p.ctx, n))
	return plainPermits(n)
}

func (p *goPool) start(n int) *attempt {
	p.last = plainPermits(n)
	return p.begin(func(ctx context.Context) error { return p.semaphore.Acquire(ctx, n) })
}

func (p *goPool) granted() []string { return p.last }

func (p *goPool) tryAcquire(t *testing.T, n int, _, wait time.Duration) []string {
	t.Helper()
	err := p.semaphore.TryAcquireFor(p.ctx, n, wait)
	if isPassed(err, wait) {
		return nil
	}
	require.NoError(t, err)
	return plainPermits(n)
}

func (p *goPool) give(t *testing.T, ids ...string) {
	t.Helper()
	p.release(t, ids...)
}

func (p *goPool) release(t *testing.T, ids ...string) {
	t.Helper()
	require.NoError(t, p.semaphore.Release(p.ctx, len(ids)))
}

func (p *goPool) releaseIfExists(t *testing.T, n int) bool {
	t.Helper()
	return must(p.semaphore.ReleaseIfExists(p.ctx, n))(t)
}

func (p *goPool) drain(t *testing.T) int {
	t.Helper()
	return must(p.semaphore.DrainPermits(p.ctx))(t)
}

func (p *goPool) free(t *testing.T) int {
	t.Helper()
	return must(p.semaphore.AvailablePermits(p.ctx))(t)
}

func (p *goPool) remove(t *testing.T) bool {
	t.Helper()
	return must(p.semaphore.Delete(p.ctx))(t)
}

// isPassed reports whether a call that waits so long got no permit in time. On a machine that is very busy, its last
// attempt may be under way then: what that takes is given back.
func isPassed(err error, wait time.Duration) bool {
	return errors.Is(err, holdfast.ErrBusy) ||
		wait > 0 && (errors.Is(err, holdfast.ErrUnknown) || errors.Is(err, holdfast.ErrNoReply))
}

type javaPool struct {
	javaUser
	last []string // granted
}

func newJavaPool(t *testing.T, f *fleet, name string) pool {
	t.Helper()
	return &javaPool{javaUser: newJavaUserOf(t, f, interop.Semaphore, name)}
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

func (p *javaPool) acquire(t *testing.T, n int, _ time.Duration) []string {
	t.Helper()
	p.object.Do(t, "acquire", n)
	return plainPermits(n)
}

func (p *javaPool) start(n int) *attempt {
	p.last = plainPermits(n)
	return p.begin("acquire", n)
}

func (p *javaPool) granted() []string { return p.last }

func (p *javaPool) tryAcquire(t *testing.T, n int, _, wait time.Duration) []string {
	t.Helper()
	if !p.object.Do(t, "tryAcquire", n, wait).Bool() {
		return nil
	}
	return plainPermits(n)
}

func (p *javaPool) give(t *testing.T, ids ...string) {
	t.Helper()
	p.release(t, ids...)
}

func (p *javaPool) release(t *testing.T, ids ...string) {
	t.Helper()
	p.object.Do(t, "release", len(ids))
}

func (p *javaPool) releaseIfExists(t *testing.T, n int) bool {
	t.Helper()
	return p.object.Do(t, "releaseIfExists", n).Bool()
}

func (p *javaPool) drain(t *testing.T) int {
	t.Helper()
	return int(p.object.Do(t, "drainPermits").Int())
}

func (p *javaPool) free(t *testing.T) int {
	t.Helper()
	return int(p.object.Do(t, "availablePermits").Int())
}
