package holdfasttest_test

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/once"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
)

func TestTimePassesAndHoldsAreRenewed(t *testing.T) {
	eachKind(t, 0, func(t *testing.T, server *holdfasttest.Server, hold *holdfast.Hold, got <-chan result) {
		for range 3 { // as long as no lease ends in one step
			server.Advance(20 * time.Second)
			require.NoError(t, hold.Err())
			assert.Greater(t, time.Until(hold.Deadline()), 25*time.Second, "it was renewed")
		}
		assert.Empty(t, got)
		require.NoError(t, hold.Release())
		require.NoError(t, within(t, got, "the lock").err)
	})
}

// A permit without an end stays one, also if it is handed to a session for which much time has passed.
func TestTimePassesAndForeverIsLaterStill(t *testing.T) {
	server := holdfasttest.NewServer(t)
	to := server.Open(nil)
	server.Advance(10 * 365 * 24 * time.Hour)
	exports := semaphore.NewExpirable(server.Open(nil), "exports",
		&semaphore.ExpirableOptions{FixedLease: semaphore.Forever})
	require.NoError(t, exports.SetPermits(t.Context(), 1))
	hold, err := exports.Acquire(t.Context())
	require.NoError(t, err)
	hold, err = hold.HandTo(t.Context(), to)
	require.NoError(t, err)
	require.NoError(t, hold.Err())
	assert.Greater(t, time.Until(hold.Deadline()), 200*365*24*time.Hour)
	require.NoError(t, hold.Release())
}

func TestTimePassesAndLeasesRunOut(t *testing.T) {
	eachKind(t, 0, func(t *testing.T, server *holdfasttest.Server, hold *holdfast.Hold, got <-chan result) {
		ctx := hold.Context(t.Context())
		server.Advance(31 * time.Second)
		lost(t, hold, ctx)
		require.NoError(t, within(t, got, "the lock").err)
	})
}

func TestTimePassesAndFixedLeasesRunOut(t *testing.T) {
	eachKind(t, time.Minute, func(t *testing.T, server *holdfasttest.Server, hold *holdfast.Hold, got <-chan result) {
		ctx := hold.Context(t.Context())
		server.Advance(50 * time.Second)
		require.NoError(t, hold.Err())
		assert.Less(t, time.Until(hold.Deadline()), 10*time.Second)
		assert.Empty(t, got)
		server.Advance(10 * time.Second)
		lost(t, hold, ctx)
		require.NoError(t, within(t, got, "the lock").err)
	})
}

// A hold that a release has granted is renewed and lost like any other. Until it is renewed, its lease is 9.5 s.
func TestTimePassesForAGrantedHold(t *testing.T) {
	t.Parallel()
	server := holdfasttest.NewServer(t)
	lock := func(s *holdfast.Session) *rlock.Mutex { return rlock.New(s, "x", nil) }
	var granted atomic.Bool
	waiter := server.Open(&holdfast.Options{Observer: &holdfast.Observer{
		Acquire: func(context.Context, holdfast.Subject) func(holdfast.Acquired) {
			return func(a holdfast.Acquired) { granted.Store(a.Granted) }
		},
	}})
	first := lock(server.Open(nil))
	for _, passes := range [][]time.Duration{
		{9 * time.Second, 20 * time.Second, 20 * time.Second}, {10 * time.Second}, {9 * time.Second, 31 * time.Second},
	} {
		handedOn := func() *holdfast.Hold {
			hold := mustLock(t, first.Lock)
			next := inBackground(t.Context(), lock(waiter).Lock)
			eventually(t, "a waiter in line", func() bool {
				waiters, err := first.Waiters(t.Context())
				require.NoError(t, err)
				return len(waiters) == 1
			})
			awaitHandOn(t, server)
			require.NoError(t, hold.Release())
			r := within(t, next, "the lock")
			require.NoError(t, r.err)
			return r.hold
		}
		hold := handedOn()
		for !granted.Load() { // on a busy machine the release came when others may have the lock
			require.NoError(t, hold.Release())
			hold = handedOn()
		}
		ctx := hold.Context(t.Context())
		for i, d := range passes {
			server.Advance(d)
			if i == 0 && d > 9500*time.Millisecond || d > 30*time.Second {
				lost(t, hold, ctx)
				break
			}
			require.NoError(t, hold.Err())
			assert.Greater(t, time.Until(hold.Deadline()), 25*time.Second, "it was renewed")
		}
		_ = hold.Release()
	}
}

// awaitHandOn awaits a moment at which a release hands an rlock on: in the first 4 of each 256 ms of the server's clock
// it frees the lock.
func awaitHandOn(t *testing.T, server *holdfasttest.Server) {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true})
	require.NoError(t, err)
	defer client.Close()
	eventually(t, "a moment when a release hands the lock on", func() bool {
		at, err := client.Do(t.Context(), client.B().Time().Build()).AsIntSlice()
		require.NoError(t, err)
		ms := (at[0]*1000 + at[1]/1000) % 256
		return ms > 4 && ms < 128
	})
}

// The lease is over on the server when Advance returns, for a caller that asks at once.
func TestWhatHasRunOutIsFree(t *testing.T) {
	t.Parallel()
	for name, k := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := holdfasttest.NewServer(t)
			a, b := server.Open(nil), server.Open(nil)
			hold := mustLock(t, k(a, 0).Lock)
			server.Advance(31 * time.Second)
			require.ErrorIs(t, hold.Err(), holdfast.ErrLost)
			_, err := k(b, 0).TryLock(t.Context())
			require.NoError(t, err)
		})
	}
}

func TestAdvanceKeepsTheOrderOfWaiters(t *testing.T) {
	t.Parallel()
	server := holdfasttest.NewServer(t)
	fair := func(s *holdfast.Session) *fairlock.Mutex {
		return fairlock.New(s, "x", &fairlock.Options{FixedLease: 10 * time.Second, WaiterLease: time.Minute})
	}
	mustLock(t, fair(server.Open(nil)).TryLock)
	var queue []<-chan result
	for i := range 3 {
		queue = append(queue, inBackground(t.Context(), fair(server.Open(nil)).Lock))
		waiting(t, server, 2*(i+1)) // each has a channel besides its session's
	}
	for _, next := range queue {
		server.Advance(10 * time.Second) // they are taken for dead after 15 s
		r := within(t, next, "the lock")
		require.NoError(t, r.err)
		assert.NoError(t, r.hold.Err())
	}
}

func TestAllWaitersOfAFairLockGetItInTheEnd(t *testing.T) {
	t.Parallel()
	server := holdfasttest.NewServer(t)
	mustLock(t, fairlock.New(server.Open(nil), "x", nil).TryLock)
	var queue []<-chan result
	for i := range 3 {
		queue = append(queue, inBackground(t.Context(), fairlock.New(server.Open(nil), "x", nil).Lock))
		waiting(t, server, i+1)
	}
	server.Advance(time.Hour) // for whoever is first by then
	for len(queue) > 0 {
		eventually(t, "the lock", func() bool {
			return slices.ContainsFunc(queue, func(c <-chan result) bool { return len(c) > 0 })
		})
		queue = slices.DeleteFunc(queue, func(c <-chan result) bool {
			if len(c) == 0 {
				return false
			}
			r := <-c
			require.NoError(t, r.err)
			require.NoError(t, r.hold.Release())
			return true
		})
	}
}

// A job is due an interval after its run began, whatever part of that has passed at once.
func TestTimePassesInARunOfAJob(t *testing.T) {
	t.Parallel()
	for _, takeOver := range []bool{false, true} {
		server := holdfasttest.NewServer(t)
		opts := &once.Options{TakeOver: takeOver}
		job, elsewhere := once.New(server.Open(nil), "job", time.Minute, opts), server.Open(nil)
		runs := func(times int) bool {
			ran, err := job.Run(t.Context(), func(ctx context.Context) error {
				for range times {
					server.Advance(20 * time.Second)
				}
				return ctx.Err()
			})
			require.NoError(t, err)
			return ran
		}
		require.True(t, runs(2))
		left, err := rlock.New(elsewhere, "job", nil).RemainingLease(t.Context())
		require.NoError(t, err)
		assert.LessOrEqual(t, left, 30*time.Second, "the session's lease, or less") // and not a minute from the end
		assert.False(t, runs(0))
		server.Advance(31 * time.Second)
		assert.True(t, runs(0))
	}
}

func TestReadersAndWriters(t *testing.T) {
	t.Parallel()
	server := holdfasttest.NewServer(t)
	a, b, c := rwlock.New(server.Open(nil), "x", nil), rwlock.New(server.Open(nil), "x", nil),
		rwlock.New(server.Open(nil), "x", nil)
	fixed := rwlock.New(server.Open(nil), "x", &rwlock.Options{FixedLease: 10 * time.Second})
	reader, short := mustLock(t, a.Read().TryLock), mustLock(t, fixed.Read().TryLock)
	writer := inBackground(t.Context(), b.Write().Lock)
	waiting(t, server, 1)

	server.Advance(20 * time.Second)
	require.NoError(t, reader.Err())
	require.ErrorIs(t, short.Err(), holdfast.ErrLost)
	assert.Empty(t, writer)
	server.Advance(31 * time.Second)
	require.ErrorIs(t, reader.Err(), holdfast.ErrLost)
	r := within(t, writer, "the write lock")
	require.NoError(t, r.err)
	_, err := c.Read().TryLock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrBusy)
	server.Advance(31 * time.Second)
	mustLock(t, c.Read().TryLock)
}

func TestALatchOpensForItsWaiters(t *testing.T) {
	t.Parallel()
	server := holdfasttest.NewServer(t)
	a, b := latch.New(server.Open(nil), "ready"), latch.New(server.Open(nil), "ready")
	_, err := a.TrySetCount(t.Context(), 1)
	require.NoError(t, err)
	opened := make(chan error, 1)
	go func() { opened <- b.Wait(t.Context()) }()
	waiting(t, server, 1)
	server.DropMessages()
	require.NoError(t, a.CountDown(t.Context()))
	server.Advance(time.Second)
	require.NoError(t, within(t, opened, "the opening"))
}

func TestOneServerOfThreeLosesNothing(t *testing.T) {
	t.Parallel()
	var servers []*holdfasttest.Server
	var members []*rlock.Mutex
	newLock := func() *multilock.RedLock {
		var locks []holdfast.Locker
		for _, server := range servers {
			l := rlock.New(server.Open(nil), "x", nil)
			locks, members = append(locks, l), append(members, l)
		}
		return multilock.NewRedLock(locks, nil)
	}
	for range 3 {
		servers = append(servers, holdfasttest.NewServer(t))
	}
	a, b := newLock(), newLock()
	hold := mustLock(t, a.Lock)
	ctx := hold.Context(t.Context())
	for _, l := range members { // two grants are enough for the RedLock
		eventually(t, "the third", func() bool {
			locked, err := l.Locked(t.Context())
			require.NoError(t, err)
			return locked
		})
	}
	servers[0].Advance(31 * time.Second)
	require.NoError(t, hold.Err())
	_, err := b.TryLock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrBusy)
	for _, server := range servers {
		server.Advance(31 * time.Second)
	}
	lost(t, hold, ctx)

	hold = mustLock(t, b.Lock)
	ctx = hold.Context(t.Context())
	holdfasttest.Lose(t, hold)
	lost(t, hold, ctx)
	mustLock(t, a.Lock)
}

// A server that is down cannot renew; time passes all the same.
func TestAnOutageEndsLeases(t *testing.T) {
	for name, fail := range map[string]func(*holdfasttest.Server){
		"paused": (*holdfasttest.Server).Pause, "stopped": (*holdfasttest.Server).Stop,
		"without replies": (*holdfasttest.Server).DropReplies,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := holdfasttest.NewServer(t)
			hold := mustLock(t, rlock.New(server.Open(nil), "x", nil).TryLock)
			fail(server)
			server.Advance(20 * time.Second)
			require.NoError(t, hold.Err())
			server.Advance(11 * time.Second)
			require.ErrorIs(t, hold.Err(), holdfast.ErrLost)
		})
	}
}

// The pause of a back-off is the caller's own, and follows the real clock.
func TestAPollingWaiterSleepsOn(t *testing.T) {
	t.Parallel()
	server := holdfasttest.NewServer(t)
	hold := mustLock(t, rlock.New(server.Open(nil), "x", nil).TryLock)
	paused, ctx := make(chan struct{}), hold.Context(t.Context())
	pause := func(int) time.Duration {
		paused <- struct{}{}
		return time.Hour
	}
	polling, leave := context.WithCancel(t.Context())
	polls := inBackground(polling, rlock.New(server.Open(nil), "x", &rlock.Options{Backoff: pause}).Lock)
	within(t, paused, "a pause")
	server.Advance(31 * time.Second)
	lost(t, hold, ctx)
	mustLock(t, rlock.New(server.Open(nil), "x", nil).TryLock) // nobody was faster
	leave()
	require.ErrorIs(t, within(t, polls, "the end").err, context.Canceled)
}

// An observer that is told of a loss may ask the server, and has been told when Advance returns.
func TestAnObserverOfALossMayAsk(t *testing.T) {
	t.Parallel()
	server := holdfasttest.NewServer(t)
	other := rlock.New(server.Open(nil), "x", nil)
	var told []error
	ask := func() {
		hold, err := other.TryLock(t.Context())
		told = append(told, err)
		if err == nil {
			told = append(told, hold.Release())
		}
	}
	observer := &holdfast.Observer{Hold: func(context.Context, holdfast.Subject) func(holdfast.Ended) {
		return func(holdfast.Ended) { ask() }
	}}
	logger := slog.New(asker{slog.DiscardHandler, ask})
	for _, options := range []*holdfast.Options{{Observer: observer}, {Logger: logger}} {
		told = nil
		hold := mustLock(t, rlock.New(server.Open(options), "x", nil).TryLock)
		advanced := make(chan struct{})
		go func() {
			defer close(advanced)
			server.Advance(31 * time.Second)
		}()
		within(t, advanced, "the end of Advance")
		require.ErrorIs(t, hold.Err(), holdfast.ErrLost)
		require.Equal(t, []error{nil, nil}, told)
	}
}

// Somebody else may notice a loss before Advance does. It has been told all the same when Advance returns.
func TestALossThatSomebodyElseNoticesHasBeenTold(t *testing.T) {
	t.Parallel()
	server := holdfasttest.NewServer(t)
	var told atomic.Bool
	observer := &holdfast.Observer{Hold: func(context.Context, holdfast.Subject) func(holdfast.Ended) {
		return func(holdfast.Ended) {
			time.Sleep(50 * time.Millisecond)
			told.Store(true)
		}
	}}
	hold := mustLock(t, rlock.New(server.Open(&holdfast.Options{Observer: observer}), "x", nil).TryLock)
	looks, noticed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(noticed)
		close(looks)
		for hold.Err() == nil {
		}
	}()
	<-looks
	server.Advance(31 * time.Second)
	require.True(t, told.Load())
	within(t, noticed, "the end of the hold")
}

// An asker is a log handler that asks the server when it gets a line.
type asker struct {
	slog.Handler
	ask func()
}

func (a asker) Enabled(context.Context, slog.Level) bool  { return true }
func (a asker) Handle(context.Context, slog.Record) error { a.ask(); return nil }
func (a asker) WithAttrs([]slog.Attr) slog.Handler        { return a }

// A channel of the program's own gets no message that nobody has sent.
func TestAdvanceTellsNobodyElse(t *testing.T) {
	t.Parallel()
	server := holdfasttest.NewServer(t)
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true})
	require.NoError(t, err)
	defer client.Close()
	dedicated, release := client.Dedicate()
	defer release()
	got, subscribed := make(chan string, 10), make(chan struct{})
	dedicated.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage:      func(m rueidis.PubSubMessage) { got <- m.Message },
		OnSubscription: func(rueidis.PubSubSubscription) { close(subscribed) },
	})
	require.NoError(t, dedicated.Do(t.Context(), client.B().Subscribe().Channel("orders:shipped").Build()).Error())
	<-subscribed
	server.Advance(time.Second)
	own := client.B().Publish().Channel("orders:shipped").Message("17").Build()
	require.NoError(t, client.Do(t.Context(), own).Error())
	require.Equal(t, "17", <-got)
}

// A hold that has reached MaxHold is not renewed any more, so Advance does not wait for that.
func TestAdvancePastMaxHold(t *testing.T) {
	t.Parallel()
	server := holdfasttest.NewServer(t)
	s := server.Open(&holdfast.Options{Lease: 30 * time.Second, MaxHold: 40 * time.Second})
	hold := mustLock(t, rlock.New(s, "x", nil).TryLock)
	server.Advance(25 * time.Second)
	took := stopwatch()
	server.Advance(20 * time.Second)
	assert.Less(t, took(), 1500*time.Millisecond, "it gives up after 2 s")
	require.NoError(t, hold.Err())
	server.Advance(10 * time.Second)
	require.ErrorContains(t, hold.Err(), "held for longer than Options.MaxHold, 40s")
}

// The clock goes neither back nor out of the range of time.
func TestTimeDoesNotGoBack(t *testing.T) {
	t.Parallel()
	for _, d := range []time.Duration{-time.Second, math.MaxInt64} {
		fake := &fakeTest{TB: t}
		fake.run(func() { holdfasttest.NewServer(fake).Advance(d) })
		assert.Equal(t, []string{fmt.Sprintf("holdfasttest: Advance: the time is %v, must be from 0 to 87600h0m0s", d)},
			fake.failures)
	}
}
