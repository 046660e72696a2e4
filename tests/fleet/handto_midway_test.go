package fleet

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A midway is a hand-over between two sessions that has asked the server, and waits for its answer.
type midway struct {
	srv      *redistest.Server
	from, to *proxy.Proxy // between the sessions and the server
	hold     *holdfast.Hold
	inner    *holdfast.Hold // nested with it
	answer   *proxy.Rule    // to the other session
	next     *holdfast.Hold
	ended    chan error
}

func handOverMidway(t *testing.T, nested *rlock.Options) *midway {
	t.Helper()
	srv := redistest.Start(t)
	kit.LoadScripts(t, srv)
	m := &midway{srv: srv, from: proxy.Start(t, srv.Addr()), to: proxy.Start(t, srv.Addr()), ended: make(chan error, 1)}
	a, b := kit.Open(t, m.from.Addr(), nil), kit.Open(t, m.to.Addr(), nil)
	m.hold = kit.Lock(t, t.Context(), rlock.New(a, kit.Orders, nil))
	m.inner = kit.Lock(t, m.hold.Context(t.Context()), rlock.New(a, kit.Orders, nested))
	m.answer = m.to.On(kit.ScriptNamed("lock_renew"), proxy.HoldReply, proxy.First)
	go func() {
		var err error
		m.next, err = m.hold.HandTo(context.Background(), b)
		m.ended <- err
	}()
	m.answer.Wait(t, 1)
	return m
}

// arrives lets the answer come, and returns how the hand-over ends.
func (m *midway) arrives(t *testing.T) error {
	t.Helper()
	m.answer.Release()
	return kit.Within(t, kit.LongestWait, m.ended, "the end of the hand-over")
}

// A command that is guarded by the hold, and whose outcome is not known, must not be executed under the next one.
func TestAHoldStaysIfAGuardedCallBeginsMeanwhile(t *testing.T) {
	t.Parallel()
	m := handOverMidway(t, nil)
	client := kit.NewClient(t, m.srv.Addr())
	stalled := m.from.On(kit.ScriptNamed("guard_commands"), proxy.Stall, proxy.First)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-stalled.Fired()
		cancel()
	}()
	_, err := m.hold.Guard(ctx, client.B().Set().Key("stock").Value("late").Build())
	require.ErrorIs(t, err, holdfast.ErrUnknown)
	require.ErrorContains(t, m.arrives(t), "the outcome of another call")
	require.NoError(t, m.hold.Err())
}

func TestAHoldStaysIfANestedOneIsDetachedMeanwhile(t *testing.T) {
	t.Parallel()
	m := handOverMidway(t, &rlock.Options{FixedLease: time.Minute})
	require.NoError(t, m.inner.Detach())
	require.ErrorContains(t, m.arrives(t), "was detached")
	require.NoError(t, m.hold.Release())
	require.EqualValues(t, 1, m.srv.Int(t, "EXISTS", kit.Orders), "it lasts as long as its lease")
}

// The nested hold has ended before the hand-over, and its release comes after the next holder's.
func TestANestedHoldThatIsReleasedMeanwhileIsNotLost(t *testing.T) {
	t.Parallel()
	m := handOverMidway(t, nil)
	late := m.from.On(kit.ScriptNamed("rlock_release"), proxy.Stall, proxy.First)
	released := make(chan error, 1)
	go func() { released <- m.inner.Release() }()
	kit.Await(t, "the end of the nested hold", func() bool { return m.inner.Err() != nil })
	require.NoError(t, m.arrives(t))
	late.Wait(t, 1)
	require.NoError(t, m.next.Release())
	late.Release()
	require.NoError(t, kit.Within(t, kit.LongestWait, released, "the nested release"))
}

// The hold's own session has no reply to its renewals, and the hold is lost before the answer comes.
func TestAHoldThatIsLostMeanwhileSaysSo(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	kit.LoadScripts(t, srv)
	from, to := proxy.Start(t, srv.Addr()), proxy.Start(t, srv.Addr())
	a := kit.Open(t, from.Addr(), nil)
	b := kit.Open(t, to.Addr(), &holdfast.Options{Lease: 5 * kit.Lease}) // HandTo waits for a third of that
	hold := kit.Lock(t, t.Context(), rlock.New(a, kit.Orders, nil))
	from.Silence()
	answer := to.On(kit.ScriptNamed("lock_renew"), proxy.HoldReply, proxy.EveryTime) // it is sent again before that
	handed := make(chan error, 1)
	go func() { handed <- kit.ErrorOf(hold.HandTo(t.Context(), b)) }()
	answer.Wait(t, 1)
	kit.Await(t, "the loss", func() bool { return hold.Err() != nil })
	answer.Remove()
	require.ErrorIs(t, kit.Within(t, kit.LongestWait, handed, "the hand-over"), holdfast.ErrLost)
	from.ResumeAll()
}

// Nested calls have their turns one after the other, and none of them gets a reply.
func TestAHandOverIsBoundedWhoeverHasTheTurn(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	const lease = 6 * time.Second
	p := proxy.Start(t, srv.Addr())
	a, b := kit.Open(t, p.Addr(), &holdfast.Options{Lease: lease}), kit.Open(t, p.Addr(), &holdfast.Options{Lease: lease})
	l := rlock.New(a, kit.Orders, nil)
	hold := kit.Lock(t, t.Context(), l)
	p.Silence()
	var nested []<-chan kit.Result
	for range 3 {
		nested = append(nested, kit.GoLock(hold.Context(t.Context()), l.Lock))
	}
	time.Sleep(100 * time.Millisecond) // one of them has the turn
	took := kit.Stopwatch()
	require.ErrorIs(t, kit.ErrorOf(hold.HandTo(t.Context(), b)), holdfast.ErrNoReply)
	require.Less(t, took(), lease/3+500*time.Millisecond)
	p.ResumeAll()
	for _, got := range nested {
		if r := kit.Within(t, kit.LongestWait, got, "the end of a nested call"); r.Err == nil {
			_ = r.Hold.Release()
		}
	}
}

// If the other session had the lock, it would not know of the longer lease, and would leave it behind.
func TestAHoldStaysWhileItIsExtended(t *testing.T) {
	t.Parallel()
	srv, p := kit.StartProxied(t)
	a, b := kit.Open(t, p.Addr(), nil), kit.Open(t, srv.Addr(), nil)
	hold := kit.Lock(t, t.Context(), rlock.New(a, kit.Orders, &rlock.Options{FixedLease: 20 * time.Second}))

	stalled := p.On(kit.ScriptNamed("lock_renew"), proxy.Stall, proxy.First)
	extended := make(chan error, 1)
	go func() { extended <- hold.Extend(t.Context(), time.Hour) }()
	stalled.Wait(t, 1)
	_, err := hold.HandTo(t.Context(), b)
	require.ErrorContains(t, err, "the outcome of another call")
	stalled.Release()
	require.NoError(t, kit.Within(t, kit.LongestWait, extended, "the extension"))
	require.NoError(t, handTo(t, t.Context(), hold, b).Release())
	require.Zero(t, srv.Int(t, "EXISTS", kit.Orders))
}

// A hold that ends while its own owner is about to hand it to itself: nothing waits for itself.
func TestAHoldThatEndsIsNotHandedToItsOwner(t *testing.T) {
	t.Parallel()
	srv, p := kit.StartProxied(t)
	s := kit.Open(t, p.Addr(), nil)
	l := rlock.New(s, kit.Orders, nil)
	ctx := holdfast.NewOwner(t.Context())
	outer, inner := kit.Lock(t, ctx, l), kit.Lock(t, ctx, l)

	slow := p.On(kit.ScriptNamed("rlock_release"), proxy.HoldReply, proxy.First)
	released := make(chan error, 2)
	go func() { released <- inner.Release() }()
	slow.Wait(t, 1) // it has the owner's turn
	handed := make(chan error, 1)
	go func() { handed <- kit.ErrorOf(outer.HandTo(ctx, s)) }()
	time.Sleep(100 * time.Millisecond) // it waits for the turn
	go func() { released <- outer.Release() }()
	kit.Await(t, "the end of the hold", func() bool { return outer.Err() != nil })
	slow.Release()
	require.Error(t, kit.Within(t, kit.LongestWait, handed, "the hand-over"))
	require.NoError(t, kit.Within(t, kit.LongestWait, released, "a release"))
	require.NoError(t, kit.Within(t, kit.LongestWait, released, "the other release"))
	require.Zero(t, srv.Int(t, "EXISTS", kit.Orders))
}

// A permitMidway is a midway of a permit.
type permitMidway struct {
	from   *holdfast.Session
	ours   *semaphore.Expirable // of that session
	to     *holdfast.Session    // that gets the permit
	proxy  *proxy.Proxy         // between it and the server
	e      *semaphore.Expirable // of it
	hold   *holdfast.Hold
	answer *proxy.Rule
	handed <-chan kit.Result
}

// handPermitOverMidway begins to hand over a permit with a fixed lease, if it is not 0, perhaps within one session.
func handPermitOverMidway(t *testing.T, within bool, fixed time.Duration) *permitMidway {
	t.Helper()
	m := newPermitMidway(t, within, 1, fixed)
	m.begin(t)
	return m
}

// newPermitMidway makes all that takes part in hand-overs of n permits.
func newPermitMidway(t *testing.T, within bool, n int, fixed time.Duration) *permitMidway {
	t.Helper()
	srv, p := kit.StartProxied(t)
	m := &permitMidway{proxy: p, to: kit.Open(t, p.Addr(), nil)}
	m.from = m.to
	if !within {
		m.from = kit.Open(t, srv.Addr(), nil)
	}
	m.ours = kit.NewExports(t, m.from, n, fixed)
	m.e = semaphore.NewExpirable(m.to, "exports", &semaphore.ExpirableOptions{FixedLease: fixed})
	require.NoError(t, kit.Lock(t, t.Context(), rlock.New(m.to, "warm", nil)).Release()) // it knows the server's clock
	return m
}

// begin acquires a permit and begins to hand it over.
func (m *permitMidway) begin(t *testing.T) {
	t.Helper()
	hold, err := m.ours.Acquire(t.Context())
	require.NoError(t, err)
	m.hold, m.answer = hold, m.on("renew", proxy.HoldReply)
	m.handed = kit.GoLock(t.Context(), func(ctx context.Context) (*holdfast.Hold, error) { return hold.HandTo(ctx, m.to) })
	m.answer.Wait(t, 1)
}

// on sets a rule for the next call of a verb of the session that gets the permit.
func (m *permitMidway) on(verb string, a proxy.Action) *proxy.Rule {
	return m.proxy.On(kit.ScriptOf(kit.KindOf("semaphore expirable"), verb), a, proxy.First)
}

// end lets the hand-over end.
func (m *permitMidway) end(t *testing.T) (heir *holdfast.Hold) {
	t.Helper()
	m.answer.Release()
	return kit.Granted(t, kit.LongestWait, m.handed, "the hand-over")
}

// A permit changes hands while its lease is updated, or it is given back, by its id: that concerns whoever has it then.
func TestACallForAPermitThatIsHandedOverMeanwhile(t *testing.T) {
	t.Parallel()
	const shorter = 5 * time.Second // and what it had is longer
	for verb, c := range map[string]struct {
		call func(ctx context.Context, e *semaphore.Expirable, id string) error
		then func(t *testing.T, heir *holdfast.Hold)
	}{
		"update": {
			call: func(ctx context.Context, e *semaphore.Expirable, id string) error {
				return e.UpdateLease(ctx, id, shorter)
			},
			then: func(t *testing.T, heir *holdfast.Hold) { require.LessOrEqual(t, time.Until(heir.Deadline()), shorter) },
		},
		"release": {
			call: func(ctx context.Context, e *semaphore.Expirable, id string) error { return e.Release(ctx, id) },
			then: func(t *testing.T, heir *holdfast.Hold) { require.ErrorIs(t, heir.Err(), holdfast.ErrLost) },
		},
	} {
		for _, within := range []bool{true, false} { // one session
			t.Run(fmt.Sprint(verb, ", within the session: ", within), func(t *testing.T) {
				t.Parallel()
				m := handPermitOverMidway(t, within, 0)
				called := m.on(verb, proxy.HoldReply)
				ended := make(chan error, 1)
				go func() { ended <- c.call(t.Context(), m.e, m.hold.ID()) }()
				time.Sleep(100 * time.Millisecond) // it has looked who has the permit, and waits
				heir := m.end(t)
				called.Wait(t, 1)
				called.Release()
				require.NoError(t, kit.Within(t, kit.LongestWait, ended, "the call"))
				c.then(t, heir)
			})
		}
	}
}

// The answer to a call for a permit may come right behind that to the renewal by which the permit is handed over,
// before its hold is there.
func TestACallForAPermitThatIsHandedOverEndsBeforeTheHoldIsThere(t *testing.T) {
	t.Parallel()
	tries := kit.Stressed(40, 100)
	m := newPermitMidway(t, false, tries, time.Minute)
	for i := range tries {
		verb, call := "release", func(id string) error { return m.e.Release(t.Context(), id) }
		if i%2 == 0 {
			verb, call = "update", func(id string) error { return m.e.UpdateLease(t.Context(), id, 5*time.Second) }
		}
		m.begin(t)
		called, ended := m.on(verb, proxy.Pass), make(chan error, 1)
		go func() { ended <- call(m.hold.ID()) }()
		called.Wait(t, 1)
		time.Sleep(time.Millisecond) // the server has answered
		heir := m.end(t)
		require.NoError(t, kit.Within(t, kit.LongestWait, ended, "the call"))
		if verb == "release" {
			require.ErrorIs(t, heir.Err(), holdfast.ErrLost)
		} else {
			require.LessOrEqual(t, time.Until(heir.Deadline()), 5*time.Second)
			require.NoError(t, heir.Release())
		}
		m.answer.Remove()
		called.Remove()
	}
}

// A call for a permit that has come into the session meanwhile may be given up. Its hold trusts what that has left.
func TestAnUpdateOfAPermitThatIsHandedOverIsGivenUp(t *testing.T) {
	t.Parallel()
	m := handPermitOverMidway(t, false, time.Minute)
	called := m.on("update", proxy.HoldReply)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.e.UpdateLease(ctx, m.hold.ID(), time.Second) }()
	time.Sleep(100 * time.Millisecond)
	heir := m.end(t)
	called.Wait(t, 1) // executed
	cancel()
	require.ErrorIs(t, kit.Within(t, kit.LongestWait, ended, "the call"), holdfast.ErrUnknown)
	called.Release()
	kit.SleepUntil(time.Now().Add(1500 * time.Millisecond))
	other, errOther := semaphore.NewExpirable(m.from, "exports", nil).TryAcquire(t.Context())
	require.NoError(t, errOther)
	require.NotNil(t, other)
	require.ErrorIs(t, heir.Err(), holdfast.ErrLost)
}

// The first copy of a call whose outcome is not known may come later than another one.
func TestAnUpdateOfAPermitThatIsHandedOverIsNotRepeated(t *testing.T) {
	t.Parallel()
	m := handPermitOverMidway(t, false, time.Minute)
	update := m.on("update", proxy.Stall)
	ended := make(chan error, 1)
	go func() { ended <- m.e.UpdateLease(t.Context(), m.hold.ID(), 12*time.Second) }()
	update.Wait(t, 1)
	heir := m.end(t)
	// the connection is found silent, and the call is repeated on another one
	if err := kit.Within(t, kit.LongestWait, ended, "the call"); err != nil {
		require.ErrorIs(t, err, holdfast.ErrUnknown)
	}
	require.NoError(t, m.e.UpdateLease(t.Context(), heir.ID(), time.Minute))
	update.Release()
	update.WaitAnswered(t, 1)
	left, err := m.e.RemainingLease(t.Context(), heir.ID())
	require.NoError(t, err)
	require.Less(t, time.Until(heir.Deadline()), left)
}

// The session that is to have a hold frees it by force, after the renewal by which the hold comes.
func TestWhatIsFreedByForceWhileItIsHandedOverIsLost(t *testing.T) {
	t.Parallel()
	t.Run("lock", func(t *testing.T) {
		t.Parallel()
		srv, p := kit.StartProxied(t)
		from, to := kit.Open(t, srv.Addr(), nil), kit.Open(t, p.Addr(), nil)
		opts := &rlock.Options{FixedLease: time.Hour}
		require.NoError(t, kit.Lock(t, t.Context(), rlock.New(to, "warm", nil)).Release()) // it knows the server's clock

		for range kit.Stressed(40, 100) { // the two answers race
			hold := kit.Lock(t, t.Context(), rlock.New(from, kit.Orders, opts))
			answer := p.On(kit.ScriptNamed("lock_renew"), proxy.HoldReply, proxy.First)
			handed := kit.GoLock(t.Context(), func(ctx context.Context) (*holdfast.Hold, error) { return hold.HandTo(ctx, to) })
			answer.Wait(t, 1)
			force, freed := p.On(kit.ScriptNamed("rlock_force"), proxy.Pass, proxy.First), make(chan error, 1)
			go func() { freed <- kit.ErrorOf(rlock.New(to, kit.Orders, opts).ForceUnlock(t.Context())) }()
			force.Wait(t, 1)
			answer.Release()
			heir := kit.Granted(t, kit.LongestWait, handed, "the hand-over")
			require.NoError(t, kit.Within(t, kit.LongestWait, freed, "the force"))
			kit.AwaitSoon(t, 3*time.Second, "the loss", func() bool { return errors.Is(heir.Err(), holdfast.ErrLost) })
			answer.Remove()
			force.Remove()
		}
	})
	t.Run("permit", func(t *testing.T) {
		t.Parallel()
		m := handPermitOverMidway(t, false, time.Hour)
		deletion, deleted := m.on("delete", proxy.Pass), make(chan error, 1)
		go func() { deleted <- kit.ErrorOf(m.e.Delete(t.Context())) }()
		deletion.Wait(t, 1)
		heir := m.end(t)
		require.NoError(t, kit.Within(t, kit.LongestWait, deleted, "the deletion"))
		kit.AwaitSoon(t, 3*time.Second, "the loss", func() bool { return errors.Is(heir.Err(), holdfast.ErrLost) })
	})
}
