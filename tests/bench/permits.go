package bench

import (
	"context"
	"crypto/rand"
	"testing"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/semaphore"
)

// Leased makes semaphores with that many permits that have leases. A permit is taken like a lock.
func Leased(permits int) Kind {
	return func(s *holdfast.Session, name string) holdfast.Locker {
		e := semaphore.NewExpirable(s, name, nil)
		_, _ = e.TrySetPermits(context.Background(), permits) // every call returns an error of it
		return leased{e}
	}
}

type leased struct{ *semaphore.Expirable }

func (l leased) Lock(ctx context.Context) (*holdfast.Hold, error)    { return l.Acquire(ctx) }
func (l leased) TryLock(ctx context.Context) (*holdfast.Hold, error) { return l.TryAcquire(ctx) }

// Permits takes a permit without a lease and gives it back.
func Permits(tb testing.TB, s *holdfast.Session, c rueidis.Client, name string) (ours, bare func()) {
	p, acquire, add := semaphore.New(s, name), sha("semaphore_acquire"), sha("semaphore_add")
	ctx := context.Background()
	_, err := p.TrySetPermits(ctx, 2)
	must(tb, err)
	bare = func() {
		_, err := c.Do(ctx, c.B().Evalsha().Sha1(acquire).Numkeys(1).Key(name).
			Arg("1", notAfter()).Build()).AsIntSlice()
		must(tb, err)
		_, err = c.Do(ctx, c.B().Evalsha().Sha1(add).Numkeys(1).Key(name).
			Arg("1", "1", "PUBLISH", "redisson_sc:{"+name+"}", "1").Build()).AsIntSlice()
		must(tb, err)
	}
	return func() {
		must(tb, p.Acquire(ctx, 1))
		must(tb, p.Release(ctx, 1))
	}, bare
}

// LeasedPermits takes a permit that has a lease and gives it back.
func LeasedPermits(tb testing.TB, s *holdfast.Session, c rueidis.Client, name string) (ours, bare func()) {
	e := Leased(2)(s, name)
	acquire, release := sha("semaphore_acquire_expirable"), sha("semaphore_release_expirable")
	ctx, taken, channel := context.Background(), "{"+name+"}:timeout", "redisson_sc:{"+name+"}"
	bare = func() {
		id := make([]byte, 16)
		_, _ = rand.Read(id) // never fails
		_, err := c.Do(ctx, c.B().Evalsha().Sha1(acquire).Numkeys(2).Key(name, taken).
			Arg("30000", notAfter(), "PUBLISH", channel, "1", "", "0", string(id)).Build()).AsInt64()
		must(tb, err)
		_, err = c.Do(ctx, c.B().Evalsha().Sha1(release).Numkeys(2).Key(name, taken).
			Arg("PUBLISH", channel, "1", "", string(id)).Build()).AsInt64()
		must(tb, err)
	}
	return func() { cycle(tb, ctx, e) }, bare
}
