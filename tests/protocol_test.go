package tests

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A server, or what stands in front of it, may know the old protocol alone, in which messages are replies like others.
func TestEveryKindSpeaksTheOldProtocol(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind, srv *redistest.Server) {
		old := rueidis.ClientOption{InitAddress: []string{srv.Addr()}, AlwaysRESP2: true}
		a, b := openWith(t, old, nil), openWith(t, old, nil)
		for range 2 {
			hold := lock(t, t.Context(), k.make(a, t.Name(), 0))
			got := goLock(t.Context(), k.rival(b, t.Name(), 0).Lock)
			waiting(t, k, srv)
			require.NoError(t, hold.Release())
			r := within(t, 2*time.Second, got, "the waiter's lock")
			require.NoError(t, r.err)
			require.NoError(t, r.hold.Extend(t.Context(), 2*time.Second))
			require.NoError(t, r.hold.Release())
			await(t, "the subscription's end", func() bool { return len(srv.Strs(t, "PUBSUB", "CHANNELS")) == 0 })
		}
	})
}

// Redisson keeps notes of unlocks that are under way in keys of its own, and counts on them when it sends one again.
func TestRedissonsNotesOfUnlocksAreLeftAlone(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind, srv *redistest.Server) {
		const note = "redisson_unlock_latch:{orders}:0123456789abcdef"
		srv.Do(t, "SET", note, "1", "PX", "20000")
		before := srv.Keyspace(t)
		s := open(t, srv.Addr(), nil)
		l := k.make(s, orders, 0)
		hold := lock(t, t.Context(), l)
		got := goLock(t.Context(), k.rival(s, orders, 0).Lock)
		waiting(t, k, srv)
		require.NoError(t, hold.Release())
		r := within(t, 2*time.Second, got, "the waiter's lock")
		require.NoError(t, r.err)
		_, _ = l.ForceUnlock(t.Context())
		_ = r.hold.Release()
		require.NoError(t, s.Close())
		await(t, "nothing but the note", func() bool { return len(k.free(srv.Keyspace(t))) == 1 })
		require.Equal(t, before[note], srv.Keyspace(t)[note])
	})
}
