package owner

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestWhatMayMoveToAnotherSession(t *testing.T) {
	const now = s
	for name, tt := range map[string]struct {
		prepare func(c *testClaim, g *grant)
		stays   error
	}{
		"the only hold":                  {func(*testClaim, *grant) {}, nil},
		"two holds":                      {func(c *testClaim, g *grant) { c.nest(g, 0) }, nil},
		"one that others were lost with": {func(_ *testClaim, g *grant) { g.Lose() }, nil},
		"one that has a token":           {func(c *testClaim, g *grant) { c.Reentered(g, 7) }, nil},
		"one that has guarded":           {func(_ *testClaim, g *grant) { g.Guarding(1); g.Guarding(-1) }, nil},
		"one besides a detached one": {
			func(c *testClaim, g *grant) { c.Drop(g, c.nest(g, 0), true, true, now) }, errDetached,
		},
		"one besides the other half": {func(c *testClaim, _ *grant) { c.take(Shared, "w", 0) }, errOtherHalf},
		"one besides a detached one of the other half": {
			func(c *testClaim, _ *grant) {
				other := c.take(Shared, "w", 0)
				c.Drop(other, other.live, true, true, now)
			}, errOtherHalf,
		},
		"one besides one whose lease is over": {
			func(c *testClaim, _ *grant) {
				other := c.take(Shared, "w", -length)
				c.Drop(other, other.live, true, true, now)
			}, nil,
		},
		"one of several names":               {func(_ *testClaim, g *grant) { g.Together(2) }, errTogether},
		"one name alone":                     {func(_ *testClaim, g *grant) { g.Together(1) }, nil},
		"one whose release may be sent":      {func(c *testClaim, g *grant) { c.SetReturned(g, 0) }, errDoubt},
		"one whose count is still to be set": {func(_ *testClaim, g *grant) { g.SetCorrecting(true) }, errDoubt},
		"one that guards a call":             {func(_ *testClaim, g *grant) { g.Guarding(1) }, errDoubt},
		"one whose lease may be made another": {
			func(_ *testClaim, g *grant) { g.live.unsure = now + 1 }, errDoubt,
		},
		"one whose lease may be trimmed": {
			func(c *testClaim, g *grant) { c.BeginTrim(g, now, length); c.TrimInDoubt(now, s) }, errDoubt,
		},
		"one whose lease was trimmed": {
			func(c *testClaim, g *grant) { c.BeginTrim(g, now, length); c.Trimmed(g, now) }, nil,
		},
		"one beside which a release of the other half is in doubt": {
			func(c *testClaim, _ *grant) { c.note().doubt() }, errDoubt,
		},
		"a copy of the acquisition that may come": {
			func(_ *testClaim, g *grant) { g.setCopies(now + s) }, EarlyError(s),
		},
		"one that may come no more": {
			func(_ *testClaim, g *grant) { g.setCopies(now) }, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var c testClaim
			g := c.take(Exclusive, "w", 0)
			tt.prepare(&c, g)
			assert.Equal(t, tt.stays, c.Stays(g, now))
		})
	}
}

// Holds that move count for one there. Here they count for ever, so nothing gives them back.
func TestWhatHasMoved(t *testing.T) {
	var from, to testClaim
	g, there, all := from.take(Exclusive, "w", 0), new(grant), new(hold)
	*g.Acked() = Acked{3 * s, true}
	second := from.nest(g, 0)
	there.Begin("there", Exclusive, g.Wire, 0, 0)
	g.Move(there, all, s, func(d time.Duration) time.Duration { return d + time.Minute })
	from.Drop(g, g.live, true, false, s)
	from.Drop(g, g.live, true, false, s)
	all.Begin("all", s, time.Minute+trust)
	to.Add(there, all, 0, true)

	assert.Equal(t, rare[string]{
		acked: Acked{time.Minute + 3*s, true}, move: move[string]{all: all, more: 1},
	}, *there.rare)
	assert.Equal(t, time.Minute+length, there.until)
	assert.Equal(t, 2, there.Count(s))
	_, count := to.Believed(Exclusive, s)
	assert.Equal(t, 2, count)
	assert.False(t, to.Passes(there, all, s, 0), "the server counts two")
	assert.Equal(t, 3, to.Number(there, Exclusive, length, s))
	nested := to.nest(there, s)
	assert.Equal(t, 3, there.Count(s))
	to.Drop(there, all, true, false, s)
	assert.Equal(t, 1, there.Count(s))
	to.Drop(there, nested, true, false, s)
	assert.Zero(t, there.Count(s))

	assert.False(t, from.Holds())
	assert.Equal(t, 2, g.Count(s))
	assert.Equal(t, Duty{Correct: true}, from.Owe(g, from.Remaining(g, s), s, length), "never a debt")
	_, _, until := new(from.Owe(g, Remaining{Owner: "w"}, s, length).Debt).Terms()
	assert.Equal(t, forever, until, "or one that lasts: the lease may be longer there")
	means, _ := from.Replied(g, Remaining{Owner: "w", Count: 2}, s, s, ReadReleased(0), length)
	assert.Equal(t, Lowered, means, "it has been given back there")
	g.Lose()
	assert.Zero(t, from.Sweep(g, s, false))
	assert.Zero(t, from.Recheck(g, s, s, length))
	assert.False(t, from.Passes(g, second, s, 0))
}
