package locks

import (
	"context"
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

func TestAnExpirableNamesMistakesAndSendsNothing(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	e := semaphore.NewExpirable(s, "exports", nil)
	srv.ResetStats(t)
	ctx := t.Context()
	const id, tooMany = "00112233445566778899aabbccddeeff", 1 << 53
	fixed := func(d time.Duration) *semaphore.Expirable {
		return semaphore.NewExpirable(s, "exports", &semaphore.ExpirableOptions{FixedLease: d})
	}
	for _, c := range []struct {
		says string
		err  error
	}{
		{
			`semaphore.Expirable "exports": acquire n: permits are -1, must be from 0 to 10000`,
			kit.ErrorOf(e.AcquireN(ctx, -1)),
		},
		{
			`semaphore.Expirable "exports": try acquire n: permits are 10001, must be from 0 to 10000`,
			kit.ErrorOf(e.TryAcquireN(ctx, 10001)),
		},
		{
			`semaphore.Expirable "exports": try acquire n for: permits are -1, must be from 0 to 10000`,
			kit.ErrorOf(e.TryAcquireNFor(ctx, -1, time.Second)),
		},
		{
			`semaphore.Expirable "exports": try set permits: permits are -1, must be from 0 to 2^53 - 1`,
			kit.ErrorOf(e.TrySetPermits(ctx, -1)),
		},
		{
			`semaphore.Expirable "exports": set permits: permits are 9007199254740992, must be from 0 to 2^53 - 1`,
			e.SetPermits(ctx, tooMany),
		},
		{
			`semaphore.Expirable "exports": add permits: permits are -9007199254740992, must be from -(2^53 - 1) to`,
			e.AddPermits(ctx, -tooMany),
		},
		{
			`semaphore.Expirable "exports": release: permit id is "abc", must be 32 hexadecimal characters`,
			e.Release(ctx, id, "abc"),
		},
		{
			`semaphore.Expirable "exports": release: permit id is "` + id + `00", must be 32 hexadecimal characters`,
			e.Release(ctx, id+"00"),
		},
		{
			`semaphore.Expirable "exports": release: permit id "` + strings.ToUpper(id) + `" is given twice`,
			e.Release(ctx, id, strings.ToUpper(id)),
		},
		{
			`semaphore.Expirable "exports": release: ids are 10001, must be at most 10000`,
			e.Release(ctx, make([]string, 10001)...),
		},
		{
			`semaphore.Expirable "exports": update lease: permit id is "", must be 32 hexadecimal characters`,
			e.UpdateLease(ctx, "", time.Hour),
		},
		{
			`semaphore.Expirable "exports": update lease: lease is 9ms, must be at least 10ms`,
			e.UpdateLease(ctx, id, 9*time.Millisecond),
		},
		{
			`semaphore.Expirable "exports": remaining lease: permit id is "\x00", must be 32 hexadecimal characters`,
			kit.ErrorOf(e.RemainingLease(ctx, "\x00")),
		},
		{
			`semaphore.Expirable "exports": acquire: Options.FixedLease is 9ms, must be 0 or at least 10ms`,
			kit.ErrorOf(fixed(9 * time.Millisecond).Acquire(ctx)),
		},
		{
			`semaphore.Expirable "exports": available permits: Options.FixedLease is -1ns, must be 0 or at least 10ms`,
			kit.ErrorOf(fixed(-1).AvailablePermits(ctx)),
		},
		{
			`semaphore.Expirable "": acquire n: name is empty`, kit.ErrorOf(semaphore.NewExpirable(s, "", nil).AcquireN(ctx, 0)),
		},
		{`semaphore.Expirable "": release: name is empty`, semaphore.NewExpirable(s, "", nil).Release(ctx)},
	} {
		assert.ErrorContains(t, c.err, c.says)
		assert.Equal(t, strings.Contains(c.says, ": permit id is "), errors.Is(c.err, holdfast.ErrNotHeld), c.says)
	}
	for _, take := range []func() ([]*holdfast.Hold, error){
		func() ([]*holdfast.Hold, error) { return e.AcquireN(ctx, 0) },
		func() ([]*holdfast.Hold, error) { return e.TryAcquireN(ctx, 0) },
		func() ([]*holdfast.Hold, error) { return e.TryAcquireNFor(ctx, 0, time.Hour) },
	} {
		holds, err := take()
		assert.NoError(t, err, "zero permits are always available")
		assert.Empty(t, holds)
	}
	assert.NoError(t, e.Release(ctx))
	assert.Zero(t, srv.CommandStats(t)["evalsha"]+srv.CommandStats(t)["eval"])
}

// Whatever the id is, it is refused before anything is sent, or nobody has it.
func FuzzAPermitIDIsRefusedOrNotHeld(f *testing.F) {
	srv := redistest.Start(f)
	e := kit.NewExports(f, kit.Open(f, srv.Addr(), nil), 1, time.Hour)
	held, err := e.Acquire(context.Background())
	require.NoError(f, err)
	for _, id := range []string{
		"", "abc", strings.Repeat("0", 32), strings.Repeat("zz", 16), held.ID() + " ",
		strings.Repeat("aB", 16),
	} {
		f.Add(id, int64(time.Hour))
	}
	f.Fuzz(func(t *testing.T, id string, lease int64) {
		if id == held.ID() {
			return
		}
		bytes, bad := hex.DecodeString(id)
		for what, err := range map[string]error{
			"release": e.Release(t.Context(), id),
			"update":  e.UpdateLease(t.Context(), id, max(time.Duration(lease), 10*time.Millisecond)),
			"remains": kit.ErrorOf(e.RemainingLease(t.Context(), id)),
		} {
			if bad != nil || len(bytes) != 16 {
				require.ErrorContains(t, err, "must be 32 hexadecimal characters", what)
			}
			require.ErrorIs(t, err, holdfast.ErrNotHeld, what)
		}
		require.NoError(t, held.Err())
		kit.RequirePermits(t, e, 0, 1)
	})
}

// Whatever the count and the lease are: either they are refused, or that many permits are taken for that long, and
// all come back.
func FuzzCountsAndLeasesOfPermits(f *testing.F) {
	srv := redistest.Start(f)
	s := kit.Open(f, srv.Addr(), nil)
	for _, n := range []int{-1, 0, 1, 7, 10000, 10001, 1 << 53} {
		for _, lease := range []int64{-1, 0, 1, int64(9999 * time.Microsecond), int64(time.Hour) + 1, math.MaxInt64} {
			f.Add(n, lease)
		}
	}
	f.Fuzz(func(t *testing.T, n int, lease int64) {
		fixed := time.Duration(lease)
		e := semaphore.NewExpirable(s, "exports", &semaphore.ExpirableOptions{FixedLease: fixed})
		if fixed < 0 || fixed > 0 && fixed < 10*time.Millisecond || n < 0 || n > 10000 {
			require.ErrorContains(t, kit.ErrorOf(e.TryAcquireN(t.Context(), n)), "must be")
			return
		}
		require.NoError(t, e.SetPermits(t.Context(), n))
		defer func() { require.NoError(t, kit.ErrorOf(e.Delete(t.Context()))) }()
		holds, err := e.TryAcquireN(t.Context(), n)
		require.NoError(t, err)
		require.Len(t, holds, n)
		if fixed > 0 && fixed < time.Minute {
			return // it may have ended by now
		}
		for _, h := range holds[:min(n, 3)] {
			left, err := e.RemainingLease(t.Context(), h.ID())
			require.NoError(t, err)
			require.Greater(t, left, max(fixed, kit.Lease)-kit.Lease*2/3)
			require.LessOrEqual(t, left, lengthOf(fixed))
			require.NoError(t, h.Release())
			holds = holds[1:]
		}
		require.NoError(t, e.Release(t.Context(), kit.HoldIDs(holds...)...))
		kit.RequirePermits(t, e, n, 0)
	})
}

// lengthOf is the lease of a permit in whole ms; a renewed one has its session's.
func lengthOf(fixed time.Duration) time.Duration {
	switch fixed {
	case 0:
		return kit.Lease
	case semaphore.Forever:
		return fixed
	}
	return fixed + time.Millisecond
}
