package several

import (
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
	one, two := redistest.Start(t), redistest.Start(t)
	replica := redistest.StartReplica(t, two)
	m := multilock.New(rlock.New(kit.Open(t, one.Addr(), nil), kit.Orders, nil),
		rlock.New(kit.Open(t, two.Addr(), &holdfast.Options{
			Lease: time.Minute, Acks: 1, AcksTimeout: 20 * time.Second,
		}), kit.Orders, nil))
	require.NoError(t, kit.Lock(t, t.Context(), m).Release()) // now the connections stand
	replica.Pause()
	_, err := m.TryLockFor(t.Context(), 900*time.Millisecond) // long enough to be granted both
	require.ErrorIs(t, err, holdfast.ErrNotAcknowledged)
	require.NotErrorIs(t, err, holdfast.ErrUnknown)
	kit.Await(t, "both to be given back", func() bool {
		return kit.KeysLeft(t, []*redistest.Server{one, two}) == 0
	})
	replica.Resume()
	require.NoError(t, kit.Lock(t, t.Context(), m).Release())
}
