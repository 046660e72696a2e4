package history

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/worker"
)

// The size of the history of a RedLock.
const (
	chronicleLease   = time.Second // the shortest lease allowed
	chronicleLasts   = 8 * time.Second
	chronicleFleets  = 3 // groups of sessions
	chroniclersEach  = 3
	leastSpells      = 24
	chronicleTrouble = time.Second // at most
)

// A spell is the time for which a caller believed that it had a lock. It checked at both ends and at many moments in
// between, so it believed so throughout.
type spell struct {
	lock     string
	who      int
	from, to time.Duration
}

// disputed returns two spells of one lock, the second of which began before the first had ended; nil if there are
// none.
func disputed(spells []spell) []spell {
	sorted := slices.SortedFunc(slices.Values(spells), func(a, b spell) int { return cmp.Compare(a.from, b.from) })
	last := map[string]spell{} // by lock, the spell that ends last
	for _, s := range sorted {
		before, ok := last[s.lock]
		if ok && s.from < before.to {
			return []spell{before, s}
		}
		if s.to >= before.to {
			last[s.lock] = s
		}
	}
	return nil
}

// A chronicle records what the callers of a history believed.
type chronicle struct {
	takes atomic.Int64 // the successful ones
	book  historybook

	mu      sync.Mutex // guards the rest
	spells  []spell
	ordeals map[string]int // by name
}

func (c *chronicle) endured(ordeal string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ordeals[ordeal]++
}

// believe checks a hold for the time d and once more just before its release, or until it is lost. It returns the
// last moment at which the hold was not lost.
func (c *chronicle) believe(who int, h *holdfast.Hold, d time.Duration) (last time.Duration) {
	s := spell{lock: h.Name(), who: who, from: worker.Now()}
	for s.to < s.from+d {
		now := worker.Now()
		if h.Err() != nil {
			break
		}
		s.to = now
		kit.SleepUntil(time.Now().Add(rand.N(2 * time.Millisecond)))
	}
	if s.to == 0 {
		return s.from // it had already ended when it was granted
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spells = append(c.spells, s)
	return s.to
}

// take lets a caller ask for a lock in one of several ways, and release it if it is granted.
func (c *chronicle) take(caller *client, l *multilock.RedLock) {
	wait := rand.N(20 * time.Millisecond) // sometimes too short even for one attempt
	if rand.N(4) > 0 {
		wait = 2 * time.Second
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	ways := []func(context.Context) (*holdfast.Hold, error){
		l.Lock, l.Lock, l.TryLock,
		func(ctx context.Context) (*holdfast.Hold, error) {
			return l.TryLockFor(ctx, rand.N(time.Second))
		},
	}
	tag := caller.tag()
	h := c.granted(caller, deed{Lock: l.Name(), Kind: opTake, Tag: tag},
		func() (*holdfast.Hold, error) { return ways[rand.N(len(ways))](ctx) })
	if h == nil {
		return
	}
	// A lost hold may have been given back at any moment since it was last believed in.
	release := func(h *holdfast.Hold, believed time.Duration) {
		caller.do(deed{Lock: l.Name(), Kind: opRelease, Tag: tag, Until: believed},
			func() string { return ending(h.Release()) })
	}
	d := rand.N(40 * time.Millisecond)
	if c.takes.Add(1)%8 == 0 { // some of them must live until they are renewed
		d = chronicleLease * 5 / 4
	}
	believed := c.believe(caller.number, h, d)
	if rand.N(8) == 0 { // the re-entry outlives the hold that it entered
		inner := c.granted(caller, deed{Lock: l.Name(), Kind: opReenter, Tag: tag}, func() (*holdfast.Hold, error) {
			return l.TryLock(h.Context(context.Background()))
		})
		if inner != nil {
			defer func() { release(inner, c.believe(caller.number, inner, d)) }()
		}
	}
	release(h, believed)
}

// granted returns the hold that a deed resulted in, if any. If there is none, nobody else need have had the lock: two
// callers may each have been promised some of the servers.
func (c *chronicle) granted(caller *client, d deed, take func() (*holdfast.Hold, error)) (h *holdfast.Hold) {
	caller.do(d, func() string {
		var err error
		h, err = take()
		if err != nil && !errors.Is(err, holdfast.ErrUnknown) {
			return "promised"
		}
		return outcome(err)
	})
	return h
}

// ordeals are the things that happen to a server, as some fleets see it or as all do.
var ordeals = []kit.Outage{
	kit.Killed, kit.Paused, kit.Slow, kit.CutOff, kit.Silent,
	{Name: "lost replies", Begin: func(f *kit.Fleet, i int) func() {
		return f.OnEach(kit.AnyScript, proxy.DropReply, proxy.EveryTime, i)
	}},
}

// spoil takes one server after the other and does something to it, which has ended when the server is put back. A
// network failure affects only some of the fleets.
func (c *chronicle) spoil(fleets []*kit.Fleet, servers chan int, over <-chan struct{}) {
	for {
		for _, k := range rand.Perm(len(ordeals)) {
			var i int
			select {
			case <-over:
				return
			case i = <-servers:
			}
			affected := rand.Perm(len(fleets))[:1+rand.N(len(fleets))]
			if ordeals[k].Name == kit.Killed.Name {
				affected = affected[:1] // these affect all fleets
			}
			var ends []func()
			for _, n := range affected {
				ends = append(ends, ordeals[k].Begin(fleets[n], i))
			}
			lasts(rand.N(chronicleTrouble), over)
			for _, end := range ends {
				end()
			}
			if ordeals[k].Name == kit.Killed.Name { // until then it does not count
				lasts(chronicleLease+time.Second, over)
			}
			c.endured(ordeals[k].Name)
			servers <- i
		}
	}
}

// lasts waits for the time d, or until over is closed.
func lasts(d time.Duration, over <-chan struct{}) {
	select {
	case <-time.After(d):
	case <-over:
	}
}

// Nine callers in three places take two locks on five servers. Two of these at a time are killed and come back empty,
// are stopped, are slow, or are cut off from some of the places; and replies are lost everywhere. No two callers ever
// believe that they have the same lock, a reentrant mutex explains what the calls returned, and somebody always gets
// a lock.
func TestAHistoryOfRedLocksHasNoTwoHolders(t *testing.T) { // alone: its servers have to answer in time
	fleets := []*kit.Fleet{kit.NewFleet(t, 5)}
	for len(fleets) < chronicleFleets {
		fleets = append(fleets, fleets[0].Beside())
	}
	var locks [][]*multilock.RedLock
	for _, f := range fleets {
		sessions := f.Near(&holdfast.Options{Lease: chronicleLease})
		locks = append(locks, []*multilock.RedLock{kit.RedLock(sessions, kit.Orders, kit.ReentrantMember,
			kit.Careful), kit.RedLock(sessions, "returns", kit.PlainMember, kit.Careful)})
		for _, p := range f.Proxies {
			p.On(func(command []string) bool { return rand.N(50) == 0 && kit.AnyScript(command) }, proxy.DropReply,
				proxy.EveryTime)
		}
	}
	fleets[0].Seasoned(chronicleLease)
	began, c := time.Now(), &chronicle{book: historybook{deeds: map[string]deed{}}, ordeals: map[string]int{}}
	over, done := make(chan struct{}), make(chan struct{})
	var spoilers, callers sync.WaitGroup
	servers := make(chan int, 5)
	for _, i := range rand.Perm(5) {
		servers <- i
	}
	for range 2 {
		spoilers.Go(func() { c.spoil(fleets, servers, over) })
	}
	for who := range chronicleFleets * chroniclersEach {
		mine, caller := locks[who%chronicleFleets], &client{number: who, tell: c.book.write}
		callers.Go(func() {
			for !kit.Closed(done) {
				c.take(caller, mine[rand.N(len(mine))])
				lasts(rand.N(20*time.Millisecond), done)
			}
		})
	}
	kit.SleepUntil(began.Add(chronicleLasts))
	close(over)
	spoilers.Wait()
	close(done)
	callers.Wait()

	longest, by := time.Duration(0), map[int]int{}
	for _, s := range c.spells {
		longest = max(longest, s.to-s.from)
		by[s.who]++
	}
	record := newRecord([]*historybook{&c.book}, nil)
	t.Log(len(c.spells), "spells, by", by, "at most", longest, record.outs(t), c.ordeals)
	require.Empty(t, disputed(c.spells))
	checkHistory(t, reentrantMutex, record.grants())
	assert.GreaterOrEqual(t, len(c.spells), leastSpells)
	assert.Greater(t, longest, chronicleLease, "no hold was renewed")
	for _, o := range ordeals {
		assert.NotZero(t, c.ordeals[o.Name], o.Name)
	}
	for _, p := range fleets[0].Proxies {
		p.CutAll() // so that no session finds out only now
	}
	fleets[0].Empty()
}

// A history that finds nothing proves nothing.
func TestTheHistoryOfRedLocksRefusesTwoHolders(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spells []spell
		legal  bool
	}{
		"one after the other": {
			[]spell{{kit.Orders, 1, 0, 5}, {kit.Orders, 2, 6, 9}, {kit.Orders, 1, 10, 11}}, true,
		},
		"the next one in no time":         {[]spell{{kit.Orders, 1, 0, 5}, {kit.Orders, 2, 5, 9}}, true},
		"in another order":                {[]spell{{kit.Orders, 2, 6, 9}, {kit.Orders, 1, 0, 5}}, true},
		"two of two locks":                {[]spell{{kit.Orders, 1, 0, 5}, {"returns", 2, 3, 9}}, true},
		"a second one before the release": {[]spell{{kit.Orders, 1, 0, 5}, {kit.Orders, 2, 4, 9}}, false},
		"a moment within":                 {[]spell{{kit.Orders, 1, 0, 5}, {kit.Orders, 2, 4, 4}}, false},
		"a third one within the first": {
			[]spell{{kit.Orders, 1, 0, 9}, {"returns", 2, 2, 3}, {kit.Orders, 3, 8, 9}}, false,
		},
		"two in another order":   {[]spell{{kit.Orders, 2, 4, 9}, {kit.Orders, 1, 0, 5}}, false},
		"a caller beside itself": {[]spell{{kit.Orders, 1, 0, 5}, {kit.Orders, 1, 4, 9}}, false},
	} {
		require.Equal(t, c.legal, disputed(c.spells) == nil, name)
	}
}
