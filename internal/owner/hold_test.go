package owner

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestBelief(t *testing.T) {
	var h hold
	h.Begin("", s, 10*s)
	assert.True(t, h.Trusted(10*s-1))
	assert.False(t, h.Trusted(10*s))
	assert.True(t, h.Believe(5*s, 4*s, 14*s))
	assert.True(t, h.Believe(6*s, 3*s, 13*s))
	assert.Equal(t, 14*s, h.Trust(), "an earlier call takes nothing away")
	assert.False(t, h.Believe(14*s, 13*s, 23*s), "no reply revives a hold")
	assert.Equal(t, 14*s, h.Trust())

	before := h.distrust(9 * s)
	assert.Equal(t, 9*s, h.Trust())
	assert.True(t, h.Believe(7*s, 7*s, 17*s))
	assert.Equal(t, 9*s, h.Trust(), "the update may be executed after that call")
	assert.True(t, h.TrustAgain(before, 8*s, 8*s, 6*s, 9*s))
	assert.True(t, h.Believe(8*s, 8*s-1, 30*s))
	assert.Equal(t, 9*s, h.Trust(), "the update may be executed after that call, too")
	assert.True(t, h.Believe(8*s, 8*s, 18*s))
	assert.Equal(t, 18*s, h.Trust())
}

func TestWhatIsBelieved(t *testing.T) {
	var c testClaim
	g := c.take(Exclusive, "w", 0)
	c.nest(g, s)
	wire, count := c.Believed(Exclusive, trust-1)
	assert.Equal(t, "w", wire)
	assert.Equal(t, 2, count)
	_, count = c.Believed(Exclusive, trust)
	assert.Equal(t, 1, count)
	wire, count = c.Believed(Exclusive, trust+s)
	assert.Empty(t, wire)
	assert.Zero(t, count)
	_, count = c.Believed(Shared, 0)
	assert.Zero(t, count)
}
