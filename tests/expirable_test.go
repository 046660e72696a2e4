package tests

import (
	"context"
	"encoding/hex"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// exports makes the semaphore "exports" with n permits that have leases, renewed ones if fixed is 0.
func exports(t testing.TB, s *holdfast.Session, n int, fixed time.Duration) *semaphore.Expirable {
	t.Helper()
	e := semaphore.NewExpirable(s, "exports", &semaphore.ExpirableOptions{FixedLease: fixed})
	_, err := e.TrySetPermits(t.Context(), n)
	require.NoError(t, err)
	return e
}

// counts checks how many permits are free and taken.
func counts(t testing.TB, e *semaphore.Expirable, free, taken int) {
	t.Helper()
	for what, c := range map[string]struct {
		ask  func(context.Context) (int, error)
		want int
	}{
		"free": {e.AvailablePermits, free}, "taken": {e.AcquiredPermits, taken}, "all": {e.Permits, free + taken},
	} {
		n, err := c.ask(t.Context())
		require.NoError(t, err)
		require.Equal(t, c.want, n, what)
	}
}

// ids are those of holds.
func ids(holds ...*holdfast.Hold) (ids []string) {
	for _, h := range holds {
		ids = append(ids, h.ID())
	}
	return ids
}

// permitted are the ids of the permits that the server says are taken.
func permitted(t testing.TB, srv *redistest.Server) (ids []string) {
	t.Helper()
	for _, permit := range srv.Strs(t, "ZRANGE", "{exports}:timeout", "0", "-1") {
		ids = append(ids, hex.EncodeToString([]byte(permit)))
	}
	return ids
}

func TestExpirablePermitsAreTakenAndGivenBack(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	a := exports(t, open(t, srv.Addr(), nil), 5, 0)
	b := exports(t, open(t, srv.Addr(), nil), 9, time.Hour)
	counts(t, b, 5, 0)
	one, err := a.Acquire(t.Context())
	require.NoError(t, err)
	require.Equal(t, "exports", one.Name())
	require.Len(t, one.ID(), 32)
	three, err := b.AcquireN(t.Context(), 3)
	require.NoError(t, err)
	require.Len(t, three, 3)
	counts(t, a, 1, 4)
	require.ElementsMatch(t, append(ids(three...), one.ID()), permitted(t, srv))
	holds, err := a.TryAcquireN(t.Context(), 2)
	require.ErrorIs(t, err, holdfast.ErrBusy)
	require.Empty(t, holds)
	two, err := a.TryAcquire(t.Context())
	require.NoError(t, err)
	began := time.Now()
	_, err = b.TryAcquireFor(t.Context(), 100*time.Millisecond)
	require.ErrorIs(t, err, holdfast.ErrBusy)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, `semaphore.Expirable "exports": try acquire for: `)
	require.GreaterOrEqual(t, time.Since(began), 100*time.Millisecond)
	require.NoError(t, one.Release())
	require.ErrorIs(t, one.Release(), holdfast.ErrNotHeld)
	require.NoError(t, three[1].Release())
	require.NoError(t, a.Release(t.Context(), three[0].ID(), three[2].ID()))
	counts(t, a, 4, 1)
	require.ErrorIs(t, three[0].Release(), holdfast.ErrLost)
	require.ErrorIs(t, a.Release(t.Context(), three[0].ID()), holdfast.ErrNotHeld)
	require.ErrorIs(t, a.Release(t.Context(), two.ID(), three[0].ID()), holdfast.ErrNotHeld, "all or none")
	require.NoError(t, two.Err())
	require.NoError(t, a.Release(t.Context(), two.ID()))
	require.ErrorIs(t, two.Err(), holdfast.ErrLost, "told at once in the same session")
	counts(t, a, 5, 0)

	require.NoError(t, a.AddPermits(t.Context(), -4))
	counts(t, a, 1, 0)
	require.NoError(t, b.SetPermits(t.Context(), 3))
	counts(t, a, 3, 0)
	_, err = b.AcquireN(t.Context(), 2)
	require.NoError(t, err)
	require.NoError(t, a.SetPermits(t.Context(), 1))
	counts(t, b, -1, 2)
	was, err := a.Delete(t.Context())
	require.NoError(t, err)
	require.True(t, was)
	require.Empty(t, srv.Keyspace(t))
	was, err = a.Delete(t.Context())
	require.NoError(t, err)
	require.False(t, was)
}

func TestLeasesOfPermits(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := open(t, srv.Addr(), nil)
	for name, c := range map[string]struct {
		fixed, least, most time.Duration
	}{
		"renewed": {0, 2 * time.Second, 3 * time.Second},
		"fixed":   {time.Hour, 59 * time.Minute, time.Hour},
		"forever": {semaphore.Forever, semaphore.Forever, semaphore.Forever},
	} {
		t.Run(name, func(t *testing.T) {
			e := exports(t, s, 1, c.fixed)
			h, err := e.Acquire(t.Context())
			require.NoError(t, err)
			left, err := e.RemainingLease(t.Context(), h.ID())
			require.NoError(t, err)
			assert.GreaterOrEqual(t, left, c.least)
			assert.LessOrEqual(t, left, c.most)
			assert.NoError(t, h.Err())
			assert.Greater(t, time.Until(h.Deadline()), c.least/100*97)

			require.NoError(t, e.UpdateLease(t.Context(), h.ID(), 2*time.Hour))
			left, err = e.RemainingLease(t.Context(), h.ID())
			require.NoError(t, err)
			assert.Greater(t, left, 119*time.Minute)
			require.NoError(t, e.UpdateLease(t.Context(), h.ID(), semaphore.Forever))
			left, err = e.RemainingLease(t.Context(), h.ID())
			require.NoError(t, err)
			assert.Equal(t, semaphore.Forever, left)
			assert.Equal(t, "922337203685477", srv.Strs(t, "ZRANGE", "{exports}:timeout", "0", "-1", "WITHSCORES")[1])
			require.NoError(t, e.UpdateLease(t.Context(), h.ID(), 400*time.Millisecond))
			assert.Less(t, time.Until(h.Deadline()), 400*time.Millisecond)
			ctx := h.Context(t.Context())
			within(t, 2*time.Second, ctx.Done(), "the end")
			assert.ErrorIs(t, context.Cause(ctx), holdfast.ErrLost)
			await(t, "the permit", func() bool {
				n, err := e.AvailablePermits(t.Context())
				return assert.NoError(t, err) && n == 1
			})
			for what, err := range map[string]error{
				"RemainingLease": second(e.RemainingLease(t.Context(), h.ID())),
				"UpdateLease":    e.UpdateLease(t.Context(), h.ID(), time.Hour),
				"Release":        e.Release(t.Context(), h.ID()),
			} {
				assert.ErrorIs(t, err, holdfast.ErrNotHeld, what)
			}
		})
	}
}

func second[T any](_ T, err error) error { return err }

// Whoever is killed, its permits come back; and who waits for them sleeps just so long.
func TestPermitsOfTheDeadComeBack(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := open(t, srv.Addr(), nil)
	e := exports(t, s, 3, 0)
	dead, err := exports(t, open(t, srv.Addr(), nil), 0, 700*time.Millisecond).AcquireN(t.Context(), 3)
	require.NoError(t, err)
	for _, h := range dead {
		require.NoError(t, h.Detach())
	}
	srv.ResetStats(t)
	began := time.Now()
	holds, err := e.AcquireN(t.Context(), 2)
	require.NoError(t, err)
	require.Len(t, holds, 2)
	require.WithinDuration(t, began.Add(700*time.Millisecond), time.Now(), 300*time.Millisecond)
	fmt.Println(srv.CommandStats(t)["evalsha"])
	counts(t, e, 1, 2)
}
