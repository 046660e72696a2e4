package several

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/session"
)

// A server that is busy or far away has time to answer even where leases are short; one that is down costs a part of
// the lease.
func TestAServersTimeoutFollowsTheLease(t *testing.T) {
	for length, want := range map[time.Duration]time.Duration{
		10 * time.Millisecond:  2500 * time.Microsecond,
		200 * time.Millisecond: 50 * time.Millisecond,
		time.Second:            100 * time.Millisecond,
		2 * time.Second:        100 * time.Millisecond,
		30 * time.Second:       300 * time.Millisecond,
		10 * time.Minute:       time.Second,
	} {
		q := Quorum{}
		for _, lease := range []time.Duration{time.Hour, length} {
			q.Locks = append(q.Locks, &core.Lock{Settings: &kind.Settings{FixedLease: lease}})
		}
		assert.Equal(t, want, q.timeout(), length)
	}
	assert.Equal(t, time.Millisecond, (&Quorum{ServerTimeout: time.Millisecond}).timeout())
}

// The goroutine that asks a server may begin long after the others have granted the lock.
func TestAServerThatIsYetToBeAskedIsNotAskedBesides(t *testing.T) {
	q := &Quorum{Locks: []*core.Lock{new(core.Lock), new(core.Lock), new(core.Lock)}}
	assert.Empty(t, q.newGroup(context.Background()).vacant())
}

// memberHold is a hold of a member that lasts until it is lost.
type memberHold struct {
	session.Holding
	err   error
	until time.Time
}

func (h *memberHold) Err() error {
	if h.err == nil && !time.Now().Before(h.until) {
		return session.ErrLost
	}
	return h.err
}

func (h *memberHold) Deadline() time.Time         { return h.until }
func (*memberHold) Watch(context.CancelCauseFunc) {}

// heldUntil are holds of five servers which last for as many minutes as that.
func heldUntil(minutes ...int) []memberHold {
	holds := make([]memberHold, 5)
	for i := range holds {
		holds[i].until = time.Now().Add(time.Duration(minutes[i]) * time.Minute)
	}
	return holds
}

// inert is a quorum that nobody looks after.
type inert struct{ behaviour }

func (inert) Session() *session.Session { return new(session.Session) }
func (inert) tend()                     {}
func (inert) freed()                    {}

func (inert) lost([]int, time.Duration) (*ending, []error) { return &ending{err: session.ErrLost}, nil }

// A member that comes between the verdict and the beginning of the hold counts: with it, a majority is left.
func TestAMemberThatComesAtTheLastMomentCounts(t *testing.T) {
	g := (&Quorum{Locks: make([]*core.Lock, 5)}).newGroup(core.WithOwner(t.Context()))
	holds := heldUntil(1, 1, 1, 1, 1)
	for i := range 3 {
		admitted, _ := g.admit(i, member{hold: &holds[i], asking: true})
		require.True(t, admitted)
	}
	require.NoError(t, g.verdict(make([]error, 5)))
	admitted, late := g.admit(3, member{hold: &holds[3], asking: true})
	require.True(t, admitted)
	require.False(t, late, "the hold had not begun")
	quorum := g.behaviour
	g.behaviour = inert{quorum}
	g.begin(t.Context())
	g.behaviour = quorum
	holds[0].err = errors.New("lost")
	require.True(t, g.certain())
}

// begun returns a group that nobody looks after, with those holds.
func begun(t *testing.T, holds []memberHold) *quorumGroup {
	t.Helper()
	g := (&Quorum{Locks: make([]*core.Lock, len(holds))}).newGroup(core.WithOwner(t.Context()))
	for i := range holds {
		admitted, _ := g.admit(i, member{hold: &holds[i], asking: true})
		require.True(t, admitted)
	}
	require.NoError(t, g.verdict(make([]error, len(holds))))
	g.behaviour = inert{g.behaviour}
	g.begin(t.Context())
	return g
}

// The deadline of a hold that has ended is what it was last, whatever became of servers that it did not need.
func TestTheDeadlineOfAQuorumStays(t *testing.T) {
	holds := heldUntil(2, 3, 1, 5, 4)
	g := begun(t, holds)
	require.Equal(t, holds[1].until, g.Deadline())
	holds[3].err = session.ErrLost // dropped long before its lease would be over
	require.Equal(t, holds[0].until, g.Deadline())
	g.finish(releasedEnd, 0)
	for i := range holds {
		holds[i].err = session.ErrNotHeld
	}
	require.Equal(t, holds[0].until, g.Deadline())
}

// A hold was held until too few members were trusted, however late that is noticed, as in a process that stood still.
func TestAQuorumIsHeldUntilItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		holds := heldUntil(2, 3, 1, 5, 4)
		g := begun(t, holds)
		var held time.Duration
		g.observed = func(d time.Duration, _ error) { held = d }
		time.Sleep(time.Hour)
		require.Equal(t, holds[1].until, g.Deadline())
		require.ErrorIs(t, g.Err(), session.ErrLost)
		synctest.Wait()
		require.Equal(t, 3*time.Minute, held)
	})
}
