package checks

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Else attempts that overlap would have each other check for ever.
func TestWhatAnAttemptWantsIsNoSignForOthers(t *testing.T) {
	var c Checks[int]
	c.running.Store(true) // and goes on with what is wanted meanwhile
	before := c.Signs()
	c.Changed()
	c.Since(before)
	c.Since(before)
	c.Since(c.Signs())
	require.Equal(t, before+1, c.Signs())
	require.EqualValues(t, 3, c.wanted.Load())
}
