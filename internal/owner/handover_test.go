package owner

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestWhatMayPassToAnotherOwner(t *testing.T) {
	const now = s
	for name, tt := range map[string]struct {
		prepare func(c *testClaim, g *grant)
		passes  bool
	}{
		"the only hold":               {func(*testClaim, *grant) {}, true},
		"one of two":                  {func(c *testClaim, g *grant) { c.nest(g, 0) }, false},
		"the last of two":             {func(c *testClaim, g *grant) { c.nest(g, 0); c.end(g, now) }, true},
		"one besides a detached one":  {func(c *testClaim, g *grant) { c.Drop(g, c.nest(g, 0), true, true, now) }, false},
		"one besides the other half":  {func(c *testClaim, _ *grant) { c.take(Shared, "w", 0) }, false},
		"one that is being prolonged": {func(c *testClaim, _ *grant) { c.Ask("w", length, now) }, false},
		"one whose lease may have been made another": {
			func(_ *testClaim, g *grant) { g.live.unsure = 1 }, false,
		},
		"one that is not renewed":                 {func(_ *testClaim, g *grant) { g.renewed = 0 }, false},
		"one that others were lost with":          {func(_ *testClaim, g *grant) { g.Lose() }, false},
		"one that the server has nothing of":      {func(_ *testClaim, g *grant) { g.Gone() }, false},
		"one whose release may have been sent":    {func(c *testClaim, g *grant) { c.SetReturned(g, 0) }, false},
		"one whose count is still to be set":      {func(_ *testClaim, g *grant) { g.SetCorrecting(true) }, false},
		"one that guards a call":                  {func(_ *testClaim, g *grant) { g.Guarding(1) }, false},
		"one that has guarded":                    {func(_ *testClaim, g *grant) { g.Guarding(1); g.Guarding(-1) }, true},
		"one of several names":                    {func(_ *testClaim, g *grant) { g.Together(2) }, false},
		"one name alone":                          {func(_ *testClaim, g *grant) { g.Together(1) }, true},
		"one whose token another one would reuse": {func(c *testClaim, g *grant) { c.Reentered(g, 7) }, false},
		"one that is trusted for long enough":     {func(_ *testClaim, g *grant) { g.live.Limit(now + length/2) }, true},
		"one that is not":                         {func(_ *testClaim, g *grant) { g.live.Limit(now + length/2 - 1) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			var c testClaim
			g := c.take(Exclusive, "w", 0)
			tt.prepare(&c, g)
			assert.Equal(t, tt.passes, c.Passes(g, g.live, now, length/2))
		})
	}
}

func TestWhatHasPassedIsTheHeirs(t *testing.T) {
	var c testClaim
	g := c.take(Exclusive, "w", 0)
	first, heir := g.live, new(hold)
	assert.False(t, g.Passed())
	assert.Zero(t, g.Since(first))
	heir.Begin("heir", s, first.Trust())
	c.Pass(g, heir)
	assert.True(t, g.Passed())
	assert.Equal(t, s, g.Since(heir))
	assert.False(t, c.Passes(g, first, s, time.Nanosecond), "it has passed")
	assert.Equal(t, Remaining{Owner: "w", Count: 1}, c.Remaining(g, s))

	_, own, _ := c.Next(new(Request), Exclusive, true)
	assert.Same(t, g, own, "the heir re-enters it")
	c.nest(g, s)
	assert.Equal(t, 2, c.Remaining(g, s).Count)
	c.end(g, s)
	last, unwatch := c.Drop(g, heir, true, false, s)
	assert.True(t, last)
	assert.True(t, unwatch, "it was renewed on and on")
	assert.Equal(t, Remaining{Owner: "w"}, c.Remaining(g, s))
	assert.False(t, c.Holds())
}

// The server forgets a detached heir no sooner than its lease ends, though the heir has begun after that.
func TestADetachedHeirCountsUntilTheServerHasForgottenIt(t *testing.T) {
	var c testClaim
	g := c.take(Exclusive, "w", 0)
	heir := new(hold)
	now := trust - length/2 // the last moment at which it may pass
	heir.Begin("heir", now, g.live.Trust())
	c.Pass(g, heir)
	c.Drop(g, heir, true, true, now)
	assert.Equal(t, 1, c.Remaining(g, length).Count)
	assert.Zero(t, c.Remaining(g, length+s).Count)
}
