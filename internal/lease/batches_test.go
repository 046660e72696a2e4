package lease_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/lease"
)

func TestABatchHasAtMostFiveHundred(t *testing.T) {
	keep(t, func(k *keeper) {
		for _, it := range items(1201, "a") {
			k.Add(it, 0)
		}
		k.until(period)
		assert.ElementsMatch(t, []int{500, 500, 201}, sizes(k.took()))
		k.until(2 * period)
		assert.ElementsMatch(t, []int{500, 500, 201}, sizes(k.took()))
	})
}

func TestGroupsNeverMix(t *testing.T) {
	keep(t, func(k *keeper) {
		groups := []lease.Group{{"read", 0}, {"read", 1}, {"write", 0}, {"write", 1}}
		of := map[string]lease.Group{}
		for i, it := range items(40, "x") {
			it.group = groups[i%len(groups)]
			of[it.name] = it.group
			k.Add(it, time.Duration(i))
		}
		k.until(period + 40)
		calls := k.took()
		assert.Len(t, calls, len(groups))
		for _, c := range calls {
			assert.Len(t, c.names, 10)
			for _, name := range c.names {
				assert.Equal(t, of[c.names[0]], of[name])
			}
		}
	})
}

// Items that are not due fill a call, but never cause one.
func TestACallIsFilledByWhatIsDueFirst(t *testing.T) {
	keep(t, func(k *keeper) {
		all := items(502, "a")
		for i, it := range all {
			k.Add(it, time.Duration(i))
		}
		k.Add(items(1, "b")[0], 1)
		k.until(period)
		calls := k.took()
		require.Equal(t, []int{500}, sizes(calls))
		for _, it := range all[500:] {
			assert.NotContains(t, calls[0].names, it.name)
		}
		k.until(period + 499)
		assert.Equal(t, []call{{period + 1, []string{"b0"}}}, k.took())
		k.until(period + 500)
		assert.Equal(t, []call{{period + 500, []string{"a500", "a501"}}}, k.took())
	})
}

// Guarantee G9 and the limits of cost demand that all calls but a few are full.
func TestTenThousandNeedFewCallsPerPeriod(t *testing.T) {
	const n, full, few = 10_000, 20, 3
	spread := func(i int) time.Duration { return time.Duration(i) * period / n }
	for name, sent := range map[string]func(int) time.Duration{
		"taken at once":         func(int) time.Duration { return 0 },
		"within a second":       func(i int) time.Duration { return spread(i) / 60 },
		"evenly over a period":  spread,
		"in twenty bursts":      func(i int) time.Duration { return spread(i / 500 * 500) },
		"in nineteen bursts":    func(i int) time.Duration { return spread(i / 527 * 527) },
		"at random in a period": func(int) time.Duration { return rand.N(period) },
	} {
		t.Run(name, func(t *testing.T) {
			keep(t, func(k *keeper) {
				addAll(k, items(n, "a"), sent)
				for range 3 {
					k.until(k.now() + period)
					calls := k.took()
					assert.LessOrEqual(t, len(calls), full+few, "%v", sizes(calls))
					assertAllRenewed(t, calls, n)
				}
			})
		})
	}
}

// Each slot of a cluster is a group, with few names: one call per period is enough.
func TestAGroupNeedsOneCallPerPeriod(t *testing.T) {
	const groups, each = 100, 20
	keep(t, func(k *keeper) {
		all := items(groups*each, "a")
		for i, it := range all {
			it.group = lease.Group{Slot: uint16(i % groups)}
		}
		addAll(k, all, func(int) time.Duration { return rand.N(period) })
		k.until(k.now() + period) // until those whose first renewals came last are with the others
		k.took()
		for range 3 {
			k.until(k.now() + period)
			calls := k.took()
			assert.Len(t, calls, groups)
			assertAllRenewed(t, calls, len(all))
		}
	})
}

// addAll adds the items, each at the moment at which its lease was sent, and lets two periods pass since the
// beginning.
func addAll(k *keeper, all []*item, sent func(int) time.Duration) {
	moments := make([]time.Duration, len(all))
	for i := range moments {
		moments[i] = sent(i)
	}
	slices.Sort(moments)
	for i, it := range all {
		k.until(moments[i])
		k.Add(it, moments[i])
	}
	k.until(2 * period)
	k.took()
}

// assertAllRenewed asserts that n different items were renewed, in batches of legal size.
func assertAllRenewed(t *testing.T, calls []call, n int) {
	t.Helper()
	seen := map[string]bool{}
	for _, c := range calls {
		require.LessOrEqual(t, len(c.names), lease.BatchSize)
		for _, name := range c.names {
			seen[name] = true
		}
	}
	assert.Len(t, seen, n)
}

func sizes(calls []call) []int {
	all := make([]int, len(calls))
	for i, c := range calls {
		all[i] = len(c.names)
	}
	return all
}
