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
	t.Parallel()
	srv := redistest.Start(t)
	old := rueidis.ClientOption{InitAddress: []string{srv.Addr()}, AlwaysRESP2: true}
	a, b := kit.OpenWith(t, old, nil), kit.OpenWith(t, old, nil)
	for range 2 {
		for _, k := range kit.OnOneServer() {
			hold := kit.Lock(t, t.Context(), k.Make(a, k.Name, 0))
			got := kit.GoLock(t.Context(), k.Rival(b, k.Name, 0).Lock)
			kit.WaitingFor(t, k, srv, "{"+k.Name)
			require.NoError(t, hold.Release())
			next := kit.Granted(t, kit.Told, got, "the waiter's lock")
			require.NoError(t, next.Extend(t.Context(), 2*time.Second))
			require.NoError(t, next.Release())
		}
		kit.Await(t, "the subscriptions' end", func() bool { return len(srv.Strs(t, "PUBSUB", "CHANNELS")) == 0 })
	}
}

// Redisson keeps notes of unlocks in flight in keys of its own, and relies on them when it sends an unlock again.
func TestRedissonsNotesOfUnlocksAreLeftAlone(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	for _, k := range kit.OnOneServer() {
		srv.Do(t, "FLUSHALL")
		const note = "redisson_unlock_latch:{orders}:0123456789abcdef"
		srv.Do(t, "SET", note, "1", "PX", "20000")
		before := srv.Keyspace(t)
		s := kit.Open(t, srv.Addr(), nil)
		l := k.Make(s, kit.Orders, 0)
		hold := kit.Lock(t, t.Context(), l)
		got := kit.GoLock(t.Context(), k.Rival(s, kit.Orders, 0).Lock)
		kit.Waiting(t, k, srv)
		require.NoError(t, hold.Release())
		next := kit.Granted(t, kit.Told, got, "the waiter's lock")
		_, _ = l.ForceUnlock(t.Context())
		_ = next.Release()
		require.NoError(t, s.Close())
		kit.Await(t, "nothing but the note", func() bool { return len(k.Free(srv.Keyspace(t))) == 1 })
		require.Equal(t, before[note], srv.Keyspace(t)[note])
		kit.Await(t, "the end of its connections", func() bool { return srv.Connections(t) == 0 })
	}
}
