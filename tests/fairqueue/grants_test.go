package fairqueue_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestRulesOfGrants drops one rule at a time by which a release hands the lock on. Some run shows what it is good for.
func TestRulesOfGrants(t *testing.T) {
	t.Parallel()
	for w, rule := range map[without]string{
		{once: true}:     "believed",
		{sure: true}:     "believed",
		{unheard: true}:  "heard",
		{comeback: true}: "dropped",
	} {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(5000) {
				if play(regimes["stalls"].scenario(seed), w).violates(rule) {
					t.Logf("seed %d", seed)
					return
				}
			}
			assert.Fail(t, "never seen", rule)
		})
	}
}
