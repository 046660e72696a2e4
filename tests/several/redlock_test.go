package several

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/setlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

func TestARedLockIsOnAllServers(t *testing.T) {
	t.Parallel()
	servers := kit.StartServers(t, 5)
	mine, theirs := kit.OpenAll(t, servers, nil), kit.OpenAll(t, servers, nil)
	for name, member := range map[string]func(*holdfast.Session,
		string) holdfast.Locker{"reentrant": kit.ReentrantMember, "plain": kit.PlainMember} {
		l, other := kit.RedLock(mine, name, member, kit.Patient), kit.RedLock(theirs, name, member, kit.Patient)
		require.Equal(t, name, l.Name())
		before := time.Now()
		h := kit.Lock(t, t.Context(), l)
		require.Equal(t, name, h.Name())
		require.Empty(t, h.ID())
		require.Zero(t, h.Token())
		require.NoError(t, h.Err())
		kit.Await(t, "all servers", func() bool { return kit.KeysLeft(t, servers) == 5 })
		require.Greater(t, time.Until(h.Deadline()), kit.Lease*2/3)
		require.LessOrEqual(t, h.Deadline().Sub(before), kit.Lease)

		_, err := other.TryLock(t.Context())
		require.ErrorIs(t, err, holdfast.ErrBusy)
		require.NotErrorIs(t, err, holdfast.ErrUnknown)
		require.ErrorContains(t, err, fmt.Sprintf("redlock %q: try lock: ", name))
		kit.WaitInVain(t, other.TryLockFor, time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, err = other.Lock(ctx)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)

		ctx = h.Context(t.Context())
		inner, err := l.TryLock(ctx)
		if name == "plain" {
			require.ErrorIs(t, err, holdfast.ErrAlreadyHeld)
			_, err = l.Lock(ctx)
			require.ErrorIs(t, err, holdfast.ErrAlreadyHeld)
		} else {
			require.NoError(t, err)
			require.NoError(t, inner.Release())
		}
		before = h.Deadline()
		require.NoError(t, h.Extend(t.Context(), kit.Lease))
		require.Greater(t, h.Deadline(), before)
		require.NoError(t, h.Extend(t.Context(), 2*kit.Lease),
			"no server is doubted after a restart, so it may be any lease")

		got := kit.GoLock(t.Context(), other.Lock)
		require.NoError(t, h.Release())
		require.ErrorIs(t, h.Err(), holdfast.ErrNotHeld)
		require.ErrorIs(t, h.Release(), holdfast.ErrNotHeld)
		require.ErrorIs(t, context.Cause(ctx), holdfast.ErrNotHeld)
		r := kit.Within(t, 3*time.Second, got, "the other's turn")
		require.NoError(t, r.Err)
		require.NoError(t, r.Hold.Release())
		kit.Await(t, "empty servers", func() bool { return kit.KeysLeft(t, servers) == 0 })
	}
}

func TestARedLockNamesMistakesAndSendsNothing(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	var s []*holdfast.Session
	for range 3 {
		s = append(s, kit.Open(t, srv.Addr(), nil))
	}
	srv.ResetStats(t)
	three := func(name string, opts *multilock.RedLockOptions) *multilock.RedLock {
		return kit.RedLock(s, name, kit.ReentrantMember, opts)
	}
	for _, c := range []struct {
		says string
		l    *multilock.RedLock
	}{
		{`redlock "a": lock: 2 locks are given, must be at least 3`, kit.RedLock(s[:2], "a", kit.ReentrantMember, nil)},
		{`redlock "": lock: 0 locks are given`, multilock.NewRedLock(nil, nil)},
		{`redlock "": lock: lock 1 is nil`, multilock.NewRedLock(make([]holdfast.Locker, 3), nil)},
		{
			`lock 2 is fairlock "a", must be an rlock or a set`,
			multilock.NewRedLock([]holdfast.Locker{
				kit.ReentrantMember(s[0], "a"), fairlock.New(s[1], "a", nil),
				kit.PlainMember(s[2], "a"),
			}, nil),
		},
		{`lock 1 is a *multilock.RedLock`, multilock.NewRedLock([]holdfast.Locker{three("a", nil)}, nil)},
		{`locks 1 and 3 are of one session`, kit.RedLock([]*holdfast.Session{s[0], s[1], s[0]}, "a", kit.PlainMember, nil)},
		{`redlock "": lock: name is empty`, three("", nil)},
		{`RedLockOptions.ServerTimeout is -1s`, three("a", &multilock.RedLockOptions{ServerTimeout: -time.Second})},
		{
			`RedLockOptions.ServerTimeout is 9s, must be 0 or less `,
			three("a", &multilock.RedLockOptions{ServerTimeout: kit.Lease}),
		},
		{
			`lock 2 is nil`,
			multilock.NewRedLock([]holdfast.Locker{kit.PlainMember(s[0], "a"), (*rlock.Mutex)(nil), kit.PlainMember(s[2], "a")},
				nil),
		},
		{
			`lock: Options.Token is set, must not be`,
			kit.RedLock(s, "a", func(s *holdfast.Session, name string) holdfast.Locker {
				return setlock.New(s, name, &setlock.Options{Token: "host"})
			}, nil),
		},
		{
			`RedLockOptions.MinValidity is 8.87s, must be 0 or less`,
			three("a", &multilock.RedLockOptions{MinValidity: 8870 * time.Millisecond}),
		},
		{
			`RedLockOptions.MinValidity is 9s, must be 0 or less than`,
			three("a", &multilock.RedLockOptions{MinValidity: kit.Lease}),
		},
		{`RedLockOptions.MinValidity is -1s`, three("a", &multilock.RedLockOptions{MinValidity: -time.Second})},
	} {
		_, err := c.l.Lock(t.Context())
		assert.ErrorContains(t, err, c.says)
		_, err = c.l.TryLock(t.Context())
		assert.Error(t, err)
		_, err = c.l.TryLockFor(t.Context(), time.Second)
		assert.Error(t, err)
	}
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	_, err := three("a", nil).Lock(ended)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "enough")
	assert.Zero(t, srv.CommandStats(t)["evalsha"])
	// Only the server can tell that three sessions belong to one server.
	for name, l := range map[string]*multilock.RedLock{"a": three("a", nil), "b": three("b", kit.Patient)} {
		_, err = multilock.NewRedLock([]holdfast.Locker{
			kit.PlainMember(s[0], name),
			kit.ReentrantMember(s[1], name+"1"), kit.PlainMember(s[2], name+"2"),
		}, kit.Patient).Lock(t.Context())
		require.ErrorContains(t, err, "share a server", name)
		_, err = l.TryLock(t.Context())
		require.Error(t, err)
	}
	kit.Await(t, "an empty server", func() bool { return len(srv.Keyspace(t)) == 0 })
}

// The lease counts from the moment when the first server was asked, even if one has to be asked twice.
func TestARedLocksLeaseCountsFromTheFirstCall(t *testing.T) {
	t.Parallel()
	servers := kit.StartServers(t, 3)
	var sessions []*holdfast.Session
	for _, srv := range servers {
		p := proxy.Start(t, srv.Addr())
		p.On(proxy.Command("EVALSHA", "EVAL"), proxy.Delay(200*time.Millisecond), proxy.EveryTime)
		sessions = append(sessions, kit.Open(t, p.Addr(), &holdfast.Options{Lease: 4 * time.Second}))
	}
	l := kit.RedLock(sessions, "slow", kit.ReentrantMember,
		&multilock.RedLockOptions{TrustRestarted: true, ServerTimeout: 2 * time.Second})
	began, still := time.Now(), kit.Stillness()
	h := kit.Lock(t, t.Context(), l)
	const drift = 40*time.Millisecond + 2*time.Millisecond
	// it is asked a little later
	require.LessOrEqual(t, h.Deadline().Sub(began), 4*time.Second-drift+50*time.Millisecond+still())
	require.Greater(t, time.Since(began), 350*time.Millisecond,
		"the server's clock is not known at first, so the first call was refused")
	require.NoError(t, h.Release())
}
