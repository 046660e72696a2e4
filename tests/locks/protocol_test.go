package locks

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A server, or a proxy in front of it, may know only the old protocol, in which messages are replies like others.
func TestEveryKindSpeaksTheOldProtocol(t *testing.T) {
	kit.EachKindAtOnce(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
		old := rueidis.ClientOption{InitAddress: []string{srv.Addr()}, AlwaysRESP2: true}
		a, b := kit.OpenWith(t, old, nil), kit.OpenWith(t, old, nil)
		for range 2 {
			hold := kit.Lock(t, t.Context(), k.Make(a, t.Name(), 0))
			got := kit.GoLock(t.Context(), k.Rival(b, t.Name(), 0).Lock)
			kit.Waiting(t, k, srv)
			require.NoError(t, hold.Release())
			r := kit.Within(t, kit.Told, got, "the waiter's lock")
			require.NoError(t, r.Err)
			require.NoError(t, r.Hold.Extend(t.Context(), 2*time.Second))
			require.NoError(t, r.Hold.Release())
			kit.Await(t, "the subscription's end", func() bool { return len(srv.Strs(t, "PUBSUB", "CHANNELS")) == 0 })
		}
	})
}

// Redisson keeps notes of unlocks in flight in keys of its own, and relies on them when it sends an unlock again.
func TestRedissonsNotesOfUnlocksAreLeftAlone(t *testing.T) {
	kit.EachKind(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
		const note = "redisson_unlock_latch:{orders}:0123456789abcdef"
		srv.Do(t, "SET", note, "1", "PX", "20000")
		before := srv.Keyspace(t)
		s := kit.Open(t, srv.Addr(), nil)
		l := k.Make(s, kit.Orders, 0)
		hold := kit.Lock(t, t.Context(), l)
		got := kit.GoLock(t.Context(), k.Rival(s, kit.Orders, 0).Lock)
		kit.Waiting(t, k, srv)
		require.NoError(t, hold.Release())
		r := kit.Within(t, kit.Told, got, "the waiter's lock")
		require.NoError(t, r.Err)
		_, _ = l.ForceUnlock(t.Context())
		_ = r.Hold.Release()
		require.NoError(t, s.Close())
		kit.Await(t, "nothing but the note", func() bool { return len(k.Free(srv.Keyspace(t))) == 1 })
		require.Equal(t, before[note], srv.Keyspace(t)[note])
	})
}
