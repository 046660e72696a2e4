package kit

import (
	"sync"
	"testing"
)

// Building lets only a few cells start at once: what they wait for afterwards costs nothing, but starting does.
var Building = make(chan struct{}, 2)

// InParallel runs a subtest for each item, at most atOnce at a time. Most of them wait for leases to pass, so more
// than one per processor is right.
func InParallel[T any](t *testing.T, atOnce int, items []T, name func(T) string, test func(*testing.T, T)) {
	queue := make(chan T)
	var wg sync.WaitGroup
	for range atOnce {
		wg.Go(func() {
			for item := range queue {
				t.Run(name(item), func(t *testing.T) { test(t, item) })
			}
		})
	}
	for _, item := range items {
		queue <- item
	}
	close(queue)
	wg.Wait()
}

// UpTo returns the numbers from 1 to n.
func UpTo(n int) []int {
	numbers := make([]int, n)
	for i := range numbers {
		numbers[i] = i + 1
	}
	return numbers
}
