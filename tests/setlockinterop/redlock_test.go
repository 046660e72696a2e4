package setlockinterop

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/setlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// onThree are three independent servers, and both sides' locks of one name on all of them.
type onThree struct {
	servers  []*redistest.Server
	sessions []*holdfast.Session
	pools    []redsyncredis.Pool
}

func newThree(t *testing.T) *onThree {
	t.Helper()
	f := &onThree{}
	for range 3 {
		srv := redistest.Start(t)
		client := redis.NewClient(&redis.Options{Addr: srv.Addr()})
		t.Cleanup(func() { _ = client.Close() })
		f.servers = append(f.servers, srv)
		f.sessions = append(f.sessions, oursFor(t, srv, long).session)
		f.pools = append(f.pools, goredis.NewPool(client))
	}
	return f
}

// ours is for servers that have just been started, and may be slow on a busy machine.
func (f *onThree) ours() *multilock.RedLock {
	var locks []holdfast.Locker
	for _, s := range f.sessions {
		locks = append(locks, setlock.New(s, "x", nil))
	}
	return multilock.NewRedLock(locks, &multilock.RedLockOptions{TrustRestarted: true, ServerTimeout: time.Second})
}

func (f *onThree) theirs(tries int) *redsync.Mutex {
	return redsync.New(f.pools...).NewMutex("x", redsync.WithExpiry(long), redsync.WithTries(tries),
		redsync.WithTimeoutFactor(1))
}

func (f *onThree) requireEmpty(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		for _, srv := range f.servers {
			if len(srv.Keyspace(t)) > 0 {
				return false
			}
		}
		return true
	}, patience, 5*time.Millisecond)
}

// A RedLock of such locks is redsync's over several pools: what one side has on most servers the other cannot have.
func TestARedLockIsRedsyncsOfSeveralServers(t *testing.T) {
	t.Parallel()
	f := newThree(t)
	ours := f.ours()
	hold, err := ours.Lock(t.Context())
	require.NoError(t, err)
	require.Error(t, f.theirs(1).TryLock())
	require.NoError(t, hold.Err())
	require.NoError(t, hold.Release())
	f.requireEmpty(t)

	mutex := f.theirs(1)
	require.NoError(t, mutex.TryLock())
	_, err = ours.TryLock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrBusy)
	_, err = mutex.Unlock()
	require.NoError(t, err)
	f.requireEmpty(t)

	// One server in the hands of somebody else is too few, for either side.
	f.servers[1].Do(t, "SET", "x", "somebody", "PX", "60000")
	hold, err = ours.Lock(t.Context())
	require.NoError(t, err)
	require.Error(t, f.theirs(1).TryLock())
	require.NoError(t, hold.Release())
	kit.Await(t, "the other two servers have it back", func() bool {
		return f.servers[0].Int(t, "EXISTS", "x")+f.servers[2].Int(t, "EXISTS", "x") == 0
	})
	require.NoError(t, f.theirs(1).TryLock())
	_, err = ours.TryLock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrBusy)
}

func TestARedLockAndRedsyncUnderContention(t *testing.T) {
	t.Parallel()
	f := newThree(t)
	counter := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr()})
	t.Cleanup(func() { _ = counter.Close() })
	const rounds = 15
	// Each reads, lets others come in between, and writes.
	count := func(ctx context.Context) error {
		n, err := counter.Get(ctx, "n").Int()
		if err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		time.Sleep(time.Millisecond)
		return counter.Set(ctx, "n", n+1, 0).Err()
	}
	group, ctx := errgroup.WithContext(t.Context())
	for range 2 {
		group.Go(func() error {
			for range rounds {
				if err := holdfast.Do(ctx, f.ours().Lock, count); err != nil {
					return err
				}
			}
			return nil
		})
		group.Go(func() error {
			for range rounds {
				mutex := f.theirs(1000)
				if err := mutex.LockContext(ctx); err != nil {
					return err
				}
				if err := count(ctx); err != nil {
					return err
				}
				if _, err := mutex.UnlockContext(ctx); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	n, err := counter.Get(t.Context(), "n").Int()
	require.NoError(t, err)
	require.Equal(t, 4*rounds, n)
	f.requireEmpty(t)
}
