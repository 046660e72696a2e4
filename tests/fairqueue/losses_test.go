package fairqueue_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestLostKeys loses every combination of keys while the lock is held and four of ours wait, at every phase of their
// calls. All of them are granted the lock.
func TestLostKeys(t *testing.T) {
	t.Parallel()
	// The order in which they are granted is that in which they came, or that of their calls after the loss. What is
	// in neither list may be mixed.
	asTheyCame := []string{" queue", " due", " queue due", " ours", " alive", " ours alive"}
	asTheyCall := []string{
		" queue ours", " queue due ours", " queue alive", " queue due alive", " queue ours alive", " queue due ours alive",
	}

	for _, lost := range keysets {
		t.Run("lost"+lost.String(), func(t *testing.T) {
			for at := 20 * second; at < 25*second; at += 100 {
				s := example(
					holds(javaApp, 60*second), waits(goApp, second), waits(goApp, 4*second), waits(javaApp, 5*second),
					waits(goApp, 7*second), waits(goApp, 10_500),
				)
				s.disappearings = []disappearing{{at: at, lost: lost}}
				w := survives(t, s)
				granted := slices.DeleteFunc(w.referee.seen.order, func(o owner) bool { return o[0] == 'J' })
				switch {
				case slices.Contains(asTheyCame, lost.String()):
					assert.Equal(t, []owner{"G2:1", "G3:1", "G5:1", "G6:1"}, granted, "at %d", at)
				case slices.Contains(asTheyCall, lost.String()):
					assert.Equal(t, w.nextCalls(epoch+at), granted, "at %d", at)
				default:
					assert.Len(t, granted, 4, "at %d", at)
				}
			}
		})
	}
}

// nextCalls returns our owners in the order of their first calls from a time on.
func (w *world) nextCalls(from ms) (order []owner) {
	for _, c := range w.referee.seen.calls {
		if c.at >= from && !slices.Contains(order, c.by) {
			order = append(order, c.by)
		}
	}
	return order
}

// TestLateCopies shows that without a not-after, copies that arrive when their owner has been given back have an
// effect.
func TestLateCopies(t *testing.T) {
	for seed := range uint64(300) {
		if w := play(regimes["lost replies"].scenario(seed), without{notAfter: true}); w.violates("ghost") {
			return
		}
	}
	require.Fail(t, "never seen")
}
