package locks

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
	"github.com/holdfast-go/holdfast/tests/worker"
)

func TestALiveWaiterKeepsItsPlaceHoweverLongTheHolderHolds(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	l := newPatient(kit.Open(t, srv.Addr(), nil))
	holder := kit.Lock(t, t.Context(), l)
	waits := inLine(t, srv, t.Context(), l.Lock, newPatient(kit.Open(t, srv.Addr(), nil)).Lock, l.Lock)
	entered := queued(t, srv, len(waits))
	for end := time.Now().Add(patientLease * 3 / 2); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		require.Equal(t, entered, srv.Strs(t, "LRANGE", ordersQueue, "0", "-1"))
		for _, owner := range entered {
			now := time.Now() // before the question: the answer may take long
			due, err := strconv.ParseFloat(srv.Str(t, "ZSCORE", ordersDue, owner), 64)
			require.NoError(t, err)
			require.Greater(t, due, float64(now.UnixMilli()), "any client may drop it")
		}
	}
	for i, wait := range waits {
		require.NoError(t, holder.Release())
		holder = kit.Granted(t, kit.Told, wait, "the next one")
		require.Equal(t, entered[i], holder.ID())
	}
	require.NoError(t, holder.Release())
	nobodyWaits(t, srv)
}

// A waiter that is stopped for longer than its lease is dead to the others; when it continues it queues again, at the
// end.
func TestAStoppedWaiterQueuesUpAnew(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	l := newPatient(kit.Open(t, srv.Addr(), nil))
	holder := kit.Lock(t, t.Context(), l)
	w := worker.Start(t, func(string) {}, "queuer", srv.Addr(), "1", patientLease.String())
	stopped := queued(t, srv, 1)[0]
	waits := inLine(t, srv, t.Context(), l.Lock)
	w.Pause()
	kit.Await(t, "its burial", func() bool {
		return !slices.Contains(srv.Strs(t, "LRANGE", ordersQueue, "0", "-1"), stopped)
	})
	w.Resume()
	anew := queued(t, srv, 2)[1] // under another wire owner: a message for the former place may be late
	require.NotEqual(t, stopped, anew)
	session, _, _ := strings.Cut(stopped, ":")
	require.True(t, strings.HasPrefix(anew, session+":"))
	require.NoError(t, holder.Release())
	require.NoError(t, kit.Granted(t, kit.Told, waits[0], "the one that was behind").Release())
	kit.Within(t, kit.LongestWait, w.Ended(), "the turn of the one that was stopped")
	require.Equal(t, []string{anew}, srv.Strs(t, "LRANGE", "turns", "0", "-1"))
	srv.Do(t, "DEL", "turns")
	nobodyWaits(t, srv)
}

func TestAWaiterThatGivesUpLeavesTheQueueAtOnce(t *testing.T) {
	t.Parallel()
	for name, giveUp := range map[string]func(t *testing.T, srv *redistest.Server,
		s *holdfast.Session) (wait <-chan kit.Result, end func(), want error){
		"its ctx ends": func(t *testing.T, _ *redistest.Server, s *holdfast.Session) (<-chan kit.Result,
			func(), error,
		) {
			ctx, cancel := context.WithCancel(t.Context())
			return kit.GoLock(ctx, newFair(s).Lock), cancel, context.Canceled
		},
		"its time is over": func(t *testing.T, _ *redistest.Server, s *holdfast.Session) (<-chan kit.Result,
			func(), error,
		) {
			// It looks every 4 s. One that looks just when its time is over, and has no answer, cannot say ErrBusy.
			l := fairlock.New(s, kit.Orders, &fairlock.Options{WaiterLease: 12 * time.Second})
			return kit.GoLock(t.Context(), func(ctx context.Context) (*holdfast.Hold, error) {
				return l.TryLockFor(ctx, 2*time.Second)
			}), func() {}, holdfast.ErrBusy
		},
		"its session is closed": func(t *testing.T, _ *redistest.Server, s *holdfast.Session) (<-chan kit.Result,
			func(), error,
		) {
			return kit.GoLock(t.Context(), newFair(s).Lock), func() { _ = s.Close() }, holdfast.ErrClosed
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			l := newFair(kit.Open(t, srv.Addr(), nil))
			holder := kit.Lock(t, t.Context(), l)
			wait, end, want := giveUp(t, srv, kit.Open(t, srv.Addr(), nil))
			leaver := queued(t, srv, 1)[0]
			behind := inLine(t, srv, t.Context(), l.Lock)[0]
			end()
			require.ErrorIs(t, kit.Within(t, 5*time.Second, wait, "the end of the wait").Err, want)
			took := kit.Stopwatch()
			require.NotContains(t, queued(t, srv, 1), leaver)
			require.Less(t, took(), waiterLease/2, "it was only passed over as dead")
			require.NoError(t, holder.Release())
			require.NoError(t, kit.Granted(t, kit.Told, behind, "the one behind").Release())
			nobodyWaits(t, srv)
		})
	}
}

// The first waiter has been told that it is its turn, and gives up in that moment: the next one is told.
func TestTheOneBehindIsWokenWhenTheFirstLeavesAFreeLock(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	o, s := observed(t, srv, kit.Lease)
	l := fairlock.New(s, kit.Orders, &fairlock.Options{WaiterLease: time.Minute}) // they look rarely
	holder := kit.Lock(t, t.Context(), newFair(kit.Open(t, srv.Addr(), nil)))     // their own session would tell them
	ctx, cancel := context.WithCancel(t.Context())
	first := inLine(t, srv, ctx, l.Lock)[0]
	second := inLine(t, srv, t.Context(), l.Lock)[0]
	// The next is due in 4 s or later.
	kit.Await(t, "three looks of each", func() bool { return o.sum("attempt busy") >= 2*3 })
	srv.Do(t, "DEL", kit.Orders) // free, and nobody was told
	cancel()
	require.ErrorIs(t, kit.Within(t, kit.Told, first, "the end of the wait").Err, context.Canceled)
	r := kit.Within(t, kit.Told, second, "the one behind")
	require.NoError(t, r.Err)
	require.ErrorIs(t, holder.Release(), holdfast.ErrLost)
	require.NoError(t, r.Hold.Release())
	nobodyWaits(t, srv)
}

// Messages may be lost, and so may everything that the server knew: every waiter still gets the lock.
func TestAWaiterSurvivesWhatTheServerForgets(t *testing.T) {
	t.Parallel()
	for name, forget := range map[string]func(t *testing.T, srv *redistest.Server){
		"the queue":     func(t *testing.T, srv *redistest.Server) { srv.Do(t, "DEL", ordersQueue) },
		"the deadlines": func(t *testing.T, srv *redistest.Server) { srv.Do(t, "DEL", ordersDue) },
		"our list":      func(t *testing.T, srv *redistest.Server) { srv.Do(t, "DEL", ordersOurs) },
		"our deadlines": func(t *testing.T, srv *redistest.Server) { srv.Do(t, "DEL", ordersAlive) },
		"the queue and our deadlines": func(t *testing.T, srv *redistest.Server) {
			srv.Do(t, "DEL", ordersQueue, ordersAlive)
		},
		"all deadlines": func(t *testing.T, srv *redistest.Server) { srv.Do(t, "DEL", ordersDue, ordersAlive) },
		"what is ours":  func(t *testing.T, srv *redistest.Server) { srv.Do(t, "DEL", ordersOurs, ordersAlive) },
		"everything":    func(t *testing.T, srv *redistest.Server) { srv.Do(t, "FLUSHALL") },
		"scripts":       func(t *testing.T, srv *redistest.Server) { srv.Do(t, "SCRIPT", "FLUSH") },
		"subscriptions": func(t *testing.T, srv *redistest.Server) { srv.Do(t, "CLIENT", "KILL", "TYPE", "pubsub") },
		"all connections": func(t *testing.T, srv *redistest.Server) {
			srv.Do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			s := kit.Open(t, srv.Addr(), nil)
			l := newFair(s)
			holder := kit.Lock(t, t.Context(), l)
			waits := inLine(t, srv, t.Context(), l.Lock, newFair(kit.Open(t, srv.Addr(), nil)).Lock, l.Lock)
			kit.Await(t, "waiters that a release may hand the lock to", func() bool {
				return !slices.ContainsFunc(queued(t, srv, len(waits)), func(waiter string) bool {
					return !strings.Contains(srv.Str(t, "ZSCORE", ordersAlive, waiter), ".")
				})
			})
			forget(t, srv)
			err := holder.Release()
			served := make(chan error, len(waits))
			for _, wait := range waits {
				go func() {
					r := <-wait
					if r.Err == nil {
						r.Err = r.Hold.Release()
					}
					served <- r.Err
				}()
			}
			for range waits { // in their old order or, if the server forgot it, in another
				require.NoError(t, kit.Within(t, 10*time.Second, served, "a waiter was forgotten"))
			}
			if name != "everything" {
				require.NoError(t, err)
			}
			nobodyWaits(t, srv)
		})
	}
}

func TestAWaiterThatGaveUpIsNotInItsOwnWay(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	l := newFair(kit.Open(t, srv.Addr(), nil))
	unanswered := 0
	for range 100 {
		holder, still := kit.Lock(t, t.Context(), l), kit.Stillness()
		_, err := l.TryLockFor(t.Context(), 20*time.Millisecond)
		require.NoError(t, holder.Release())
		if errors.Is(err, holdfast.ErrUnknown) { // the server took long: it leaves in the background
			unanswered++
			nobodyWaits(t, srv)
			continue
		}
		require.ErrorIs(t, err, holdfast.ErrBusy)
		h, err := l.TryLock(t.Context())
		if err != nil && still() > 0 {
			h, err = l.Lock(t.Context()) // it leaves in the background if that takes too long
		}
		require.NoError(t, err)
		require.NoError(t, h.Release())
	}
	require.Less(t, unanswered, 50)
	nobodyWaits(t, srv)
}

// A waiter whose entry the server has refused half-way does not stay in the queue, where nobody would expect it to
// leave.
func TestAWaiterThatWasRefusedIsNotInTheQueue(t *testing.T) {
	t.Parallel()
	fair := func(s *holdfast.Session) holdfast.Locker { return fairlock.New(s, "x", nil) }
	plain := func(s *holdfast.Session) holdfast.Locker { return rlock.New(s, "x", nil) }
	for name, c := range map[string]struct {
		of    func(s *holdfast.Session) holdfast.Locker
		right string // that is missing
	}{
		"before it stands": {fair, "-zadd"},
		"when it stands":   {fair, "-pexpire"},
		"rlock":            {plain, "-pexpire"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			srv.Do(t, "ACL", "SETUSER", "app", "on", "nopass", "~*", "&*", "+@all", c.right)
			s := kit.OpenWith(t, rueidis.ClientOption{InitAddress: []string{srv.Addr()}, Username: "app"}, nil)
			hold := kit.Lock(t, t.Context(), c.of(kit.Open(t, srv.Addr(), nil)))
			_, err := c.of(s).Lock(t.Context())
			require.Error(t, err)
			require.Regexp(t, aclNo, err.Error())
			kit.Await(t, "an empty queue", func() bool {
				return srv.Int(t, "EXISTS", "redisson_lock_queue:{x}", "holdfast_fair_queue:{x}", "holdfast_line:{x}") == 0
			})
			require.NoError(t, hold.Release())
			srv.Do(t, "ACL", "SETUSER", "app", "+@all")
			require.NoError(t, kit.Lock(t, t.Context(), c.of(s)).Release())
		})
	}
}
