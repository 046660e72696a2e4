package locks

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// Anybody may ask for the last token that was issued: during the hold, after it, and with any options.
func TestTheLastToken(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T) *redistest.Server{
		"redis":    func(t *testing.T) *redistest.Server { t.Helper(); return redistest.Start(t) },
		"embedded": kit.StartEmbedded,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := start(t)
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
