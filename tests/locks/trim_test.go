package locks

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// longestTTL returns the longest expiry of all lock keys.
func longestTTL(t testing.TB, srv *redistest.Server) time.Duration { return longestTTLOf(t, srv, "") }

// longestTTLOf returns the longest expiry of the keys of a lock.
func longestTTLOf(t testing.TB, srv *redistest.Server, name string) (d time.Duration) {
	for _, key := range srv.Strs(t, "KEYS", "*"+name+"*") {
		if !strings.HasPrefix(key, "holdfast_session") {
			d = max(d, time.Duration(srv.Int(t, "PTTL", key))*time.Millisecond)
		}
	}
	return d
}

// eachNested runs a test for each kind that can be nested, with names of its own, on one server.
func eachNested(t *testing.T, cases map[string]time.Duration,
	test func(t *testing.T, k kit.Kind, srv *redistest.Server, name string, fixed time.Duration),
) {
	t.Parallel()
	srv := redistest.Start(t)
	for what, fixed := range cases {
		for _, k := range kit.OnOneServer() {
			if k.Reentrant && !k.Several {
				t.Run(what+"/"+k.Name, func(t *testing.T) {
					t.Parallel()
					test(t, k, srv, "<"+what+" "+k.Name+">", fixed)
				})
			}
		}
	}
}

// setBack does to everything that is held what setting the server's clock back does: expiries are moments.
func setBack(t testing.TB, srv *redistest.Server, d time.Duration) {
	for key := range srv.TTLs(t) {
		srv.Do(t, "EVAL", "redis.call('PEXPIRE', KEYS[1], redis.call('PTTL', KEYS[1]) + ARGV[1])", "1", key,
			strconv.FormatInt(d.Milliseconds(), 10))
	}
}

// If a lease became longer because the server's clock was set back, renewals restore its proper length.
func TestALeaseIsNotLongerForAClockThatWasSetBack(t *testing.T) {
	t.Parallel()
	const lease = 6 * time.Second
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: lease})
	var holds []*holdfast.Hold
	for _, k := range kit.OnOneServer() {
		// A setlock may have been adopted for longer, see TestALeaseThatIsTooLongIsLeftToWhoeverAdoptsIt.
		if !k.OneString && !k.Permits && !k.Several {
			holds = append(holds, kit.Lock(t, t.Context(), k.Make(s, k.Name, 0)))
		}
	}
	setBack(t, srv, time.Hour)
	kit.Await(t, "their own leases again", func() bool { return longestTTL(t, srv) <= lease })
	stayHeld(t, lease, holds)
	for _, hold := range holds {
		require.NoError(t, hold.Release())
	}
}

// When a nested hold is released whose lease is longer than that of the outer one, the name stays locked only for the
// outer one's.
func TestALongerLeaseGoesWithItsHold(t *testing.T) {
	cases := map[string]time.Duration{"of a renewed hold": 0, "of a hold that is not": time.Minute}
	eachNested(t, cases, func(
		t *testing.T, k kit.Kind, srv *redistest.Server, name string, fixed time.Duration,
	) {
		s := kit.Open(t, srv.Addr(), nil)
		outer := kit.Lock(t, t.Context(), k.Make(s, name, fixed))
		ctx := outer.Context(t.Context())
		began := time.Now()
		detached := kit.Lock(t, ctx, k.Make(s, name, 2*time.Minute))
		inner := kit.Lock(t, ctx, k.Make(s, name, time.Hour))
		require.Greater(t, longestTTLOf(t, srv, name), 59*time.Minute)
		require.NoError(t, detached.Detach())
		require.NoError(t, inner.Release())
		kit.Await(t, "the lease of the detached hold",
			func() bool { return longestTTLOf(t, srv, name) <= 2*time.Minute+3*time.Second })
		require.Greater(t, longestTTLOf(t, srv, name), 118*time.Second-time.Since(began))

		last := kit.Lock(t, ctx, k.Make(s, name, time.Hour))
		if deadline := outer.Deadline(); fixed == 0 {
			kit.Await(t, "a renewal", func() bool { return outer.Deadline().After(deadline) })
		}
		require.NoError(t, last.Err())
		require.Greater(t, longestTTLOf(t, srv, name), 59*time.Minute, "a lease that is in use must not be shortened")
		require.NoError(t, last.Release())
		require.NoError(t, outer.Err())
		require.NoError(t, outer.Release())
	})
}

// Both halves of a read-write lock that one owner has share its lease: it lasts as long as the longer one needs.
func TestTheLongerLeaseOfTwoHalvesGoesWithItsHold(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	half := halvesOf(s)
	write := kit.Lock(t, t.Context(), half(time.Minute).Write())
	ctx := write.Context(t.Context())
	read := kit.Lock(t, ctx, half(time.Hour).Read())
	nested := kit.Lock(t, ctx, half(2*time.Hour).Write())
	require.NoError(t, nested.Release())
	kit.Await(t, "the lease of the read hold", func() bool { return longestTTL(t, srv) <= time.Hour })
	require.Greater(t, srv.TTLs(t)["x"], 59*time.Minute,
		"of the lock, not only of the key that stands for the read hold")
	require.NoError(t, read.Release())
	kit.Await(t, "the lease of the write hold", func() bool { return longestTTL(t, srv) <= time.Minute })
	require.NoError(t, write.Err())
	require.NoError(t, write.Release())
	require.Empty(t, srv.Keyspace(t))
}

// A trim without a reply may still be executed. As long as it may, no lease is granted that it would shorten.
func TestNoLongerLeaseIsGrantedWhileATrimMayBeExecuted(t *testing.T) {
	t.Parallel()
	srv, p := kit.StartProxied(t)
	s := kit.Open(t, p.Addr(), &holdfast.Options{Lease: 9 * time.Second}) // a trim may take a third of it
	fixed := func(d time.Duration) *rlock.Mutex { return rlock.New(s, "x", &rlock.Options{FixedLease: d}) }
	outer := kit.Lock(t, t.Context(), fixed(time.Minute))
	ctx := outer.Context(t.Context())
	inner := kit.Lock(t, ctx, fixed(time.Hour))
	var first []string
	rule := p.On(func(command []string) bool {
		is := kit.ScriptNamed("lock_trim")(command)
		if is && first == nil {
			first = command
		}
		return is
	}, proxy.DropReply, proxy.First)
	require.NoError(t, inner.Release())
	rule.Wait(t, 1)

	require.ErrorContains(t, outer.Extend(t.Context(), time.Hour), "shorter")
	_, err := fixed(time.Hour).TryLock(ctx)
	require.ErrorContains(t, err, "shorter")
	require.NoError(t, kit.Lock(t, ctx, fixed(30*time.Second)).Release(), "a lease that it leaves is granted")
	inner = kit.Lock(t, ctx, fixed(time.Hour)) // waits until then
	now := time.Now().UnixMilli()
	notBefore, err := strconv.ParseInt(first[len(first)-3], 10, 64)
	require.NoError(t, err)
	notAfter, err := strconv.ParseInt(first[len(first)-2], 10, 64)
	require.NoError(t, err)
	require.GreaterOrEqual(t, now-notAfter, notAfter-notBefore,
		"time to spare for a server's clock that is slow, or was set back")
	require.NoError(t, inner.Err())
	require.Greater(t, longestTTL(t, srv), 59*time.Minute)
	require.NoError(t, inner.Release())
	require.NoError(t, outer.Release())
}

// Renewed holds do not depend on when a trim is executed: it leaves them a whole lease from then on.
func TestATrimAmongRenewals(t *testing.T) {
	t.Parallel()
	srv, p := kit.StartProxied(t)
	const lease = 6 * time.Second
	s := kit.Open(t, p.Addr(), &holdfast.Options{Lease: lease})
	outer := kit.Lock(t, t.Context(), rlock.New(s, "x", nil))
	rule := p.On(kit.ScriptNamed("lock_trim"), proxy.Delay(100*time.Millisecond), proxy.EveryTime)
	for range 4 {
		setBack(t, srv, time.Hour)
		kit.Await(t, "its own lease", func() bool { return longestTTL(t, srv) <= lease })
		deadline, left := outer.Deadline(), srv.TTLs(t)["x"]
		require.False(t, time.Now().Add(left).Before(deadline), "it is trusted for no longer than it lasts")
	}
	require.GreaterOrEqual(t, rule.Count(), 4)
	require.NoError(t, outer.Err())
	require.NoError(t, outer.Release())
}

// An extension of a nested hold that crosses its release leaves the name locked for the outer one's lease.
func TestAnExtensionThatCrossesTheReleaseOfItsHold(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	const fixed = 20 * time.Second
	l := rlock.New(s, "x", &rlock.Options{FixedLease: fixed})
	for range 100 {
		outer := kit.Lock(t, t.Context(), l)
		inner := kit.Lock(t, outer.Context(t.Context()), l)
		extended := make(chan error, 1)
		go func() { extended <- inner.Extend(t.Context(), time.Hour) }()
		require.NoError(t, inner.Release())
		if err := kit.Within(t, kit.LongestWait, extended, "the extension"); err != nil {
			require.ErrorIs(t, err, holdfast.ErrNotHeld)
		}
		kit.Await(t, "the lease of the outer hold", func() bool { return longestTTL(t, srv) <= fixed+3*time.Second })
		require.NoError(t, outer.Release())
	}
}

// A detached hold keeps the name for its own lease, and not for the longer one of a hold around it that was released.
func TestALongerLeaseGoesWithAHoldAroundADetachedOne(t *testing.T) {
	cases := map[string]time.Duration{"that was renewed": 0, "that was not": time.Hour}
	eachNested(t, cases, func(
		t *testing.T, k kit.Kind, srv *redistest.Server, name string, fixed time.Duration,
	) {
		s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: 5 * time.Minute})
		outer := kit.Lock(t, t.Context(), k.Make(s, name, fixed))
		detached := kit.Lock(t, outer.Context(t.Context()), k.Make(s, name, time.Minute))
		require.NoError(t, detached.Detach())
		require.NoError(t, outer.Release())
		kit.Await(t, "the lease of the detached hold", func() bool { return longestTTLOf(t, srv, name) < 2*time.Minute })
		require.Greater(t, longestTTLOf(t, srv, name), 30*time.Second)
	})
}

// A call of the session that has seen the longer lease gets the lock when that of the detached hold is over, and does
// not sleep on. So a job of package once begins on time though its loops have looked before.
func TestAWaiterHearsThatALeaseBecameShorter(t *testing.T) {
	t.Parallel()
	_, p := kit.StartProxied(t)
	s := kit.Open(t, p.Addr(), nil)
	outer := kit.Lock(t, t.Context(), rlock.New(s, "x", nil))
	looks := p.On(kit.ScriptNamed("rlock_stand"), proxy.Pass, proxy.EveryTime)
	waiter := kit.GoLock(t.Context(), rlock.New(s, "x", nil).Lock)
	looks.Wait(t, 4) // then it sleeps for 4 s at least
	detached := kit.Lock(t, outer.Context(t.Context()), rlock.New(s, "x", &rlock.Options{FixedLease: time.Second}))
	require.NoError(t, detached.Detach())
	require.NoError(t, outer.Release())
	require.NoError(t, kit.Granted(t, kit.Told, waiter, "the end of that lease").Release())
}

// Of two detached halves, the one with the shorter lease does not end the other.
func TestADetachedHalfKeepsItsLease(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	half := halvesOf(s)
	write := kit.Lock(t, t.Context(), half(0).Write())
	ctx := write.Context(t.Context())
	require.NoError(t, kit.Lock(t, ctx, half(2*time.Second).Write()).Detach())
	require.NoError(t, kit.Lock(t, ctx, half(time.Hour).Read()).Detach())
	require.NoError(t, write.Release())
	_, err := rwlock.New(kit.Open(t, srv.Addr(), nil), "x", nil).Write().TryLockFor(t.Context(), 5*time.Second)
	require.ErrorIs(t, err, holdfast.ErrBusy, "it is read for an hour")
}

// After a downgrade the lock stays locked for as long as the reading needs it, and no longer for as long as the writing
// did, also if the reading was detached.
func TestTheLeaseOfTheWritingGoesWithIt(t *testing.T) {
	t.Parallel()
	for name, detached := range map[string]bool{"reading": false, "detached": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			s := kit.Open(t, srv.Addr(), nil)
			half := halvesOf(s)
			write := kit.Lock(t, t.Context(), half(10*time.Minute).Write())
			ctx := write.Context(t.Context())
			long := kit.Lock(t, ctx, half(time.Hour).Read())
			read := kit.Lock(t, ctx, half(time.Minute).Read())
			require.NoError(t, long.Release())
			kit.Await(t, "the lease of the writing", func() bool { return longestTTL(t, srv) <= 10*time.Minute })
			if detached {
				require.NoError(t, read.Detach())
			}
			require.NoError(t, write.Release())
			kit.Await(t, "the lease of the reading", func() bool { return longestTTL(t, srv) <= time.Minute+3*time.Second })
			require.Greater(t, longestTTL(t, srv), 30*time.Second)
			if !detached {
				require.NoError(t, read.Err())
				require.NoError(t, read.Release())
				require.Empty(t, srv.Keyspace(t))
			}
		})
	}
}

// halvesOf makes read-write locks of one name with fixed leases; 0: renewed.
func halvesOf(s *holdfast.Session) func(fixed time.Duration) *rwlock.RWMutex {
	return func(fixed time.Duration) *rwlock.RWMutex {
		return rwlock.New(s, "x", &rwlock.Options{FixedLease: fixed})
	}
}
