package wait

import (
	"math/rand/v2"
	"time"
)

// The delays between tries of what failed.
const (
	FirstRetry = 5 * time.Millisecond
	LastRetry  = 500 * time.Millisecond
)

// Exponential is a back-off: it starts at least, doubles with each attempt up to most, and takes a
// random time between half and all of that, so that those who wait for the same name spread.
func Exponential(least, most time.Duration) func(attempt int) time.Duration {
	return func(attempt int) time.Duration {
		d := max(least, 1)
		for range attempt - 1 {
			if d >= most/2 {
				d = most
				break
			}
			d *= 2
		}
		d = max(min(d, most), 1)
		return d - rand.N(d/2+1)
	}
}
