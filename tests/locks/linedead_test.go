package locks

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/worker"
)

const diesLease = 4 * time.Second

// mortal waits for the lock, reports for as long as it believes to have it, and gives it back when it is asked to.
func mortal(args []string) {
	lease, err := time.ParseDuration(args[1])
	kit.Must(err)
	s := kit.OpenWorker(args[0], lease)
	h, err := rlock.New(s, "orders", nil).Lock(context.Background())
	kit.Must(err)
	for {
		select {
		case <-worker.Stopped():
			kit.Must(h.Release())
			kit.Must(s.Close())
			return
		default:
		}
		if h.Err() != nil {
			worker.Say("lost")
			return
		}
		worker.Say("holds")
		time.Sleep(time.Millisecond)
	}
}

// A process is a waiter that can be killed and frozen.
type process struct {
	*worker.Worker
	mu   sync.Mutex
	said []string
}

func (p *process) hear(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said = append(p.said, line)
}

func (p *process) heard() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.said)
}

// process has a process wait whose holds have a lease, and returns when it is the last one in the line.
func (q *line) process(lease time.Duration) *process {
	q.Helper()
	p := &process{}
	before := q.length()
	p.Worker = worker.Start(q, p.hear, "mortal", q.srv.Addr(), lease.String())
	kit.Await(q, "a process in the line", func() bool { return q.length() == before+1 })
	return p
}

// Whoever is killed with the lock that a release has granted has it for the lease of the grant.
func TestAWaiterThatIsKilledAtTheGrant(t *testing.T) {
	t.Parallel()
	q := newLine(t)
	h := kit.Lock(t, t.Context(), q.comes(kit.Lease, nil).l)
	p := q.process(diesLease)
	next := q.waits(t.Context(), q.comes(diesLease, nil).l.Lock)
	p.Pause()
	q.grants(h)
	q.passesOn(h)
	p.Kill()
	require.NoError(t, q.granted(2*diesLease, next, "the next one").Release())
	q.empty()
}

// Whoever is frozen when its turn comes does not believe to have the lock when it wakes up later than that.
func TestAWaiterThatIsFrozenWhenItsTurnComes(t *testing.T) {
	t.Parallel()
	q := newLine(t)
	h := kit.Lock(t, t.Context(), q.comes(kit.Lease, nil).l)
	p := q.process(diesLease)
	next := q.waits(t.Context(), q.comes(diesLease, nil).l.Lock)
	p.Pause()
	q.grants(h)
	q.passesOn(h)
	h = q.granted(2*diesLease, next, "the next one")
	p.Resume()
	kit.Await(t, "the one that was frozen, in the line again", func() bool { return q.length() == 1 })
	require.Zero(t, p.heard())
	q.trusted(h)
	require.NoError(t, h.Release())
	kit.Await(t, "its turn", func() bool { return p.heard() > 0 })
	next = q.waits(t.Context(), q.comes(diesLease, nil).l.Lock)
	p.End()
	require.NoError(t, q.granted(kit.LongestWait, next, "the next one").Release())
	kit.Within(t, kit.LongestWait, p.Ended(), "the end of the process")
	require.NotContains(t, p.said, "lost")
	q.empty()
}

// Whoever is frozen when its turn comes, and wakes up in time, has the lock.
func TestAWaiterThatIsFrozenForAMoment(t *testing.T) {
	t.Parallel()
	q := newLine(t)
	h := kit.Lock(t, t.Context(), q.comes(kit.Lease, nil).l)
	p := q.process(kit.Lease)
	p.Pause()
	q.grants(h)
	q.passesOn(h)
	grant := q.holder()
	p.Resume()
	kit.Await(t, "its turn", func() bool { return p.heard() > 0 })
	require.Equal(t, grant, q.holder())
	p.End()
	kit.Within(t, kit.LongestWait, p.Ended(), "the end of the process")
	q.empty()
}
