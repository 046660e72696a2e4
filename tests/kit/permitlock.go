package kit

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A permitLock is a semaphore with a single permit that has a lease: whoever has it is alone, as with a lock. It has
// no owners, and cannot tell who holds it.
type permitLock struct {
	untold
	*semaphore.Expirable
}

func newPermitLock(s *holdfast.Session, name string, fixed time.Duration) Locker {
	l := permitLock{Expirable: semaphore.NewExpirable(s, name, &semaphore.ExpirableOptions{FixedLease: fixed})}
	_, _ = l.TrySetPermits(context.Background(), 1) // every call returns an error of it
	return l
}

func (l permitLock) Lock(ctx context.Context) (*holdfast.Hold, error)    { return l.Acquire(ctx) }
func (l permitLock) TryLock(ctx context.Context) (*holdfast.Hold, error) { return l.TryAcquire(ctx) }

func (l permitLock) TryLockFor(ctx context.Context, wait time.Duration) (*holdfast.Hold, error) {
	return l.TryAcquireFor(ctx, wait)
}

func (l permitLock) Locked(ctx context.Context) (bool, error) {
	n, err := l.AcquiredPermits(ctx)
	return n > 0, err
}

// untold stands for what locks tell of their holders, but permits and several locks as one do not.
type untold struct{}

func (untold) Held(context.Context) (bool, error) { return false, errors.ErrUnsupported }

func (untold) HoldCount(context.Context) (int, error) { return 0, errors.ErrUnsupported }

func (untold) ForceUnlock(context.Context) (bool, error) { return false, errors.ErrUnsupported }

func (untold) Holders(context.Context) ([]holdfast.Holder, error) { return nil, errors.ErrUnsupported }

func (permitLock) RemainingLease(context.Context) (time.Duration, error) {
	return 0, errors.ErrUnsupported
}

// Expiry is how long it takes until the lock of a name is free if nobody renews it.
func (k Kind) Expiry(t *testing.T, srv *redistest.Server, name string) time.Duration {
	if !k.Permits {
		return srv.TTLs(t)[name]
	}
	score, err := strconv.ParseInt(srv.Strs(t, "ZRANGE", wire.PermitsKey(name), "0", "0", "WITHSCORES")[1], 10, 64)
	require.NoError(t, err)
	return time.Until(time.UnixMilli(score))
}

// Wipe frees the lock of a name without publishing anything.
func (k Kind) Wipe(t *testing.T, srv *redistest.Server, name string) {
	if k.Permits {
		srv.Do(t, "MULTI")
		srv.Do(t, "SET", name, "1")
		srv.Do(t, "DEL", wire.PermitsKey(name))
		srv.Do(t, "EXEC")
		return
	}
	srv.Do(t, "DEL", name, name+"'")
}

// Free removes from a keyspace what free locks leave there: tokens, and a semaphore's permit, which may have come
// back only for those who look.
func (k Kind) Free(space map[string]redistest.Value) map[string]redistest.Value {
	for key, value := range space {
		switch {
		case value.Expires || value.Type != "string":
		case k.Fenced && strings.HasPrefix(key, "redisson_lock_token:"):
			delete(space, key)
		case k.Permits:
			permits := wire.PermitsKey(key)
			taken, _ := space[permits].Content.(map[string]float64)
			over := 0
			for _, score := range taken {
				if score < float64(time.Now().UnixMilli()) {
					over++
				}
			}
			if n, err := strconv.Atoi(value.Content.(string)); err == nil && n+over == 1 && over == len(taken) {
				delete(space, key)
				delete(space, permits)
			}
		}
	}
	return space
}
