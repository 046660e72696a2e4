package several

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/tests/kit"
)

// A crisis has a RedLock, and somebody else's RedLock for the same name; two of their five servers fail.
type crisis struct {
	*kit.Fleet
	near         []*holdfast.Session // for my lock
	mine, theirs *multilock.RedLock
	fail         func() // makes two of the servers fail
	waiter       <-chan kit.Result
}

// moments are when the servers of a crisis fail. At the end of each, the lock is held and they have failed.
var moments = []struct {
	name string
	come func(c *crisis) *holdfast.Hold
}{
	{"before it is taken", func(c *crisis) *holdfast.Hold {
		c.fail()
		return kit.Lock(c, c.Context(), c.mine)
	}},
	{"while it is held", func(c *crisis) *holdfast.Hold {
		h := c.Everywhere(c.mine.Lock)
		c.fail()
		return h
	}},
	{"while somebody waits", func(c *crisis) *holdfast.Hold {
		h := c.Everywhere(c.mine.Lock)
		c.waiter = kit.GoLock(c.Context(), c.theirs.Lock)
		kit.Await(c, "a subscription", func() bool { return len(c.Servers[0].Strs(c, "PUBSUB", "CHANNELS")) > 0 })
		c.fail()
		return h
	}},
	{"at its release", func(c *crisis) *holdfast.Hold {
		h := c.Everywhere(c.mine.Lock)
		c.fail()
		require.NoError(c, h.Release())
		kit.GrantAndRelease(c, kit.GoLock(c.Context(), c.theirs.Lock))
		return kit.Lock(c, c.Context(), c.mine)
	}},
}

// Two servers of five may fail in any way at any time. When they are back they get the hold as well, and two others
// may fail.
func TestARedLockGoesOnWithoutTwoOfFiveServers(t *testing.T) {
	t.Parallel()
	const (
		length  = 15 * time.Second // a virtual machine may stand still for seconds
		patient = 3 * time.Second  // which a release needs where many of these run at once
	)
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
	for n, o := range []kit.Outage{kit.Killed, kit.Paused, kit.SlowBy(patient + time.Second), kit.CutOff} {
		for m := range moments {
			if (n+m)%2 > kit.Stressed(0, 1) {
				continue // each outage comes at every second moment, but for HOLDFAST_STRESS
			}
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
		tuned := *kit.Patient
		tuned.ServerTimeout = patient
		c := &crisis{Fleet: kit.NewFleet(t, 5)}
		kit.Building <- struct{}{}
		c.near = c.Near(&holdfast.Options{Lease: length})
		far := c.Far(&holdfast.Options{Lease: length})
		c.mine, c.theirs = kit.RedLock(c.near, kit.Orders, kit.ReentrantMember, &tuned),
			kit.RedLock(far, kit.Orders, kit.ReentrantMember, &tuned)
		<-kit.Building
		var repair func()
		c.fail = func() { repair = c.Strike(p.outage, p.down...) }
		h := moments[p.moment].come(c)
		defer func() {
			if t.Failed() {
				t.Log("at the end it was", kit.ClassOf(h.Err()))
			}
		}()
		c.Keeps(length*5/4, h, c.theirs)
		before := c.Joined()
		repair()
		// A server may have granted it in vain, by a reply that came too late.
		kit.Await(t, "the hold to be told of both", func() bool { return c.Joined() >= before+len(p.down) })
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

// Without three servers of five nobody gets the lock, and the error tells why. A holder learns that it has lost the
// lock by its deadline, and before anybody else has it.
func TestNobodyHasARedLockWithoutThreeOfFiveServers(t *testing.T) {
	t.Parallel()
	const length = 8 * time.Second
	outages := []kit.Outage{kit.Killed, kit.Paused, kit.CutOff, kit.Silent}
	kit.InParallel(t, len(outages), outages, func(o kit.Outage) string { return o.Name },
		func(t *testing.T, o kit.Outage) {
			opts := &holdfast.Options{Lease: length}
			f := kit.NewFleet(t, 5)
			near, far := f.Near(opts), f.Far(opts)
			h := kit.Lock(t, t.Context(), kit.RedLock(near, kit.Orders, kit.ReentrantMember, kit.Patient))
			f.Has(near, 1, 1, 1, 1, 1)
			ctx := h.Context(t.Context())
			next := kit.GoLock(t.Context(), func(ctx context.Context) (*holdfast.Hold, error) {
				next, err := kit.RedLock(far, kit.Orders, kit.ReentrantMember, kit.Patient).Lock(ctx)
				if h.Err() == nil {
					err = errors.Join(err, errors.New("the first one still believes that it has the lock"))
				}
				return next, err
			})
			other := kit.RedLock(near, "returns", kit.ReentrantMember, kit.Patient)
			require.NoError(t, kit.Lock(t, t.Context(), other).Release()) // now the sessions know the servers' clocks
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

// Half of an even number of servers is no majority: both halves of a split network would have the lock.
func TestHalfOfTheServersAreNoMajorityOfARedLock(t *testing.T) {
	t.Parallel()
	const length, says = 6 * time.Second, "2 of 4 servers granted it, 3 are needed"
	opts := &holdfast.Options{Lease: length}
	f := kit.NewFleet(t, 4)
	others := f.Beside()
	near := f.Near(opts)
	mine, theirs := kit.RedLock(near, kit.Orders, kit.ReentrantMember, kit.Patient),
		kit.RedLock(others.Near(opts), kit.Orders, kit.ReentrantMember, kit.Patient)
	for _, l := range []*multilock.RedLock{mine, theirs} {
		require.NoError(t, kit.Lock(t, t.Context(), l).Release()) // now the sessions know the servers' clocks
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

// refusals asks in every way for a lock of which two of five servers are up, and returns an error if an answer is
// wrong.
func refusals(l *multilock.RedLock) (wrong error) {
	const says = "2 of 5 servers granted it, 3 are needed"
	_, err := l.TryLock(context.Background())
	if err == nil || !strings.Contains(err.Error(), says) || kit.ClassOf(err) != "unknown" &&
		!strings.HasPrefix(kit.ClassOf(err), "other") {
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

// A hold survives the end of one of its sessions, and of a second one, but not of a third.
func TestARedLockOutlivesTheSessionsThatItDoesNotNeed(t *testing.T) {
	t.Parallel()
	const length = 6 * time.Second
	f := kit.NewFleet(t, 5)
	near, other := f.Near(&holdfast.Options{Lease: length}),
		kit.RedLock(f.Far(nil), kit.Orders, kit.ReentrantMember, kit.Patient)
	l := kit.RedLock(near, kit.Orders, kit.ReentrantMember, kit.Patient)
	h := f.Everywhere(l.Lock)
	ctx := h.Context(t.Context())
	require.NoError(t, near[0].Close())
	f.Keeps(length*5/4, h, other)
	require.Equal(t, []int{0, 1, 1, 1, 1}, f.Counts(near))
	kit.GrantAndRelease(t, kit.GoLock(ctx, l.Lock)) // and re-entered
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

// An owner re-enters without two servers, and each hold lives until it is released.
func TestARedLockIsEnteredOnceMoreWithoutTwoServers(t *testing.T) {
	t.Parallel()
	const length = 6 * time.Second
	for _, o := range []kit.Outage{kit.Killed, kit.Paused, kit.CutOff} {
		t.Run(o.Name, func(t *testing.T) {
			t.Parallel()
			f := kit.NewFleet(t, 5)
			opts := &holdfast.Options{Lease: length}
			near, other := f.Near(opts), kit.RedLock(f.Far(opts), kit.Orders, kit.ReentrantMember, kit.Patient)
			l := kit.RedLock(near, kit.Orders, kit.ReentrantMember, kit.Patient)
			outer := f.Everywhere(l.Lock)
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
