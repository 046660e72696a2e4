package several

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// unhurried is what tests use in which the number of servers that answer matters.
var unhurried = &multilock.RedLockOptions{TrustRestarted: true, ServerTimeout: time.Second}

// acquires are the runs of the script that takes a reentrant lock.
var acquires = kit.ScriptNamed("rlock_acquire")

// A crisis is one RedLock and another one of somebody else, two of whose five servers fail.
type crisis struct {
	*kit.Fleet
	near         []*holdfast.Session // of mine
	mine, theirs *multilock.RedLock
	fail         func() // two of the servers do
	waiter       <-chan kit.Result
}

// everywhere takes the lock on all servers.
func (c *crisis) everywhere() *holdfast.Hold {
	c.Helper()
	h := kit.Lock(c, c.Context(), c.mine)
	c.Has(c.near, 1, 1, 1, 1, 1)
	return h
}

// moments are when the servers of a crisis fail. Each is over when the lock is held and they have failed.
var moments = []struct {
	name string
	come func(c *crisis) *holdfast.Hold
}{
	{"before it is taken", func(c *crisis) *holdfast.Hold {
		c.fail()
		return kit.Lock(c, c.Context(), c.mine)
	}},
	{"while it is held", func(c *crisis) *holdfast.Hold {
		h := c.everywhere()
		c.fail()
		return h
	}},
	{"while somebody waits", func(c *crisis) *holdfast.Hold {
		h := c.everywhere()
		c.waiter = kit.GoLock(c.Context(), c.theirs.Lock)
		kit.Await(c, "a subscription", func() bool { return len(c.Servers[0].Strs(c, "PUBSUB", "CHANNELS")) > 0 })
		c.fail()
		return h
	}},
	{"at its release", func(c *crisis) *holdfast.Hold {
		h := c.everywhere()
		c.fail()
		require.NoError(c, h.Release())
		kit.GrantAndRelease(c, kit.GoLock(c.Context(), c.theirs.Lock))
		return kit.Lock(c, c.Context(), c.mine)
	}},
}

// Two servers of five may fail in any way at any time. When they are back the hold lives on them as well, and two others
// may fail.
func TestARedLockGoesOnWithoutTwoOfFiveServers(t *testing.T) {
	t.Parallel()
	const length = 3 * time.Second
	type place struct {
		outage       kit.Outage
		moment       int
		down, others []int
	}
	var places []place
	var pairs [][]int
	for i := range 5 {
		for j := range i {
			pairs = append(pairs, []int{j, i})
		}
	}
	for _, o := range []kit.Outage{kit.Killed, kit.Paused, kit.Slow, kit.CutOff} {
		for m := range moments {
			p := place{outage: o, moment: m, down: pairs[len(places)%len(pairs)]}
			for i := range 5 {
				if !slices.Contains(p.down, i) && len(p.others) < 2 {
					p.others = append(p.others, i)
				}
			}
			places = append(places, p)
		}
	}
	kit.InParallel(t, len(places), places, func(p place) string {
		return fmt.Sprintf("%s/%s/%v", p.outage.Name, moments[p.moment].name, p.down)
	}, func(t *testing.T, p place) {
		opts, tuned := &holdfast.Options{Lease: length}, *kit.Patient
		tuned.ServerTimeout = 600 * time.Millisecond // many of these run at once
		c := &crisis{Fleet: kit.NewFleet(t, 5)}
		kit.Building <- struct{}{}
		c.near = c.Near(opts)
		c.mine, c.theirs = kit.RedLock(c.near, kit.Orders, kit.ReentrantMember, &tuned), kit.RedLock(c.Far(opts), kit.Orders, kit.ReentrantMember, &tuned)
		<-kit.Building
		var repair func()
		c.fail = func() { repair = c.Strike(p.outage, p.down...) }
		h := moments[p.moment].come(c)
		defer func() {
			if t.Failed() {
				t.Log("at the end it was", kit.ClassOf(h.Err()))
			}
		}()
		c.Keeps(2*length, h, c.theirs)
		repair()
		c.Has(c.near, 1, 1, 1, 1, 1)
		repair = c.Strike(kit.Killed, p.others...)
		c.Keeps(length*5/4, h, c.theirs)
		require.NoError(t, h.Release())
		if c.waiter == nil {
			c.waiter = kit.GoLock(t.Context(), c.theirs.Lock)
		}
		kit.GrantAndRelease(t, c.waiter)
		repair()
		c.Empty()
	})
}

// Without three servers of five nobody gets the lock, and is told why. Whoever has it learns that it is lost when it said
// that it might be, and before anybody else has it.
func TestNobodyHasARedLockWithoutThreeOfFiveServers(t *testing.T) {
	t.Parallel()
	const length = 2 * time.Second
	outages := []kit.Outage{kit.Killed, kit.Paused, kit.CutOff, kit.Silent}
	kit.InParallel(t, len(outages), outages, func(o kit.Outage) string { return o.Name }, func(t *testing.T, o kit.Outage) {
		opts := &holdfast.Options{Lease: length}
		f := kit.NewFleet(t, 5)
		near, far := f.Near(opts), f.Far(opts)
		h := kit.Lock(t, t.Context(), kit.RedLock(near, kit.Orders, kit.ReentrantMember, kit.Patient))
		f.Has(near, 1, 1, 1, 1, 1)
		ctx := h.Context(t.Context())
		next := kit.GoLock(t.Context(), func(ctx context.Context) (*holdfast.Hold, error) {
			next, err := kit.RedLock(far, kit.Orders, kit.ReentrantMember, kit.Patient).Lock(ctx)
			if h.Err() == nil {
				err = errors.Join(err, errors.New("the first one believes that it has it still"))
			}
			return next, err
		})
		other := kit.RedLock(near, "returns", kit.ReentrantMember, unhurried)
		require.NoError(t, kit.Lock(t, t.Context(), other).Release()) // the sessions know the servers' clocks
		repair := f.Strike(o, 1, 2, 4)

		refused := make(chan error, 1)
		go func() { refused <- refusals(other) }()
		for h.Err() == nil {
			announced := h.Deadline()
			kit.SleepUntil(announced)
			if later := h.Deadline(); h.Err() == nil {
				require.Greater(t, later, announced)
			}
		}
		lost, ok := errors.AsType[*holdfast.LostError](h.Err())
		require.True(t, ok, h.Err())
		require.Equal(t, kit.Orders, lost.Name)
		kit.Within(t, time.Second, ctx.Done(), "the end of the context")
		require.ErrorIs(t, context.Cause(ctx), holdfast.ErrLost)
		require.NoError(t, kit.Within(t, 10*time.Second, refused, "refusals"))
		require.ErrorIs(t, h.Release(), holdfast.ErrLost)
		repair()
		kit.GrantAndRelease(t, next)
		require.NoError(t, kit.Lock(t, t.Context(), other).Release())
		f.Empty()
	})
}

// Half of an even number of servers is no majority: the halves of a network that is split would both have the lock.
func TestHalfOfTheServersAreNoMajorityOfARedLock(t *testing.T) {
	t.Parallel()
	const length, says = 2 * time.Second, "2 of 4 servers granted it, 3 are needed"
	opts := &holdfast.Options{Lease: length}
	f := kit.NewFleet(t, 4)
	others := f.Beside()
	near := f.Near(opts)
	mine, theirs := kit.RedLock(near, kit.Orders, kit.ReentrantMember, unhurried), kit.RedLock(others.Near(opts), kit.Orders, kit.ReentrantMember, unhurried)
	for _, l := range []*multilock.RedLock{mine, theirs} {
		require.NoError(t, kit.Lock(t, t.Context(), l).Release()) // the sessions know the servers' clocks
		f.Empty()
	}
	split := func() (mend func()) {
		ends := []func(){f.Strike(kit.CutOff, 0, 1), others.Strike(kit.CutOff, 2, 3)}
		return func() {
			for _, end := range ends {
				end()
			}
		}
	}
	mend := split()
	for _, l := range []*multilock.RedLock{mine, theirs} {
		_, err := l.TryLock(t.Context())
		require.ErrorContains(t, err, says)
		f.Empty()
	}
	mend()
	h := kit.Lock(t, t.Context(), mine)
	f.Has(near, 1, 1, 1, 1)
	mend = split()
	kit.Within(t, 2*length, h.Context(t.Context()).Done(), "the loss")
	require.ErrorIs(t, h.Err(), holdfast.ErrLost)
	mend()
	kit.GrantAndRelease(t, kit.GoLock(t.Context(), theirs.Lock))
	f.Empty()

	h = kit.Lock(t, t.Context(), mine)
	f.Has(near, 1, 1, 1, 1)
	mend = split()
	require.ErrorIs(t, h.Release(), holdfast.ErrUnknown)
	mend()
	f.Empty()
}

// refusals asks for a lock of which two of five servers are there, in all ways, and says which answer is wrong.
func refusals(l *multilock.RedLock) (wrong error) {
	const says = "2 of 5 servers granted it, 3 are needed"
	_, err := l.TryLock(context.Background())
	if err == nil || !strings.Contains(err.Error(), says) || kit.ClassOf(err) != "unknown" && !strings.HasPrefix(kit.ClassOf(err), "other") {
		wrong = errors.Join(wrong, fmt.Errorf("TryLock: %s: %w", kit.ClassOf(err), err))
	}
	_, err = l.TryLockFor(context.Background(), 500*time.Millisecond)
	if err == nil || errors.Is(err, holdfast.ErrBusy) || errors.Is(err, context.DeadlineExceeded) {
		wrong = errors.Join(wrong, fmt.Errorf("TryLockFor: %s: %w", kit.ClassOf(err), err))
	}
	why := errors.New("closing time")
	ctx, cancel := context.WithTimeoutCause(context.Background(), 500*time.Millisecond, why)
	defer cancel()
	_, err = l.Lock(ctx)
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, why) || errors.Is(err, holdfast.ErrBusy) {
		wrong = errors.Join(wrong, fmt.Errorf("Lock: %s: %w", kit.ClassOf(err), err))
	}
	return wrong
}

// A server that comes back without its memory lets in nobody while somebody may trust what it has forgotten. The other story
// is the same, with servers that are said to forget nothing: it shows that there is something to be let in to.
func TestAServerThatHasForgottenARedLockDoesNotCountForALease(t *testing.T) {
	t.Parallel()
	const length = 2 * time.Second
	trusting := *kit.Careful
	trusting.TrustRestarted = true
	for name, c := range map[string]struct {
		opts *multilock.RedLockOptions
		two  bool // have it
	}{"careful": {kit.Careful, false}, "trusting": {&trusting, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := &holdfast.Options{Lease: length}
			f := kit.NewFleet(t, 5)
			f.Seasoned(length)
			mine, theirs := kit.RedLock(f.Near(opts), kit.Orders, kit.ReentrantMember, c.opts), kit.RedLock(f.Far(opts), kit.Orders, kit.ReentrantMember, c.opts)
			require.NoError(t, kit.Lock(t, t.Context(), theirs).Release())
			f.Empty()
			back := f.Strike(kit.Paused, 3, 4)
			h := kit.Lock(t, t.Context(), mine)
			f.Strike(kit.CutOff, 2, 3, 4) // it learns nothing more of them
			back()
			f.Servers[2].Restart()
			restarted := time.Now()
			next, err := theirs.Lock(t.Context())
			firstErr := h.Err()
			took := time.Since(restarted)
			require.NoError(t, err)
			if c.two {
				require.NoError(t, firstErr)
			} else {
				require.ErrorIs(t, firstErr, holdfast.ErrLost, "two have it")
				require.GreaterOrEqual(t, took, length-time.Second) // seconds are whole ones
				require.Less(t, took, 2*length+4*time.Second, "it does not count again")
			}
			require.NoError(t, next.Release())
			_ = h.Release()
			f.Heal()
			f.Empty()
		})
	}
}

// A tally counts the lines of a log that say something.
type tally struct {
	says string
	n    atomic.Int64
}

func (c *tally) Write(line []byte) (int, error) {
	if strings.Contains(string(line), c.says) {
		c.n.Add(1)
	}
	return len(line), nil
}

// A server that does not tell for how long it has been up counts, and each session says so once.
func TestAServerThatDoesNotTellItsAgeCounts(t *testing.T) {
	t.Parallel()
	const rounds = 3
	f := kit.NewFleet(t, 3) // all of them younger than a lease
	client := rueidis.ClientOption{Username: "limited", Password: redistest.Password}
	var told, limited []*holdfast.Session
	var logs []*tally
	for _, srv := range f.Servers {
		srv.Grant(t, client.Username, "~*", "&*", "+@all", "-info")
		log := &tally{says: "does not tell how long it has been up"}
		client.InitAddress = []string{srv.Addr()}
		limited = append(limited, kit.OpenWith(t, client, &holdfast.Options{Lease: 30 * time.Second, Logger: slog.New(slog.NewTextHandler(log, nil))}))
		told = append(told, kit.Open(t, srv.Addr(), &holdfast.Options{Lease: 30 * time.Second}))
		logs = append(logs, log)
	}
	_, err := kit.RedLock(told, kit.Orders, kit.ReentrantMember, kit.Careful).TryLock(t.Context())
	require.ErrorContains(t, err, "0 of 3 servers granted it")
	require.ErrorContains(t, err, "has started within a lease")
	f.Empty()
	for range rounds {
		for name, member := range map[string]func(*holdfast.Session, string) holdfast.Locker{kit.Orders: kit.ReentrantMember, "returns": kit.PlainMember} {
			h, err := kit.RedLock(limited, name, member, kit.Careful).TryLockFor(t.Context(), 5*time.Second)
			require.NoError(t, err)
			kit.Await(t, "all servers", func() bool { return kit.KeysLeft(t, f.Servers) == 3 })
			require.NoError(t, h.Release())
			f.Empty()
		}
	}
	for _, log := range logs {
		require.EqualValues(t, 1, log.n.Load())
	}
}

// An extension needs the servers that count, however fast one answers that does not yet.
func TestARedLockIsExtendedByServersThatCount(t *testing.T) {
	t.Parallel()
	const length = 5 * time.Second
	f := kit.NewFleet(t, 3)
	near := f.Near(&holdfast.Options{Lease: length})
	l := kit.RedLock(near, kit.Orders, kit.ReentrantMember, kit.Careful)
	f.Seasoned(length)
	require.NoError(t, kit.Lock(t, t.Context(), l).Release()) // the sessions know the servers' clocks
	f.Servers[0].Restart()
	h := kit.Lock(t, t.Context(), l)
	f.Has(near, 1, 1, 1)
	remove := f.OnEach(kit.AnyScript, proxy.Delay(100*time.Millisecond), proxy.EveryTime, 2)
	require.NoError(t, h.Extend(t.Context(), length))
	require.Greater(t, time.Until(h.Deadline()), length-time.Second)
	remove()

	remove = f.OnEach(kit.AnyScript, proxy.DropReply, proxy.EveryTime, 2)
	err := h.Extend(t.Context(), length)
	require.ErrorIs(t, err, holdfast.ErrUnknown)
	require.NotErrorIs(t, err, holdfast.ErrLost)
	require.ErrorContains(t, err, "has started within a lease")
	remove()
	require.NoError(t, h.Err())
	require.NoError(t, h.Release())
	f.Empty()
}

// Whatever replies are lost: what is not held by most is given back everywhere, and what is goes on without the rest.
func TestRepliesToARedLockAreLost(t *testing.T) {
	t.Parallel()
	type place struct {
		servers []int
		times   proxy.Times
	}
	var places []place
	for _, servers := range [][]int{{1}, {0, 4}, {1, 2, 3}, {0, 1, 2, 3, 4}} {
		places = append(places, place{servers, proxy.First}, place{servers, proxy.EveryTime})
	}
	kit.InParallel(t, len(places), places, func(p place) string { return fmt.Sprint(p.servers, " ", p.times) }, func(t *testing.T, p place) {
		f := kit.NewFleet(t, 5)
		near := f.Near(&holdfast.Options{Lease: 30 * time.Second}) // nothing is gone because its lease is over
		l := kit.RedLock(near, kit.Orders, kit.ReentrantMember, unhurried)
		require.NoError(t, kit.Lock(t, t.Context(), l).Release()) // the sessions know the servers' clocks
		f.Empty()
		remove := f.OnEach(acquires, proxy.DropReply, p.times, p.servers...)
		h, err := l.TryLock(t.Context())
		switch {
		case p.times == proxy.EveryTime && len(p.servers) > 2:
			require.ErrorIs(t, err, holdfast.ErrUnknown)
			require.ErrorContains(t, err, fmt.Sprintf("%d of 5 servers granted it", 5-len(p.servers)))
			require.NotErrorIs(t, err, context.DeadlineExceeded)
			f.Empty() // though replies are lost still
			remove()
		default: // tried again in time, or not needed
			require.NoError(t, err)
			remove()
			f.Has(near, 1, 1, 1, 1, 1)
			require.NoError(t, h.Err())
			require.NoError(t, h.Release())
		}
		f.Empty()
	})
}

// A hold that was granted so late that too little is left of it is given back, and it is tried again.
func TestARedLockIsGrantedWithMinValidity(t *testing.T) {
	t.Parallel()
	const length, most = 4 * time.Second, 3500 * time.Millisecond
	f := kit.NewFleet(t, 5)
	l := kit.RedLock(f.Near(&holdfast.Options{Lease: length}), kit.Orders, kit.ReentrantMember, &multilock.RedLockOptions{
		TrustRestarted: true, ServerTimeout: 2 * time.Second, MinValidity: most,
	})
	require.NoError(t, kit.Lock(t, t.Context(), l).Release()) // the sessions know the servers' clocks
	remove := f.OnEach(acquires, proxy.Delay(length-most), proxy.EveryTime, 0, 1, 2)
	_, err := l.TryLock(t.Context())
	require.ErrorContains(t, err, `redlock "orders": try lock: too little of the lease is left: `)
	require.NotErrorIs(t, err, holdfast.ErrBusy)
	f.Empty()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err = l.Lock(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	f.Empty()

	got := kit.GoLock(t.Context(), l.Lock)
	kit.Await(t, "an attempt", func() bool { return kit.KeysLeft(t, f.Servers) > 0 })
	remove()
	r := kit.Within(t, 10*time.Second, got, "the lock, as servers are fast again")
	require.NoError(t, r.Err)
	require.NoError(t, r.Hold.Release())
	f.Empty()
}

// A server that does not answer costs its timeout where it is needed, and next to nothing where it is not.
func TestAServerIsWaitedForNoLongerThanItsTimeout(t *testing.T) {
	t.Parallel()
	const timeout = 2 * time.Second
	f := kit.NewFleet(t, 3)
	opts := &multilock.RedLockOptions{TrustRestarted: true, ServerTimeout: timeout}
	near, beside := f.Near(&holdfast.Options{Lease: 30 * time.Second}), f.Near(&holdfast.Options{Lease: 30 * time.Second})
	l, other := kit.RedLock(near, kit.Orders, kit.ReentrantMember, opts), kit.RedLock(beside, kit.Orders, kit.ReentrantMember, opts)
	took := func(do func()) time.Duration {
		watch := kit.Stopwatch()
		do()
		return watch()
	}
	h := kit.Lock(t, t.Context(), l)
	f.Has(near, 1, 1, 1)
	resume := f.Strike(kit.Paused, 0)
	require.Less(t, took(func() { require.NoError(t, h.Extend(t.Context(), 30*time.Second)) }), timeout/2)
	require.Less(t, took(func() { require.NoError(t, h.Release()) }), timeout/2)
	require.Less(t, took(func() { h = kit.Lock(t, t.Context(), l) }), timeout/2)
	require.Less(t, took(func() {
		_, err := other.TryLock(t.Context())
		require.ErrorIs(t, err, holdfast.ErrBusy)
	}), timeout/2)
	two := f.Strike(kit.Paused, 1)
	require.Less(t, took(func() { require.ErrorIs(t, h.Release(), holdfast.ErrUnknown) }), timeout*3/2)
	require.Less(t, took(func() {
		_, err := l.TryLock(t.Context())
		require.ErrorContains(t, err, "of 3 servers granted it, 2 are needed")
	}), timeout*3/2)
	two()
	resume()
	f.Empty()
}

// Whenever a wait ends, whatever was granted is given back; also by a server that is slower than the others.
func TestARedLockThatIsGivenUpLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	const rounds = 150
	f := kit.NewFleet(t, 5)
	l := kit.RedLock(f.Near(&holdfast.Options{Lease: 30 * time.Second}), kit.Orders, kit.ReentrantMember, kit.Patient) // far longer than the test
	began := time.Now()
	require.NoError(t, kit.Lock(t, t.Context(), l).Release())
	most := time.Since(began)
	remove := f.OnEach(acquires, proxy.Delay(most/2), proxy.EveryTime, 3)
	had := 0
	for range rounds {
		ctx, cancel := context.WithTimeout(t.Context(), rand.N(most))
		h, err := l.Lock(ctx)
		if err == nil {
			require.NoError(t, h.Release())
			had++
		} else {
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		cancel()
	}
	t.Log(had, most)
	f.Empty()
	remove()
	kit.GrantAndRelease(t, kit.GoLock(t.Context(), l.Lock))
	f.Empty()
}

// What is detached is left to its leases, and taken on no other server.
func TestADetachedRedLockIsLeftToItsLeases(t *testing.T) {
	t.Parallel()
	const length = 2 * time.Second
	f := kit.NewFleet(t, 5)
	near, other := f.Near(&holdfast.Options{Lease: length}), kit.RedLock(f.Far(nil), kit.Orders, kit.ReentrantMember, kit.Patient)
	f.Cut(4)
	h := kit.Lock(t, t.Context(), kit.RedLock(near, kit.Orders, kit.ReentrantMember, kit.Patient))
	f.Has(near, 1, 1, 1, 1, 0)
	ctx := h.Context(t.Context())
	require.NoError(t, h.Detach())
	detached := time.Now()
	require.ErrorIs(t, h.Err(), holdfast.ErrNotHeld)
	require.ErrorIs(t, context.Cause(ctx), holdfast.ErrNotHeld)
	require.ErrorIs(t, h.Release(), holdfast.ErrNotHeld)
	f.Heal()
	for _, s := range near {
		require.NoError(t, s.Close())
	}
	require.Equal(t, []int{1, 1, 1, 1, 0}, f.Counts(near))
	_, err := other.TryLock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrBusy)
	kit.GrantAndRelease(t, kit.GoLock(t.Context(), other.Lock))
	require.Less(t, time.Since(detached), 2*length, "it was renewed")
	f.Empty()
}

// A hold is extended on most servers, or not at all.
func TestARedLockIsExtendedByMostServers(t *testing.T) {
	t.Parallel()
	const length = 30 * time.Second
	for _, o := range []kit.Outage{kit.Killed, kit.Paused} {
		t.Run(o.Name, func(t *testing.T) {
			t.Parallel()
			f := kit.NewFleet(t, 5)
			near := f.Near(&holdfast.Options{Lease: length})
			h := kit.Lock(t, t.Context(), kit.RedLock(near, kit.Orders, kit.ReentrantMember, kit.Patient))
			f.Has(near, 1, 1, 1, 1, 1)
			two := f.Strike(o, 0, 3)
			before := h.Deadline()
			require.NoError(t, h.Extend(t.Context(), length))
			extended := h.Deadline()
			require.Greater(t, extended, before)
			third := f.Strike(o, 1)
			err := h.Extend(t.Context(), length)
			require.Error(t, err)
			require.NotErrorIs(t, err, holdfast.ErrLost)
			require.NotErrorIs(t, err, context.DeadlineExceeded)
			require.NoError(t, h.Err())
			require.WithinDuration(t, extended, h.Deadline(), 10*time.Millisecond, "that of the last one of those who are needed")
			third()
			two()
			if o.Name == kit.Paused.Name {
				require.NoError(t, h.Extend(t.Context(), length))
				require.NoError(t, h.Release())
			}
		})
	}
}

// A hold outlives one of its sessions, and then two; not three.
func TestARedLockOutlivesTheSessionsThatItDoesNotNeed(t *testing.T) {
	t.Parallel()
	const length = 2 * time.Second
	f := kit.NewFleet(t, 5)
	near, other := f.Near(&holdfast.Options{Lease: length}), kit.RedLock(f.Far(nil), kit.Orders, kit.ReentrantMember, kit.Patient)
	l := kit.RedLock(near, kit.Orders, kit.ReentrantMember, kit.Patient)
	h := kit.Lock(t, t.Context(), l)
	f.Has(near, 1, 1, 1, 1, 1)
	ctx := h.Context(t.Context())
	require.NoError(t, near[0].Close())
	f.Keeps(length*5/4, h, other)
	require.Equal(t, []int{0, 1, 1, 1, 1}, f.Counts(near))
	kit.GrantAndRelease(t, kit.GoLock(ctx, l.Lock)) // and is entered once more
	require.NoError(t, near[3].Close())
	require.NoError(t, h.Err())
	require.NoError(t, ctx.Err())
	require.NoError(t, near[4].Close())
	require.ErrorIs(t, h.Err(), holdfast.ErrClosed)
	require.NotErrorIs(t, h.Err(), holdfast.ErrLost)
	require.ErrorIs(t, context.Cause(ctx), holdfast.ErrClosed)
	f.Empty() // long before the leases end
	require.ErrorIs(t, h.Release(), holdfast.ErrClosed)
	for _, take := range []func(context.Context) (*holdfast.Hold, error){l.TryLock, l.Lock} {
		_, err := take(t.Context())
		require.ErrorIs(t, err, holdfast.ErrClosed)
	}
}

// An owner enters once more without two servers, and each hold is there until it is released.
func TestARedLockIsEnteredOnceMoreWithoutTwoServers(t *testing.T) {
	t.Parallel()
	const length = 2 * time.Second
	for _, o := range []kit.Outage{kit.Killed, kit.Paused, kit.CutOff} {
		t.Run(o.Name, func(t *testing.T) {
			t.Parallel()
			f := kit.NewFleet(t, 5)
			opts := &holdfast.Options{Lease: length}
			near, other := f.Near(opts), kit.RedLock(f.Far(opts), kit.Orders, kit.ReentrantMember, kit.Patient)
			l := kit.RedLock(near, kit.Orders, kit.ReentrantMember, kit.Patient)
			outer := kit.Lock(t, t.Context(), l)
			f.Has(near, 1, 1, 1, 1, 1)
			repair := f.Strike(o, 0, 2)
			inner := kit.Lock(t, outer.Context(t.Context()), l)
			third, err := l.TryLock(inner.Context(t.Context()))
			require.NoError(t, err)
			require.NoError(t, outer.Release())
			require.ErrorIs(t, outer.Err(), holdfast.ErrNotHeld)
			f.Keeps(length/2, inner, other)
			repair()
			f.Has(near, 2, 2, 2, 2, 2)
			require.NoError(t, inner.Release())
			f.Has(near, 1, 1, 1, 1, 1)
			f.Keeps(length/2, third, other)
			require.NoError(t, third.Release())
			f.Empty()
		})
	}
}

// Of two calls of one owner the second does not wait for a stranger who waits for the first.
func TestAnOwnerOfARedLockPassesThoseWhoWait(t *testing.T) {
	t.Parallel()
	const rounds = 20
	f := kit.NewFleet(t, 5)
	l, theirs := kit.RedLock(f.Near(nil), kit.Orders, kit.ReentrantMember, kit.Patient), kit.RedLock(f.Far(nil), kit.Orders, kit.ReentrantMember, kit.Patient)
	for range rounds {
		taken := kit.Lock(t, t.Context(), theirs)
		ctx := holdfast.NewOwner(t.Context())
		var calls [3]<-chan kit.Result
		for _, i := range rand.Perm(len(calls)) { // they stand in any order
			if i > 0 {
				calls[i] = kit.GoLock(ctx, l.Lock)
				continue
			}
			calls[i] = kit.GoLock(t.Context(), func(ctx context.Context) (*holdfast.Hold, error) {
				return nil, holdfast.Do(ctx, l.Lock, func(context.Context) error { return nil })
			})
		}
		require.NoError(t, taken.Release())
		var both []*holdfast.Hold
		for _, call := range calls[1:] { // none is released before both are had
			r := kit.Within(t, 10*time.Second, call, "the lock")
			require.NoError(t, r.Err)
			both = append(both, r.Hold)
		}
		for _, h := range both {
			require.NoError(t, h.Release())
		}
		require.NoError(t, kit.Within(t, 10*time.Second, calls[0], "the stranger's turn").Err)
	}
	f.Empty()
}

// What the caller does with its ctx when it has the lock is nothing to the servers that are still being asked.
func TestARedLockIsTakenOnSlowServersAfterItsCtxHasEnded(t *testing.T) {
	t.Parallel()
	f := kit.NewFleet(t, 5)
	near := f.Near(&holdfast.Options{Lease: 30 * time.Second})
	l := kit.RedLock(near, kit.Orders, kit.ReentrantMember, &multilock.RedLockOptions{TrustRestarted: true, ServerTimeout: 25 * time.Second})
	require.NoError(t, kit.Lock(t, t.Context(), l).Release()) // the sessions know the servers' clocks
	f.Empty()
	rule := f.Proxies[1].On(acquires, proxy.HoldReply, proxy.EveryTime)
	stalled := f.Proxies[3].On(acquires, proxy.Stall, proxy.EveryTime)
	ctx, cancel := context.WithCancel(t.Context())
	h := kit.Lock(t, ctx, l)
	cancel()
	rule.Wait(t, 1)
	stalled.Wait(t, 1)
	released := f.Proxies[1].On(kit.ScriptNamed("rlock_release"), proxy.Pass, proxy.EveryTime)
	rule.Release()
	stalled.Release()
	f.Has(near, 1, 1, 1, 1, 1)
	resume := f.Strike(kit.Paused, 0, 2)
	kit.Await(t, "an extension by those who were slow", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		return h.Extend(ctx, 30*time.Second) == nil
	})
	require.Equal(t, 1, rule.Matched(), "it was given up, and asked for again")
	require.Equal(t, 1, stalled.Matched())
	require.Zero(t, released.Matched())
	require.NoError(t, h.Release())
	resume()
	f.Empty()
}

// A RedLock may be one of several locks that are needed together.
func TestARedLockIsAMemberOfAMultiLock(t *testing.T) {
	t.Parallel()
	const length = 2 * time.Second
	f, single := kit.NewFleet(t, 5), redistest.Start(t)
	opts := &holdfast.Options{Lease: length}
	several := func(sessions []*holdfast.Session) (*multilock.MultiLock, *rlock.Mutex) {
		stock := rlock.New(kit.Open(t, single.Addr(), opts), "stock", nil)
		return multilock.New(kit.RedLock(sessions, kit.Orders, kit.ReentrantMember, kit.Patient), stock), stock
	}
	near, far := f.Near(opts), f.Far(opts)
	mine, _ := several(near)
	theirs, stock := several(far)
	require.Equal(t, "orders, stock", mine.Name())
	h := kit.Lock(t, t.Context(), mine)
	f.Has(near, 1, 1, 1, 1, 1)
	_, err := theirs.TryLock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrBusy)
	repair := f.Strike(kit.Killed, 0, 1)
	f.Keeps(length*5/4, h, kit.RedLock(far, kit.Orders, kit.ReentrantMember, kit.Patient))
	require.NoError(t, kit.Lock(t, h.Context(t.Context()), mine).Release()) // an owner re-enters both
	next := kit.GoLock(t.Context(), theirs.Lock)
	require.NoError(t, h.Release())
	kit.GrantAndRelease(t, next)
	repair()
	f.Empty()

	// Neither is held without the other.
	taken := kit.Lock(t, t.Context(), stock)
	_, err = mine.TryLock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrBusy)
	f.Empty()
	require.NoError(t, taken.Release())
	h = kit.Lock(t, t.Context(), mine)
	ctx := h.Context(t.Context())
	repair = f.Strike(kit.Killed, 0, 1, 2)
	kit.Within(t, 2*length, ctx.Done(), "the loss")
	require.ErrorIs(t, h.Err(), holdfast.ErrLost)
	kit.Await(t, "the other one", func() bool { return len(single.Keyspace(t)) == 0 })
	require.ErrorIs(t, h.Release(), holdfast.ErrLost)
	repair()
	f.Empty()
}

// That servers have lost the lock which are not needed is no word on the hold: its calls say ErrLost when it is lost.
func TestARedLockThatIsHeldIsNotCalledLost(t *testing.T) {
	t.Parallel()
	const length = time.Second
	f := kit.NewFleet(t, 5)
	near := f.Near(&holdfast.Options{Lease: length})
	l := kit.RedLock(near, kit.Orders, kit.ReentrantMember, kit.Patient)
	h := kit.Lock(t, t.Context(), l)
	f.Has(near, 1, 1, 1, 1, 1)
	f.Cut(0)
	f.Cut(1)
	kit.SleepUntil(time.Now().Add(length * 5 / 4)) // these are lost
	f.Cut(2)
	require.NoError(t, h.Err())
	err := h.Extend(t.Context(), length)
	require.NoError(t, h.Err())
	require.Error(t, err)
	require.NotErrorIs(t, err, holdfast.ErrLost)
	f.Heal()
	f.Has(near, 1, 1, 1, 1, 1)
	require.NoError(t, h.Release())
	f.Empty()

	require.NoError(t, holdfast.Do(t.Context(), l.Lock, func(ctx context.Context) error {
		f.Has(near, 1, 1, 1, 1, 1)
		f.Cut(0)
		f.Cut(1)
		kit.SleepUntil(time.Now().Add(length * 5 / 4))
		f.Cut(2)
		return ctx.Err()
	}), "it was protected throughout")
	f.Heal()
	f.Empty()
}

// However long servers are waited for otherwise, a release is bounded as every other.
func TestARedLocksReleaseIsBounded(t *testing.T) {
	t.Parallel()
	f := kit.NewFleet(t, 3)
	l := kit.RedLock(f.Near(&holdfast.Options{Lease: 3 * time.Second}), kit.Orders, kit.ReentrantMember,
		&multilock.RedLockOptions{TrustRestarted: true, ServerTimeout: 2500 * time.Millisecond})
	h := kit.Lock(t, t.Context(), l)
	resume := f.Strike(kit.Paused, 0, 1)
	began := time.Now()
	require.ErrorIs(t, h.Release(), holdfast.ErrUnknown)
	require.Less(t, time.Since(began), 1700*time.Millisecond) // a third of the lease is a second
	resume()
	f.Empty()
}

// A release that finds that most servers have forgotten the lock says so.
func TestARedLockThatMostHaveForgottenIsCalledLost(t *testing.T) {
	t.Parallel()
	f := kit.NewFleet(t, 3)
	near := f.Near(&holdfast.Options{Lease: time.Minute})
	l := kit.RedLock(near, kit.Orders, kit.ReentrantMember, kit.Patient)
	for forget, lost := range []bool{false, false, true, true} {
		h := kit.Lock(t, t.Context(), l)
		f.Has(near, 1, 1, 1)
		for _, srv := range f.Servers[:forget] {
			srv.Do(t, "DEL", kit.Orders)
		}
		if err := h.Release(); lost {
			require.ErrorIs(t, err, holdfast.ErrLost, forget)
		} else {
			require.NoError(t, err, forget)
		}
		f.Empty()
	}
}
