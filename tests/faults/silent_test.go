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
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// At a server that stands still, an attempt ends within a third of the lease, also if it has to wait behind the call by
// which a session publishes its process, which is alone on a direct connection.
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
			took := kit.Stopwatch()
			_, err := rlock.New(s, fmt.Sprint("x", i), nil).TryLock(context.Background())
			assert.Error(t, err)
			assert.Less(t, took(), third+time.Second, err)
		})
		time.Sleep(100 * time.Millisecond)
	}
	calls.Wait()
}

// A call that is cancelled while a goroutine of its own waits for the reply: the two do not race for its context.
func TestACancelledCallRacesNobodyForItsContext(t *testing.T) {
	t.Parallel()
	_, p := kit.StartProxied(t)
	s := kit.Open(t, p.Addr(), nil)
	l := rlock.New(s, "x", nil)
	require.NoError(t, kit.Lock(t, t.Context(), l).Release())
	for range 5 {
		p.CutAll() // the next call is the first one on its connection
		kit.SleepUntil(time.Now().Add(200 * time.Millisecond))
		held := p.On(kit.ScriptOf(kit.KindOf("rlock"), "acquire"), proxy.HoldReply, proxy.First)
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan error, 1)
		go func() { got <- kit.ErrorOf(l.TryLock(ctx)) }()
		held.Wait(t, 1)
		cancel()
		require.ErrorIs(t, kit.Within(t, kit.LongestWait, got, "the call"), context.Canceled)
		held.Remove()
		held.Release()
	}
}

// An attempt that has waited for a renewal leaves a direct connection direct.
func TestAnAttemptThatWaitedLeavesTheConnectionDirect(t *testing.T) {
	t.Parallel()
	for range 20 { // on a busy machine two calls may have met before
		if attemptDuringRenewal(t) {
			return
		}
	}
	require.Fail(t, "no connection was direct")
}

// attemptDuringRenewal reports whether the connection was direct before.
func attemptDuringRenewal(t *testing.T) bool {
	t.Helper()
	_, p := kit.StartProxied(t)
	s := directly(t, p.Addr(), 15*time.Second)
	try := func(name string) (*holdfast.Hold, error) {
		return rlock.New(s, name, nil).TryLock(context.Background()) // which has no end
	}
	held, err := try("held")
	require.NoError(t, err)
	renewal := p.On(kit.ScriptNamed("lock_renew"), proxy.HoldReply, proxy.First)
	renewal.Wait(t, 1)
	before := kit.Direct(s)
	got := make(chan error, 1)
	go func() {
		h, err := try("x")
		if err == nil {
			err = h.Release()
		}
		got <- err
	}()
	kit.SleepUntil(time.Now().Add(200 * time.Millisecond)) // it waits
	renewal.Release()
	require.NoError(t, kit.Within(t, kit.LongestWait, got, "the call"))
	require.Equal(t, before, kit.Direct(s))
	require.NoError(t, held.Release())
	return before
}
