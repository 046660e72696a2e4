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
		"it has not told again": {{0, 3, 1, 8 * time.Second}, {5 * time.Second, 0, 0, 3 * time.Second}},
		"restarted":             {{0, 3600, 1, 0}, {time.Minute, 0, 2, 10 * time.Second}, {10 * time.Second, 10, 2, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s servers
				for _, g := range grants {
					time.Sleep(g.after)
					_, ripe, _ := s.ripe(0, s.known(0), age{at: time.Now(), up: g.up, run: g.run}, length)
					assert.Equal(t, g.ripe, max(time.Until(ripe), 0))
				}
			})
		})
	}
}

// A server that its connection and its mark show to be the one that it was need not tell its age again.
func TestAServerIsAskedForItsAgeAgainAfterAnotherConnection(t *testing.T) {
	const length = 10 * time.Second
	now := time.Now()
	var s servers
	first := s.known(0)
	assert.Equal(t, "age", first.age(3))
	s.ripe(0, first, age{now, 3, 3600, 1, 0xabc}, length)
	known := s.known(0)
	assert.Equal(t, "table: 0xabc", known.age(3))
	assert.Equal(t, "age", known.age(4), "another connection")
	assert.Equal(t, "age", known.age(unknown), "a client that does not tell of its connections")

	run, ripe, _ := s.ripe(0, known, age{at: now, links: 3}, length)
	assert.EqualValues(t, 1, run)
	assert.Less(t, ripe, now)
	run, ripe, _ = s.ripe(0, known, age{at: now, links: unknown}, length)
	assert.Zero(t, run, "the connection may have been another one")
	assert.Equal(t, now.Add(length), ripe)

	s.ripe(0, known, age{now, unknown, 3601, 1, 0xabc}, length)
	known = s.known(0)
	assert.Equal(t, "age", known.age(unknown))
	assert.Equal(t, "age", known.age(3))
	s.ripe(0, known, age{now, 5, 3602, 1, 0}, length)
	known = s.known(0)
	assert.Equal(t, "age", known.age(6), "a server without a mark")
}
