package locks

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// Over some seconds of contention nobody gets less than a quarter of its fair share, however long the lock is held
// each time: neither a session, which is to the server what a process is, nor a goroutine (guarantee G4).
func TestNobodyGetsMuchLessThanItsShare(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sessions, goroutines int
		held                 time.Duration
	}{
		{2, 1, 20 * time.Millisecond},
		{2, 3, 20 * time.Millisecond},
		{4, 4, 5 * time.Millisecond},
		{4, 4, 0},
	} {
		t.Run(fmt.Sprintf("%d × %d, held %v", c.sessions, c.goroutines, c.held), func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			counts := make([]int, c.sessions*c.goroutines)
			sessions := kit.OpenAll(t, slices.Repeat([]*redistest.Server{srv}, c.sessions), nil)
			ctx := kit.Running(t, time.Duration(kit.Stressed(2, 5))*time.Second)
			var wg sync.WaitGroup
			for i, s := range sessions {
				l := kit.Kinds[0].Make(s, "shared", 0)
				for j := range c.goroutines {
					wg.Go(func() { counts[i*c.goroutines+j] = takeTurns(ctx, l, c.held) })
				}
			}
			wg.Wait()
			total := 0
			for _, n := range counts {
				total += n
			}
			for session := range slices.Chunk(counts, c.goroutines) {
				sum := 0
				for _, n := range session {
					sum += n
					assert.GreaterOrEqual(t, 4*n*len(counts), total, "of a goroutine: %v", counts)
				}
				assert.GreaterOrEqual(t, 4*sum*c.sessions, total, "of a session: %v", counts)
			}
			assert.Positive(t, total)
		})
	}
}

// takeTurns takes the lock again and again until ctx ends, and returns how often it got it.
func takeTurns(ctx context.Context, l holdfast.Locker, held time.Duration) (n int) {
	for {
		h, err := l.Lock(ctx)
		if err != nil {
			return n
		}
		n++
		time.Sleep(held)
		_ = h.Release()
	}
}
