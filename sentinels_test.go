package holdfast

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestConnectionsToASentinelFollowEachOtherEverMoreRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pace
		var sentinels, servers net.Dialer
		p.mark(&sentinels)
		wait := func(addr string, d *net.Dialer) time.Duration {
			began := time.Now()
			require.NoError(t, p.await(t.Context(), addr, d))
			return time.Since(began)
		}
		began := time.Now()
		assert.Zero(t, wait("a:1", &sentinels))
		assert.Equal(t, leastPace, wait("a:1", &sentinels))
		assert.Equal(t, leastPace, wait("a:1", &sentinels))
		for time.Since(began) < 40*time.Second {
			lasted := time.Since(began)
			assert.Equal(t, max(lasted/20, leastPace), wait("a:1", &sentinels))
		}
		for time.Since(began) < 2*time.Minute {
			wait("a:1", &sentinels)
		}
		assert.Equal(t, mostPace, wait("a:1", &sentinels), "however long it lasts")
		assert.Zero(t, wait("a:2", &sentinels), "of another sentinel")
		assert.Zero(t, wait("a:1", &servers), "of a server")

		time.Sleep(calm + time.Millisecond)
		assert.Zero(t, wait("a:1", &sentinels), "after a while in which all was well")

		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		assert.ErrorIs(t, p.await(ctx, "a:1", &sentinels), context.DeadlineExceeded)
		p.end()
		p.end()
		assert.ErrorIs(t, p.await(t.Context(), "a:1", &sentinels), net.ErrClosed)
	})
}

// A client without Sentinel has nothing to wait for, or to end.
func TestAClientWithoutSentinelsDoesNotWait(t *testing.T) {
	var p pace
	assert.NoError(t, p.await(t.Context(), "a:1", &net.Dialer{}))
	p.end()
}
