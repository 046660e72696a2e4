package wait_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast/internal/wait"
)

func TestExponentialDoublesUpToMostAndSpreads(t *testing.T) {
	backoff := wait.Exponential(time.Millisecond, 100*time.Millisecond)
	for attempt, full := range map[int]time.Duration{
		1: time.Millisecond, 2: 2 * time.Millisecond, 5: 16 * time.Millisecond,
		7: 64 * time.Millisecond, 8: 100 * time.Millisecond, 1000: 100 * time.Millisecond,
	} {
		seen := map[time.Duration]bool{}
		for range 200 {
			d := backoff(attempt)
			assert.LessOrEqual(t, d, full)
			assert.GreaterOrEqual(t, d, full/2)
			seen[d] = true
		}
		assert.Greater(t, len(seen), 10, "attempt %d: the same again and again", attempt)
	}
}

func FuzzExponentialStaysWithinItsBounds(f *testing.F) {
	f.Add(int64(1), int64(100), 3)
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), math.MaxInt)
	f.Add(int64(-5), int64(0), -1)
	f.Add(int64(100), int64(1), 1)
	f.Fuzz(func(t *testing.T, least, most int64, attempt int) {
		d := wait.Exponential(time.Duration(least), time.Duration(most))(attempt)
		if d < 0 || most > 0 && d > time.Duration(most) {
			t.Errorf("Exponential(%d, %d)(%d) = %d", least, most, attempt, d)
		}
	})
}
