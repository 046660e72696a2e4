package locks

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A replica passes its master's messages on, but the master does not count who hears them there. A session that listens
// at a replica must not be told that it has a lock which the master takes back, because nobody seems to have heard.
func TestNobodyHearsFromAReplicaThatItHasALock(t *testing.T) {
	t.Parallel()
	for kind, open := range map[string]func(s *holdfast.Session) *holdfast.Mutex{
		"rlock":    func(s *holdfast.Session) *holdfast.Mutex { return &rlock.New(s, "orders", nil).Mutex },
		"fairlock": func(s *holdfast.Session) *holdfast.Mutex { return &fairlock.New(s, "orders", nil).Mutex },
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			first := redistest.Start(t, "--repl-diskless-sync-delay", "0")
			second := redistest.Start(t, "--replicaof", "127.0.0.1", first.Strs(t, "CONFIG", "GET", "port")[1],
				"--repl-diskless-sync-delay", "0")
			opts := &holdfast.Options{Lease: time.Minute} // it lasts until the other one is the master
			kit.Lock(t, t.Context(), open(kit.Open(t, first.Addr(), opts)))
			waits := kit.GoLock(t.Context(), open(kit.Open(t, first.Addr(), nil)).Lock)
			kit.Waiting(t, kit.KindOf(kind), first)
			kit.SleepUntil(time.Now().Add(500 * time.Millisecond)) // its look when it had subscribed
			first.AwaitReplica(t)

			second.Do(t, "REPLICAOF", "NO", "ONE")
			first.Do(t, "REPLICAOF", "127.0.0.1", second.Strs(t, "CONFIG", "GET", "port")[1])
			second.AwaitReplica(t) // the former master, which follows
			other := open(kit.Open(t, second.Addr(), nil))
			was, err := other.ForceUnlock(t.Context())
			require.NoError(t, err)
			require.True(t, was)
			h, err := other.TryLock(t.Context())
			require.NoError(t, err, "nobody is known to have it")
			select {
			case r := <-waits:
				require.NoError(t, r.Err)
				t.Fatalf("two holders: %v and %v", r.Hold.ID(), h.ID())
			case <-time.After(time.Second):
			}
			require.NoError(t, h.Release())
		})
	}
}
