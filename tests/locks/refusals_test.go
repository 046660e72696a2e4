package locks

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A refused call has changed nothing. The error has the server's own words, and is neither ErrUnknown nor ErrBusy.
func refused(t *testing.T, err error, words string) {
	t.Helper()
	require.ErrorContains(t, err, words)
	for _, other := range []error{holdfast.ErrUnknown, holdfast.ErrBusy, holdfast.ErrLost, context.DeadlineExceeded} {
		assert.NotErrorIs(t, err, other)
	}
}

func TestAServerThatRefuses(t *testing.T) {
	t.Parallel()

	t.Run("no permission", func(t *testing.T) {
		t.Parallel()
		srv := redistest.Start(t)
		srv.Grant(t, "weak", "~*", "&*", "+@all", "-hset")
		s := kit.OpenWith(t, rueidis.ClientOption{
			InitAddress: []string{srv.Addr()}, Username: "weak",
			Password: redistest.Password,
		}, nil)
		for _, take := range []func(context.Context) (*holdfast.Hold, error){
			rlock.New(s, "x", nil).Lock,
			rlock.New(s, "x", nil).TryLock,
		} {
			_, err := take(t.Context())
			require.Error(t, err)
			assert.NotErrorIs(t, err, holdfast.ErrUnknown)
			assert.Regexp(t, kit.Forbidden, err.Error())
		}
		assert.Empty(t, srv.Keyspace(t))
	})
	t.Run("no permission to the key of waiting writers", func(t *testing.T) {
		t.Parallel()
		srv := redistest.Start(t)
		srv.Grant(t, "weak", "~*", "&*", "+@all", "-zrem")
		const writers = "holdfast_rwlock_writers:{x}"
		srv.Do(t, "ZADD", writers, "0", "somebody:1") // or there would be nothing to remove
		s := kit.OpenWith(t, rueidis.ClientOption{
			InitAddress: []string{srv.Addr()}, Username: "weak",
			Password: redistest.Password,
		}, nil)
		_, err := rwlock.New(s, "x", &rwlock.Options{PreferWriter: true}).Write().Lock(t.Context())
		require.Error(t, err)
		assert.NotErrorIs(t, err, holdfast.ErrUnknown)
		assert.Regexp(t, kit.Forbidden, err.Error())
		assert.Zero(t, srv.Int(t, "EXISTS", "x"))
	})
	t.Run("no memory", func(t *testing.T) {
		t.Parallel()
		srv := redistest.Start(t)
		s := kit.Open(t, srv.Addr(), nil)
		require.NoError(t, kit.Lock(t, t.Context(), rlock.New(s, "x", nil)).Release())
		srv.Do(t, "CONFIG", "SET", "maxmemory", "1")
		_, err := rlock.New(s, "x", nil).Lock(t.Context())
		refused(t, err, "OOM")
		assert.Empty(t, srv.Keyspace(t))
	})
	t.Run("a replica", func(t *testing.T) {
		t.Parallel()
		srv := redistest.Start(t)
		s, other := kit.Open(t, srv.Addr(), nil), kit.Open(t, srv.Addr(), nil)
		hold := kit.Lock(t, t.Context(), rlock.New(s, "held", nil))
		srv.Do(t, "REPLICAOF", "127.0.0.1", strconv.Itoa(redistest.FreePort(t)))
		_, err := rlock.New(s, "x", nil).TryLock(t.Context())
		refused(t, err, "READONLY")

		// Lock waits until it passes, as with every state that does. A session that hears READONLY leaves its
		// connection, on which calls of others may be under way: their outcome would be unknown.
		got := kit.GoLock(t.Context(), rlock.New(s, "x", nil).Lock)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err = rlock.New(other, "y", nil).Lock(ctx)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorContains(t, err, "READONLY", "the error tells what failed last")
		srv.Do(t, "REPLICAOF", "NO", "ONE")
		r := kit.Within(t, 5*time.Second, got, "the lock")
		require.NoError(t, r.Err)
		require.NoError(t, r.Hold.Release())
		require.NoError(t, hold.Release())
	})
	for words, command := range map[string]string{
		"LOADING":     "-LOADING Redis is loading the dataset in memory",
		"CLUSTERDOWN": "-CLUSTERDOWN The cluster is down",
		"MASTERDOWN":  "-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
		"BUSY":        "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
		"TRYAGAIN":    "-TRYAGAIN Multiple keys request during rehashing of slot",
	} {
		t.Run(words, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			p := proxy.Start(t, srv.Addr())
			s := kit.Open(t, p.Addr(), nil)
			l := rlock.New(s, "x", nil)
			hold := kit.Lock(t, t.Context(), rlock.New(s, "held", nil))
			rule := p.On(proxy.Command("EVALSHA", "EVAL", "EXISTS"), proxy.Answer(command), proxy.EveryTime)

			_, err := l.TryLock(t.Context())
			refused(t, err, words)
			refused(t, semaphore.New(s, "pool").TryAcquire(t.Context(), 1), words)
			_, err = l.Locked(t.Context())
			refused(t, err, words)
			_, err = l.ForceUnlock(t.Context())
			refused(t, err, words)
			refused(t, hold.Extend(t.Context(), time.Minute), words)
			_, err = l.TryLockFor(t.Context(), 2*time.Second)
			refused(t, err, words)
			assert.NoError(t, hold.Err(), "a refused extension leaves the hold as it is")

			got := kit.GoLock(t.Context(), l.Lock)
			rule.Wait(t, rule.Count()+2)
			rule.Remove()
			r := kit.Within(t, 5*time.Second, got, "the lock, when the server is well again")
			require.NoError(t, r.Err)
			require.NoError(t, r.Hold.Release())
			require.NoError(t, hold.Release())
			assert.Empty(t, srv.Keyspace(t))
		})
	}
	t.Run("a call that begins while the session leaves a replica is not lost", func(t *testing.T) {
		t.Parallel()
		srv := redistest.Start(t)
		p := proxy.Start(t, srv.Addr())
		s := kit.Open(t, p.Addr(), nil)
		require.NoError(t, kit.Lock(t, t.Context(), rlock.New(s, "x", nil)).Release())
		p.On(proxy.Command("EVALSHA", "EVAL"), proxy.Answer("-READONLY You can't write against a read only replica."),
			proxy.EveryTime)
		leaving := p.On(proxy.Command("QUIT"), proxy.Stall, proxy.First)
		first := kit.GoLock(t.Context(), rlock.New(s, "x", nil).TryLock)
		<-leaving.Fired()
		second := kit.GoLock(t.Context(), rlock.New(s, "y", nil).TryLock)
		assert.Never(t, func() bool { return len(second) > 0 }, 100*time.Millisecond, 10*time.Millisecond)
		leaving.Release()
		refused(t, kit.Within(t, 5*time.Second, first, "the refusal").Err, "READONLY")
		refused(t, kit.Within(t, 5*time.Second, second, "the answer by the next connection").Err, "READONLY")
	})
	t.Run("a hand-over that a replica refuses makes the other session leave it", func(t *testing.T) {
		t.Parallel()
		srv := redistest.Start(t)
		next := redistest.StartReplica(t, srv)
		p := proxy.Start(t, srv.Addr())
		heir := kit.Open(t, p.Addr(), nil)
		require.NoError(t, kit.Lock(t, t.Context(), rlock.New(heir, "x", nil)).Release())
		hold := kit.Lock(t, t.Context(), rlock.New(kit.Open(t, srv.Addr(), nil), "x", nil))
		kit.Await(t, "the lock at the replica", func() bool { return next.Int(t, "EXISTS", "x") == 1 })
		next.Do(t, "REPLICAOF", "NO", "ONE")
		p.SetServer(next.Addr())
		srv.Do(t, "REPLICAOF", "127.0.0.1", next.Strs(t, "CONFIG", "GET", "port")[1])
		_, err := hold.HandTo(t.Context(), heir)
		refused(t, err, "READONLY")
		handed, err := hold.HandTo(t.Context(), heir)
		require.NoError(t, err)
		require.NoError(t, handed.Release())
	})
	t.Run("a refused release returns the refusal", func(t *testing.T) {
		t.Parallel()
		srv := redistest.Start(t)
		p := proxy.Start(t, srv.Addr())
		s := kit.Open(t, p.Addr(), &holdfast.Options{Lease: 4 * time.Second})
		hold := kit.Lock(t, t.Context(), rlock.New(s, "x", nil))
		rule := p.On(proxy.Command("EVALSHA", "EVAL"), proxy.Answer("-NOPERM this user has no permissions"),
			proxy.EveryTime)
		refused(t, hold.Release(), "NOPERM")
		rule.Remove()
		assert.ErrorIs(t, hold.Err(), holdfast.ErrNotHeld)
		kit.Await(t, "the lease to end", func() bool { return len(srv.Keyspace(t)) == 0 })
	})
	t.Run("no server", func(t *testing.T) {
		t.Parallel()
		srv := redistest.Start(t)
		s := kit.Open(t, srv.Addr(), nil)
		require.NoError(t, kit.Lock(t, t.Context(), rlock.New(s, "x", nil)).Release())
		srv.Stop()
		kit.Await(t, "the client to notice", func() bool {
			_, err := rlock.New(s, "x", nil).Locked(t.Context())
			return err != nil
		})
		_, err := rlock.New(s, "x", nil).TryLock(t.Context())
		refused(t, err, "connection refused")
		got := kit.GoLock(t.Context(), rlock.New(s, "x", nil).Lock)
		srv.Restart()
		r := kit.Within(t, 5*time.Second, got, "the lock, when the server is back")
		require.NoError(t, r.Err)
		require.NoError(t, r.Hold.Release())
	})
}
