package faults

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// At a server that stands still, an attempt ends within a third of the lease, also if it has to wait behind the call by
// which a session publishes its process, which is alone on a direct connection: no call has a ctx that can end.
func TestAnAttemptAtAServerThatStandsStillIsBounded(t *testing.T) {
	t.Parallel()
	const leaseTime, third = 6 * time.Second, 2 * time.Second
	srv := redistest.Start(t)
	client := rueidis.ClientOption{InitAddress: []string{srv.Addr()}}
	s, err := holdfast.Open(client, &holdfast.Options{Lease: leaseTime}) // it is not anonymous
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, kit.Lock(t, context.Background(), rlock.New(s, "x", nil)).Release())
	srv.Pause()
	defer srv.Resume()
	var calls sync.WaitGroup
	for i := range 10 {
		calls.Go(func() {
			if i%3 == 2 {
				_, _ = latch.New(s, "latch").TrySetCount(context.Background(), 1)
				return
			}
			began := time.Now()
			_, err := rlock.New(s, fmt.Sprint("x", i), nil).TryLock(context.Background())
			assert.Error(t, err)
			assert.Less(t, time.Since(began), third+time.Second, err)
		})
		time.Sleep(100 * time.Millisecond)
	}
	calls.Wait()
}
