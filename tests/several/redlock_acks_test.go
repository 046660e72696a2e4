package several

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A RedLock waits for replicas no longer than for its servers, and then says that they are too few.
func TestARedLockTellsThatTooFewReplicasHaveIt(t *testing.T) {
	t.Parallel()
	f := kit.NewFleet(t, 3)
	var replicas []*redistest.Server
	for _, srv := range f.Servers {
		replicas = append(replicas, redistest.StartReplica(t, srv))
	}
	near := f.Near(&holdfast.Options{Lease: time.Minute, Acks: 1, AcksTimeout: 20 * time.Second})
	l := kit.RedLock(near, kit.Orders, kit.ReentrantMember, kit.Patient)
	h := kit.Lock(t, t.Context(), l)
	for _, r := range replicas {
		r.Pause()
	}
	var err error
	kit.Await(t, "an extension that too few replicas have", func() bool { // a busy server may be late itself
		err = h.Extend(t.Context(), time.Minute)
		require.NoError(t, h.Err())
		return errors.Is(err, holdfast.ErrNotAcknowledged)
	})
	require.NoError(t, h.Release())
	f.Empty()
	err = kit.Within(t, 20*time.Second, kit.GoLock(t.Context(), l.Lock), "the outcome").Err
	require.ErrorIs(t, err, holdfast.ErrNotAcknowledged)
	f.Empty()
	kit.Await(t, "an attempt that too few replicas have", func() bool {
		_, err = l.TryLockFor(t.Context(), time.Second) // less than servers have
		return errors.Is(err, holdfast.ErrNotAcknowledged)
	})
	f.Empty()
	for _, r := range replicas {
		r.Resume()
	}
	require.NoError(t, kit.Lock(t, t.Context(), l).Release())
}

// Unless a RedLock is told for how long to wait, replicas have as long as their sessions say.
func TestARedLockWaitsForReplicasAsLongAsItsSessions(t *testing.T) {
	t.Parallel()
	f := kit.NewFleet(t, 3)
	for _, srv := range f.Servers {
		redistest.StartReplica(t, srv)
	}
	near := f.Near(&holdfast.Options{Lease: time.Minute, Acks: 1, AcksTimeout: 20 * time.Second})
	patient := kit.RedLock(near, kit.Orders, kit.ReentrantMember, kit.Patient)
	require.NoError(t, kit.Lock(t, t.Context(), patient).Release()) // now the connections stand
	f.Empty()
	remove := f.OnEach(proxy.Command("WAIT"), proxy.Delay(2*time.Second), proxy.EveryTime, 0, 1, 2)
	l := kit.RedLock(near, kit.Orders, kit.ReentrantMember, &multilock.RedLockOptions{TrustRestarted: true})
	h := kit.Lock(t, t.Context(), l)
	kit.Await(t, "an extension", func() bool { // a busy server may be late itself
		err := h.Extend(t.Context(), time.Minute)
		require.NotErrorIs(t, err, holdfast.ErrNotAcknowledged)
		return err == nil
	})
	remove()
	require.NoError(t, h.Release())
	f.Empty()
}
