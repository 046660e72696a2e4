package locks

import (
	"context"
	"math"
	"testing"
	"time"

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

// A perishable is a semaphore of either kind, as far as it may expire.
type perishable interface {
	TrySetPermits(ctx context.Context, n int) (bool, error)
	Exists(ctx context.Context) (bool, error)
	Expire(ctx context.Context, ttl time.Duration) (bool, error)
	ExpireAt(ctx context.Context, at time.Time) (bool, error)
	ClearExpire(ctx context.Context) (bool, error)
	RemainingTTL(ctx context.Context) (time.Duration, error)
}

var perishables = map[string]func(s *holdfast.Session, name string) perishable{
	"counting": func(s *holdfast.Session, name string) perishable { return semaphore.New(s, name) },
	"leased":   func(s *holdfast.Session, name string) perishable { return semaphore.NewExpirable(s, name, nil) },
}

// yes requires the answer true, no the answer false.
func yes(t *testing.T) func(bool, error) { return requireAnswer(t, true) }
func no(t *testing.T) func(bool, error)  { return requireAnswer(t, false) }

func requireAnswer(t *testing.T, want bool) func(bool, error) {
	return func(answer bool, err error) {
		t.Helper()
		require.NoError(t, err)
		require.Equal(t, want, answer)
	}
}

func TestSemaphoresExpire(t *testing.T) {
	t.Parallel()
	for server, start := range kit.EitherServer {
		for kind, make := range perishables {
			t.Run(server+"/"+kind, func(t *testing.T) {
				t.Parallel()
				srv := start(t)
				ctx, p := t.Context(), make(kit.Open(t, srv.Addr(), nil), "pool")
				requireTTL := func(want time.Duration) {
					t.Helper()
					left, err := p.RemainingTTL(ctx)
					require.NoError(t, err)
					require.LessOrEqual(t, left, want)
					require.Greater(t, left, want-30*time.Second)
				}
				requireNoEnd := func() {
					t.Helper()
					left, err := p.RemainingTTL(ctx)
					require.NoError(t, err)
					require.Negative(t, left)
				}
				no(t)(p.Exists(ctx))
				no(t)(p.Expire(ctx, time.Minute))
				no(t)(p.ExpireAt(ctx, time.Now().Add(time.Minute)))
				no(t)(p.ClearExpire(ctx))
				left, err := p.RemainingTTL(ctx)
				require.NoError(t, err)
				require.Zero(t, left)

				yes(t)(p.TrySetPermits(ctx, 3))
				yes(t)(p.Exists(ctx))
				requireNoEnd()
				no(t)(p.ClearExpire(ctx))
				yes(t)(p.Expire(ctx, 2*time.Minute))
				requireTTL(2 * time.Minute)
				yes(t)(p.Expire(ctx, time.Hour)) // also longer
				requireTTL(time.Hour)
				yes(t)(p.ExpireAt(ctx, time.Now().Add(time.Minute)))
				requireTTL(time.Minute)
				yes(t)(p.ClearExpire(ctx))
				no(t)(p.ClearExpire(ctx))
				requireNoEnd()
				yes(t)(p.Exists(ctx))
				if server == "embedded" { // where time does not pass by itself
					return
				}
				goes := func() {
					t.Helper()
					kit.Await(t, "the end", func() bool {
						there, err := p.Exists(ctx)
						require.NoError(t, err)
						return !there
					})
				}
				yes(t)(p.ExpireAt(ctx, time.Now().Add(-time.Hour)))
				goes()
				yes(t)(p.TrySetPermits(ctx, 3))
				began := time.Now()
				yes(t)(p.Expire(ctx, 50*time.Millisecond))
				goes()
				require.GreaterOrEqual(t, time.Since(began), 50*time.Millisecond)
				require.Empty(t, srv.Keyspace(t))
			})
		}
	}
}

// Whoever waits for permits goes on waiting, and gets those of the next semaphore. What is given back late makes one,
// unless it is asked not to.
func TestWaitsAndReleasesAfterTheEndOfASemaphore(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p, other := kit.NewPool(t, kit.Open(t, srv.Addr(), nil), 1), semaphore.New(kit.Open(t, srv.Addr(), nil), "pool")
	ctx := t.Context()
	require.NoError(t, p.Acquire(ctx, 1))
	wait := goAcquire(ctx, other, 1)
	pooling(t, srv)
	yes(t)(p.Expire(ctx, time.Millisecond))
	kit.Await(t, "the end", func() bool { return srv.Int(t, "EXISTS", "pool") == 0 })
	no(t)(p.ReleaseIfExists(ctx, 1))
	require.Empty(t, wait)
	yes(t)(p.TrySetPermits(ctx, 1))
	require.NoError(t, kit.Within(t, 5*time.Second, wait, "the permit"))
	yes(t)(p.ExpireAt(ctx, time.Now().Add(-time.Minute)))
	kit.Await(t, "the end", func() bool { return srv.Int(t, "EXISTS", "pool") == 0 })
	require.NoError(t, p.Release(ctx, 1))
	require.Equal(t, "1", srv.Str(t, "GET", "pool"))
	require.Equal(t, int64(-1), srv.Int(t, "PTTL", "pool"))
}

// The permits that are taken go with the semaphore, and stay with it, whenever they are taken.
func TestPermitsWithLeasesExpireWithTheirSemaphore(t *testing.T) {
	t.Parallel()
	const permits = "{exports}:timeout"
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: 6 * time.Second})
	e, ctx := kit.NewExports(t, s, 5, 0), t.Context()
	first, err := e.Acquire(ctx)
	require.NoError(t, err)
	requireTogether := func(ends bool) {
		t.Helper()
		ttls := srv.TTLs(t)
		require.Equal(t, ends, len(ttls) > 0)
		require.InDelta(t, ttls["exports"], ttls[permits], float64(10*time.Second))
	}
	yes(t)(e.Expire(ctx, time.Hour))
	requireTogether(true)
	second, err := e.Acquire(ctx)
	require.NoError(t, err)
	require.NoError(t, first.Release())
	requireTogether(true)
	yes(t)(e.ClearExpire(ctx))
	requireTogether(false)
	yes(t)(e.ExpireAt(ctx, time.Now().Add(time.Hour)))
	requireTogether(true)
	srv.Do(t, "PERSIST", "exports") // as Redisson's addPermits does
	yes(t)(e.ClearExpire(ctx))
	requireTogether(false)
	kit.RequirePermits(t, e, 4, 1)
	require.NoError(t, second.Err())

	ended := make(chan error, 1)
	context.AfterFunc(second.Context(ctx), func() { ended <- second.Err() })
	yes(t)(e.Expire(ctx, 20*time.Millisecond))
	require.ErrorIs(t, kit.Within(t, 5*time.Second, ended, "the loss"), holdfast.ErrLost)
	require.Empty(t, srv.Keyspace(t))
	kit.RequirePermits(t, e, 0, 0)
}

// Nor do permits outlive it if there are so many of them that it takes a while to take them: one that came back in
// between would make a semaphore without an end.
func TestManyPermitsDoNotOutliveTheirSemaphore(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	e := kit.NewExports(t, s, 20_000, time.Minute)
	yes(t)(e.Expire(t.Context(), time.Hour))
	for range 2 {
		_, err := e.AcquireN(t.Context(), 10_000)
		require.NoError(t, err)
		const longer = "local own = redis.call('PTTL', KEYS[1]); return redis.call('PTTL', KEYS[2]) - own" // time passes
		require.LessOrEqual(t, srv.Int(t, "EVAL", longer, "2", "exports", "{exports}:timeout"), int64(0))
	}
	yes(t)(e.Delete(t.Context())) // quicker than to give them all back
}

// A lost reply is told: the expiry may be there, or not.
func TestAnExpiryWhoseReplyIsLost(t *testing.T) {
	t.Parallel()
	for kind, make := range perishables {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			proxied := proxy.Start(t, srv.Addr())
			p := make(kit.Open(t, proxied.Addr(), nil), "pool")
			ctx := t.Context()
			yes(t)(p.TrySetPermits(ctx, 1))
			yes(t)(p.Expire(ctx, time.Hour)) // now the script is known
			lost := proxied.On(proxy.Command("EVALSHA").With("pool"), proxy.DropReply, proxy.First)
			_, err := p.Expire(ctx, time.Minute)
			require.ErrorIs(t, err, holdfast.ErrUnknown)
			lost.Wait(t, 1)
			require.LessOrEqual(t, srv.TTLs(t)["pool"], time.Minute)
			proxied.On(proxy.Command("EVALSHA").With("pool"), proxy.DropReply, proxy.First)
			yes(t)(p.Exists(ctx)) // is asked again
		})
	}
}

func TestExpiriesThatAreRefused(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	srv.ResetStats(t)
	for _, make := range perishables {
		p := make(s, "pool")
		for ttl, says := range map[time.Duration]string{0: "ttl is 0s", -time.Second: "ttl is -1s, must be above 0"} {
			_, err := p.Expire(t.Context(), ttl)
			assert.ErrorContains(t, err, "expire: "+says)
		}
		for _, at := range []time.Time{{}, time.UnixMilli(-1), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)} {
			_, err := p.ExpireAt(t.Context(), at)
			assert.ErrorContains(t, err, "expire at: at is "+at.String()+", must be from 1970 to 9999")
		}
		_, err := make(s, "").Expire(t.Context(), time.Minute)
		assert.ErrorContains(t, err, "expire: name is empty")
		_, err = make(s, "").Exists(t.Context())
		assert.ErrorContains(t, err, "exists: name is empty")
	}
	assert.Zero(t, srv.CommandStats(t)["evalsha"])

	for _, make := range perishables { // what is no semaphore stays as it is
		srv.Do(t, "SADD", "set", "precious")
		p := make(s, "set")
		_, err := p.Expire(t.Context(), time.Minute)
		assert.ErrorIs(t, err, holdfast.ErrWrongKind)
		_, err = p.ClearExpire(t.Context())
		assert.ErrorIs(t, err, holdfast.ErrWrongKind)
		_, err = p.Exists(t.Context())
		assert.ErrorIs(t, err, holdfast.ErrWrongKind)
		_, err = p.RemainingTTL(t.Context())
		assert.ErrorIs(t, err, holdfast.ErrWrongKind)
	}
	srv.Do(t, "SET", "odd", "1")
	srv.Do(t, "SET", "{odd}:timeout", "precious")
	_, err := semaphore.NewExpirable(s, "odd", nil).Expire(t.Context(), time.Minute)
	assert.ErrorContains(t, err, "WRONGTYPE")
	assert.Empty(t, srv.TTLs(t))
}

func TestExpiriesInACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	s := kit.OpenCluster(t, cluster, nil)
	for kind, make := range perishables {
		for _, name := range []string{"a", "b", "c", "app{42}pool"} {
			p := make(s, kind+name)
			yes(t)(p.TrySetPermits(t.Context(), 1))
			yes(t)(p.Expire(t.Context(), time.Hour))
			left, err := p.RemainingTTL(t.Context())
			require.NoError(t, err)
			require.Greater(t, left, 50*time.Minute)
			yes(t)(p.ClearExpire(t.Context()))
			yes(t)(p.Exists(t.Context()))
		}
	}
}

func TestALatchExistsWhileItIsClosed(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	l, ctx := latch.New(kit.Open(t, srv.Addr(), nil), "ready"), t.Context()
	no(t)(l.Exists(ctx))
	closed(t, l, 1)
	yes(t)(l.Exists(ctx))
	require.NoError(t, l.CountDown(ctx))
	no(t)(l.Exists(ctx))
	srv.Do(t, "SET", "ready", "0") // as Redisson's trySetCount(0) does
	yes(t)(l.Exists(ctx))
	require.NoError(t, l.Wait(ctx))
	srv.Do(t, "DEL", "ready")
	srv.Do(t, "SADD", "ready", "precious")
	_, err := l.Exists(ctx)
	require.ErrorContains(t, err, `latch "ready": exists: `)
	require.ErrorIs(t, err, holdfast.ErrWrongKind)
}

// The longest times are what they are, and none is over at once.
func TestTheLongestTimes(t *testing.T) {
	const longest = time.Duration(math.MaxInt64)
	kit.OnEither(t, func(t *testing.T, srv *redistest.Server) {
		s, other := kit.Open(t, srv.Addr(), nil), kit.Open(t, srv.Addr(), nil)
		patient := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: longest})
		extended := kit.Lock(t, t.Context(), rlock.New(s, "extended", nil))
		require.NoError(t, extended.Extend(t.Context(), longest))
		for _, h := range []*holdfast.Hold{
			extended,
			kit.Lock(t, t.Context(), rlock.New(s, "fixed", &rlock.Options{FixedLease: longest})),
			kit.Lock(t, t.Context(), rlock.New(patient, "renewed", nil)),
		} {
			_, err := rlock.New(other, h.Name(), nil).TryLock(t.Context())
			require.ErrorIs(t, err, holdfast.ErrBusy)
			require.NoError(t, h.Release())
		}

		p := semaphore.New(s, "pool")
		yes(t)(p.TrySetPermitsFor(t.Context(), 3, longest))
		yes(t)(p.ExpireAt(t.Context(), time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)))
		yes(t)(p.Exists(t.Context()))
		yes(t)(p.Expire(t.Context(), longest))
		n, err := p.AvailablePermits(t.Context())
		require.NoError(t, err)
		require.Equal(t, 3, n)
	})
}
