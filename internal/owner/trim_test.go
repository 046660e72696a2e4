package owner

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast/internal/lease"
)

func TestTrims(t *testing.T) {
	const renewal, window = 10 * s, 2 * s
	var c testClaim
	g := c.take(Exclusive, "w", 0)
	c.end(g, 0)
	h := new(hold)
	h.Begin("w", 0, trust) // not renewed
	c.Add(g, h, length, false)

	assert.Empty(t, c.Slack(g, 0, renewal), "its lease is not too long")
	g.Lasts(length + 2*s)
	assert.Equal(t, []string{"w"}, c.Slack(g, 0, renewal))
	assert.True(t, c.Slackens(g, length+2*s, 0, renewal))
	assert.False(t, c.Slackens(g, length, 0, renewal))

	for _, long := range []time.Duration{24 * time.Hour, math.MaxInt64} {
		var c testClaim
		g, h := c.take(Exclusive, "w", 0), new(hold)
		h.Begin("w", 0, lease.Trust(0, long))
		c.Add(g, h, long, false)
		assert.Empty(t, c.Slack(g, 0, renewal), "%v is what it needs", long)
	}

	// What is trusted no more needs no lease, though it may still count: a detached hold until it is forgotten.
	var past testClaim
	ended := past.take(Exclusive, "w", 0)
	assert.Equal(t, time.Duration(0), ended.needs(trust+1))
	assert.Equal(t, time.Duration(0), past.Remaining(ended, trust+1).Lease)

	at := 25 * s
	most := c.BeginTrim(g, at, renewal)
	assert.Equal(t, 4_747_474_748*time.Nanosecond, most, "4.65 s and 50 ms are 99 % of it")
	refused := func(d, now time.Duration) bool {
		trims, _ := c.trims("w", d, now)
		assert.Equal(t, trims, c.Number(g, Exclusive, d, now) == 0)
		may, _ := c.Ask("w", d, now)
		assert.Equal(t, trims, !may)
		if may {
			c.Asked(d)
		}
		return trims
	}
	assert.True(t, refused(most+1, at))
	assert.False(t, refused(most, at))
	_, underWay := c.Ask("w", length, at)
	assert.True(t, underWay)
	trims, _ := c.trims("v", length, at)
	assert.False(t, trims, "another wire owner's lease")

	c.TrimInDoubt(at, window)
	_, underWay = c.Ask("w", length, at)
	assert.False(t, underWay)
	assert.True(t, refused(length, at+2*window-1))
	assert.False(t, refused(length, at+2*window))

	may, _ := c.Ask("w", most, at)
	assert.True(t, may)
	c.Ask("w", renewal, at+2*window)
	assert.Equal(t, renewal, c.BeginTrim(g, at+s, renewal), "nothing below what is asked for")
	c.Asked(renewal)
	c.Asked(most)
	c.Trimmed(g, at+s)
	assert.True(t, refused(length, at+2*window-1), "the first one may still be executed")
	assert.Equal(t, length+2*s, g.until, "it was no longer")

	later := c.BeginTrim(g, at+s, renewal)
	assert.True(t, refused(later+1, at+s), "it leaves less than the first one")
	c.NotTrimmed()
	assert.False(t, refused(most, at+s))
	c.BeginTrim(g, at+s, renewal)
	c.TrimInDoubt(at+s, window)
	assert.True(t, refused(later+1, at+s))
	assert.True(t, refused(length, at+s+2*window-1), "the second one may be executed later")
	assert.Equal(t, later, c.BeginTrim(g, at+s, renewal))
	c.Trimmed(g, at+s)
	assert.Equal(t, at+s+later, g.until)

	c.Drop(g, h, false, false, at+s)
	assert.Zero(t, c.BeginTrim(g, at+s, renewal), "nothing is left")
}

// A call without a reply may make the lease longer after a trim.
func TestATrimSaysNothingOfACallThatMayComeLate(t *testing.T) {
	const long = time.Hour
	var c testClaim
	g := c.take(Exclusive, "w", 0)
	g.MayLast(long)
	assert.NotZero(t, c.BeginTrim(g, s, 10*s))
	c.Trimmed(g, s)
	assert.Equal(t, long, g.until)
}

// A renewal that is heard of while a trim is under way may have been executed after it.
func TestATrimSaysNothingOfALeaseHeardOfMeanwhile(t *testing.T) {
	var c testClaim
	g := c.take(Exclusive, "w", 0)
	g.Lasts(3 * length)
	most := c.BeginTrim(g, s, length)
	g.Lasts(2 * length)
	c.Trimmed(g, s)
	assert.Equal(t, 3*length, g.until)
	c.BeginTrim(g, s, length)
	c.Trimmed(g, s)
	assert.Equal(t, s+most, g.until)
}

// While anything is renewed, a trim leaves what a renewal asks for, since one may be in flight.
func TestATrimLeavesAWholeLease(t *testing.T) {
	var c testClaim
	g := c.take(Exclusive, "w", 0)
	assert.Equal(t, length, c.BeginTrim(g, 20*s, length))
}

// Of trims whose outcome is not known that counts which leaves least, for as long as it may be executed.
func TestTheShortestOfTrimsInDoubtCounts(t *testing.T) {
	const window = s
	var c testClaim
	g, h := new(grant), new(hold)
	g.Begin("w", Exclusive, "w", 0, 0)
	h.Begin("w", 0, 4*s)
	c.Add(g, h, 10*length, false)
	trims := func(now time.Duration) bool {
		most := c.BeginTrim(g, now, length)
		assert.Greater(t, most, 4*s)
		c.TrimInDoubt(now, window)
		trims, _ := c.trims("w", 10*s, now)
		return trims
	}
	assert.True(t, trims(0))
	h.Believe(0, 0, length)
	assert.True(t, trims(s), "the first one may still be executed")
	assert.False(t, trims(s+2*window), "it may not any more, and the others leave more")
}
