package locks

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/setlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

const waitsForItself = "holdfast: waits for what this session holds"

// outer takes a lock and calls inner with the ctx from before: the trap of everybody who ports nested calls.
func outer(ctx context.Context, l, again holdfast.Locker) error {
	h, err := l.Lock(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = h.Release() }()
	return inner(ctx, again)
}

func inner(ctx context.Context, l holdfast.Locker) error {
	h, err := l.Lock(ctx)
	if err == nil {
		err = h.Release()
	}
	return err
}

func TestACallThatWaitsForItsOwnCallerSaysSo(t *testing.T) {
	t.Parallel()
	one := func(l holdfast.Locker) (outer, inner holdfast.Locker) { return l, l }
	for name, locks := range map[string]func(s *holdfast.Session) (outer, inner holdfast.Locker){
		"rlock": func(s *holdfast.Session) (outer, inner holdfast.Locker) { return one(rlock.New(s, "orders", nil)) },
		"fairlock": func(s *holdfast.Session) (outer, inner holdfast.Locker) {
			return one(fairlock.New(s, "orders", nil))
		},
		"rwlock.Write": func(s *holdfast.Session) (outer, inner holdfast.Locker) { return one(writing(s, "orders")) },
		"rwlock.Write of a reader": func(s *holdfast.Session) (outer, inner holdfast.Locker) {
			return reading(s, "orders"), writing(s, "orders")
		},
		"rwlock.Read of a writer": func(s *holdfast.Session) (outer, inner holdfast.Locker) {
			return writing(s, "orders"), reading(s, "orders")
		},
		"setlock": func(s *holdfast.Session) (outer, inner holdfast.Locker) {
			return one(setlock.New(s, "orders", nil))
		},
		"rlock of a multilock": func(s *holdfast.Session) (outer, inner holdfast.Locker) {
			return one(multilock.New(rlock.New(s, "orders", nil), rlock.New(s, "stock", nil)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, log := redistest.Start(t), &kit.Journal{}
			places := name != "rlock" // whose line names the option
			s := kit.Open(t, srv.Addr(), &holdfast.Options{Places: places, Logger: log.JsonLogger()})
			first, again := locks(s)
			requireWaitsForItself(t, log, name, places, first, again)
		})
	}
}

func TestACallThatWaitsForItsOwnRedLockSaysSo(t *testing.T) {
	t.Parallel()
	log := &kit.Journal{}
	var locks []holdfast.Locker
	for range 3 {
		s := kit.Open(t, redistest.Start(t).Addr(), &holdfast.Options{Places: true, Logger: log.JsonLogger()})
		locks = append(locks, rlock.New(s, "orders", nil))
	}
	l := multilock.NewRedLock(locks, &multilock.RedLockOptions{TrustRestarted: true})
	requireWaitsForItself(t, log, "rlock of a redlock", true, l, l)
}

// requireWaitsForItself requires a nested call that does not have the context of the hold to say so, once.
func requireWaitsForItself(t *testing.T, log *kit.Journal, name string, places bool, first, again holdfast.Locker) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- outer(ctx, first, again) }()
	kit.Await(t, "a line", func() bool { return len(log.Entries(t, waitsForItself)) > 0 })
	e := log.Entries(t, waitsForItself)[0]
	assert.Equal(t, "WARN", e["level"])
	assert.Contains(t, name, e["kind"])
	assert.Contains(t, []string{"orders", "stock"}, e["name"])
	assert.Regexp(t, `^\S*/locks\.inner \(stalls_test\.go:\d+\), called by \S*/locks\.outer \(stalls_test`, e["waits_at"])
	if places {
		assert.Regexp(t, `^\S*/locks\.outer \(stalls_test\.go:\d+\)`, e["taken_at"])
	} else {
		assert.Contains(t, e["taken_at"], "Options.Places")
	}
	between(t, time.Second, time.Minute)(e["held"])
	kit.SleepUntil(time.Now().Add(1500 * time.Millisecond))
	require.Len(t, log.Entries(t, waitsForItself), 1, "it says so once")
	cancel()
	require.ErrorIs(t, kit.Within(t, 5*time.Second, done, "its end"), context.Canceled)
}

// A lock that passes on is no reason, however long a call waits; nor is one that another session has.
func TestACallThatWaitsForOthersDoesNotSaySo(t *testing.T) {
	t.Parallel()
	srv, log := redistest.Start(t), &kit.Journal{}
	opts := &holdfast.Options{Logger: log.JsonLogger()}
	s, other := kit.Open(t, srv.Addr(), opts), kit.Open(t, srv.Addr(), opts)
	h := kit.Lock(t, t.Context(), rlock.New(other, "orders", nil))
	kit.WaitInVain(t, rlock.New(s, "orders", nil).TryLockFor, 2500*time.Millisecond)
	require.NoError(t, h.Release())

	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	still := kit.Stillness()
	var wg sync.WaitGroup
	for range 32 { // so that each waits for more than a second
		wg.Go(func() {
			for ctx.Err() == nil {
				if h, err := rlock.New(s, "stock", nil).Lock(ctx); err == nil {
					kit.SleepUntil(time.Now().Add(40 * time.Millisecond))
					_ = h.Release()
				}
			}
		})
	}
	wg.Wait()
	for _, e := range log.Entries(t, waitsForItself) { // where the process stood still, a hold lasted a second
		between(t, 0, time.Second-time.Millisecond+still())(e["held"])
	}
}

// Whoever waits for a permit waits for any of them, and permits have no owners: a nested call that is given the context
// of the hold waits as well.
func TestACallThatWaitsForAPermitDoesNotSaySo(t *testing.T) {
	t.Parallel()
	srv, log := redistest.Start(t), &kit.Journal{}
	s := kit.OpenKnown(t, rueidis.ClientOption{InitAddress: []string{srv.Addr()}},
		&holdfast.Options{Lease: kit.Lease, Logger: log.JsonLogger()})
	e := kit.NewExports(t, s, 2, 0)
	holds, err := e.AcquireN(t.Context(), 2)
	require.NoError(t, err)
	got := make(chan error, 1)
	go func() { got <- kit.ErrorOf(e.Acquire(holds[0].Context(t.Context()))) }()
	for end := time.Now().Add(3500 * time.Millisecond); time.Now().Before(end); {
		kit.SleepUntil(time.Now().Add(100 * time.Millisecond))
		require.NotContains(t, fmt.Sprint(srv.Do(t, "GET", wire.SessionKey(s.ID()))), "itself", "what the command tells")
	}
	require.Empty(t, log.Entries(t, waitsForItself))
	require.NoError(t, holds[1].Release())
	require.NoError(t, kit.Within(t, kit.Told, got, "a permit"))
}
