package tests

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
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// patient is what tests use whose servers have only just started and are slow at times.
var patient = &multilock.RedLockOptions{TrustRestarted: true, ServerTimeout: 300 * time.Millisecond}

// startServers starts independent servers.
func startServers(t testing.TB, n int) []*redistest.Server {
	var servers []*redistest.Server
	for range n {
		servers = append(servers, redistest.Start(t))
	}
	return servers
}

// openAll opens a session on each server.
func openAll(t testing.TB, servers []*redistest.Server, opts *holdfast.Options) []*holdfast.Session {
	var sessions []*holdfast.Session
	for _, srv := range servers {
		sessions = append(sessions, open(t, srv.Addr(), opts))
	}
	return sessions
}

// reentrant and plain are the members that a RedLock may have.
func reentrant(s *holdfast.Session, name string) holdfast.Locker { return rlock.New(s, name, nil) }

func plain(s *holdfast.Session, name string) holdfast.Locker { return setlock.New(s, name, nil) }

// redLock is a RedLock of one name on the servers of the sessions.
func redLock(sessions []*holdfast.Session, name string, member func(*holdfast.Session, string) holdfast.Locker, opts *multilock.RedLockOptions) *multilock.RedLock {
	var locks []holdfast.Locker
	for _, s := range sessions {
		locks = append(locks, member(s, name))
	}
	return multilock.NewRedLock(locks, opts)
}

// left is how many keys there are on all servers.
func left(t testing.TB, servers []*redistest.Server) (n int) {
	for _, srv := range servers {
		n += len(srv.Keyspace(t))
	}
	return n
}

func TestARedLockIsOnAllServers(t *testing.T) {
	t.Parallel()
	servers := startServers(t, 5)
	mine, theirs := openAll(t, servers, nil), openAll(t, servers, nil)
	for name, member := range map[string]func(*holdfast.Session, string) holdfast.Locker{"reentrant": reentrant, "plain": plain} {
		l, other := redLock(mine, name, member, patient), redLock(theirs, name, member, patient)
		require.Equal(t, name, l.Name())
		before := time.Now()
		h := lock(t, t.Context(), l)
		require.Equal(t, name, h.Name())
		require.Empty(t, h.ID())
		require.Zero(t, h.Token())
		require.NoError(t, h.Err())
		await(t, "all servers", func() bool { return left(t, servers) == 5 })
		require.Greater(t, time.Until(h.Deadline()), 2*time.Second)
		require.LessOrEqual(t, h.Deadline().Sub(before), 3*time.Second)

		_, err := other.TryLock(t.Context())
		require.ErrorIs(t, err, holdfast.ErrBusy)
		require.NotErrorIs(t, err, holdfast.ErrUnknown)
		require.ErrorContains(t, err, fmt.Sprintf("redlock %q: try lock: ", name))
		_, err = other.TryLockFor(t.Context(), 100*time.Millisecond)
		require.ErrorIs(t, err, holdfast.ErrBusy)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
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
		require.NoError(t, h.Extend(t.Context(), 3*time.Second))
		require.Greater(t, h.Deadline(), before)
		require.NoError(t, h.Extend(t.Context(), 4*time.Second), "no server is doubted after a restart, so it may be any lease")

		got := goLock(t.Context(), other.Lock)
		require.NoError(t, h.Release())
		require.ErrorIs(t, h.Err(), holdfast.ErrNotHeld)
		require.ErrorIs(t, h.Release(), holdfast.ErrNotHeld)
		require.ErrorIs(t, context.Cause(ctx), holdfast.ErrNotHeld)
		r := within(t, 3*time.Second, got, "the other's turn")
		require.NoError(t, r.err)
		require.NoError(t, r.hold.Release())
		await(t, "empty servers", func() bool { return left(t, servers) == 0 })
	}
}

func TestARedLockNamesMistakesAndSendsNothing(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	var s []*holdfast.Session
	for range 3 {
		s = append(s, open(t, srv.Addr(), nil))
	}
	srv.ResetStats(t)
	three := func(name string, opts *multilock.RedLockOptions) *multilock.RedLock {
		return redLock(s, name, reentrant, opts)
	}
	for says, l := range map[string]*multilock.RedLock{
		`redlock "a": lock: 2 locks are given, must be at least 3`: redLock(s[:2], "a", reentrant, nil),
		`redlock "": lock: 0 locks are given`:                      multilock.NewRedLock(nil, nil),
		`redlock "": lock: lock 1 is nil`:                          multilock.NewRedLock(make([]holdfast.Locker, 3), nil),
		`lock 2 is fairlock "a", must be an rlock or a set`:        multilock.NewRedLock([]holdfast.Locker{reentrant(s[0], "a"), fairlock.New(s[1], "a", nil), plain(s[2], "a")}, nil),
		`lock 1 is a *multilock.RedLock`:                           multilock.NewRedLock([]holdfast.Locker{three("a", nil)}, nil),
		`locks 1 and 3 are of one session`:                         redLock([]*holdfast.Session{s[0], s[1], s[0]}, "a", plain, nil),
		`redlock "": lock: name is empty`:                          three("", nil),
		`RedLockOptions.ServerTimeout is -1s`:                      three("a", &multilock.RedLockOptions{ServerTimeout: -time.Second}),
		`RedLockOptions.ServerTimeout is 3s, must be 0 or less `:   three("a", &multilock.RedLockOptions{ServerTimeout: 3 * time.Second}),
		`lock 2 is nil`: multilock.NewRedLock([]holdfast.Locker{plain(s[0], "a"), (*rlock.Mutex)(nil), plain(s[2], "a")}, nil),
		`lock: Options.Token is set, must not be`: redLock(s, "a", func(s *holdfast.Session, name string) holdfast.Locker {
			return setlock.New(s, name, &setlock.Options{Token: "host"})
		}, nil),
		`RedLockOptions.MinValidity is 2.93s, must be 0 or less`:   three("a", &multilock.RedLockOptions{MinValidity: 2930 * time.Millisecond}),
		`RedLockOptions.MinValidity is 3s, must be 0 or less than`: three("a", &multilock.RedLockOptions{MinValidity: 3 * time.Second}),
		`RedLockOptions.MinValidity is -1s`:                        three("a", &multilock.RedLockOptions{MinValidity: -time.Second}),
	} {
		_, err := l.Lock(t.Context())
		assert.ErrorContains(t, err, says)
		_, err = l.TryLock(t.Context())
		assert.Error(t, err)
		_, err = l.TryLockFor(t.Context(), time.Second)
		assert.Error(t, err)
	}
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	_, err := three("a", nil).Lock(ended)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "enough")
	assert.Zero(t, srv.CommandStats(t)["evalsha"])
	// That three sessions are of one server only the server can tell.
	for name, l := range map[string]*multilock.RedLock{"a": three("a", nil), "b": three("b", patient)} {
		_, err = multilock.NewRedLock([]holdfast.Locker{plain(s[0], name), reentrant(s[1], name+"1"), plain(s[2], name+"2")}, patient).Lock(t.Context())
		require.ErrorContains(t, err, "on one server", name)
		_, err = l.TryLock(t.Context())
		require.Error(t, err)
	}
	await(t, "an empty server", func() bool { return len(srv.Keyspace(t)) == 0 })
}

// The lease counts from the moment when the first server was asked, also where one has to be asked twice.
func TestARedLocksLeaseCountsFromTheFirstCall(t *testing.T) {
	t.Parallel()
	servers := startServers(t, 3)
	var sessions []*holdfast.Session
	for _, srv := range servers {
		p := proxy.Start(t, srv.Addr())
		p.On(proxy.Command("EVALSHA", "EVAL"), proxy.Delay(200*time.Millisecond), proxy.EveryTime)
		sessions = append(sessions, open(t, p.Addr(), &holdfast.Options{Lease: 4 * time.Second}))
	}
	l := redLock(sessions, "slow", reentrant, &multilock.RedLockOptions{TrustRestarted: true, ServerTimeout: 2 * time.Second})
	began := time.Now()
	h := lock(t, t.Context(), l)
	const drift = 40*time.Millisecond + 2*time.Millisecond
	require.LessOrEqual(t, h.Deadline().Sub(began), 4*time.Second-drift+50*time.Millisecond) // it is asked somewhat later
	require.Greater(t, time.Since(began), 350*time.Millisecond, "the server's clock is not known at first, so the first call was refused")
	require.NoError(t, h.Release())
}
