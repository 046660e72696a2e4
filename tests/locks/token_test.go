package locks

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// Anybody may ask for the last token that was issued: during the hold, after it, and with any options.
func TestTheLastToken(t *testing.T) {
	kit.OnEither(t, func(t *testing.T, srv *redistest.Server) {
		l := rlock.New(kit.Open(t, srv.Addr(), nil), "orders", &rlock.Options{Fenced: true})
		onlooker := rlock.New(kit.Open(t, srv.Addr(), nil), "orders", nil)
		requireToken := func(want int64) {
			t.Helper()
			token, err := onlooker.LastToken(t.Context())
			require.NoError(t, err)
			require.Equal(t, want, token)
		}
		requireToken(0)
		for want := int64(1); want <= 3; want++ {
			hold := kit.Lock(t, t.Context(), l)
			require.Equal(t, want, hold.Token())
			requireToken(want)
			nested := kit.Lock(t, hold.Context(t.Context()), l)
			requireToken(want)
			require.NoError(t, nested.Release())
			require.NoError(t, hold.Release())
			requireToken(want)
		}
		require.NoError(t, kit.Lock(t, t.Context(), onlooker).Release()) // issues none
		requireToken(3)
		srv.Do(t, "DEL", "redisson_lock_token:{orders}")
		requireToken(0)
	})
}

// A release that hands the lock to a session in the line issues its token, which is the last one then.
func TestTheLastTokenIsThatOfAGrant(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	fenced := &rlock.Options{Fenced: true}
	l := rlock.New(kit.Open(t, srv.Addr(), nil), "orders", fenced)
	hold := kit.Lock(t, t.Context(), l)
	next := kit.GoLock(t.Context(), rlock.New(kit.Open(t, srv.Addr(), nil), "orders", fenced).Lock)
	kit.Await(t, "the waiter in line", func() bool { return srv.Do(t, "LLEN", "holdfast_line:{orders}") == int64(1) })
	require.NoError(t, hold.Release())
	granted := kit.Granted(t, 5*time.Second, next, "the next one")
	token, err := l.LastToken(t.Context())
	require.NoError(t, err)
	require.Equal(t, granted.Token(), token)
	require.Greater(t, token, hold.Token())
}

func TestTheLastTokenIsAskedForAgainIfTheReplyIsLost(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := proxy.Start(t, srv.Addr())
	srv.Do(t, "SET", "redisson_lock_token:{orders}", "9007199254740993") // has digits that scripts lose
	l := rlock.New(kit.Open(t, p.Addr(), nil), "orders", nil)
	for range 2 { // the second time the script is known
		p.On(proxy.Command("EVALSHA").With("redisson_lock_token:{orders}"), proxy.DropReply, proxy.First)
		token, err := l.LastToken(t.Context())
		require.NoError(t, err)
		require.Equal(t, int64(9007199254740993), token)
	}
}

func TestTheLastTokenCannotBeHad(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	_, err := rlock.New(s, "", nil).LastToken(t.Context())
	require.EqualError(t, err, `rlock "": last token: name is empty`)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = rlock.New(s, "orders", nil).LastToken(ended)
	require.ErrorIs(t, err, context.Canceled)
	srv.Do(t, "RPUSH", "redisson_lock_token:{list}", "1")
	_, err = rlock.New(s, "list", nil).LastToken(t.Context())
	require.ErrorContains(t, err, `rlock "list": last token: the key holds something else: WRONGTYPE`)
	srv.Do(t, "SET", "redisson_lock_token:{text}", "precious")
	_, err = rlock.New(s, "text", nil).LastToken(t.Context())
	require.ErrorContains(t, err, `rlock "text": last token: `)
	require.NoError(t, s.Close())
	_, err = rlock.New(s, "orders", nil).LastToken(t.Context())
	require.ErrorIs(t, err, holdfast.ErrClosed)
}

// serverMicros is the server's clock.
func serverMicros(t *testing.T, srv *redistest.Server) int64 {
	t.Helper()
	now := srv.Strs(t, "TIME")
	seconds, err := strconv.ParseInt(now[0], 10, 64)
	require.NoError(t, err)
	micros, err := strconv.ParseInt(now[1], 10, 64)
	require.NoError(t, err)
	return seconds*1_000_000 + micros
}

func TestTokensThatExpireNeverGoBack(t *testing.T) {
	const key, ttl = "redisson_lock_token:{orders}", 2 * time.Minute
	kit.OnEither(t, func(t *testing.T, srv *redistest.Server) {
		l := rlock.New(kit.Open(t, srv.Addr(), nil), "orders", &rlock.Options{Fenced: true, TokenTTL: ttl})
		last := serverMicros(t, srv)
		// requireNext takes the lock twice, nested, and releases it.
		requireNext := func(least int64, lives time.Duration) {
			t.Helper()
			hold := kit.Lock(t, t.Context(), l)
			require.Greater(t, hold.Token(), least)
			last = hold.Token()
			left := time.Duration(srv.Do(t, "PTTL", key).(int64)) * time.Millisecond
			if lives < 0 {
				require.Equal(t, -time.Millisecond, left)
			} else {
				require.InDelta(t, lives, left, float64(30*time.Second))
				require.LessOrEqual(t, left, lives)
			}
			nested := kit.Lock(t, hold.Context(t.Context()), l)
			require.Equal(t, last, nested.Token())
			require.NoError(t, nested.Release())
			require.NoError(t, hold.Release())
			token, err := l.LastToken(t.Context())
			require.NoError(t, err)
			require.Equal(t, last, token)
		}
		for range 3 {
			requireNext(last, ttl)
			srv.Do(t, "INCR", key) // as Redisson does
			require.Positive(t, srv.Do(t, "PTTL", key))
			requireNext(last+1, ttl)
			srv.Do(t, "PEXPIRE", key, "1000") // it is refreshed by use
			requireNext(last, ttl)
			srv.Do(t, "DEL", key) // it has expired, or was evicted
		}
		require.Less(t, last, serverMicros(t, srv))

		// If the clock was set back by a day, the key lives until it is past the token again.
		future := strconv.FormatInt(serverMicros(t, srv)+(24*time.Hour).Microseconds(), 10)
		srv.Do(t, "SET", key, future, "PX", "1000")
		requireNext(last, 24*time.Hour+ttl)
		require.Equal(t, future, strconv.FormatInt(last-1, 10))

		// What others have made, who would begin at 1 again, stays for ever.
		srv.Do(t, "SET", key, "5")
		requireNext(serverMicros(t, srv)-1, -1)
		srv.Do(t, "INCR", key)
		requireNext(last+1, -1)
	})
}

// A token's key that has really expired, and one that a release issues for a session in the line.
func TestATokenThatExpiresIsIssuedByARelease(t *testing.T) {
	t.Parallel()
	const key = "redisson_lock_token:{orders}"
	srv := redistest.Start(t)
	opts := &rlock.Options{Fenced: true, TokenTTL: time.Minute}
	l := rlock.New(kit.Open(t, srv.Addr(), nil), "orders", opts)
	hold := kit.Lock(t, t.Context(), l)
	next := kit.GoLock(t.Context(), rlock.New(kit.Open(t, srv.Addr(), nil), "orders", opts).Lock)
	kit.Await(t, "the waiter in line", func() bool { return srv.Do(t, "LLEN", "holdfast_line:{orders}") == int64(1) })
	srv.Do(t, "PEXPIRE", key, "1")
	kit.Await(t, "the end of the key", func() bool { return srv.Do(t, "EXISTS", key) == int64(0) })
	require.NoError(t, hold.Release())
	granted := kit.Granted(t, 5*time.Second, next, "the next one")
	require.Greater(t, granted.Token(), hold.Token())
	require.LessOrEqual(t, granted.Token(), serverMicros(t, srv))
	require.Positive(t, srv.Do(t, "PTTL", key))
	require.NoError(t, granted.Release())
}

// Whatever becomes of the key, each holder's token is greater than those of the holders before.
func TestTokensGrowThoughTheirKeyIsLost(t *testing.T) {
	t.Parallel()
	const sessions, rounds = 4, 50
	srv := redistest.Start(t)
	var tokens []int64 // guarded by the lock
	var work, loss sync.WaitGroup
	done := make(chan struct{})
	loss.Go(func() {
		conn, err := redistest.Dial(srv.Addr())
		if !assert.NoError(t, err) {
			return
		}
		defer conn.Close()
		for {
			select {
			case <-done:
				return
			default:
				_, err := conn.Do("DEL", "redisson_lock_token:{orders}")
				assert.NoError(t, err)
			}
		}
	})
	for range sessions {
		l := rlock.New(kit.Open(t, srv.Addr(), nil), "orders", &rlock.Options{Fenced: true, TokenTTL: time.Minute})
		work.Go(func() {
			for range rounds {
				assert.NoError(t, holdfast.Do(t.Context(), func(ctx context.Context) (*holdfast.Hold, error) {
					hold, err := l.Lock(ctx)
					if err == nil {
						tokens = append(tokens, hold.Token())
					}
					return hold, err
				}, func(context.Context) error { return nil }))
			}
		})
	}
	work.Wait()
	close(done)
	loss.Wait()
	require.Len(t, tokens, sessions*rounds)
	require.IsIncreasing(t, tokens)
}

func TestOptionsOfTokensAreChecked(t *testing.T) {
	t.Parallel()
	s := kit.Open(t, redistest.Start(t).Addr(), nil)
	for want, opts := range map[string]*rlock.Options{
		"Options.TokenTTL is 1h0m0s, which needs Options.Fenced": {TokenTTL: time.Hour},
		"Options.TokenTTL is 59s, must be 0 or at least 1m0s":    {Fenced: true, TokenTTL: 59 * time.Second},
		"Options.TokenTTL is -1m0s, must be 0 or at least 1m0s":  {Fenced: true, TokenTTL: -time.Minute},
		"Options.FixedLease is 1ms, must be 0 or at least 10ms":  {FixedLease: time.Millisecond, TokenTTL: time.Hour},
	} {
		_, err := rlock.New(s, "orders", opts).Lock(t.Context())
		require.ErrorContains(t, err, want)
		_, err = fairlock.New(s, "orders", &fairlock.Options{
			FixedLease: opts.FixedLease, Fenced: opts.Fenced, TokenTTL: opts.TokenTTL,
		}).Lock(t.Context())
		require.ErrorContains(t, err, want)
	}
}

// A fair lock that a release hands over is the next one's before that has a token: its first call fetches one. Neither
// a copy of that call nor a release takes a token back.
func TestAFairLockIsHandedOverWithAToken(t *testing.T) {
	t.Parallel()
	const key = "redisson_lock_token:{orders}"
	for name, opts := range map[string]*fairlock.Options{
		"kept": {Fenced: true}, "by the clock": {Fenced: true, TokenTTL: time.Minute},
		"of a fixed lease": {Fenced: true, FixedLease: 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			p := proxy.Start(t, srv.Addr())
			hold := kit.Lock(t, t.Context(), fairlock.New(kit.Open(t, srv.Addr(), nil), "orders", opts))
			next := kit.GoLock(t.Context(), fairlock.New(kit.Open(t, p.Addr(), nil), "orders", opts).Lock)
			kit.Await(t, "the waiter in the queue", func() bool {
				return srv.Do(t, "LLEN", "redisson_lock_queue:{orders}") == int64(1)
			})
			if opts.TokenTTL > 0 {
				srv.Do(t, "DEL", key) // it has expired, or was evicted
			}
			lost := p.On(proxy.Command("EVALSHA").With(key), proxy.DropReply, proxy.First)
			require.NoError(t, hold.Release())
			granted := kit.Granted(t, 5*time.Second, next, "the next one")
			require.Equal(t, 1, lost.Count(), "the call that fetches the token")
			require.Greater(t, granted.Token(), hold.Token())
			require.Equal(t, strconv.FormatInt(granted.Token(), 10), srv.Str(t, "GET", key))
			require.Equal(t, opts.TokenTTL > 0, srv.Do(t, "PTTL", key).(int64) > 0)
			require.NoError(t, granted.Release())
		})
	}
}
