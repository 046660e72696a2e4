package interop_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/entry"
)

// What is proven on one server is proven in a cluster of three masters too, with sharded pub/sub where they have that:
// since Redis 7.0.
func TestCluster(t *testing.T) {
	t.Parallel()
	s := clustered(t)
	locks := slices.Concat(cells(kinds...), cells(fairKinds...))
	for _, part := range []struct {
		name    string
		require func(t *testing.T)
	}{
		{"exclusion", func(t *testing.T) {
			requireExclusion(t, s, slices.Concat(locks, cells(severalKinds...)))
			requireRWExclusion(t, s)
			requirePermitsExclusion(t, s)
		}},
		{"readings", func(t *testing.T) {
			requireSameReadings(t, s, locks)
			requireTokensGrow(t, s)
			requireRWReadsTheSame(t, s)
			requireMembersReadTheSame(t, s)
			requireStates(t, s, semaphores, semaphoreSteps)
			requireStates(t, s, expirables, expirableSteps)
			requireIDsCrossOver(t, s)
		}},
		{"inspection", func(t *testing.T) { requireSameAnswers(t, s, slices.Concat(locks, cells(halves...))) }},
		{"force", func(t *testing.T) { requireForceWakes(t, s, slices.Concat(locks, clashes())) }},
		{"names", func(t *testing.T) {
			users := cells(semaphores, expirables)
			requireNames(t, s, slices.Concat(locks, cells(halves...), cells(severalKinds...), users))
		}},
		{"entries", func(t *testing.T) {
			inMap := keyOf("default", "string", "anna", entry.Kryo5Codec)
			requireSharedEntry(t, s.fleet(fleetOptions{}), "map", inMap, []kind{plain, fair, reading, semaphores, expirables})
		}},
	} {
		s.fleet(fleetOptions{}).clear(t)
		t.Run(part.name, part.require)
	}
}

func TestClusterReleaseWakesTheOtherSide(t *testing.T) {
	s := clustered(t)
	requireReleaseWakes(t, s, slices.Concat(cells(woken...), cells(fairKinds...), cells(severalKinds...)))
	requireRWReleaseWakes(t, s)
	requireGiftsWake(t, s, semaphores, semaphoreGifts[0])
	requireGiftsWake(t, s, expirables, expirableGifts[0])
}

func TestLatchInCluster(t *testing.T) {
	s := clustered(t)
	requireStates(t, s, latches, latchSteps)
	requireLatchOpens(t, s)
	requireNames(t, s, cells(latches))
	requireTaggedLatchRefused(t, s)
}

// Leases take their time, so all of this is done at once.
func TestClusterLeases(t *testing.T) {
	t.Parallel()
	s := clustered(t)
	locks := slices.Concat(cells(kinds...), cells(fairKinds...), clashes(), cells(severalKinds...))
	var parts sync.WaitGroup
	part := func(name string, require func(t *testing.T)) { parts.Go(func() { t.Run(name, require) }) }
	part("crash", func(t *testing.T) {
		requireFreedByLease(t, s, locks)
		requireFreedByPermitLease(t, s)
	})
	part("watchdog", func(t *testing.T) { requireWatchdog(t, s, locks) })
	part("watchdog of permits", func(t *testing.T) { requirePermitWatchdog(t, s) })
	parts.Wait()
}
