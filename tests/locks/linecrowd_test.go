package locks

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A crowd takes one lock again and again, and records who had it when.
type crowd struct {
	*testing.T
	srv     *redistest.Server
	ctx     context.Context // the time for which it works
	end     context.CancelFunc
	still   func() time.Duration // for how long the process has stood still since
	members sync.WaitGroup

	mu     sync.Mutex // guards the rest
	inside string     // the wire owner that is believed to have the lock
	deep   int        // and how often
	turns  []turn
	gaps   []time.Duration // for which nobody had it
	left   time.Time       // when the last one was inside
	lost   int
}

// A turn is one hold of one member.
type turn struct {
	who   string
	token int64
	wait  time.Duration
}

func newCrowd(t *testing.T, srv *redistest.Server) *crowd {
	t.Helper()
	c := &crowd{T: t, srv: srv, still: kit.Stillness(), left: time.Now()}
	c.ctx, c.end = context.WithCancel(t.Context())
	t.Cleanup(c.end)
	return c
}

// joins has one more member take turns, which it holds for a while each, with what it calls the lock.
func (c *crowd) joins(who string, take func(context.Context) (*holdfast.Hold, error), held time.Duration) {
	c.members.Go(func() {
		for c.ctx.Err() == nil {
			began := time.Now()
			h, err := take(c.ctx)
			if err != nil {
				if c.ctx.Err() == nil {
					assert.NoError(c, err, who)
				}
				continue
			}
			c.enters(h, turn{who, h.Token(), time.Since(began)})
			if held > 0 {
				kit.SleepUntil(time.Now().Add(held))
			}
			c.leaves(h)
		}
	})
}

func (c *crowd) enters(h *holdfast.Hold, t turn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h.Err() != nil {
		return
	}
	if c.inside != "" && c.inside != h.ID() {
		c.Errorf("two have the lock")
	}
	c.inside, c.deep = h.ID(), c.deep+1
	c.turns = append(c.turns, t)
	c.gaps = append(c.gaps, time.Since(c.left))
}

// leaves releases a hold. One that was lost may be another's by now.
func (c *crowd) leaves(h *holdfast.Hold) {
	c.mu.Lock()
	if c.deep--; c.deep == 0 {
		c.inside, c.left = "", time.Now()
	}
	c.mu.Unlock()
	if err := h.Release(); err != nil {
		c.mu.Lock()
		c.lost++
		c.mu.Unlock()
	}
}

// ends ends the crowd, and requires that nothing is left of it.
func (c *crowd) ends() {
	c.Helper()
	c.end()
	over := make(chan bool)
	go func() {
		c.members.Wait()
		close(over)
	}()
	kit.Within(c, 20*time.Second, over, "the end of the crowd")
	(&line{c.T, c.srv}).empty()
}

// longest is the longest time for which nobody had the lock.
func (c *crowd) longest() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Max(append(c.gaps, time.Since(c.left)))
}

// shares are how many turns each had.
func (c *crowd) shares() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	shares := map[string]int{}
	for _, t := range c.turns {
		shares[t.who]++
	}
	return shares
}

func (c *crowd) taken() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.turns)
}

// takes waits until the crowd has had that many turns, however slow the machine is. It fails if the turns stop.
func (c *crowd) takes(turns int) {
	c.Helper()
	for n := c.taken(); n < turns; n = c.taken() {
		kit.Await(c, "another turn", func() bool { return c.taken() > n })
	}
}

// mutex is the lock of a session of its own.
func (c *crowd) mutex(opts *rlock.Options) *rlock.Mutex {
	return rlock.New(kit.Open(c, c.srv.Addr(), nil), "orders", opts)
}

// Subscriptions and connections that break while a line is under way, and scripts that are forgotten, cost nobody the
// lock.
func TestALineUnderBlows(t *testing.T) {
	t.Parallel()
	for name, blow := range map[string][]string{
		"subscriptions break": {"CLIENT", "KILL", "TYPE", "pubsub"},
		"connections break":   {"CLIENT", "KILL", "TYPE", "normal"},
		"forgotten scripts":   {"SCRIPT", "FLUSH"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCrowd(t, redistest.Start(t))
			for i := range 6 {
				c.joins(fmt.Sprint(i), c.mutex(nil).Lock, time.Duration(i%2)*time.Millisecond)
			}
			for range 10 {
				kit.SleepUntil(time.Now().Add(100 * time.Millisecond))
				c.srv.Do(t, blow...)
			}
			before := c.shares()
			kit.Await(t, "the lock for everybody", func() bool {
				after := c.shares()
				for who, n := range before {
					if after[who] == n {
						return false
					}
				}
				return len(after) == 6
			})
			c.ends()
			t.Log(c.taken(), "turns, at most", c.longest(), "without a holder,", c.lost, "lost")
			require.Less(t, c.longest(), kit.LongestWait+c.still())
		})
	}
}

// Goroutines hand the lock over inside their session, and sessions to each other, whatever the options of each.
func TestALineOfAllSorts(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, redistest.Start(t))
	for i := range 3 {
		s := kit.Open(t, c.srv.Addr(), nil)
		for name, opts := range map[string]*rlock.Options{
			"renewed": nil, "fenced": {Fenced: true}, "fixed": {FixedLease: 5 * time.Second},
			"non-reentrant": {NonReentrant: true},
		} {
			for j := range 2 {
				c.joins(fmt.Sprint(name, i, j), rlock.New(s, "orders", opts).Lock, time.Duration(j)*time.Millisecond)
			}
		}
		both := multilock.New(rlock.New(s, "orders", nil), rlock.New(s, fmt.Sprint("besides", i), nil))
		c.joins(fmt.Sprint("with another", i), both.Lock, 0)
	}
	c.takes(kit.Stressed(800, 2000))
	c.ends()
	shares := c.shares()
	t.Log(shares, "at most", c.longest(), "without a holder")
	require.Len(t, shares, 3*(4*2+1), "nobody starves")
	for who, n := range shares {
		require.Greater(t, n, c.taken()/len(shares)/8, "%s of %v", who, shares)
	}
	require.Zero(t, c.lost)
	token := int64(0)
	for _, turn := range c.turns {
		if turn.token > 0 {
			require.Greater(t, turn.token, token)
			token = turn.token
		}
	}
	require.Less(t, c.longest(), kit.LongestWait+c.still())
}

// Calls of one owner share the lock. Others get it all the same.
func TestALineOfOwners(t *testing.T) {
	t.Parallel()
	c := newCrowd(t, redistest.Start(t))
	l := c.mutex(nil)
	for i := range 2 {
		owner := holdfast.NewOwner(c.ctx)
		for range 2 {
			c.joins(fmt.Sprint(i), func(context.Context) (*holdfast.Hold, error) { return l.Lock(owner) }, 0)
		}
	}
	c.takes(kit.Stressed(2000, 15_000))
	c.ends()
	require.Less(t, c.longest(), kit.Told+c.still())
}
