package several

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// A server whose clock is set can neither make itself older nor stay young for longer than a lease.
func TestAServerRemembersALeaseWhateverBecomesOfItsClock(t *testing.T) {
	const length = 10 * time.Second
	type grant struct {
		after   time.Duration // since the last answer
		up, run int64         // as the server reports them
		ripe    time.Duration // the server counts from then on
	}
	for name, grants := range map[string][]grant{
		"old": {{0, 3600, 1, 0}, {time.Minute, 3660, 1, 0}},
		"young": {
			{0, 3, 1, 8 * time.Second}, {5 * time.Second, 8, 1, 3 * time.Second}, {5 * time.Second, 13, 1, 0},
		},
		"its clock was set back": {
			{0, 0, 1, 10 * time.Second}, {4 * time.Second, 0, 1, 6 * time.Second}, {6 * time.Second, 0, 1, 0},
		},
		"its clock is set forward": {
			{0, 1, 1, 10 * time.Second}, {4 * time.Second, 3600, 1, 6 * time.Second}, {6 * time.Second, 3600, 1, 0},
		},
		"another in its place": {
			{0, 3600, 1, 0}, {time.Minute, 7200, 2, 10 * time.Second}, {10 * time.Second, 7200, 2, 0},
		},
		"restarted": {{0, 3600, 1, 0}, {time.Minute, 0, 2, 10 * time.Second}, {10 * time.Second, 10, 2, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s servers
				for _, g := range grants {
					time.Sleep(g.after)
					ripe, _ := s.ripe(0, age{time.Now(), g.up, g.run}, length)
					assert.Equal(t, g.ripe, max(time.Until(ripe), 0))
				}
			})
		})
	}
}
