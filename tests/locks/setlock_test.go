package locks

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/setlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A lock is handed over by its token; whoever hands it over detaches it first.
func TestALockIsHandedOver(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	a, b := kit.Open(t, srv.Addr(), nil), kit.Open(t, srv.Addr(), &holdfast.Options{Lease: 4 * time.Second})
	first := kit.Lock(t, t.Context(), setlock.New(a, "x", &setlock.Options{FixedLease: 2 * time.Second}))
	require.NoError(t, first.Detach())
	token, err := setlock.New(b, "x", nil).Query(t.Context())
	require.NoError(t, err)
	require.Equal(t, first.ID(), token)

	l := setlock.New(b, "x", nil)
	taken, err := l.Adopt(t.Context(), token)
	require.NoError(t, err)
	require.Equal(t, token, taken.ID())
	_, err = l.TryLock(taken.Context(t.Context()))
	require.ErrorIs(t, err, holdfast.ErrAlreadyHeld)
	kit.WaitInVain(t, setlock.New(a, "x", nil).TryLockFor, 4500*time.Millisecond) // it is renewed
	require.NoError(t, taken.Err())
	require.NoError(t, taken.Release())

	for what, token := range map[string]string{"released": token, "never taken": "nobody"} {
		_, err = l.Adopt(t.Context(), token)
		require.ErrorIs(t, err, holdfast.ErrNotHeld, what)
	}
	token, err = l.Query(t.Context())
	require.NoError(t, err)
	require.Empty(t, token)
	require.Empty(t, srv.Keyspace(t))
}

// Whoever has let go of a lock makes its lease no shorter: another one may have adopted it for longer.
func TestAnExtensionThatCrossesADetachCutsNobodyOff(t *testing.T) {
	t.Parallel()
	srv, p := kit.StartProxied(t)
	a, b := kit.Open(t, p.Addr(), nil), kit.Open(t, srv.Addr(), nil)
	first := kit.Lock(t, t.Context(), setlock.New(a, "x", &setlock.Options{FixedLease: 20 * time.Second}))
	answer, extended := p.On(kit.ScriptNamed("setlock_renew"), proxy.HoldReply, proxy.First), make(chan error, 1)
	go func() { extended <- first.Extend(t.Context(), time.Hour) }()
	answer.Wait(t, 1)
	require.NoError(t, first.Detach())
	taken, err := setlock.New(b, "x", &setlock.Options{FixedLease: 10 * time.Minute}).Adopt(t.Context(), first.ID())
	require.NoError(t, err)
	answer.Release()
	require.ErrorIs(t, kit.Within(t, kit.LongestWait, extended, "the extension"), holdfast.ErrNotHeld)
	require.NoError(t, a.Close()) // and with it whatever it does in the background
	require.Greater(t, time.Now().Add(srv.TTLs(t)["x"]), taken.Deadline())
	require.NoError(t, taken.Release())
}

// Nor does a call that was sent before: its session has no way to call it back.
func TestALeaseThatIsTooLongIsLeftToWhoeverAdoptsIt(t *testing.T) {
	t.Parallel()
	srv, p := kit.StartProxied(t)
	a, b := kit.Open(t, p.Addr(), nil), kit.Open(t, srv.Addr(), nil)
	first := kit.Lock(t, t.Context(), setlock.New(a, "x", nil))
	setBack(t, srv, time.Hour)
	calls, renews, token := proxy.Command("EVALSHA", "EVAL"), kit.ScriptNamed("setlock_renew"), first.ID()
	late := p.On(func(command []string) bool {
		return calls(command) && slices.Contains(command, token) && !renews(command)
	}, proxy.Stall, proxy.First)
	for range 2 {
		deadline := first.Deadline()
		kit.Await(t, "a renewal, which finds it, or what follows one",
			func() bool { return late.Count() > 0 || first.Deadline().After(deadline) })
	}
	require.NoError(t, first.Detach())
	taken, err := setlock.New(b, "x", &setlock.Options{FixedLease: 10 * time.Minute}).Adopt(t.Context(), token)
	require.NoError(t, err)
	late.Release()
	require.NoError(t, a.Close())
	require.Greater(t, time.Now().Add(srv.TTLs(t)["x"]), taken.Deadline())
	require.NoError(t, taken.Release())
}

// An adoption that fails leaves the lock with its holder.
func TestAnAdoptionThatFailsFreesNothing(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	proxied := proxy.Start(t, srv.Addr())
	s := kit.Open(t, proxied.Addr(), nil)
	l := setlock.New(s, "x", &setlock.Options{FixedLease: 2 * time.Second})
	require.NoError(t, kit.Lock(t, t.Context(), l).Release())
	for name, action := range map[string]proxy.Action{
		"reply lost":     proxy.DropReply,
		"never executed": proxy.ResetBefore,
	} {
		srv.Do(t, "SET", "x", "theirs", "PX", "60000")
		rule := proxied.On(kit.ScriptNamed("setlock_renew"), action, proxy.EveryTime)
		_, err := l.Adopt(t.Context(), "theirs")
		require.ErrorIs(t, err, holdfast.ErrUnknown, name)
		rule.Remove()
		kit.SleepUntil(time.Now().Add(time.Second)) // beyond its not-after
		require.Equal(t, "theirs", srv.Str(t, "GET", "x"), name)
	}
	require.NoError(t, s.Close())
	require.Equal(t, "theirs", srv.Str(t, "GET", "x"))
}

// A token that is used again is somebody else's while that one holds, and nothing of it is given back later.
func TestATokenThatIsUsedAgain(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	proxied := proxy.Start(t, srv.Addr())
	const lease = kit.Lease
	l := setlock.New(kit.Open(t, proxied.Addr(), nil), "x", &setlock.Options{FixedLease: lease, Token: "mine"})
	h := kit.Lock(t, t.Context(), l)
	require.Equal(t, "mine", h.ID())
	_, err := l.TryLock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrBusy)
	require.NoError(t, h.Release())

	rule := proxied.On(kit.ScriptOf(kit.KindOf("setlock"), "acquire"), proxy.DropReply, proxy.First)
	_, err = l.Lock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrUnknown, "it may belong to somebody else")
	rule.Remove()
	h, err = l.Adopt(t.Context(), "mine") // for a caller that knows that it does not
	require.NoError(t, err)
	require.NoError(t, h.Release())

	rule = proxied.On(kit.ScriptOf(kit.KindOf("setlock"), "acquire"), proxy.DropReply, proxy.EveryTime)
	_, err = l.TryLock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrUnknown)
	rule.Remove()
	h = kit.Lock(t, t.Context(), l) // when the lease of the abandoned one has ended
	deadline := h.Deadline()
	for ; time.Now().Before(deadline.Add(-lease / 3)); time.Sleep(100 * time.Millisecond) { // beyond every not-after
		require.Equal(t, "mine", srv.Str(t, "GET", "x"))
	}
	require.NoError(t, h.Release())
	require.Empty(t, srv.Keyspace(t))
}

func TestASetlockNamesMistakesAndSendsNothing(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	srv.ResetStats(t)
	long := &setlock.Options{Token: strings.Repeat("x", 64<<10+1)}
	_, err := setlock.New(s, "x", long).Lock(t.Context())
	assert.ErrorContains(t, err, `setlock "x": lock: Options.Token is 65537 bytes long, the limit is 65536`)
	_, err = setlock.New(s, "x", nil).Adopt(t.Context(), "")
	assert.ErrorContains(t, err, `setlock "x": adopt: token is empty`)
	assert.Zero(t, srv.CommandStats(t)["evalsha"])
}

// A holder that does not publish its release is soon noticed all the same; and so is a lease that ends.
func TestALockThatOthersReleaseIsTakenSoon(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	l := setlock.New(kit.Open(t, srv.Addr(), nil), "x", nil)
	for what, free := range map[string]func(){
		"deleted": func() { srv.Do(t, "DEL", "x") },
		"expired": func() { srv.Do(t, "PEXPIRE", "x", "1") },
	} {
		srv.Do(t, "SET", "x", "theirs")
		got := kit.GoLock(context.Background(), l.Lock)
		kit.Await(t, "the subscription", func() bool { return len(srv.Strs(t, "PUBSUB", "CHANNELS")) > 0 })
		srv.ResetStats(t)
		began := time.Now()
		for running := kit.Stopwatch(); running() < 2*time.Second; { // it looks now and then in this time
			time.Sleep(10 * time.Millisecond)
		}
		looks := srv.CommandStats(t)["evalsha"]
		require.GreaterOrEqual(t, looks, int64(7), what)
		require.LessOrEqual(t, float64(looks), 12*time.Since(began).Seconds(), what) // also while the process stood still
		took := kit.Stopwatch()
		free()
		r := kit.Within(t, time.Second, got, what)
		require.NoError(t, r.Err)
		require.Less(t, took(), 500*time.Millisecond)
		require.NoError(t, r.Hold.Release())
		kit.Await(t, "the subscription's end", func() bool { return len(srv.Strs(t, "PUBSUB", "CHANNELS")) == 0 })
	}
}

// A lock that is free again in a moment is not waited for until the next look but one.
func TestAWaiterLooksSoonAtFirst(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	looks := make(chan time.Duration, 1000)
	var took func() time.Duration
	s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: 30 * time.Second, Observer: &holdfast.Observer{
		Wait: func(holdfast.Subject) func() {
			took = kit.Stopwatch()
			return nil
		},
		WakeUp: func(_ holdfast.Subject, by holdfast.WakeUp) {
			if by == holdfast.ByTimer {
				looks <- took()
			}
		},
	}})
	srv.Do(t, "SET", "x", "theirs", "PX", "60000")
	ctx, cancel := context.WithCancel(t.Context())
	got := kit.GoLock(ctx, setlock.New(s, "x", nil).Lock)
	require.Less(t, kit.Within(t, 5*time.Second, looks, "a look"), 100*time.Millisecond)
	cancel()
	require.ErrorIs(t, kit.Within(t, 5*time.Second, got, "the end").Err, context.Canceled)
}

// The next waiter also looks now and then if its own session took the lock, since others that give it back may
// publish nothing.
func TestAWaiterLooksThoughItsOwnSessionHasTheLock(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	waiting := make(chan struct{}, 2)
	s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: 30 * time.Second, Observer: &holdfast.Observer{
		Wait: func(holdfast.Subject) func() {
			waiting <- struct{}{}
			return nil
		},
	}})
	l := setlock.New(s, "x", nil)
	srv.Do(t, "SET", "x", "theirs", "PX", "60000")
	calls := make(chan kit.Result, 2)
	for range 2 {
		go func() {
			h, err := l.Lock(t.Context())
			calls <- kit.Result{Hold: h, Err: err}
		}()
	}
	for range 2 {
		kit.Within(t, 5*time.Second, waiting, "both wait")
	}
	srv.Do(t, "DEL", "x")
	first := kit.Within(t, kit.Told, calls, "the first")
	require.NoError(t, first.Err)
	require.NoError(t, first.Hold.Detach()) // handed over by its token
	srv.Do(t, "DEL", "x")                   // given back, and nobody is told
	second := kit.Within(t, kit.Told, calls, "the second")
	require.NoError(t, second.Err)
	require.NoError(t, second.Hold.Release())
}

// A token that is used again is never taken for the caller's own, not even after a lost reply: it may belong to
// somebody else.
func TestATokenThatIsUsedAgainHasOneHolder(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := proxy.Start(t, srv.Addr())
	opts := &holdfast.Options{Lease: 10 * time.Second}
	token := &setlock.Options{Token: "host7"}
	first := kit.Lock(t, t.Context(), setlock.New(kit.Open(t, srv.Addr(), opts), "x", token))
	l := setlock.New(kit.Open(t, p.Addr(), opts), "x", token)
	for name, take := range map[string]func(ctx context.Context) (*holdfast.Hold, error){
		"try": l.TryLock, "wait": l.Lock,
		"wait for a time": func(ctx context.Context) (*holdfast.Hold, error) { return l.TryLockFor(ctx, time.Minute) },
	} {
		for _, fault := range []proxy.Action{proxy.ResetBefore, proxy.DropReply} {
			p.On(kit.ScriptNamed("setlock_acquire"), fault, proxy.First)
			_, err := take(t.Context())
			require.ErrorIs(t, err, holdfast.ErrUnknown, name)
		}
	}
	require.NoError(t, first.Release())
}

// A call that gives a token back is sent only once: its copy would free the lock of whoever has taken it with the
// same token since.
func TestATokenIsGivenBackOnce(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	kit.LoadScripts(t, srv)
	opts := &holdfast.Options{Lease: 10 * time.Second}
	mine := func(s *holdfast.Session) *setlock.Mutex { return setlock.New(s, "x", &setlock.Options{Token: "mine"}) }
	rival := mine(kit.Open(t, srv.Addr(), opts))
	adopt := func(ctx context.Context, s *holdfast.Session) (*holdfast.Hold, error) {
		srv.Do(t, "SET", "x", "mine", "PX", "60000")
		return setlock.New(s, "x", nil).Adopt(ctx, "mine")
	}
	release := func(_ *holdfast.Session, h *holdfast.Hold) error { return h.Release() }
	for name, c := range map[string]struct {
		take     func(ctx context.Context, s *holdfast.Session) (*holdfast.Hold, error)
		giveBack func(s *holdfast.Session, h *holdfast.Hold) error
	}{
		"release": {func(ctx context.Context, s *holdfast.Session) (*holdfast.Hold, error) {
			return mine(s).Lock(ctx)
		}, release},
		"release of what was adopted": {adopt, release},
		"close":                       {adopt, func(s *holdfast.Session, _ *holdfast.Hold) error { return s.Close() }},
	} {
		p := proxy.Start(t, srv.Addr())
		s := kit.Open(t, p.Addr(), opts)
		h, err := c.take(t.Context(), s)
		require.NoError(t, err, name)
		rule := p.On(kit.ScriptNamed("setlock_release"), proxy.HoldReply, proxy.First)
		outcome := make(chan error, 1)
		go func() { outcome <- c.giveBack(s, h) }()
		rule.Wait(t, 1)
		theirs := kit.Lock(t, t.Context(), rival)
		p.CutAll()
		require.ErrorIs(t, kit.Within(t, 10*time.Second, outcome, name), holdfast.ErrUnknown, name)
		require.Equal(t, "mine", srv.Str(t, "GET", "x"), name)
		require.NoError(t, theirs.Release(), name)
	}
}

// Nor is a token given back once more after the time for a copy of its adoption.
func TestAnAdoptionThatWasRepeatedIsGivenBackOnce(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := proxy.Start(t, srv.Addr())
	l := setlock.New(kit.Open(t, p.Addr(), nil), "x", &setlock.Options{FixedLease: 6 * time.Second})
	require.NoError(t, kit.Lock(t, t.Context(), l).Release()) // now the server's clock is known
	srv.Do(t, "SET", "x", "theirs", "PX", "60000")
	rule := p.On(kit.ScriptNamed("setlock_renew"), proxy.DropReply, proxy.First)
	h, err := l.Adopt(t.Context(), "theirs")
	require.NoError(t, err)
	rule.Wait(t, 1)
	require.NoError(t, h.Release())
	srv.Do(t, "SET", "x", "theirs", "PX", "60000")
	kit.SleepUntil(time.Now().Add(2600 * time.Millisecond)) // beyond its not-after
	require.Equal(t, "theirs", srv.Str(t, "GET", "x"))
}

// A semaphore's count is nobody's token, whatever a caller says.
func TestAnAdoptionTakesNoSemaphore(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	_, err := semaphore.New(s, "x").TrySetPermits(t.Context(), 5)
	require.NoError(t, err)
	_, err = setlock.New(s, "x", nil).TryLock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrWrongKind)
	h, err := setlock.New(s, "x", nil).Adopt(t.Context(), "5")
	assert.ErrorIs(t, err, holdfast.ErrWrongKind)
	assert.Equal(t, int64(-1), srv.Int(t, "PTTL", "x"))
	if h != nil {
		assert.NoError(t, h.Release())
	}
	assert.Equal(t, "5", srv.Str(t, "GET", "x"))
}
