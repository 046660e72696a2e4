package kit

import (
	"context"
	"encoding/hex"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// NewPool makes the semaphore "pool" with n permits.
func NewPool(t *testing.T, s *holdfast.Session, n int) *semaphore.Semaphore {
	t.Helper()
	p := semaphore.New(s, "pool")
	_, err := p.TrySetPermits(t.Context(), n)
	require.NoError(t, err)
	return p
}

// NewExports makes the semaphore "exports" with n permits that have leases; they are renewed if fixed is 0.
func NewExports(t testing.TB, s *holdfast.Session, n int, fixed time.Duration) *semaphore.Expirable {
	t.Helper()
	e := semaphore.NewExpirable(s, "exports", &semaphore.ExpirableOptions{FixedLease: fixed})
	_, err := e.TrySetPermits(t.Context(), n)
	require.NoError(t, err)
	return e
}

// RequirePermits checks how many permits are free and taken.
func RequirePermits(t testing.TB, e *semaphore.Expirable, free, taken int) {
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

// HoldIDs returns the ids of holds.
func HoldIDs(holds ...*holdfast.Hold) (ids []string) {
	for _, h := range holds {
		ids = append(ids, h.ID())
	}
	return ids
}

// PermitIDs returns the ids of the permits that are taken according to the server.
func PermitIDs(t testing.TB, srv *redistest.Server) (ids []string) {
	t.Helper()
	for _, permit := range srv.Strs(t, "ZRANGE", "{exports}:timeout", "0", "-1") {
		ids = append(ids, hex.EncodeToString([]byte(permit)))
	}
	return ids
}

// ErrorOf returns the second of two results.
func ErrorOf[T any](_ T, err error) error { return err }
