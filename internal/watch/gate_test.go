package watch

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wait"
)

// never is when a subscription is confirmed that the server has refused.
const never time.Duration = -1

// A gate is what the tests wait for: it is open or not.
type gate struct {
	t       *testing.T
	began   time.Time
	watches *Watches
	closing chan struct{}
	alarm   *wait.Alarm
	cancel  context.CancelFunc
	running atomic.Int32 // goroutines

	mu    sync.Mutex // guards the rest; the test has it, except while it lets time pass
	open  bool
	err   error         // of a look
	takes time.Duration // a look, which sees what there is when it is sent

	confirms time.Duration  // how long after Listen
	begun    int            // subscriptions
	wakes    map[int]func() // of those that stand, in the order in which they began

	looks   []time.Duration // since began
	woken   []wait.Cause
	trouble []error
}

// newGate is for use in a bubble, and fails the test if anything is left in the end.
func newGate(t *testing.T) *gate {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background()) // so that no cleanup ends what has leaked
	g := &gate{t: t, began: time.Now(), cancel: cancel, wakes: make(map[int]func())}
	g.closing, g.alarm = make(chan struct{}), wait.NewAlarm()
	g.watches = New(ctx, g.alarm, func(f func()) bool {
		if closed(g.closing) {
			return false
		}
		g.running.Add(1)
		go func() {
			defer g.running.Add(-1)
			f()
		}()
		return true
	})
	g.mu.Lock()
	t.Cleanup(func() {
		g.requireEnded("in the end")
		g.mu.Unlock()
	})
	return g
}

func (g *gate) close() {
	close(g.closing)
	g.alarm.Close()
}

func (g *gate) subject() Subject {
	return Subject{
		Key: g,
		Look: func(ctx context.Context) (bool, error) {
			g.mu.Lock()
			open, err, takes := g.open, g.err, g.takes
			g.looks = append(g.looks, time.Since(g.began))
			g.mu.Unlock()
			select {
			case <-time.After(takes):
				return open, err
			case <-ctx.Done():
				return false, &script.Failure{Class: script.Unknown, Temporary: true, Err: ctx.Err()}
			}
		},
		Listen: func(wake func()) (stop func()) {
			g.mu.Lock()
			defer g.mu.Unlock()
			i := g.begun
			g.begun++
			g.wakes[i] = wake
			if g.confirms != never {
				time.AfterFunc(g.confirms, wake)
			}
			return func() {
				g.mu.Lock()
				defer g.mu.Unlock()
				delete(g.wakes, i)
			}
		},
		Woken: func(by wait.Cause) {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.woken = append(g.woken, by)
		},
		Trouble: func(err error) {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.trouble = append(g.trouble, err)
		},
	}
}

func (g *gate) join() *Caller { return g.watches.Join(g.subject()) }

// publish wakes all subscriptions, as a message does.
func (g *gate) publish() {
	for _, wake := range g.wakes {
		wake()
	}
}

// opens opens the gate and says so.
func (g *gate) opens() {
	g.open = true
	g.publish()
}

// in does something in a while.
func (g *gate) in(d time.Duration, do func()) {
	time.AfterFunc(d, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		do()
	})
}

// pass lets time pass, until nobody has anything more to do at that moment.
func (g *gate) pass(d time.Duration) {
	g.mu.Unlock()
	time.Sleep(d)
	synctest.Wait()
	g.mu.Lock()
}

// done lets time pass until the caller's wait is over, and returns when that was.
func (g *gate) done(c *Caller) time.Duration {
	g.t.Helper()
	g.mu.Unlock()
	select {
	case <-c.Done():
	case <-time.After(time.Hour):
		g.t.Error("the wait is not over")
	}
	g.mu.Lock()
	g.pass(0)
	return time.Since(g.began)
}

// requireEnded requires that nobody looks or listens any more, and that nothing is kept.
func (g *gate) requireEnded(when string) {
	g.t.Helper()
	g.pass(0)
	g.watches.mu.Lock()
	defer g.watches.mu.Unlock()
	require.Empty(g.t, g.watches.all, when)
	require.Empty(g.t, g.wakes, when)
	require.Zero(g.t, g.running.Load(), when)
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
