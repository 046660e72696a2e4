package several

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/core"
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
			l := new(core.Lock)
			l.FixedLease = lease
			q.Locks = append(q.Locks, l)
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
	err error
}

func (h *memberHold) Err() error                  { return h.err }
func (*memberHold) Deadline() time.Time           { return time.Now().Add(time.Minute) }
func (*memberHold) Watch(context.CancelCauseFunc) {}

// inert is a quorum that nobody looks after.
type inert struct{ behaviour }

func (inert) Session() *session.Session { return new(session.Session) }
func (inert) tend()                     {}

// A member that comes between the verdict and the beginning of the hold counts: with it, a majority is left.
func TestAMemberThatComesAtTheLastMomentCounts(t *testing.T) {
	g := (&Quorum{Locks: make([]*core.Lock, 5)}).newGroup(core.WithOwner(t.Context()))
	holds := make([]memberHold, 4)
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
