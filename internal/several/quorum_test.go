package several

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast/internal/core"
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
