package setlockinterop

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/setlock"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// redis-py's Lock has no lease unless it is told one. Ours waits for it all the same, and gives it one when it adopts
// it.
func TestALockOfRedisPyWithoutAnEnd(t *testing.T) {
	srv := redistest.Start(t)
	endless := redisPy.mutex(t, srv, 0)
	p := oursFor(t, srv, long)
	l := setlock.New(p.session, "x", &setlock.Options{FixedLease: long})
	token := take(t, endless)
	require.Equal(t, map[string]redistest.Value{"x": {Type: "string", Content: token}}, srv.Keyspace(t))
	_, err := l.TryLock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrBusy)
	left, err := l.RemainingLease(t.Context())
	require.NoError(t, err)
	require.Negative(t, left)

	m := p.mutex(spec{name: "x", lease: long})
	w := begin(t, srv, m)
	require.Less(t, w.after(t, endless.release), promptly)
	require.NoError(t, m.release())

	token = take(t, endless)
	hold, err := l.Adopt(t.Context(), token)
	require.NoError(t, err)
	requireLock(t, srv, token, long)
	require.NoError(t, hold.Release())
	err = endless.release()
	require.True(t, redisPy.notMine(err), "%v", err)
}

// redis-py's other methods work on a lock of ours whose token it was given, and on no other one.
func TestRedisPyKeepsALockOfOurs(t *testing.T) {
	srv := redistest.Start(t)
	m := redisPy.mutex(t, srv, long).(*pythonMutex)
	l := setlock.New(oursFor(t, srv, long).session, "x", &setlock.Options{FixedLease: long / 2})
	hold, err := l.TryLock(t.Context())
	require.NoError(t, err)
	locked, err := m.do("locked", nil)
	require.NoError(t, err)
	require.Equal(t, true, locked)
	require.NoError(t, m.claim("another"))
	requireMine(t, m, false)
	for method, args := range map[string]map[string]any{"reacquire": nil, "extend": {"additional_time": 1}} {
		_, err = m.do(method, args)
		require.True(t, redisPy.notMine(err), "%s: %v", method, err)
	}
	requireLock(t, srv, hold.ID(), long/2)

	require.NoError(t, hold.Detach())
	require.NoError(t, m.claim(hold.ID()))
	requireMine(t, m, true)
	_, err = m.do("reacquire", nil) // to its own timeout
	require.NoError(t, err)
	requireLock(t, srv, hold.ID(), long)
	_, err = m.do("extend", map[string]any{"additional_time": long.Seconds()}) // on top
	require.NoError(t, err)
	requireLock(t, srv, hold.ID(), 2*long)
	require.NoError(t, m.release())
	require.Empty(t, srv.Keyspace(t))
}
