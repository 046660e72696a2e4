package wait

import (
	"math/rand/v2"
	"time"
)

// Retry is the delay between a failure and the next try, by the one after the failure before; 0: there was none.
func Retry(last time.Duration) time.Duration { return retry(last, 500*time.Millisecond) }

// RetryRarely is the back-off for calls that are refused, but perhaps not for ever.
func RetryRarely(last time.Duration) time.Duration { return retry(last, time.Minute) }

func retry(last, most time.Duration) time.Duration { return min(max(2*last, 5*time.Millisecond), most) }

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
