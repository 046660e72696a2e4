package locks

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// outOfMemory makes a server refuse everything that may need memory.
func outOfMemory(t *testing.T, srv *redistest.Server) {
	t.Helper()
	srv.Do(t, "CONFIG", "SET", "maxmemory", "1")
	require.ErrorContains(t, kit.ErrorOf(srv.Try("SET", "y", "z")), "OOM")
}

// A server that is out of memory keeps what is held, and accepts it back.
func TestAServerWithoutMemoryKeepsWhatIsHeld(t *testing.T) {
	t.Parallel()
	const lease = 6 * time.Second
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: lease})
	outer, inner := map[string]*holdfast.Hold{}, map[string]*holdfast.Hold{}
	for _, k := range kit.OnOneServer() {
		l := k.Make(s, k.Name, 0)
		outer[k.Name] = kit.Lock(t, t.Context(), l)
		if k.Reentrant {
			inner[k.Name] = kit.Lock(t, outer[k.Name].Context(t.Context()), l)
		}
		if k.Queues { // one of Redisson's waiters, whose score a release lowers
			srv.Do(t, "RPUSH", "redisson_lock_queue:{"+k.Name+"}", "java:1")
			srv.Do(t, "ZADD", "redisson_lock_timeout:{"+k.Name+"}",
				strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10), "java:1")
		}
	}
	outOfMemory(t, srv)
	stayHeld(t, lease, slices.Collect(maps.Values(outer)))
	for name, hold := range inner {
		require.NoError(t, hold.Err(), name)
		require.NoError(t, hold.Release(), name)
	}
	for name, hold := range outer {
		require.NoError(t, hold.Release(), name)
	}
	srv.Do(t, "CONFIG", "SET", "maxmemory", "0")
	for _, k := range kit.OnOneServer() {
		require.NoError(t, kit.Lock(t, t.Context(), k.Rival(s, "another "+k.Name, 0)).Release())
		if !k.Queues { // otherwise it is promised to the waiter
			h, err := k.Rival(s, k.Name, 0).TryLock(t.Context())
			require.NoError(t, err, k.Name)
			require.NoError(t, h.Release())
		}
	}
}

func TestAServerWithoutMemoryTakesCountsBack(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	p, e, l := kit.NewPool(t, s, 3), kit.NewExports(t, s, 1, time.Hour), latch.New(s, "ready")
	require.NoError(t, p.Acquire(t.Context(), 3))
	h, err := e.Acquire(t.Context())
	require.NoError(t, err)
	require.True(t, valueOf(l.TrySetCount(t.Context(), 2)))
	outOfMemory(t, srv)
	require.NoError(t, p.Release(t.Context(), 1))
	require.True(t, valueOf(p.ReleaseIfExists(t.Context(), 2)))
	free(t, p, 3)
	require.NoError(t, e.UpdateLease(t.Context(), h.ID(), 2*time.Hour))
	require.Greater(t, valueOf(e.RemainingLease(t.Context(), h.ID())), time.Hour)
	require.NoError(t, l.CountDown(t.Context()))
	require.Equal(t, 1, valueOf(l.Count(t.Context())))
	require.NoError(t, l.CountDown(t.Context()))
	require.NoError(t, l.Wait(t.Context()))
}

// openWithRights opens a session for a user that may do everything. It also returns a function that takes away its
// right to run scripts, and one that restores it.
func openWithRights(t *testing.T, addr string, srv *redistest.Server) (s *holdfast.Session, take, give func()) {
	t.Helper()
	srv.Grant(t, "app", "~*", "&*", "+@all")
	s = kit.OpenWith(t, rueidis.ClientOption{
		InitAddress: []string{addr}, Username: "app",
		Password: redistest.Password,
	}, nil)
	return s, func() { srv.Do(t, "ACL", "SETUSER", "app", "-eval", "-evalsha") },
		func() { srv.Do(t, "ACL", "SETUSER", "app", "+eval", "+evalsha") }
}

// If the server refuses a give-back, it is repeated until the server accepts it, however long the lease is.
func TestAReleaseThatIsRefusedIsOwed(t *testing.T) {
	kit.EachAlone(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
		s, deny, allow := openWithRights(t, srv.Addr(), srv)
		l := k.Make(s, kit.Orders, time.Hour)
		outer := kit.Lock(t, t.Context(), l)
		var inner *holdfast.Hold
		if k.Reentrant {
			inner = kit.Lock(t, outer.Context(t.Context()), l)
		}
		deny()
		if inner != nil {
			refused(t, inner.Release(), "NOPERM")
		} else {
			refused(t, outer.Release(), "NOPERM")
		}
		allow()
		if inner != nil {
			if !k.Several {
				kit.Await(t, "the nested hold", func() bool {
					holders, err := l.Holders(t.Context())
					return assert.NoError(t, err) && len(holders) == 1 && holders[0].Count == 1
				})
			}
			deny()
			refused(t, outer.Release(), "NOPERM")
			allow()
		}
		kit.Await(t, "the lock", func() bool { return len(k.Free(srv.Keyspace(t))) == 0 })
	})
}

// If the server has nothing any more of what was to be lowered, the holds that were to be left are lost.
func TestAnOwedReleaseThatFindsNothingEndsTheHold(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s, deny, allow := openWithRights(t, srv.Addr(), srv)
	l := rlock.New(s, kit.Orders, &rlock.Options{FixedLease: time.Hour}) // nothing else looks
	outer := kit.Lock(t, t.Context(), l)
	inner := kit.Lock(t, outer.Context(t.Context()), l)
	deny()
	refused(t, inner.Release(), "NOPERM")
	srv.Do(t, "DEL", kit.Orders)
	allow()
	kit.Await(t, "the loss", func() bool { return errors.Is(outer.Err(), holdfast.ErrLost) })
}

// MISCONF is the reply of a server that cannot write its snapshots.
const misconf = "-MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk."

// A server that cannot write to its disk refuses a script before it has changed anything. So nothing is given back, and
// neither Close nor a warning says that a lock may be taken.
func TestNothingIsOwedForWhatWasRefusedBecauseOfTheDisk(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	dir := srv.Strs(t, "CONFIG", "GET", "dir")[1]
	require.NoError(t, os.RemoveAll(dir))
	srv.Do(t, "CONFIG", "SET", "save", "3600 1")
	srv.Do(t, "BGSAVE")
	kit.Await(t, "the snapshot to fail", func() bool {
		_, err := srv.Try("SET", "y", "z")
		return err != nil && strings.HasPrefix(err.Error(), "MISCONF")
	})
	log := &kit.Journal{}
	s := kit.Open(t, srv.Addr(), &holdfast.Options{Logger: log.JsonLogger(), Anonymous: true})
	for _, k := range kit.OnOneServer() {
		_, err := k.Make(s, k.Name, 0).Lock(t.Context())
		refused(t, err, "MISCONF")
	}
	require.NoError(t, s.Close())
	require.Empty(t, log.Entries(t, "holdfast: refused to be given back"))
}

// If the server refuses to take counts back, for whatever reason, they come back later, each once.
func TestACountThatIsRefusedIsOwed(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]func(t *testing.T, deny, allow func(), proxied *proxy.Proxy) (end func()){
		"NOPERM": func(_ *testing.T, deny, allow func(), _ *proxy.Proxy) (end func()) {
			deny()
			return allow
		},
		"MISCONF": func(_ *testing.T, _, _ func(), proxied *proxy.Proxy) (end func()) {
			return proxied.On(proxy.Command("EVALSHA", "EVAL"), proxy.Answer(misconf), proxy.EveryTime).Remove
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			proxied := proxy.Start(t, srv.Addr())
			s, deny, allow := openWithRights(t, proxied.Addr(), srv)
			p, e, l := kit.NewPool(t, s, 9), kit.NewExports(t, s, 2, semaphore.Forever), latch.New(s, "ready")
			require.NoError(t, p.Acquire(t.Context(), 6))
			require.True(t, valueOf(l.TrySetCount(t.Context(), 1)))
			holds, err := e.AcquireN(t.Context(), 2)
			require.NoError(t, err)
			require.NoError(t, holds[1].Detach())

			// This is the one that was taken for nobody.
			granted := proxied.On(kit.ScriptNamed("semaphore_acquire"), proxy.HoldReply, proxy.First)
			ctx, cancel := context.WithCancel(t.Context())
			cancelled := goAcquire(ctx, p, 3)
			granted.Wait(t, 1)
			cancel()
			require.ErrorIs(t, kit.Within(t, 5*time.Second, cancelled, "the end of the call"), context.Canceled)

			end := refuse(t, deny, allow, proxied)
			granted.Release()
			for what, err := range map[string]error{
				"Release":         p.Release(t.Context(), 2),
				"ReleaseIfExists": kit.ErrorOf(p.ReleaseIfExists(t.Context(), 4)),
				"CountDown":       l.CountDown(t.Context()),
				"by id":           e.Release(t.Context(), kit.HoldIDs(holds...)...),
			} {
				require.ErrorIs(t, err, holdfast.ErrUnknown, what)
				require.ErrorContains(t, err, name, what)
			}
			require.ErrorIs(t, holds[0].Err(), holdfast.ErrLost, "the permit goes back")
			require.Equal(t, "0", srv.Str(t, "GET", "pool"))
			require.Equal(t, "1", srv.Str(t, "GET", "ready"))
			end()
			kit.Await(t, "the permits", func() bool { return srv.Str(t, "GET", "pool") == "9" })
			kit.Await(t, "those with leases", func() bool { return srv.Str(t, "GET", "exports") == "2" })
			require.NoError(t, kit.Within(t, 20*time.Second, waitFor(t.Context(), l), "the latch"))
			require.NoError(t, s.Close())
			require.Equal(t, "9", srv.Str(t, "GET", "pool"), "each came back once")
		})
	}
}

// What is owed comes back in the background, while the caller may still be about to return. The race detector would
// tell if that concerned the caller; whatever the test itself sent meanwhile would hide it.
func TestACountThatIsOwedComesBackBesideItsCaller(t *testing.T) {
	t.Parallel()
	srv, proxied := kit.StartProxied(t)
	p := kit.NewPool(t, kit.Open(t, proxied.Addr(), nil), 9)
	require.NoError(t, p.Acquire(t.Context(), 9))
	for back := range int64(5) {
		proxied.On(proxy.Command("EVALSHA", "EVAL"), proxy.Answer(misconf), proxy.First)
		exists, err := p.ReleaseIfExists(t.Context(), 1)
		kit.SleepUntil(time.Now().Add(50 * time.Millisecond))
		require.ErrorIs(t, err, holdfast.ErrUnknown)
		require.False(t, exists)
		kit.Await(t, "the permit", func() bool { return srv.Int(t, "INCRBY", "pool", "0") == back+1 })
	}
}

// Close gives back what the server had refused until then.
func TestCloseGivesBackWhatWasRefused(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s, deny, allow := openWithRights(t, srv.Addr(), srv)
	p, e := kit.NewPool(t, s, 2), kit.NewExports(t, s, 1, semaphore.Forever)
	require.NoError(t, p.Acquire(t.Context(), 2))
	h, err := e.Acquire(t.Context())
	require.NoError(t, err)
	deny()
	require.ErrorIs(t, p.Release(t.Context(), 2), holdfast.ErrUnknown)
	refused(t, h.Release(), "NOPERM")
	kit.SleepUntil(time.Now().Add(2 * time.Second)) // the pauses between the tries become long in this time
	allow()
	require.NoError(t, s.Close())
	require.Equal(t, "2", srv.Str(t, "GET", "pool"))
	require.Equal(t, "1", srv.Str(t, "GET", "exports"))
}
