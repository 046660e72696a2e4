package tests

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
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// An outage is one way in which a server does not answer the near ones, or not in time. Begin returns what ends it.
type outage struct {
	name  string
	begin func(f *fleet, i int) (end func())
}

var (
	killed = outage{"killed", func(f *fleet, i int) func() {
		f.servers[i].Stop()
		return f.servers[i].Restart
	}}
	paused = outage{"paused", func(f *fleet, i int) func() {
		f.servers[i].Pause()
		return f.servers[i].Resume
	}}
	slow = outage{"slow", func(f *fleet, i int) func() {
		return f.proxies[i].On(scriptRuns, proxy.Delay(700*time.Millisecond), proxy.EveryTime).Remove
	}}
	cutOff = outage{"cut off", func(f *fleet, i int) func() {
		f.cut(i)
		return func() { f.proxies[i].RefuseNew(false) }
	}}
	silent = outage{"silent", func(f *fleet, i int) func() {
		f.proxies[i].StallNew(true)
		f.proxies[i].StallAll()
		return f.proxies[i].ResumeAll
	}}
)

// unhurried is what tests use in which the number of servers that answer matters.
var unhurried = &multilock.RedLockOptions{TrustRestarted: true, ServerTimeout: time.Second}

// scriptRuns are all commands that are about locks.
var scriptRuns = proxy.Command("EVALSHA", "EVAL")

// acquires are the runs of the script that takes a reentrant lock.
var acquires = scriptNamed("rlock_acquire")

// strike begins an outage of some servers.
func (f *fleet) strike(o outage, servers ...int) (end func()) {
	var ends []func()
	for _, i := range servers {
		ends = append(ends, o.begin(f, i))
	}
	return func() {
		for _, end := range ends {
			end()
		}
	}
}

// each sets a rule on the proxies of some servers.
func (f *fleet) each(m proxy.Match, a proxy.Action, n proxy.Times, servers ...int) (remove func()) {
	return f.strike(outage{begin: func(f *fleet, i int) func() { return f.proxies[i].On(m, a, n).Remove }}, servers...)
}

// counts are how often each server has the lock for one of the sessions, of which there is one for each server.
func (f *fleet) counts(sessions []*holdfast.Session) []int {
	counts := make([]int, len(sessions))
	for i, s := range sessions {
		reply, err := f.servers[i].Try("HGETALL", orders)
		if fields, _ := reply.([]any); err == nil && len(fields) == 2 && strings.HasPrefix(fmt.Sprint(fields[0]), s.ID()) {
			_, _ = fmt.Sscan(fmt.Sprint(fields[1]), &counts[i])
		}
	}
	return counts
}

// has waits until each server has the lock for one of the sessions as often as that.
func (f *fleet) has(sessions []*holdfast.Session, want ...int) {
	f.Helper()
	var got []int
	defer func() {
		if f.Failed() {
			f.Log("at the end the servers had it as often as", got)
		}
	}()
	await(f, fmt.Sprint("the lock on the servers, as often as ", want), func() bool {
		got = f.counts(sessions)
		return slices.Equal(want, got)
	})
}

// keeps checks that a hold is believed in for so long, and that nobody can have the other lock, which it excludes.
func (f *fleet) keeps(d time.Duration, h *holdfast.Hold, other *multilock.RedLock) {
	f.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); pass(time.Now().Add(200 * time.Millisecond)) {
		_, err := other.TryLock(f.Context())
		require.NoError(f, h.Err())
		require.Error(f, err, "two have it")
	}
}

// gets checks that somebody who waits gets the lock, and gives it back.
func gets(t testing.TB, got <-chan result) {
	t.Helper()
	r := within(t, 10*time.Second, got, "the lock")
	require.NoError(t, r.err)
	require.NoError(t, r.hold.Release())
}

// A crisis is one RedLock and another one of somebody else, two of whose five servers fail.
type crisis struct {
	*fleet
	near         []*holdfast.Session // of mine
	mine, theirs *multilock.RedLock
	fail         func() // two of the servers do
	waiter       <-chan result
}

// everywhere takes the lock on all servers.
func (c *crisis) everywhere() *holdfast.Hold {
	c.Helper()
	h := lock(c, c.Context(), c.mine)
	c.has(c.near, 1, 1, 1, 1, 1)
	return h
}

// moments are when the servers of a crisis fail. Each is over when the lock is held and they have failed.
var moments = []struct {
	name string
	come func(c *crisis) *holdfast.Hold
}{
	{"before it is taken", func(c *crisis) *holdfast.Hold {
		c.fail()
		return lock(c, c.Context(), c.mine)
	}},
	{"while it is held", func(c *crisis) *holdfast.Hold {
		h := c.everywhere()
		c.fail()
		return h
	}},
	{"while somebody waits", func(c *crisis) *holdfast.Hold {
		h := c.everywhere()
		c.waiter = goLock(c.Context(), c.theirs.Lock)
		await(c, "a subscription", func() bool { return len(c.servers[0].Strs(c, "PUBSUB", "CHANNELS")) > 0 })
		c.fail()
		return h
	}},
	{"at its release", func(c *crisis) *holdfast.Hold {
		h := c.everywhere()
		c.fail()
		require.NoError(c, h.Release())
		gets(c, goLock(c.Context(), c.theirs.Lock))
		return lock(c, c.Context(), c.mine)
	}},
}

// Two servers of five may fail in any way at any time. When they are back the hold lives on them as well, and two others
// may fail.
func TestARedLockGoesOnWithoutTwoOfFiveServers(t *testing.T) {
	t.Parallel()
	const length = 3 * time.Second
	type place struct {
		outage       outage
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
	for _, o := range []outage{killed, paused, slow, cutOff} {
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
	inParallel(t, len(places), places, func(p place) string {
		return fmt.Sprintf("%s/%s/%v", p.outage.name, moments[p.moment].name, p.down)
	}, func(t *testing.T, p place) {
		opts, tuned := &holdfast.Options{Lease: length}, *patient
		tuned.ServerTimeout = 600 * time.Millisecond // many of these run at once
		c := &crisis{fleet: newFleet(t, 5)}
		building <- struct{}{}
		c.near = c.fleet.near(opts)
		c.mine, c.theirs = redLock(c.near, orders, reentrant, &tuned), redLock(c.far(opts), orders, reentrant, &tuned)
		<-building
		var repair func()
		c.fail = func() { repair = c.strike(p.outage, p.down...) }
		h := moments[p.moment].come(c)
		defer func() {
			if t.Failed() {
				t.Log("at the end it was", classOf(h.Err()))
			}
		}()
		c.keeps(2*length, h, c.theirs)
		repair()
		c.has(c.near, 1, 1, 1, 1, 1)
		repair = c.strike(killed, p.others...)
		c.keeps(length*5/4, h, c.theirs)
		require.NoError(t, h.Release())
		if c.waiter == nil {
			c.waiter = goLock(t.Context(), c.theirs.Lock)
		}
		gets(t, c.waiter)
		repair()
		c.empty()
	})
}

// Without three servers of five nobody gets the lock, and is told why. Whoever has it learns that it is lost when it said
// that it might be, and before anybody else has it.
func TestNobodyHasARedLockWithoutThreeOfFiveServers(t *testing.T) {
	t.Parallel()
	const length = 2 * time.Second
	outages := []outage{killed, paused, cutOff, silent}
	inParallel(t, len(outages), outages, func(o outage) string { return o.name }, func(t *testing.T, o outage) {
		opts := &holdfast.Options{Lease: length}
		f := newFleet(t, 5)
		near, far := f.near(opts), f.far(opts)
		h := lock(t, t.Context(), redLock(near, orders, reentrant, patient))
		f.has(near, 1, 1, 1, 1, 1)
		ctx := h.Context(t.Context())
		next := goLock(t.Context(), func(ctx context.Context) (*holdfast.Hold, error) {
			next, err := redLock(far, orders, reentrant, patient).Lock(ctx)
			if h.Err() == nil {
				err = errors.Join(err, errors.New("the first one believes that it has it still"))
			}
			return next, err
		})
		other := redLock(near, "returns", reentrant, unhurried)
		require.NoError(t, lock(t, t.Context(), other).Release()) // the sessions know the servers' clocks
		repair := f.strike(o, 1, 2, 4)

		refused := make(chan error, 1)
		go func() { refused <- refusals(other) }()
		for h.Err() == nil {
			announced := h.Deadline()
			pass(announced)
			if later := h.Deadline(); h.Err() == nil {
				require.Greater(t, later, announced)
			}
		}
		lost, ok := errors.AsType[*holdfast.LostError](h.Err())
		require.True(t, ok, h.Err())
		require.Equal(t, orders, lost.Name)
		within(t, time.Second, ctx.Done(), "the end of the context")
		require.ErrorIs(t, context.Cause(ctx), holdfast.ErrLost)
		require.NoError(t, within(t, 10*time.Second, refused, "refusals"))
		require.ErrorIs(t, h.Release(), holdfast.ErrLost)
		repair()
		gets(t, next)
		require.NoError(t, lock(t, t.Context(), other).Release())
		f.empty()
	})
}

// Half of an even number of servers is no majority: the halves of a network that is split would both have the lock.
func TestHalfOfTheServersAreNoMajorityOfARedLock(t *testing.T) {
	t.Parallel()
	const length, says = 2 * time.Second, "2 of 4 servers granted it, 3 are needed"
	opts := &holdfast.Options{Lease: length}
	f := newFleet(t, 4)
	others := f.beside()
	near := f.near(opts)
	mine, theirs := redLock(near, orders, reentrant, unhurried), redLock(others.near(opts), orders, reentrant, unhurried)
	for _, l := range []*multilock.RedLock{mine, theirs} {
		require.NoError(t, lock(t, t.Context(), l).Release()) // the sessions know the servers' clocks
		f.empty()
	}
	split := func() (mend func()) {
		ends := []func(){f.strike(cutOff, 0, 1), others.strike(cutOff, 2, 3)}
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
		f.empty()
	}
	mend()
	h := lock(t, t.Context(), mine)
	f.has(near, 1, 1, 1, 1)
	mend = split()
	within(t, 2*length, h.Context(t.Context()).Done(), "the loss")
	require.ErrorIs(t, h.Err(), holdfast.ErrLost)
	mend()
	gets(t, goLock(t.Context(), theirs.Lock))
	f.empty()

	h = lock(t, t.Context(), mine)
	f.has(near, 1, 1, 1, 1)
	mend = split()
	require.ErrorIs(t, h.Release(), holdfast.ErrUnknown)
	mend()
	f.empty()
}

// refusals asks for a lock of which two of five servers are there, in all ways, and says which answer is wrong.
func refusals(l *multilock.RedLock) (wrong error) {
	const says = "2 of 5 servers granted it, 3 are needed"
	_, err := l.TryLock(context.Background())
	if err == nil || !strings.Contains(err.Error(), says) || classOf(err) != "unknown" && !strings.HasPrefix(classOf(err), "other") {
		wrong = errors.Join(wrong, fmt.Errorf("TryLock: %s: %w", classOf(err), err))
	}
	_, err = l.TryLockFor(context.Background(), 500*time.Millisecond)
	if err == nil || errors.Is(err, holdfast.ErrBusy) || errors.Is(err, context.DeadlineExceeded) {
		wrong = errors.Join(wrong, fmt.Errorf("TryLockFor: %s: %w", classOf(err), err))
	}
	why := errors.New("closing time")
	ctx, cancel := context.WithTimeoutCause(context.Background(), 500*time.Millisecond, why)
	defer cancel()
	_, err = l.Lock(ctx)
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, why) || errors.Is(err, holdfast.ErrBusy) {
		wrong = errors.Join(wrong, fmt.Errorf("Lock: %s: %w", classOf(err), err))
	}
	return wrong
}

// A server that comes back without its memory lets in nobody while somebody may trust what it has forgotten. The other story
// is the same, with servers that are said to forget nothing: it shows that there is something to be let in to.
func TestAServerThatHasForgottenARedLockDoesNotCountForALease(t *testing.T) {
	t.Parallel()
	const length = 2 * time.Second
	trusting := *careful
	trusting.TrustRestarted = true
	for name, c := range map[string]struct {
		opts *multilock.RedLockOptions
		two  bool // have it
	}{"careful": {careful, false}, "trusting": {&trusting, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := &holdfast.Options{Lease: length}
			f := newFleet(t, 5)
			f.seasoned(length)
			mine, theirs := redLock(f.near(opts), orders, reentrant, c.opts), redLock(f.far(opts), orders, reentrant, c.opts)
			require.NoError(t, lock(t, t.Context(), theirs).Release())
			f.empty()
			back := f.strike(paused, 3, 4)
			h := lock(t, t.Context(), mine)
			f.strike(cutOff, 2, 3, 4) // it learns nothing more of them
			back()
			f.servers[2].Restart()
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
			f.heal()
			f.empty()
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
	f := newFleet(t, 3) // all of them younger than a lease
	client := rueidis.ClientOption{Username: "limited", Password: redistest.Password}
	var told, limited []*holdfast.Session
	var logs []*tally
	for _, srv := range f.servers {
		srv.Grant(t, client.Username, "~*", "&*", "+@all", "-info")
		log := &tally{says: "does not tell how long it has been up"}
		client.InitAddress = []string{srv.Addr()}
		limited = append(limited, openWith(t, client, &holdfast.Options{Lease: 30 * time.Second, Logger: slog.New(slog.NewTextHandler(log, nil))}))
		told = append(told, open(t, srv.Addr(), &holdfast.Options{Lease: 30 * time.Second}))
		logs = append(logs, log)
	}
	_, err := redLock(told, orders, reentrant, careful).TryLock(t.Context())
	require.ErrorContains(t, err, "0 of 3 servers granted it")
	require.ErrorContains(t, err, "has started within a lease")
	f.empty()
	for range rounds {
		for name, member := range map[string]func(*holdfast.Session, string) holdfast.Locker{orders: reentrant, "returns": plain} {
			h, err := redLock(limited, name, member, careful).TryLockFor(t.Context(), 5*time.Second)
			require.NoError(t, err)
			await(t, "all servers", func() bool { return left(t, f.servers) == 3 })
			require.NoError(t, h.Release())
			f.empty()
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
	f := newFleet(t, 3)
	near := f.near(&holdfast.Options{Lease: length})
	l := redLock(near, orders, reentrant, careful)
	f.seasoned(length)
	require.NoError(t, lock(t, t.Context(), l).Release()) // the sessions know the servers' clocks
	f.servers[0].Restart()
	h := lock(t, t.Context(), l)
	f.has(near, 1, 1, 1)
	remove := f.each(scriptRuns, proxy.Delay(100*time.Millisecond), proxy.EveryTime, 2)
	require.NoError(t, h.Extend(t.Context(), length))
	require.Greater(t, time.Until(h.Deadline()), length-time.Second)
	remove()

	remove = f.each(scriptRuns, proxy.DropReply, proxy.EveryTime, 2)
	err := h.Extend(t.Context(), length)
	require.ErrorIs(t, err, holdfast.ErrUnknown)
	require.NotErrorIs(t, err, holdfast.ErrLost)
	require.ErrorContains(t, err, "has started within a lease")
	remove()
	require.NoError(t, h.Err())
	require.NoError(t, h.Release())
	f.empty()
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
	inParallel(t, len(places), places, func(p place) string { return fmt.Sprint(p.servers, " ", p.times) }, func(t *testing.T, p place) {
		f := newFleet(t, 5)
		near := f.near(&holdfast.Options{Lease: 30 * time.Second}) // nothing is gone because its lease is over
		l := redLock(near, orders, reentrant, unhurried)
		require.NoError(t, lock(t, t.Context(), l).Release()) // the sessions know the servers' clocks
		f.empty()
		remove := f.each(acquires, proxy.DropReply, p.times, p.servers...)
		h, err := l.TryLock(t.Context())
		switch {
		case p.times == proxy.EveryTime && len(p.servers) > 2:
			require.ErrorIs(t, err, holdfast.ErrUnknown)
			require.ErrorContains(t, err, fmt.Sprintf("%d of 5 servers granted it", 5-len(p.servers)))
			require.NotErrorIs(t, err, context.DeadlineExceeded)
			f.empty() // though replies are lost still
			remove()
		default: // tried again in time, or not needed
			require.NoError(t, err)
			remove()
			f.has(near, 1, 1, 1, 1, 1)
			require.NoError(t, h.Err())
			require.NoError(t, h.Release())
		}
		f.empty()
	})
}

// A hold that was granted so late that too little is left of it is given back, and it is tried again.
func TestARedLockIsGrantedWithMinValidity(t *testing.T) {
	t.Parallel()
	const length, most = 4 * time.Second, 3500 * time.Millisecond
	f := newFleet(t, 5)
	l := redLock(f.near(&holdfast.Options{Lease: length}), orders, reentrant, &multilock.RedLockOptions{
		TrustRestarted: true, ServerTimeout: 2 * time.Second, MinValidity: most,
	})
	require.NoError(t, lock(t, t.Context(), l).Release()) // the sessions know the servers' clocks
	remove := f.each(acquires, proxy.Delay(length-most), proxy.EveryTime, 0, 1, 2)
	_, err := l.TryLock(t.Context())
	require.ErrorContains(t, err, `redlock "orders": try lock: too little of the lease is left: `)
	require.NotErrorIs(t, err, holdfast.ErrBusy)
	f.empty()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err = l.Lock(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	f.empty()

	got := goLock(t.Context(), l.Lock)
	await(t, "an attempt", func() bool { return left(t, f.servers) > 0 })
	remove()
	r := within(t, 10*time.Second, got, "the lock, as servers are fast again")
	require.NoError(t, r.err)
	require.NoError(t, r.hold.Release())
	f.empty()
}

// A server that does not answer costs its timeout where it is needed, and next to nothing where it is not.
func TestAServerIsWaitedForNoLongerThanItsTimeout(t *testing.T) {
	t.Parallel()
	const timeout = 2 * time.Second
	f := newFleet(t, 3)
	opts := &multilock.RedLockOptions{TrustRestarted: true, ServerTimeout: timeout}
	near, beside := f.near(&holdfast.Options{Lease: 30 * time.Second}), f.near(&holdfast.Options{Lease: 30 * time.Second})
	l, other := redLock(near, orders, reentrant, opts), redLock(beside, orders, reentrant, opts)
	took := func(do func()) time.Duration {
		watch := stopwatch()
		do()
		return watch()
	}
	h := lock(t, t.Context(), l)
	f.has(near, 1, 1, 1)
	resume := f.strike(paused, 0)
	require.Less(t, took(func() { require.NoError(t, h.Extend(t.Context(), 30*time.Second)) }), timeout/2)
	require.Less(t, took(func() { require.NoError(t, h.Release()) }), timeout/2)
	require.Less(t, took(func() { h = lock(t, t.Context(), l) }), timeout/2)
	require.Less(t, took(func() {
		_, err := other.TryLock(t.Context())
		require.ErrorIs(t, err, holdfast.ErrBusy)
	}), timeout/2)
	two := f.strike(paused, 1)
	require.Less(t, took(func() { require.ErrorIs(t, h.Release(), holdfast.ErrUnknown) }), timeout*3/2)
	require.Less(t, took(func() {
		_, err := l.TryLock(t.Context())
		require.ErrorContains(t, err, "of 3 servers granted it, 2 are needed")
	}), timeout*3/2)
	two()
	resume()
	f.empty()
}

// Whenever a wait ends, whatever was granted is given back; also by a server that is slower than the others.
func TestARedLockThatIsGivenUpLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	const rounds = 150
	f := newFleet(t, 5)
	l := redLock(f.near(&holdfast.Options{Lease: 30 * time.Second}), orders, reentrant, patient) // far longer than the test
	began := time.Now()
	require.NoError(t, lock(t, t.Context(), l).Release())
	most := time.Since(began)
	remove := f.each(acquires, proxy.Delay(most/2), proxy.EveryTime, 3)
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
	f.empty()
	remove()
	gets(t, goLock(t.Context(), l.Lock))
	f.empty()
}

// What is detached is left to its leases, and taken on no other server.
func TestADetachedRedLockIsLeftToItsLeases(t *testing.T) {
	t.Parallel()
	const length = 2 * time.Second
	f := newFleet(t, 5)
	near, other := f.near(&holdfast.Options{Lease: length}), redLock(f.far(nil), orders, reentrant, patient)
	f.cut(4)
	h := lock(t, t.Context(), redLock(near, orders, reentrant, patient))
	f.has(near, 1, 1, 1, 1, 0)
	ctx := h.Context(t.Context())
	require.NoError(t, h.Detach())
	detached := time.Now()
	require.ErrorIs(t, h.Err(), holdfast.ErrNotHeld)
	require.ErrorIs(t, context.Cause(ctx), holdfast.ErrNotHeld)
	require.ErrorIs(t, h.Release(), holdfast.ErrNotHeld)
	f.heal()
	for _, s := range near {
		require.NoError(t, s.Close())
	}
	require.Equal(t, []int{1, 1, 1, 1, 0}, f.counts(near))
	_, err := other.TryLock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrBusy)
	gets(t, goLock(t.Context(), other.Lock))
	require.Less(t, time.Since(detached), 2*length, "it was renewed")
	f.empty()
}

// A hold is extended on most servers, or not at all.
func TestARedLockIsExtendedByMostServers(t *testing.T) {
	t.Parallel()
	const length = 30 * time.Second
	for _, o := range []outage{killed, paused} {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, 5)
			near := f.near(&holdfast.Options{Lease: length})
			h := lock(t, t.Context(), redLock(near, orders, reentrant, patient))
			f.has(near, 1, 1, 1, 1, 1)
			two := f.strike(o, 0, 3)
			before := h.Deadline()
			require.NoError(t, h.Extend(t.Context(), length))
			extended := h.Deadline()
			require.Greater(t, extended, before)
			third := f.strike(o, 1)
			err := h.Extend(t.Context(), length)
			require.Error(t, err)
			require.NotErrorIs(t, err, holdfast.ErrLost)
			require.NotErrorIs(t, err, context.DeadlineExceeded)
			require.NoError(t, h.Err())
			require.WithinDuration(t, extended, h.Deadline(), 10*time.Millisecond, "that of the last one of those who are needed")
			third()
			two()
			if o.name == paused.name {
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
	f := newFleet(t, 5)
	near, other := f.near(&holdfast.Options{Lease: length}), redLock(f.far(nil), orders, reentrant, patient)
	l := redLock(near, orders, reentrant, patient)
	h := lock(t, t.Context(), l)
	f.has(near, 1, 1, 1, 1, 1)
	ctx := h.Context(t.Context())
	require.NoError(t, near[0].Close())
	f.keeps(length*5/4, h, other)
	require.Equal(t, []int{0, 1, 1, 1, 1}, f.counts(near))
	gets(t, goLock(ctx, l.Lock)) // and is entered once more
	require.NoError(t, near[3].Close())
	require.NoError(t, h.Err())
	require.NoError(t, ctx.Err())
	require.NoError(t, near[4].Close())
	require.ErrorIs(t, h.Err(), holdfast.ErrClosed)
	require.NotErrorIs(t, h.Err(), holdfast.ErrLost)
	require.ErrorIs(t, context.Cause(ctx), holdfast.ErrClosed)
	f.empty() // long before the leases end
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
	for _, o := range []outage{killed, paused, cutOff} {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, 5)
			opts := &holdfast.Options{Lease: length}
			near, other := f.near(opts), redLock(f.far(opts), orders, reentrant, patient)
			l := redLock(near, orders, reentrant, patient)
			outer := lock(t, t.Context(), l)
			f.has(near, 1, 1, 1, 1, 1)
			repair := f.strike(o, 0, 2)
			inner := lock(t, outer.Context(t.Context()), l)
			third, err := l.TryLock(inner.Context(t.Context()))
			require.NoError(t, err)
			require.NoError(t, outer.Release())
			require.ErrorIs(t, outer.Err(), holdfast.ErrNotHeld)
			f.keeps(length/2, inner, other)
			repair()
			f.has(near, 2, 2, 2, 2, 2)
			require.NoError(t, inner.Release())
			f.has(near, 1, 1, 1, 1, 1)
			f.keeps(length/2, third, other)
			require.NoError(t, third.Release())
			f.empty()
		})
	}
}

// Of two calls of one owner the second does not wait for a stranger who waits for the first.
func TestAnOwnerOfARedLockPassesThoseWhoWait(t *testing.T) {
	t.Parallel()
	const rounds = 20
	f := newFleet(t, 5)
	l, theirs := redLock(f.near(nil), orders, reentrant, patient), redLock(f.far(nil), orders, reentrant, patient)
	for range rounds {
		taken := lock(t, t.Context(), theirs)
		ctx := holdfast.NewOwner(t.Context())
		var calls [3]<-chan result
		for _, i := range rand.Perm(len(calls)) { // they stand in any order
			if i > 0 {
				calls[i] = goLock(ctx, l.Lock)
				continue
			}
			calls[i] = goLock(t.Context(), func(ctx context.Context) (*holdfast.Hold, error) {
				return nil, holdfast.Do(ctx, l.Lock, func(context.Context) error { return nil })
			})
		}
		require.NoError(t, taken.Release())
		var both []*holdfast.Hold
		for _, call := range calls[1:] { // none is released before both are had
			r := within(t, 10*time.Second, call, "the lock")
			require.NoError(t, r.err)
			both = append(both, r.hold)
		}
		for _, h := range both {
			require.NoError(t, h.Release())
		}
		require.NoError(t, within(t, 10*time.Second, calls[0], "the stranger's turn").err)
	}
	f.empty()
}

// What the caller does with its ctx when it has the lock is nothing to the servers that are still being asked.
func TestARedLockIsTakenOnSlowServersAfterItsCtxHasEnded(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 5)
	near := f.near(&holdfast.Options{Lease: 30 * time.Second})
	l := redLock(near, orders, reentrant, &multilock.RedLockOptions{TrustRestarted: true, ServerTimeout: 25 * time.Second})
	require.NoError(t, lock(t, t.Context(), l).Release()) // the sessions know the servers' clocks
	f.empty()
	rule := f.proxies[1].On(acquires, proxy.HoldReply, proxy.EveryTime)
	stalled := f.proxies[3].On(acquires, proxy.Stall, proxy.EveryTime)
	ctx, cancel := context.WithCancel(t.Context())
	h := lock(t, ctx, l)
	cancel()
	rule.Wait(t, 1)
	stalled.Wait(t, 1)
	released := f.proxies[1].On(scriptNamed("rlock_release"), proxy.Pass, proxy.EveryTime)
	rule.Release()
	stalled.Release()
	f.has(near, 1, 1, 1, 1, 1)
	resume := f.strike(paused, 0, 2)
	await(t, "an extension by those who were slow", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		return h.Extend(ctx, 30*time.Second) == nil
	})
	require.Equal(t, 1, rule.Matched(), "it was given up, and asked for again")
	require.Equal(t, 1, stalled.Matched())
	require.Zero(t, released.Matched())
	require.NoError(t, h.Release())
	resume()
	f.empty()
}

// A RedLock may be one of several locks that are needed together.
func TestARedLockIsAMemberOfAMultiLock(t *testing.T) {
	t.Parallel()
	const length = 2 * time.Second
	f, single := newFleet(t, 5), redistest.Start(t)
	opts := &holdfast.Options{Lease: length}
	several := func(sessions []*holdfast.Session) (*multilock.MultiLock, *rlock.Mutex) {
		stock := rlock.New(open(t, single.Addr(), opts), "stock", nil)
		return multilock.New(redLock(sessions, orders, reentrant, patient), stock), stock
	}
	near, far := f.near(opts), f.far(opts)
	mine, _ := several(near)
	theirs, stock := several(far)
	require.Equal(t, "orders, stock", mine.Name())
	h := lock(t, t.Context(), mine)
	f.has(near, 1, 1, 1, 1, 1)
	_, err := theirs.TryLock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrBusy)
	repair := f.strike(killed, 0, 1)
	f.keeps(length*5/4, h, redLock(far, orders, reentrant, patient))
	require.NoError(t, lock(t, h.Context(t.Context()), mine).Release()) // an owner re-enters both
	next := goLock(t.Context(), theirs.Lock)
	require.NoError(t, h.Release())
	gets(t, next)
	repair()
	f.empty()

	// Neither is held without the other.
	taken := lock(t, t.Context(), stock)
	_, err = mine.TryLock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrBusy)
	f.empty()
	require.NoError(t, taken.Release())
	h = lock(t, t.Context(), mine)
	ctx := h.Context(t.Context())
	repair = f.strike(killed, 0, 1, 2)
	within(t, 2*length, ctx.Done(), "the loss")
	require.ErrorIs(t, h.Err(), holdfast.ErrLost)
	await(t, "the other one", func() bool { return len(single.Keyspace(t)) == 0 })
	require.ErrorIs(t, h.Release(), holdfast.ErrLost)
	repair()
	f.empty()
}

// That servers have lost the lock which are not needed is no word on the hold: its calls say ErrLost when it is lost.
func TestARedLockThatIsHeldIsNotCalledLost(t *testing.T) {
	t.Parallel()
	const length = time.Second
	f := newFleet(t, 5)
	near := f.near(&holdfast.Options{Lease: length})
	l := redLock(near, orders, reentrant, patient)
	h := lock(t, t.Context(), l)
	f.has(near, 1, 1, 1, 1, 1)
	f.cut(0)
	f.cut(1)
	pass(time.Now().Add(length * 5 / 4)) // these are lost
	f.cut(2)
	require.NoError(t, h.Err())
	err := h.Extend(t.Context(), length)
	require.NoError(t, h.Err())
	require.Error(t, err)
	require.NotErrorIs(t, err, holdfast.ErrLost)
	f.heal()
	f.has(near, 1, 1, 1, 1, 1)
	require.NoError(t, h.Release())
	f.empty()

	require.NoError(t, holdfast.Do(t.Context(), l.Lock, func(ctx context.Context) error {
		f.has(near, 1, 1, 1, 1, 1)
		f.cut(0)
		f.cut(1)
		pass(time.Now().Add(length * 5 / 4))
		f.cut(2)
		return ctx.Err()
	}), "it was protected throughout")
	f.heal()
	f.empty()
}

// However long servers are waited for otherwise, a release is bounded as every other.
func TestARedLocksReleaseIsBounded(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	l := redLock(f.near(&holdfast.Options{Lease: 3 * time.Second}), orders, reentrant,
		&multilock.RedLockOptions{TrustRestarted: true, ServerTimeout: 2500 * time.Millisecond})
	h := lock(t, t.Context(), l)
	resume := f.strike(paused, 0, 1)
	began := time.Now()
	require.ErrorIs(t, h.Release(), holdfast.ErrUnknown)
	require.Less(t, time.Since(began), 1700*time.Millisecond) // a third of the lease is a second
	resume()
	f.empty()
}

// A release that finds that most servers have forgotten the lock says so.
func TestARedLockThatMostHaveForgottenIsCalledLost(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	near := f.near(&holdfast.Options{Lease: time.Minute})
	l := redLock(near, orders, reentrant, patient)
	for forget, lost := range []bool{false, false, true, true} {
		h := lock(t, t.Context(), l)
		f.has(near, 1, 1, 1)
		for _, srv := range f.servers[:forget] {
			srv.Do(t, "DEL", orders)
		}
		if err := h.Release(); lost {
			require.ErrorIs(t, err, holdfast.ErrLost, forget)
		} else {
			require.NoError(t, err, forget)
		}
		f.empty()
	}
}
