package lease_test

import (
	"math"
	"math/big"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/lease"
)

const (
	forever = time.Duration(math.MaxInt64)
	day     = 24 * time.Hour
)

func TestMarginIsOnePercentAndUpToFiftyMilliseconds(t *testing.T) {
	for length, want := range map[time.Duration]time.Duration{
		0:                       0,
		1:                       0,
		lease.Min:               350 * time.Microsecond,
		time.Second:             35 * time.Millisecond,
		1999 * time.Millisecond: 19990*time.Microsecond + 49975*time.Microsecond,
		2 * time.Second:         70 * time.Millisecond, // from here on the timers' part has reached its limit
		3 * time.Second:         80 * time.Millisecond,
		30 * time.Second:        350 * time.Millisecond,
		day:                     864*time.Second + 50*time.Millisecond,
		forever:                 forever/100 + 50*time.Millisecond,
	} {
		assert.Equal(t, want, lease.Margin(length), length)
	}
}

func TestTrustIsCountedFromTheSending(t *testing.T) {
	for _, c := range []struct{ sent, length, want time.Duration }{
		{0, 0, 0},
		{0, 10 * time.Millisecond, 9650 * time.Microsecond},
		{0, 30 * time.Second, 29650 * time.Millisecond},
		{time.Hour, 30 * time.Second, time.Hour + 29650*time.Millisecond},
		{0, forever, forever - forever/100 - 50*time.Millisecond},
		{forever / 100, forever, forever - 50*time.Millisecond},
		{forever / 50, forever, forever}, // there are no later moments than the last
		{forever, forever, forever},
		{forever, 30 * time.Second, forever},
	} {
		assert.Equal(t, c.want, lease.Trust(c.sent, c.length), "%v for %v", c.sent, c.length)
	}
}

func TestALeaseForATrustIsNoLongerThanItMustBe(t *testing.T) {
	for _, length := range []time.Duration{
		1, lease.Min, time.Second, 1999 * time.Millisecond, 2*time.Second - 1, 2 * time.Second, 30 * time.Second,
		day, forever,
	} {
		trust := lease.Trust(0, length)
		got := lease.For(trust)
		assert.GreaterOrEqual(t, lease.Trust(0, got), trust, length)
		assert.InDelta(t, float64(length), float64(got), 10, length)
	}
	assert.Equal(t, forever, lease.For(forever))
	assert.Negative(t, lease.For(-time.Second))
}

func TestAddStopsAtTheLargestMoment(t *testing.T) {
	for _, c := range []struct{ moment, d, want time.Duration }{
		{0, 0, 0},
		{time.Second, time.Minute, 61 * time.Second},
		{time.Second, -time.Minute, -59 * time.Second},
		{0, forever, forever},
		{1, forever - 1, forever},
		{1, forever, forever},
		{forever, 1, forever},
		{forever, forever, forever},
		{forever, -1, forever - 1},
	} {
		assert.Equal(t, c.want, lease.Add(c.moment, c.d), "%d + %d", c.moment, c.d)
	}
}

func TestMillisAreWholeAndNeverTooFew(t *testing.T) {
	for length, want := range map[time.Duration]string{
		0:                                 "0",
		1:                                 "1",
		time.Millisecond - 1:              "1",
		time.Millisecond:                  "1",
		time.Millisecond + 1:              "2",
		lease.Min:                         "10",
		1500 * time.Microsecond:           "2",
		30 * time.Second:                  "30000",
		30*time.Second + time.Microsecond: "30001",
		forever:                           "9223372036855",
	} {
		assert.Equal(t, want, lease.Millis(length), length)
	}
}

func TestLimitsFollowTheLease(t *testing.T) {
	assert.Equal(t, 10*time.Second, lease.NotAfter(30*time.Second))
	assert.Equal(t, time.Second/3, lease.Bound(time.Second))
	assert.Equal(t, 5*time.Second, lease.Bound(15*time.Second))
	assert.Equal(t, 5*time.Second, lease.Bound(forever))
}

// Whatever the numbers are, trust ends before the lease does, and not before it began. A moment that cannot be
// represented becomes the last one, not one in the past.
func FuzzTrustNeverOutlastsTheLease(f *testing.F) {
	for _, n := range []int64{
		0, 1, int64(lease.Min), int64(30 * time.Second), int64(day), math.MaxInt64 / 2,
		math.MaxInt64 - 1, math.MaxInt64,
	} {
		f.Add(n, int64(30*time.Second))
		f.Add(int64(time.Hour), n)
		f.Add(n, n)
	}
	f.Fuzz(func(t *testing.T, sent, length int64) {
		if sent < 0 || length < 0 {
			return
		}
		trust := lease.Trust(time.Duration(sent), time.Duration(length))
		require.GreaterOrEqual(t, int64(trust), sent)
		end := new(big.Int).Add(big.NewInt(sent), big.NewInt(length))
		require.LessOrEqual(t, big.NewInt(int64(trust)).Cmp(end), 0,
			"trusted until %d, the lease ends at %v", trust, end)
		if end.IsInt64() {
			margin := int64(lease.Margin(time.Duration(length)))
			require.Equal(t, end.Int64()-margin, int64(trust))
		}
	})
}

func FuzzMillisRoundUp(f *testing.F) {
	for _, n := range []int64{0, 1, 999_999, 1_000_000, 1_000_001, math.MaxInt64} {
		f.Add(n)
	}
	f.Fuzz(func(t *testing.T, length int64) {
		if length < 0 {
			return
		}
		ms, err := strconv.ParseInt(lease.Millis(time.Duration(length)), 10, 64)
		require.NoError(t, err)
		more := new(big.Int).Mul(big.NewInt(ms), big.NewInt(int64(time.Millisecond)))
		more.Sub(more, big.NewInt(length))
		require.True(t, more.Sign() >= 0 && more.Cmp(big.NewInt(int64(time.Millisecond))) < 0,
			"%d ms for %d ns", ms, length)
	})
}

// A queue has the length of a grant as a number of steps of 10 ms.
func TestTheLengthOfAGrant(t *testing.T) {
	for length, want := range map[time.Duration]time.Duration{
		time.Hour: 9500 * time.Millisecond, 1239 * time.Millisecond: 1230 * time.Millisecond, lease.Min: lease.Min,
	} {
		assert.Equal(t, want, lease.Grant(length))
	}
}
