package interop_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/tests/interop"
	"github.com/holdfast-go/holdfast/tests/kit"
)

// The end of a lease of one side wakes who waits on the other, who was told of it when it last asked.
func TestExpirableLeaseEndWakesTheOtherSide(t *testing.T) {
	const lease = 1500 * time.Millisecond // it is waited for before it is over, also on a busy machine
	t.Parallel()
	for _, holder := range languages {
		t.Run(holder.name+" has had it", func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, fleetOptions{})
			for _, n := range []int{1, 2} {
				for _, beside := range []time.Duration{0, semaphore.Forever, time.Hour} { // of a permit that stays taken
					name := fmt.Sprint(n, " beside ", beside)
					h, w := holder.expirable(t, f, name), holder.other().expirable(t, f, name)
					require.True(t, h.trySet(t, n))
					if beside > 0 {
						h.add(t, 1)
						h.acquire(t, 1, beside)
					}
					began := time.Now()
					h.acquire(t, n, lease)
					a := f.waitFor(t, name, w, n)
					a.await(t, lease+promptly)
					took := a.granted.Sub(began)
					t.Logf("%s: a lease of %v, over after %v", name, lease, took)
					require.GreaterOrEqual(t, took, lease-5*time.Millisecond, name)
					require.Len(t, w.granted(), n)
				}
			}
		})
	}
}

// Java reads every lease that Go writes: a fixed one, one that is renewed while it sleeps, and one without end. Nothing
// of it disturbs the JVM.
func TestExpirableJavaReadsTheLeasesOfGo(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetOptions{lease: shortLease})
	jvm := interop.Start(t)
	f.client = connect(t, jvm, f.server())
	type wait struct {
		g, j  expirable
		taken []string
		*attempt
	}
	waits := map[string]wait{}
	for name, lease := range map[string]time.Duration{"fixed": time.Second, "renewed": 0, "for ever": semaphore.Forever} {
		g, j := golang.expirable(t, f, name), java.expirable(t, f, name)
		require.True(t, j.trySet(t, 1))
		taken := g.acquire(t, 1, lease)
		waits[name] = wait{g, j, taken, j.start(1)}
	}
	waits["fixed"].await(t, time.Second+promptly)
	time.Sleep(shortLease + shortLease/3) // Java has been told of a lease that was to end before
	for _, name := range []string{"renewed", "for ever"} {
		w := waits[name]
		requireWaiting(t, w.attempt)
		require.Equal(t, w.taken, slices.Collect(maps.Keys(f.scores(t, name))))
		w.g.give(t, w.taken...)
		w.await(t, promptly)
	}
	for name, w := range waits {
		require.Equal(t, w.j.granted(), slices.Collect(maps.Keys(f.scores(t, name))))
		w.j.release(t, w.j.granted()...)
		requirePermits(t, 1, 0, name, w.g, w.j)
	}
	jvm.Close()
	require.Empty(t, jvm.Log())
}

// A hold of Go that is detached comes to Java when its lease is over, as nobody renews it any more.
func TestExpirableDetachedHoldFreesJava(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetOptions{lease: shortLease})
	g, j := golang.expirable(t, f, "s").(*goExpirable), java.expirable(t, f, "s")
	require.True(t, j.trySet(t, 1))
	permit := g.acquire(t, 1, 0)[0]
	a := f.waitFor(t, "s", j, 1)
	require.NoError(t, g.holds[permit].Detach())
	over := f.scores(t, "s")[permit]
	a.await(t, shortLease+promptly)
	require.GreaterOrEqual(t, a.granted.UnixMilli(), over)
	require.LessOrEqual(t, over, time.Now().UnixMilli())
	requireNotTaken(t, permit, g, j)
	requirePermits(t, 0, 1, "granted", g, j)
}

// The watchdog of Go keeps a permit for as long as its hold lives, here for three leases, though Java does all that has
// permits come back whose leases are over.
func TestExpirableWatchdogKeepsJavaOut(t *testing.T) {
	t.Parallel()
	requirePermitWatchdog(t, alone(t))
}

func requirePermitWatchdog(t *testing.T, s *site) {
	t.Helper()
	f := s.fleet(fleetOptions{lease: shortLease})
	f.proves(t, watchdog, expirableRow, golang)
	name := unique("p")
	g, j := golang.expirable(t, f, name).(*goExpirable), java.expirable(t, f, name)
	waits := java.expirable(t, f, name)
	require.True(t, j.trySet(t, 2))
	ids := g.acquire(t, 2, 0)
	brief := golang.expirable(t, f, unique("brief")) // beside it, one that is not renewed
	require.True(t, brief.trySet(t, 1))
	brief.acquire(t, 1, shortLease)
	a := waits.start(1)
	tries := 0
	for began := time.Now(); time.Since(began) < 3*shortLease; tries++ {
		require.Empty(t, j.tryAcquire(t, 1, time.Minute, 20*time.Millisecond))
		requirePermits(t, 0, 2, "renewed", j)
		for _, id := range ids {
			require.Positive(t, j.remaining(t, id))
			require.NoError(t, g.holds[id].Err())
		}
	}
	t.Log(tries, "tries")
	requireWaiting(t, a)
	require.Equal(t, 1, brief.free(t), "not renewed")
	g.give(t, ids...)
	a.await(t, promptly)
	require.Len(t, j.tryAcquire(t, 1, time.Minute, 0), 1)
	requirePermits(t, 0, 2, "Java's", g, j)
}

// A longer lease that Java gives to a hold of Go does it no harm: it is renewed, and released.
func TestExpirableLongerLeaseOfJavaStays(t *testing.T) {
	t.Parallel()
	for name, lease := range map[string]time.Duration{"long": time.Hour, "for ever": semaphore.Forever} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, fleetOptions{lease: shortLease})
			g, j := golang.expirable(t, f, "s"), java.expirable(t, f, "s")
			require.True(t, g.trySet(t, 1))
			permit := g.acquire(t, 1, 0)[0]
			require.True(t, j.updateLease(t, permit, lease))
			scores := f.scores(t, "s")
			time.Sleep(shortLease + shortLease/3)
			require.Equal(t, scores, f.scores(t, "s"))
			g.give(t, permit) // which wants it to be held still
			requirePermits(t, 1, 0, "given back", g, j)
		})
	}
}

// A holder in Go learns with the next renewal that Java has taken its permit away, and gives back nothing then that
// others have.
func TestExpirableHoldIsLostToJava(t *testing.T) {
	const lease = kit.Lease
	ways := map[string]func(t *testing.T, j expirable, permit string){
		"release":    func(t *testing.T, j expirable, permit string) { j.release(t, permit) },
		"tryRelease": func(t *testing.T, j expirable, permit string) { require.True(t, j.tryRelease(t, permit)) },
		"release of a list": func(t *testing.T, j expirable, permit string) {
			j.(*javaExpirable).object.Do(t, "release", []string{permit})
		},
		"a lease that ends": func(t *testing.T, j expirable, permit string) {
			require.True(t, j.updateLease(t, permit, briefLease))
		},
		"delete": func(t *testing.T, j expirable, _ string) {
			require.True(t, j.remove(t))
			require.True(t, j.trySet(t, 1))
		},
	}
	t.Parallel()
	for name, take := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, fleetOptions{lease: lease})
			g, j := golang.expirable(t, f, "s").(*goExpirable), java.expirable(t, f, "s")
			require.True(t, g.trySet(t, 1))
			hold := g.holds[g.acquire(t, 1, 0)[0]]
			ctx := hold.Context(t.Context())
			taken := time.Now()
			take(t, j, hold.ID())
			j.acquire(t, 1, time.Hour)
			require.NoError(t, hold.Err(), "nobody has told it")
			kit.Within(t, 2*lease/3, ctx.Done(), "a renewal that tells the holder") // far less than its trust lasts
			t.Log("lost after", time.Since(taken))
			require.ErrorIs(t, context.Cause(ctx), holdfast.ErrLost)
			require.ErrorIs(t, hold.Err(), holdfast.ErrLost)
			require.ErrorIs(t, hold.Release(), holdfast.ErrLost)
			requireNotTaken(t, hold.ID(), g, j)
			requirePermits(t, 0, 1, "Java's", g, j)
		})
	}
}

// A hold with a fixed lease asks nobody: its holder learns when it gives it back that Java has done so before.
func TestExpirableFixedHoldIsLostToJava(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetOptions{})
	for name, lease := range map[string]time.Duration{"fixed": time.Minute, "for ever": semaphore.Forever} {
		g, j := golang.expirable(t, f, name).(*goExpirable), java.expirable(t, f, name)
		require.True(t, g.trySet(t, 1))
		hold := g.holds[g.acquire(t, 1, lease)[0]]
		j.release(t, hold.ID())
		j.acquire(t, 1, 0)
		require.NoError(t, hold.Err())
		require.ErrorIs(t, hold.Release(), holdfast.ErrLost)
		requirePermits(t, 0, 1, name, g, j)
	}
}
