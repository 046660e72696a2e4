package locks

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// saying requires an attribute to contain these words.
func saying(t *testing.T, words string) func(any) {
	return func(value any) { require.Regexp(t, words, value) }
}

// between requires an attribute to be a duration within these bounds.
func between(t *testing.T, least, most time.Duration) func(any) {
	return func(value any) {
		ns, ok := value.(float64)
		require.True(t, ok, value)
		require.GreaterOrEqual(t, time.Duration(ns), least)
		require.LessOrEqual(t, time.Duration(ns), most)
	}
}

func TestLogOfALoss(t *testing.T) {
	t.Parallel()
	const lease = 12 * time.Second
	srv, log := redistest.Start(t), &kit.Journal{}
	s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: lease, Logger: log.JsonLogger()})
	hold := kit.Lock(t, t.Context(), rlock.New(s, "orders", nil))
	srv.Do(t, "DEL", "orders")
	log.RequireEntry(t, s, "holdfast: lost", map[string]any{
		"kind": "rlock", "name": "orders", "held": between(t, 1, lease),
		"error": "its lease was over, or the server has dropped it",
	})
	require.ErrorIs(t, hold.Err(), holdfast.ErrLost)
	require.Len(t, log.Entries(t, "holdfast: lost"), 1)
	require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
}

func TestLogOfALossThatTheReleaseFinds(t *testing.T) {
	t.Parallel()
	srv, log := redistest.Start(t), &kit.Journal{}
	s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: time.Minute, Logger: log.JsonLogger()})
	hold := kit.Lock(t, t.Context(), rlock.New(s, "orders", nil))
	srv.Do(t, "DEL", "orders")
	const held = 10 * time.Millisecond
	kit.SleepUntil(time.Now().Add(held))
	require.ErrorIs(t, hold.Release(), holdfast.ErrLost)
	log.RequireEntry(t, s, "holdfast: lost", map[string]any{
		"kind": "rlock", "name": "orders", "held": between(t, held, time.Minute),
		"error": "its lease was over, or the server has dropped it",
	})
	require.Len(t, log.Entries(t, "holdfast: lost"), 1)
}

func TestLogOfRenewalsThatFail(t *testing.T) {
	t.Parallel()
	const lease = 6 * time.Second
	srv, log := redistest.Start(t), &kit.Journal{}
	s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: lease, Logger: log.JsonLogger()})
	kit.Lock(t, t.Context(), rlock.New(s, "orders", nil))
	srv.Pause()
	log.RequireEntry(t, s, "holdfast: renewal failed", map[string]any{
		"kind": "rlock", "name": "orders", "trusted": between(t, 1, lease), "error": saying(t, "."),
	})
	log.RequireEntry(t, s, "holdfast: lost", map[string]any{
		"kind": "rlock", "name": "orders", "held": between(t, lease/2, lease), "error": saying(t, "."),
	})
	srv.Resume()
}

// A renewal that finds nothing when trust has ended is the reason for the loss only if none has failed before.
func TestALossKeepsTheReasonThatALateRenewalFinds(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]func(srv *redistest.Server){
		"dropped":  func(srv *redistest.Server) { srv.Do(t, "DEL", "orders") },
		"extended": func(srv *redistest.Server) { srv.Do(t, "RENAME", "aside", "orders") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, log := redistest.Start(t), &kit.Journal{}
			s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: 20 * time.Second, Logger: log.JsonLogger()})
			hold := kit.Lock(t, t.Context(), rlock.New(s, "orders", nil)) // without a context, so no timer looks
			srv.Do(t, "RENAME", "orders", "aside")
			srv.Do(t, "SET", "orders", "of another type")
			(*session.Session)(s).Skip(7 * time.Second)
			core.CatchUp((*session.Session)(s))
			log.RequireEntry(t, s, "holdfast: renewal failed", map[string]any{
				"kind": "rlock", "name": "orders", "trusted": between(t, time.Second, 20*time.Second),
				"error": saying(t, "WRONGTYPE"),
			})
			after(srv)
			(*session.Session)(s).Skip(20 * time.Second) // the next try comes after the end of trust
			kit.Await(t, "the loss", func() bool { return len(log.Entries(t, "holdfast: lost")) > 0 })
			lost, ok := errors.AsType[*holdfast.LostError](hold.Err())
			require.True(t, ok)
			require.ErrorContains(t, lost.Err, "WRONGTYPE")
		})
	}
}

func TestLogOfSubscriptionsThatAreInterrupted(t *testing.T) {
	t.Parallel()
	srv, log := redistest.Start(t), &kit.Journal{}
	s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: kit.Lease, Logger: log.JsonLogger()})
	held := kit.Lock(t, t.Context(), rlock.New(kit.Open(t, srv.Addr(), nil), "orders", nil))
	got := kit.GoLock(t.Context(), rlock.New(s, "orders", nil).Lock)
	kit.Waiting(t, kit.Kinds[0], srv)
	srv.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
	log.RequireEntry(t, s, "holdfast: subscriptions interrupted",
		map[string]any{"server": srv.Addr(), "error": saying(t, ".")})
	require.NoError(t, held.Release())
	require.NoError(t, kit.Granted(t, kit.LongestWait, got, "the lock").Release())
}

// One for which there is no connection says why.
func TestLogOfSubscriptionsThatCannotBegin(t *testing.T) {
	t.Parallel()
	srv, p := kit.StartProxied(t)
	log := &kit.Journal{}
	s := kit.Open(t, p.Addr(), &holdfast.Options{Lease: kit.Lease, Logger: log.JsonLogger()})
	held := kit.Lock(t, t.Context(), rlock.New(kit.Open(t, srv.Addr(), nil), "orders", nil))
	p.RefuseNew(true)
	got := kit.GoLock(t.Context(), rlock.New(s, "orders", nil).Lock)
	log.RequireEntry(t, s, "holdfast: subscriptions interrupted",
		map[string]any{"server": p.Addr(), "error": saying(t, "refused")})
	p.RefuseNew(false)
	require.NoError(t, held.Release())
	require.NoError(t, kit.Granted(t, kit.LongestWait, got, "the lock").Release())
}

func TestLogOfASubscriptionThatIsRefused(t *testing.T) {
	t.Parallel()
	srv, log := redistest.Start(t), &kit.Journal{}
	srv.Grant(t, "deaf", "+@all", "~*")
	s := kit.OpenWith(t, rueidis.ClientOption{
		InitAddress: []string{srv.Addr()}, Username: "deaf",
		Password: redistest.Password,
	},
		&holdfast.Options{Lease: kit.Lease, Logger: log.JsonLogger()})
	held := kit.Lock(t, t.Context(), rlock.New(kit.Open(t, srv.Addr(), nil), "orders", nil))
	ctx, cancel := context.WithCancel(t.Context())
	got := kit.GoLock(ctx, rlock.New(s, "orders", nil).Lock)
	log.RequireEntry(t, s, "holdfast: subscription refused", map[string]any{
		"server": srv.Addr(), "channel": "holdfast_line:{orders}:" + s.ID(), "error": saying(t, "NOPERM"),
	})
	cancel()
	require.ErrorIs(t, (<-got).Err, context.Canceled)
	require.NoError(t, held.Release())
}

func TestLogOfANameThatIsRefused(t *testing.T) {
	kit.EachKind(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
		log := &kit.Journal{}
		s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: kit.Lease, Logger: log.JsonLogger()})
		_, err := k.Make(s, "", 0).TryLock(t.Context())
		require.Error(t, err)
		log.RequireEntry(t, s, "holdfast: name refused", map[string]any{
			"kind": saying(t, "^(rlock|fairlock|rwlock.Read|rwlock.Write|semaphore.Expirable|setlock)$"), "name": "",
			"error": "name is empty",
		})
	})
}

// answers returns a function that tells how long the slowest answer of the server has taken since, as a waiter sees it
// that wakes up every now and then: the machine may let either wait.
func answers(t *testing.T, srv *redistest.Server) (slowest func() time.Duration) {
	var longest time.Duration
	ended, stop := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			began := time.Now()
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
			}
			_, _ = srv.Try("PING") // if it fails, so does the test
			longest = max(longest, time.Since(began))
		}
	}()
	slowest = sync.OnceValue(func() time.Duration {
		close(stop)
		<-ended
		return longest
	})
	t.Cleanup(func() { slowest() })
	return slowest
}

// Where nothing goes wrong, nothing is logged.
func TestASessionIsQuiet(t *testing.T) {
	kit.EachKindAtOnce(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
		log := &kit.Journal{}
		opts := &holdfast.Options{Lease: 12 * time.Second, Logger: log.JsonLogger()}
		still, slowest := kit.Stillness(), answers(t, srv)
		a, b := kit.OpenKnown(t, at(srv.Addr()), opts), kit.OpenKnown(t, at(srv.Addr()), opts)
		first, second := k.Rival(a, "orders", 0), k.Make(b, "orders", 0)

		hold := kit.Lock(t, t.Context(), first)
		_, err := second.TryLock(t.Context())
		require.ErrorIs(t, err, holdfast.ErrBusy)
		kit.WaitInVain(t, second.TryLockFor, time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err = second.Lock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		got := kit.GoLock(t.Context(), second.Lock)
		trusted := hold.Deadline()
		kit.Await(t, "a renewal", func() bool { return hold.Deadline().After(trusted) })
		require.NoError(t, hold.Release())
		next := kit.Within(t, kit.LongestWait, got, "the lock")
		require.NoError(t, next.Err)
		if k.Reentrant {
			require.NoError(t, kit.Lock(t, next.Hold.Context(t.Context()), second).Release())
		}
		require.NoError(t, next.Hold.Release())
		require.NoError(t, a.Close())
		require.NoError(t, b.Close())
		said := strings.Count(log.String(), "\n")
		if k.Most != nil { // one who waits may have asked the last server first, and has it until it gives up
			said -= len(log.Entries(t, "holdfast: another server has the lock"))
		}
		if still() > 500*time.Millisecond || slowest() > 250*time.Millisecond { // servers seem silent, waiters dead
			for _, line := range []string{"renewal failed", "subscriptions interrupted", "taken for dead, queued up anew"} {
				said -= len(log.Entries(t, "holdfast: "+line))
			}
		}
		require.Zero(t, said, log.String())
	})
}
