package wait_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast/internal/wait"
)

// Those who have waited for a name for two whole rounds are asked, once each; nobody else is.
func TestThoseWhoWaitForLongAreAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		assert.False(t, q.Round(), "nobody waits")
		head, behind := q.Join(x, false, false), q.Join(x, false, false)
		apart, shares, other := q.Apart(x), q.Apart(x).Share(), q.Join(y, false, false)
		apart.Expect("x:me", "session:1")
		elsewhere := q.Apart(y)
		elsewhere.Expect("y:me", "session:2")
		for range 2 {
			assert.True(t, q.Round())
			q.Notice(x)
		}
		late := q.Join(x, false, false)
		assert.False(t, head.Noticed(), "not yet")
		q.Round()
		for range 2 {
			q.Notice(x)
		}

		for name, p := range map[string]*wait.Place{"head": head, "behind": behind, "apart": apart, "shares": shares} {
			assert.Zero(t, q.wait(p, time.Second), "%s is woken", name)
			assert.True(t, p.Noticed(), name)
			assert.False(t, p.Noticed(), "%s: once", name)
		}
		assert.False(t, other.Noticed(), "of another name")
		assert.False(t, elsewhere.Noticed(), "of another name")
		assert.False(t, late.Noticed(), "who has just come")
		q.Notice(x)
		assert.Equal(t, time.Second, q.wait(head, time.Second), "once")

		for _, p := range []*wait.Place{late, behind, head, apart, shares, other, elsewhere} {
			p.Leave(0)
		}
		assert.False(t, q.Round())
		beside := q.Apart(x).Share()
		assert.True(t, q.Round(), "one beside the line does")
		beside.Leave(0)
	})
}
