package several

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A multilock says that too few replicas have a member also where it must not wait for that one.
func TestAMultiLockTellsThatTooFewReplicasHaveAMember(t *testing.T) {
	t.Parallel()
	f := kit.NewFleet(t, 4)
	var replicas []*redistest.Server
	for _, srv := range f.Servers[1:] {
		replicas = append(replicas, redistest.StartReplica(t, srv))
	}
	first := rlock.New(kit.Open(t, f.Servers[0].Addr(), nil), kit.Orders, nil)
	asks := f.Far(&holdfast.Options{Lease: time.Minute, Acks: 1, AcksTimeout: 20 * time.Second})[1:]
	for name, second := range map[string]holdfast.Locker{
		"rlock":   rlock.New(asks[0], kit.Orders, nil),
		"redlock": kit.RedLock(asks, kit.Orders, kit.ReentrantMember, kit.Patient),
	} {
		m := multilock.New(first, second)                         // which have one name
		require.NoError(t, kit.Lock(t, t.Context(), m).Release()) // now the connections stand
		f.Empty()
		for _, r := range replicas {
			r.Pause()
		}
		kit.Await(t, name, func() bool { // a busy server may be late itself
			_, err := m.TryLockFor(t.Context(), 900*time.Millisecond) // long enough to be granted both
			return errors.Is(err, holdfast.ErrNotAcknowledged) && !errors.Is(err, holdfast.ErrUnknown)
		})
		f.Empty()
		for _, r := range replicas {
			r.Resume()
		}
	}
}
