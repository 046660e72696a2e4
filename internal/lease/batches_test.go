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

// What would open another batch before it is due is left for one that it helps to fill.
func TestNoBatchIsMadeOfWhatIsNotDueYet(t *testing.T) {
	keep(t, func(k *keeper) {
		for i, it := range items(502, "a") {
			k.Add(it, time.Duration(i))
		}
		k.Add(items(1, "b")[0], 1)
		k.until(period + 1)
		assert.ElementsMatch(t, []int{500, 1}, sizes(k.took()))
		k.until(period + 499)
		assert.Empty(t, k.took())
		k.until(period + 500)
		assert.Equal(t, []int{2}, sizes(k.took()))
	})
}

// The limit of guarantee G9 with room for little more: every batch but a few is full.
func TestTenThousandNeedFewCallsPerPeriod(t *testing.T) {
	const n, full, few = 10_000, 20, 3
	spread := func(i int) time.Duration { return time.Duration(i) * period / n }
	for name, sent := range map[string]func(int) time.Duration{
		"taken at once":         func(int) time.Duration { return 0 },
		"within the window":     func(i int) time.Duration { return spread(i) / 20 },
		"evenly over a period":  spread,
		"in twenty bursts":      func(i int) time.Duration { return spread(i / 500 * 500) },
		"at random in a period": func(int) time.Duration { return rand.N(period) },
	} {
		t.Run(name, func(t *testing.T) {
			keep(t, func(k *keeper) {
				all := make([]time.Duration, n)
				for i := range all {
					all[i] = sent(i)
				}
				slices.Sort(all)
				for i, it := range items(n, "a") {
					k.until(all[i])
					k.Add(it, all[i])
				}
				k.until(2 * period) // since the first renewal
				k.took()
				for range 3 {
					k.until(k.now() + period)
					assertEachOnce(t, k.took(), n, full+few)
				}
			})
		})
	}
}

// assertEachOnce asserts that n items were renewed, each once, by at most so many calls.
func assertEachOnce(t *testing.T, calls []call, n, limit int) {
	t.Helper()
	seen := map[string]int{}
	for _, c := range calls {
		require.LessOrEqual(t, len(c.names), lease.BatchSize)
		for _, name := range c.names {
			seen[name]++
		}
	}
	assert.LessOrEqual(t, len(calls), limit, "calls: %v", sizes(calls))
	assert.GreaterOrEqual(t, len(seen), n)
}

func sizes(calls []call) []int {
	all := make([]int, len(calls))
	for i, c := range calls {
		all[i] = len(c.names)
	}
	return all
}
