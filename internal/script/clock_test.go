package script_test

import (
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/script"
)

const (
	fresh = 30 * time.Second
	epoch = 1_800_000_000_000 // server ms
)

func newClocks(cluster bool) *script.Clocks { return script.NewClocks(cluster, fresh) }

// clockAt is what the clock of key's server will have reached at that time.
func clockAt(c *script.Clocks, key string, t time.Duration) int64 {
	notBefore, _ := c.Window(key, t, time.Minute)
	return notBefore
}

func notAfter(c *script.Clocks, key string, sent, limit time.Duration) int64 {
	_, end := c.Window(key, sent, limit)
	return end
}

func TestNothingIsKnownOfAClockBeforeAReply(t *testing.T) {
	for _, cluster := range []bool{false, true} {
		assert.Zero(t, clockAt(newClocks(cluster), "x", time.Hour))
	}
}

func TestAClockGoesOnFromItsSample(t *testing.T) {
	c := newClocks(false)
	c.Learn("x", epoch, 10*time.Second)
	assert.EqualValues(t, epoch, clockAt(c, "x", 10*time.Second))
	assert.EqualValues(t, epoch+1500, clockAt(c, "x", 11500*time.Millisecond))
	assert.EqualValues(t, epoch-1, clockAt(c, "x", 9999*time.Millisecond))
}

// Whatever the fractions of a millisecond: the server's clock is at least where the session believes it, and not much
// further than the reply took.
func TestAClockIsALowerBound(t *testing.T) {
	for range 2000 {
		ahead := rand.N(time.Hour) // of the server's clock, since its epoch
		server := func(at time.Duration) int64 { return epoch + (ahead + at).Milliseconds() }
		read := rand.N(time.Minute)
		received := read + rand.N(5*time.Millisecond)
		c := newClocks(false)
		c.Learn("x", server(read), received)
		for range 10 {
			at := rand.N(2 * time.Minute)
			require.LessOrEqual(t, clockAt(c, "x", at), server(at))
			require.Greater(t, clockAt(c, "x", at), server(at)-8)
		}
	}
}

// A server's clock that runs 1 % slower than the session's has come to a call's not-after when the session takes that
// to have passed, however old what it knows of the clock is.
func TestANotAfterAllowsForAClockThatIsSlow(t *testing.T) {
	for range 2000 {
		slow := func(at time.Duration) int64 { return epoch + (at - at/100).Milliseconds() }
		limit, received := 3*time.Millisecond+rand.N(time.Minute), rand.N(time.Minute)
		c := newClocks(false)
		c.Learn("x", slow(received), received)
		sent := received + rand.N(100*limit)
		end := notAfter(c, "x", sent, limit)
		require.LessOrEqual(t, end, slow(sent+limit))
		if sent-received < 49*limit {
			require.Greater(t, end, slow(sent+limit)-8)
		}
		require.Zero(t, notAfter(c, "x", received+50*limit, limit), "little would be left")
		require.NotZero(t, notAfter(c, "x", received-limit, limit))
	}
	assert.Zero(t, notAfter(newClocks(false), "x", time.Hour, time.Minute))
}

// A session that hears of the clock all the time knows enough of it, also for a lease that is short.
func TestANotAfterIsKnownWhileThereAreReplies(t *testing.T) {
	const limit = 33 * time.Millisecond // of a lease of 100 ms
	c := newClocks(false)
	c.Learn("x", epoch, 0)
	for at := time.Second; at < fresh; at += time.Second {
		require.NotZero(t, notAfter(c, "x", at, limit), "%v", at)
		c.Learn("x", epoch+at.Milliseconds()-at.Milliseconds()%3, at) // some replies take a little longer
	}
}

func TestASampleGivesWayToAHigherOneOrWhenItIsOld(t *testing.T) {
	const at = 10 * time.Second
	for name, c := range map[string]struct {
		higher int64         // than the first reply
		later  time.Duration // than the first reply
		want   int64         // what is learnt, relative to the first reply
	}{
		"a reply that was faster":       {5, time.Second, 5},
		"the same":                      {0, time.Second, 0},
		"a reply that was slower":       {-5, time.Second, 0},
		"not quite old enough":          {-5, fresh, 0},
		"a server that was set back":    {-3_600_000, fresh + time.Millisecond, -3_600_000},
		"a server that was set forward": {3_600_000, 0, 3_600_000},
	} {
		t.Run(name, func(t *testing.T) {
			for _, cluster := range []bool{false, true} {
				clocks := newClocks(cluster)
				clocks.Learn("x", epoch, at)
				clocks.Learn("x", epoch+c.later.Milliseconds()+c.higher, at+c.later)
				assert.Equal(t, epoch+c.want, clockAt(clocks, "x", at))
			}
		})
	}
}

// However often it is confirmed that a clock is behind what was learnt, in the end this is believed.
func TestAnOldSampleIsNotKeptAliveByLowerOnes(t *testing.T) {
	c := newClocks(false)
	c.Learn("x", epoch, 0)
	for at := time.Second; at <= fresh; at += time.Second {
		c.Learn("x", epoch+at.Milliseconds()-1000, at)
		assert.EqualValues(t, epoch, clockAt(c, "x", 0))
	}
	c.Learn("x", epoch+fresh.Milliseconds()-900, fresh+100*time.Millisecond)
	assert.EqualValues(t, epoch-1000, clockAt(c, "x", 0))
}

func TestAClusterHasAClockForEachSlot(t *testing.T) {
	c := newClocks(true)
	c.Learn("a", epoch, 0)
	c.Learn("b", epoch+5000, 0)
	assert.EqualValues(t, epoch, clockAt(c, "a", 0))
	assert.EqualValues(t, epoch, clockAt(c, "{a}:other", 0), "the same slot")
	assert.EqualValues(t, epoch+5000, clockAt(c, "b", 0))
	assert.Zero(t, clockAt(c, "c", 0))

	single := newClocks(false)
	single.Learn("a", epoch, 0)
	assert.EqualValues(t, epoch, clockAt(single, "b", 0), "the same server")
}

func TestForgottenClocksAreUnknown(t *testing.T) {
	for _, cluster := range []bool{false, true} {
		c := newClocks(cluster)
		c.Learn("a", epoch, 0)
		c.Learn("b", epoch, 0)
		c.Forget()
		assert.Zero(t, clockAt(c, "a", 0))
		assert.Zero(t, clockAt(c, "b", 0))
		c.Learn("a", epoch-5000, time.Second) // another server may be behind
		assert.EqualValues(t, epoch-5000, clockAt(c, "a", time.Second))
	}
}

func TestClocksAreSharedByManyCallers(t *testing.T) {
	for _, cluster := range []bool{false, true} {
		c := newClocks(cluster)
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for n := range 500 {
					key := strconv.Itoa(n % 10)
					c.Learn(key, epoch+int64(i), 0)
					if at := clockAt(c, key, 0); at != 0 {
						assert.LessOrEqual(t, at, int64(epoch+7))
					}
					if n%100 == 0 {
						c.Forget()
					}
				}
			})
		}
		wg.Wait()
	}
}
