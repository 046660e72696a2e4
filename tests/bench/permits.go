package bench

import (
	"context"
	"crypto/rand"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// MeasurePermits measures for 10 s how goroutines of several sessions take one permit each, hold it for a moment, and
// give it back. The shares are shares of the acquisitions.
func MeasurePermits(tb testing.TB, sessions, goroutines, permits int, held time.Duration) Contended {
	srv := redistest.Start(tb)
	counts := make([]int64, sessions*goroutines)
	var pools []*semaphore.Semaphore
	for range sessions {
		p := semaphore.New(open(tb, 30*time.Second, srv.Addr()), "pool")
		_, err := p.TrySetPermits(context.Background(), permits)
		must(tb, err)
		must(tb, p.Acquire(context.Background(), 1))
		must(tb, p.Release(context.Background(), 1))
		pools = append(pools, p)
	}
	srv.ResetStats(tb)
	ctx, cancel := context.WithTimeout(context.Background(), contendFor)
	defer cancel()
	var wg sync.WaitGroup
	for i := range counts {
		wg.Go(func() {
			for p := pools[i/goroutines]; p.Acquire(ctx, 1) == nil; {
				counts[i]++
				if held > 0 {
					time.Sleep(held)
				}
				must(tb, p.Release(ctx, 1))
			}
		})
	}
	wg.Wait()
	return contended(tb, srv, counts, sessions)
}

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
			Arg("1", "1", "PUBLISH", "redisson_sc:{"+name+"}").Build()).AsIntSlice()
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
			Arg("30000", notAfter(), "PUBLISH", channel, string(id)).Build()).AsIntSlice()
		must(tb, err)
		_, err = c.Do(ctx, c.B().Evalsha().Sha1(release).Numkeys(2).Key(name, taken).
			Arg("PUBLISH", channel, string(id)).Build()).AsInt64()
		must(tb, err)
	}
	return func() { cycle(tb, ctx, e) }, bare
}

// contended sums up the counts of the goroutines, which are grouped by session.
func contended(tb testing.TB, srv *redistest.Server, counts []int64, sessions int) Contended {
	var c Contended
	perSession, goroutines := make([]int64, sessions), len(counts)/sessions
	for i, n := range counts {
		c.Acquisitions += n
		perSession[i/goroutines] += n
	}
	var commands int64
	for _, name := range []string{"evalsha", "eval", "subscribe", "unsubscribe"} {
		commands += srv.CommandStats(tb)[name]
	}
	c.PerSecond = float64(c.Acquisitions) / contendFor.Seconds()
	c.Commands = float64(commands) / float64(c.Acquisitions)
	c.Session = float64(slices.Min(perSession)) * float64(sessions) / float64(c.Acquisitions)
	c.Goroutine = float64(slices.Min(counts)) * float64(len(counts)) / float64(c.Acquisitions)
	return c
}
