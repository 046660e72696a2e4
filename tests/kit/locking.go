package kit

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// Lock takes the lock or fails the test.
func Lock(t testing.TB, ctx context.Context, l holdfast.Locker) *holdfast.Hold {
	t.Helper()
	h, err := l.Lock(ctx)
	require.NoError(t, err)
	require.NotNil(t, h)
	return h
}

// A Result is what a call in another goroutine returned.
type Result struct {
	Hold *holdfast.Hold
	Err  error
}

// GoLock calls take in a goroutine.
func GoLock(ctx context.Context, take func(context.Context) (*holdfast.Hold, error)) <-chan Result {
	c := make(chan Result, 1)
	go func() {
		h, err := take(ctx)
		c <- Result{h, err}
	}()
	return c
}

// AnyOf has the results of calls in the order in which they return.
func AnyOf(calls ...<-chan Result) <-chan Result {
	all := make(chan Result, len(calls))
	for _, call := range calls {
		go func() { all <- <-call }()
	}
	return all
}

// Granted receives a hold from c or fails the test.
func Granted(t testing.TB, d time.Duration, c <-chan Result, what string) *holdfast.Hold {
	t.Helper()
	r := Within(t, d, c, what)
	require.NoError(t, r.Err, what)
	return r.Hold
}

// WaitInVain waits for a lock that somebody else keeps. Only where this process stood still may the last attempt have
// been cut off under way.
func WaitInVain(
	t testing.TB, tryLockFor func(context.Context, time.Duration) (*holdfast.Hold, error), wait time.Duration,
) {
	t.Helper()
	began, still := time.Now(), Stillness()
	_, err := tryLockFor(t.Context(), wait)
	if still() == 0 || !errors.Is(err, holdfast.ErrUnknown) {
		require.ErrorIs(t, err, holdfast.ErrBusy)
	}
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	require.GreaterOrEqual(t, time.Since(began), wait)
}

// AwaitHandOn awaits a moment at which a release hands an rlock on to the first in its line: in the first 4 of each
// 256 ms of the server's clock it frees the lock for those who are in no line.
func AwaitHandOn(t testing.TB, srv *redistest.Server) {
	t.Helper()
	Await(t, "a moment when a release hands the lock on", func() bool {
		at := srv.Int(t, "EVAL", "local t = redis.call('TIME') return (t[1] * 1000 + math.floor(t[2] / 1000)) % 256", "0")
		return at > 4 && at < 128
	})
}

// GiveUp makes a call, and gives it up when the rule has its command: nobody knows what becomes of it.
func GiveUp(t testing.TB, has *proxy.Rule, call func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- call(ctx) }()
	has.Wait(t, 1)
	cancel()
	require.ErrorIs(t, Within(t, LongestWait, ended, "the end of the call"), holdfast.ErrUnknown)
}

// BehindARenewal returns a session whose calls are not sent, since a renewal has no reply, until the end; and a context
// that has none.
func BehindARenewal(t testing.TB) (s *holdfast.Session, ctx context.Context, end func()) {
	t.Helper()
	ctx = context.WithoutCancel(t.Context())
	p := proxy.Start(t, redistest.Start(t).Addr())
	client := rueidis.ClientOption{InitAddress: []string{p.Addr()}}
	s = OpenDirect(t, client, &holdfast.Options{Lease: time.Minute, Anonymous: true})
	hold := Lock(t, ctx, rlock.New(s, "held", nil))
	renewals := p.On(ScriptNamed("lock_renew"), proxy.HoldReply, proxy.First)
	extended := make(chan error, 1)
	go func() { extended <- hold.Extend(ctx, time.Hour) }() // as the watchdog does
	renewals.WaitMatched(t, 1)
	return s, ctx, func() {
		renewals.Release()
		require.NoError(t, Within(t, LongestWait, extended, "the extension"))
		require.NoError(t, hold.Release())
	}
}
