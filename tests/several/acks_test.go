package several

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// asking has sessions wait for a replica, for longer than anything here takes.
var asking = &holdfast.Options{Lease: time.Minute, Acks: 1, AcksTimeout: 20 * time.Second}

// replicate starts a replica of each server. What it returns has them stand still until the end.
func replicate(t *testing.T, servers []*redistest.Server) (pause func() (end func())) {
	t.Helper()
	f := &kit.Fleet{T: t}
	var all []int
	for i, srv := range servers {
		f.Servers, all = append(f.Servers, redistest.StartReplica(t, srv)), append(all, i)
	}
	return func() (end func()) { return f.Strike(kit.Paused, all...) }
}

// A RedLock waits for replicas no longer than for its servers, and then says that they are too few.
func TestARedLockTellsThatTooFewReplicasHaveIt(t *testing.T) {
	t.Parallel()
	f := kit.NewFleet(t, 3)
	pause := replicate(t, f.Servers)
	near := f.Near(asking)
	l := kit.RedLock(near, kit.Orders, kit.ReentrantMember, kit.Patient)
	h := kit.Lock(t, t.Context(), l)
	resume := pause()
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
	resume()
	require.NoError(t, kit.Lock(t, t.Context(), l).Release())
}

// Unless a RedLock is told for how long to wait, replicas have as long as their sessions say.
func TestARedLockWaitsForReplicasAsLongAsItsSessions(t *testing.T) {
	t.Parallel()
	f := kit.NewFleet(t, 3)
	replicate(t, f.Servers)
	near := f.Near(asking)
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

// A multilock says that too few replicas have a member also where it must not wait for that one.
func TestAMultiLockTellsThatTooFewReplicasHaveAMember(t *testing.T) {
	t.Parallel()
	f := kit.NewFleet(t, 4)
	pause := replicate(t, f.Servers[1:])
	first := rlock.New(kit.Open(t, f.Servers[0].Addr(), nil), kit.Orders, nil)
	asks := f.Far(asking)[1:]
	for name, second := range map[string]holdfast.Locker{
		"rlock":   rlock.New(asks[0], kit.Orders, nil),
		"redlock": kit.RedLock(asks, kit.Orders, kit.ReentrantMember, kit.Patient),
	} {
		m := multilock.New(first, second)                         // which have one name
		require.NoError(t, kit.Lock(t, t.Context(), m).Release()) // now the connections stand
		f.Empty()
		resume := pause()
		kit.Await(t, name, func() bool { // a busy server may be late itself
			_, err := m.TryLockFor(t.Context(), 900*time.Millisecond) // long enough to be granted both
			return errors.Is(err, holdfast.ErrNotAcknowledged) && !errors.Is(err, holdfast.ErrUnknown)
		})
		f.Empty()
		resume()
	}
}

// What an observer does with the ctx that it gets waits for replicas as long as its session does, also when the call
// that it was told of waits for them no longer.
func TestAnObserverWaitsForReplicasAsLongAsItsSession(t *testing.T) {
	t.Parallel()
	const limit = 3 * time.Second
	f := kit.NewFleet(t, 3)
	replicate(t, f.Servers)
	told := make(chan context.Context, 2)
	opts := *asking
	opts.Observer = &holdfast.Observer{
		Acquire: func(ctx context.Context, of holdfast.Subject) func(holdfast.Acquired) {
			if of.Kind == "redlock" {
				told <- ctx
			}
			return nil
		},
		Hold: func(ctx context.Context, of holdfast.Subject) func(holdfast.Ended) {
			if of.Kind == "redlock" {
				told <- ctx
			}
			return nil
		},
	}
	near := f.Near(&opts)
	began := time.Now()
	h, err := kit.RedLock(near, kit.Orders, kit.ReentrantMember, kit.Patient).TryLockFor(t.Context(), limit)
	require.NoError(t, err)
	kit.SleepUntil(began.Add(limit + 100*time.Millisecond))
	for range 2 {
		require.NoError(t, kit.Lock(t, <-told, rlock.New(near[0], "log", nil)).Release())
	}
	require.NoError(t, h.Release())
}
