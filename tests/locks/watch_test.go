package locks

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// lookSoon is by when a watcher looks that is told nothing, on a machine that has other work; messages come far sooner.
const lookSoon = kit.LongestWait + 5*time.Second

// A sight is what a watcher was told.
type sight struct {
	state holdfast.State
	err   error
}

// watching has a lock watched, and returns what is told, until the watch ends.
func watching(ctx context.Context, l kit.Watchable) <-chan sight {
	c := make(chan sight, 100)
	go func() {
		defer close(c)
		for state, err := range l.Watch(ctx) {
			c <- sight{state, err}
		}
	}()
	return c
}

// requireTold requires what is told next, and for how long nobody was told it.
func requireTold(t *testing.T, within time.Duration, watch <-chan sight, want holdfast.State) {
	t.Helper()
	next := kit.Within(t, within, watch, want.String())
	require.NoError(t, next.err)
	require.Equal(t, want.String(), next.state.String())
}

// A watched is a lock that one session takes and another watches.
type watched struct {
	holdfast.Locker
	published bool // a release is told by a message
	watcher   kit.Watchable
	watch     <-chan sight
	hold      *holdfast.Hold
}

// allWatched are locks of all kinds that can be watched, for holds of a fixed lease, unless that is 0. They are tested
// together, because it takes seconds until a lock that is taken is looked at.
func allWatched(t *testing.T, srv *redistest.Server, fixed time.Duration) (all []*watched) {
	t.Helper()
	mine, theirs := kit.Open(t, srv.Addr(), nil), kit.Open(t, srv.Addr(), nil)
	for _, name := range []string{
		"rlock", "rlock fenced", "rlock back-off", "fairlock", "rwlock write", "rwlock read", "setlock",
	} {
		k := kit.KindOf(name)
		all = append(all, &watched{
			Locker: k.Make(mine, name, fixed), published: name != "fairlock",
			watcher: k.Make(theirs, name, 0).(kit.Watchable),
		})
	}
	return all
}

// A watcher is told the state that it finds, and each change: that of a release at once.
func TestAWatcherIsToldEachChange(t *testing.T) {
	t.Parallel()
	all := allWatched(t, redistest.Start(t), 0)
	for _, w := range all {
		w.watch = watching(t.Context(), w.watcher)
		requireTold(t, lookSoon, w.watch, holdfast.Free)
	}
	for _, w := range all {
		w.hold = kit.Lock(t, t.Context(), w)
	}
	for _, w := range all {
		requireTold(t, lookSoon, w.watch, holdfast.Held)
	}
	for _, w := range all {
		require.NoError(t, w.hold.Release())
	}
	for _, w := range all {
		if w.published {
			requireTold(t, 3*time.Second, w.watch, holdfast.Free)
		}
	}
	for _, w := range all {
		if !w.published {
			requireTold(t, lookSoon, w.watch, holdfast.Free)
		}
	}
}

func TestAWatcherIsToldOfForce(t *testing.T) {
	t.Parallel()
	for _, w := range allWatched(t, redistest.Start(t), 0) {
		if !w.published {
			continue
		}
		kit.Lock(t, t.Context(), w)
		w.watch = watching(t.Context(), w.watcher)
		requireTold(t, lookSoon, w.watch, holdfast.Held)
		yes(t)(w.Locker.(kit.Locker).ForceUnlock(t.Context()))
		requireTold(t, 3*time.Second, w.watch, holdfast.Free)
	}
}

// A lease that runs out, because the holder has gone, sends no message. It is told when it is over.
func TestAWatcherIsToldOfALeaseThatRanOut(t *testing.T) {
	t.Parallel()
	const lease = 5 * time.Second
	all := allWatched(t, redistest.Start(t), lease)
	for _, w := range all {
		require.NoError(t, kit.Lock(t, t.Context(), w).Detach())
		w.watch = watching(t.Context(), w.watcher)
		requireTold(t, lookSoon, w.watch, holdfast.Held)
	}
	for _, w := range all {
		requireTold(t, lookSoon, w.watch, holdfast.Expired)
		locked, err := w.watcher.(kit.Locker).Locked(t.Context())
		require.NoError(t, err)
		require.False(t, locked)
	}
}

// What nobody publishes is found by a look, long before the lease is over.
func TestAWatcherFindsWhatNobodyPublishes(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	l := rlock.New(s, "x", nil)
	hold := kit.Lock(t, t.Context(), l)
	watch := watching(t.Context(), rlock.New(kit.Open(t, srv.Addr(), nil), "x", nil))
	requireTold(t, lookSoon, watch, holdfast.Held)
	srv.Do(t, "DEL", "x")
	requireTold(t, lookSoon, watch, holdfast.Free)
	require.ErrorIs(t, hold.Release(), holdfast.ErrLost)
}

// While the subscription is down, a message is lost. It is not missed.
func TestAWatcherWhoseConnectionsAreLost(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := proxy.Start(t, srv.Addr())
	hold := kit.Lock(t, t.Context(), rlock.New(kit.Open(t, srv.Addr(), nil), "x", nil))
	watch := watching(t.Context(), rlock.New(kit.Open(t, p.Addr(), nil), "x", nil))
	requireTold(t, lookSoon, watch, holdfast.Held)
	kit.Await(t, "the subscription", func() bool {
		return srv.Do(t, "PUBSUB", "NUMSUB", "redisson_lock__channel:{x}").([]any)[1] == int64(1)
	})
	p.RefuseNew(true)
	p.CutAll()
	require.NoError(t, hold.Release())
	require.Empty(t, watch)
	p.RefuseNew(false)
	requireTold(t, 2*lookSoon, watch, holdfast.Free)
}

// The loop's body may do what it likes meanwhile: what it is told next is true then.
func TestAWatcherWhoIsBusy(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s, watcher := kit.Open(t, srv.Addr(), nil), rlock.New(kit.Open(t, srv.Addr(), nil), "x", nil)
	brief := rlock.New(s, "x", &rlock.Options{FixedLease: time.Second})
	hold := kit.Lock(t, t.Context(), rlock.New(s, "x", nil))
	var all []holdfast.State
	for state, err := range watcher.Watch(t.Context()) {
		require.NoError(t, err)
		all = append(all, state)
		if len(all) == 1 { // released, and taken again: nothing has changed, until that lease runs out
			require.NoError(t, hold.Release())
			require.NoError(t, kit.Lock(t, t.Context(), brief).Detach())
		}
		if len(all) == 2 {
			break
		}
	}
	require.Contains(t, []holdfast.State{holdfast.Free, holdfast.Expired}, all[1]) // the body may have taken that long
	require.Equal(t, holdfast.Held, all[0])
}

func TestAWatchEnds(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	l := rlock.New(s, "x", nil)

	ctx, cancel := context.WithCancelCause(t.Context())
	watch := watching(ctx, l)
	requireTold(t, lookSoon, watch, holdfast.Free)
	cancel(assert.AnError)
	end := kit.Within(t, 3*time.Second, watch, "the end")
	require.ErrorIs(t, end.err, context.Canceled)
	require.ErrorIs(t, end.err, assert.AnError)
	require.ErrorContains(t, end.err, `rlock "x": watch: `)
	_, more := <-watch
	require.False(t, more, "an error is the last")

	for range l.Watch(t.Context()) { //nolint:errcheck // what it yields is not looked at
		break
	}
	kit.Await(t, "the subscription's end", func() bool { return len(srv.Strs(t, "PUBSUB", "CHANNELS")) == 0 })

	srv.ResetStats(t)
	for _, err := range l.Watch(ctx) {
		require.ErrorIs(t, err, context.Canceled)
	}
	for _, err := range rlock.New(s, "", nil).Watch(t.Context()) {
		require.EqualError(t, err, `rlock "": watch: name is empty`)
	}
	require.Zero(t, srv.CommandStats(t)["evalsha"])

	srv.Do(t, "SET", "text", "precious")
	for _, err := range rlock.New(s, "text", nil).Watch(t.Context()) {
		require.ErrorIs(t, err, holdfast.ErrWrongKind)
	}

	watch = watching(t.Context(), l)
	requireTold(t, lookSoon, watch, holdfast.Free)
	require.NoError(t, s.Close())
	require.ErrorIs(t, kit.Within(t, 3*time.Second, watch, "the end").err, holdfast.ErrClosed)
	for _, err := range l.Watch(t.Context()) {
		require.ErrorIs(t, err, holdfast.ErrClosed)
	}
}

// A server that is away, or loading, is waited out.
func TestAWatcherWaitsForTheServer(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := proxy.Start(t, srv.Addr())
	s := kit.Open(t, p.Addr(), nil)
	loading := p.On(proxy.Command("EVALSHA").With("x"), proxy.Answer(kit.LoadingReply), proxy.EveryTime)
	watch := watching(t.Context(), rlock.New(s, "x", nil))
	loading.Wait(t, 3)
	require.Empty(t, watch)
	loading.Remove()
	requireTold(t, lookSoon, watch, holdfast.Free)
}

// Those who watch in one session share its subscription; and to a release they are nobody who waits.
func TestWatchersAreNoWaiters(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	l := rlock.New(kit.Open(t, srv.Addr(), nil), "x", nil)
	hold := kit.Lock(t, t.Context(), l)
	watches := []<-chan sight{watching(t.Context(), rlock.New(s, "x", nil)), watching(t.Context(), rlock.New(s, "x", nil))}
	for _, watch := range watches {
		requireTold(t, lookSoon, watch, holdfast.Held)
	}
	const channel, mark = "redisson_lock__channel:{x}", "holdfast_line:{x}:redisson"
	kit.Await(t, "one subscription each", func() bool {
		listeners := srv.Do(t, "PUBSUB", "NUMSUB", channel, mark).([]any)
		return listeners[1] == int64(1) && listeners[3] == int64(1)
	})
	waiters, err := l.Waiters(t.Context())
	require.NoError(t, err)
	require.Empty(t, waiters)
	require.NoError(t, hold.Release())
	for _, watch := range watches {
		requireTold(t, 3*time.Second, watch, holdfast.Free)
	}
}
