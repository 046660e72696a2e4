package locks

import (
	"context"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/setlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

const unreachable = "holdfast: unreachable without a release, and given back"

// forget takes something and loses the hold.
//
//go:noinline
func forget(t *testing.T, take func(ctx context.Context) (*holdfast.Hold, error)) {
	t.Helper()
	h, err := take(holdfast.WithNote(t.Context(), "request 42"))
	require.NoError(t, err)
	require.NoError(t, h.Err())
}

// collect lets the garbage collector find holds until it logs one that was forgotten only now. It does so twice,
// because a collection that began before may have found the first.
func collect(t *testing.T, s *holdfast.Session, log *kit.Journal) {
	t.Helper()
	for _, name := range []string{"canary", "another canary"} {
		before := len(log.EntriesOf(t, unreachable, name))
		forget(t, rlock.New(s, name, nil).Lock)
		awaitForgotten(t, log, name, before+1)
	}
}

func awaitForgotten(t *testing.T, log *kit.Journal, name string, n int) {
	t.Helper()
	kit.Await(t, "a line about "+name, func() bool {
		runtime.GC()
		return len(log.EntriesOf(t, unreachable, name)) >= n
	})
}

func TestAHoldThatNobodyCanReleaseIsGivenBack(t *testing.T) {
	t.Parallel()
	srv, log := redistest.Start(t), &kit.Journal{}
	opts := &holdfast.Options{Reclaim: true, Places: true, Logger: log.JsonLogger(), Lease: time.Minute}
	s, other := kit.Open(t, srv.Addr(), opts), kit.Open(t, srv.Addr(), nil)
	lock := func(l holdfast.Locker) func(ctx context.Context) (*holdfast.Hold, error) {
		return func(ctx context.Context) (*holdfast.Hold, error) { return l.Lock(ctx) }
	}
	servers := []holdfast.Locker{rlock.New(s, "most of them", nil)}
	for range 2 {
		servers = append(servers, rlock.New(kit.Open(t, redistest.Start(t).Addr(), opts), "most of them", nil))
	}
	permits := semaphore.NewExpirable(s, "semaphore.Expirable", nil)
	require.NoError(t, permits.SetPermits(t.Context(), 3))
	takers := map[string]func(ctx context.Context) (*holdfast.Hold, error){
		"rlock":        lock(rlock.New(s, "rlock", nil)),
		"rlock, fixed": lock(rlock.New(s, "rlock, fixed", &rlock.Options{FixedLease: time.Minute})),
		"rlock, tried": rlock.New(s, "rlock, tried", nil).TryLock,
		"fairlock":     lock(fairlock.New(s, "fairlock", nil)),
		"rwlock.Read":  lock(rwlock.New(s, "rwlock.Read", nil).Read()),
		"rwlock.Write": lock(rwlock.New(s, "rwlock.Write", nil).Write()),
		"setlock":      lock(setlock.New(s, "setlock", nil)),
		"in use before": func(ctx context.Context) (*holdfast.Hold, error) {
			h, err := rlock.New(s, "in use before", nil).Lock(ctx)
			if err == nil {
				work, cancel := context.WithCancel(h.Context(h.Context(ctx)))
				cancel()
				<-work.Done()
			}
			return h, err
		},
		"multilock, together": lock(multilock.New(rlock.New(s, "multilock, together", nil))),
		"multilock, apart":    lock(multilock.New(fairlock.New(s, "multilock, apart", nil))),
		"most of them":        lock(multilock.NewRedLock(servers, &multilock.RedLockOptions{TrustRestarted: true})),
		"semaphore.Expirable": permits.Acquire,
	}
	for _, take := range takers {
		forget(t, take)
	}
	for name := range takers {
		awaitForgotten(t, log, name, 1)
		e := log.EntriesOf(t, unreachable, name)[0]
		assert.Equal(t, "WARN", e["level"], name)
		assert.Contains(t, name+" multilock redlock rlock", e["kind"])
		assert.Equal(t, "request 42", e["note"], name)
		assert.Contains(t, e["taken_at"], "unreachable_test.go", name)
		between(t, 1, time.Minute)(e["held"])
		if name != "semaphore.Expirable" {
			kit.Await(t, name+" to be free", func() bool { return srv.Int(t, "EXISTS", name) == 0 })
		}
	}
	forget(t, func(ctx context.Context) (*holdfast.Hold, error) {
		holds, err := permits.AcquireN(ctx, 3)
		if err != nil {
			return nil, err
		}
		return holds[1], holds[2].Release()
	})
	awaitForgotten(t, log, "semaphore.Expirable", 3)
	kit.Await(t, "all permits", func() bool {
		n, err := semaphore.NewExpirable(other, "semaphore.Expirable", nil).AvailablePermits(t.Context())
		return err == nil && n == 3
	})
	collect(t, s, log)
	for _, name := range []string{"rlock", "multilock, apart", "most of them"} {
		assert.Len(t, log.EntriesOf(t, unreachable, name), 1, "of several, the whole says so and no member")
	}
}

// A nested hold gives back its part alone.
func TestANestedHoldThatNobodyCanReleaseIsGivenBack(t *testing.T) {
	t.Parallel()
	srv, log := redistest.Start(t), &kit.Journal{}
	s := kit.Open(t, srv.Addr(), &holdfast.Options{Reclaim: true, Logger: log.JsonLogger()})
	orders := rlock.New(s, "orders", nil)
	outer := kit.Lock(t, t.Context(), orders)
	ctx := outer.Context(t.Context())
	forget(t, func(context.Context) (*holdfast.Hold, error) { return orders.Lock(ctx) })
	awaitForgotten(t, log, "orders", 1)
	assert.Contains(t, log.EntriesOf(t, unreachable, "orders")[0]["taken_at"], "Options.Places")
	kit.Await(t, "the count of the outer hold alone", func() bool {
		n, err := orders.HoldCount(ctx)
		return err == nil && n == 1
	})
	require.NoError(t, outer.Release())
}

// What is in use is not given back: by the hold itself, by its context or one that is derived from it, or as a part of
// several; nor is what has ended.
func TestWhatIsInUseIsNotGivenBack(t *testing.T) {
	t.Parallel()
	srv, log := redistest.Start(t), &kit.Journal{}
	s := kit.Open(t, srv.Addr(), &holdfast.Options{Reclaim: true, Logger: log.JsonLogger(), Lease: time.Minute})
	held := map[string]func() error{}
	for name, take := range map[string]func(ctx context.Context) (*holdfast.Hold, error){
		"rlock": rlock.New(s, "rlock", nil).Lock,
		"multilock": multilock.New(
			rlock.New(s, "multilock", nil), fairlock.New(s, "another", nil)).Lock,
		"multilock of multilocks": multilock.New(
			multilock.New(rlock.New(s, "multilock of multilocks", nil), rlock.New(s, "and another", nil)),
			rwlock.New(s, "a third", nil).Read()).Lock,
	} {
		h, err := take(t.Context())
		require.NoError(t, err)
		held[name] = h.Release
	}
	var contexts []context.Context
	for _, derive := range []func(ctx context.Context) (context.Context, context.CancelFunc){
		func(ctx context.Context) (context.Context, context.CancelFunc) { return ctx, func() {} },
		context.WithCancel,
		func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithValue(ctx, derivation{}, "derived"), func() {}
		},
	} {
		h := kit.Lock(t, t.Context(), rlock.New(s, "by its context "+strconv.Itoa(len(contexts)), nil))
		ctx, cancel := derive(h.Context(t.Context()))
		defer cancel()
		contexts = append(contexts, ctx)
	}
	forgetEnded(t, s, srv)
	working := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- holdfast.Do(t.Context(), rlock.New(s, "worked under", nil).Lock, func(context.Context) error {
			<-working
			return nil
		})
	}()
	for range 3 {
		collect(t, s, log)
	}
	for _, e := range log.Entries(t, unreachable) {
		assert.Contains(t, e["name"], "canary")
	}
	close(working)
	require.NoError(t, kit.Within(t, 5*time.Second, done, "the end of the work"))
	for name, release := range held {
		require.NoError(t, release(), name)
	}
	for _, ctx := range contexts {
		require.NoError(t, ctx.Err())
	}
}

type derivation struct{}

//go:noinline
func forgetEnded(t *testing.T, s *holdfast.Session, srv *redistest.Server) {
	t.Helper()
	require.NoError(t, kit.Lock(t, t.Context(), rlock.New(s, "released", nil)).Release())
	require.NoError(t, kit.Lock(t, t.Context(), rlock.New(s, "detached", nil)).Detach())
	h := kit.Lock(t, t.Context(), rlock.New(s, "lost", nil))
	srv.Do(t, "DEL", "lost")
	require.ErrorIs(t, h.Release(), holdfast.ErrLost)
}

// Without the option nothing is given back that somebody may rely on.
func TestWhatIsForgottenIsKeptUnlessItIsToBeGivenBack(t *testing.T) {
	t.Parallel()
	srv, log := redistest.Start(t), &kit.Journal{}
	s := kit.Open(t, srv.Addr(), &holdfast.Options{Logger: log.JsonLogger()})
	forget(t, rlock.New(s, "orders", nil).Lock)
	collect(t, kit.Open(t, srv.Addr(), &holdfast.Options{Reclaim: true, Logger: log.JsonLogger()}), log)
	require.EqualValues(t, 1, srv.Int(t, "EXISTS", "orders"))
	require.Empty(t, log.EntriesOf(t, unreachable, "orders"))
}

// Close ends what nobody can reach, in silence: it ends all.
func TestCloseEndsWhatIsForgotten(t *testing.T) {
	t.Parallel()
	srv, log := redistest.Start(t), &kit.Journal{}
	opts := &holdfast.Options{Reclaim: true, Logger: log.JsonLogger()}
	s := kit.Open(t, srv.Addr(), opts)
	for range 10 {
		forget(t, fairlock.New(s, "orders", nil).Lock)
		require.NoError(t, s.Close())
		s = kit.Open(t, srv.Addr(), opts)
	}
	collect(t, s, log)
	require.Empty(t, log.EntriesOf(t, unreachable, "orders"))
}
