package locks

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// endsSoon are calls that wait for at most d.
var endsSoon = map[string]func(ctx context.Context, l *rlock.Mutex, d time.Duration) (*holdfast.Hold, error){
	"cancelled": func(ctx context.Context, l *rlock.Mutex, d time.Duration) (*holdfast.Hold, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer time.AfterFunc(d, cancel).Stop()
		return l.Lock(ctx)
	},
	"by its deadline": func(ctx context.Context, l *rlock.Mutex, d time.Duration) (*holdfast.Hold, error) {
		ctx, cancel := context.WithTimeout(ctx, d)
		defer cancel()
		return l.Lock(ctx)
	},
	"by its limit": func(ctx context.Context, l *rlock.Mutex, d time.Duration) (*holdfast.Hold, error) {
		return l.TryLockFor(ctx, d)
	},
}

// A call that ends when the lock is handed over to it has it, or hands it on: nobody waits for what nobody has.
func TestACallThatEndsAtTheHandOver(t *testing.T) {
	t.Parallel()
	rounds := kit.Stressed(60, 200)
	for name, take := range endsSoon {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRelay(t, kit.Lease)
			got, handed := 0, 0
			for i := range rounds {
				d := time.Duration(i%20+1) * 100 * time.Microsecond
				h := r.lock()
				first := kit.GoLock(t.Context(), func(ctx context.Context) (*holdfast.Hold, error) { return take(ctx, r.l, d) })
				second := kit.GoLock(t.Context(), r.l.Lock)
				kit.SleepUntil(time.Now().Add(d))
				require.NoError(t, h.Release())
				if res := kit.Within(t, kit.LongestWait, first, "the call that ends"); res.Err == nil {
					got++
					if res.Hold.ID() == h.ID() {
						handed++
					}
					require.NoError(t, res.Hold.Release())
				} else {
					require.Nil(t, res.Hold)
				}
				require.NoError(t, kit.Granted(t, kit.Told, second, "the next call, at once").Release())
			}
			t.Logf("%d of %d got the lock, %d of them were handed it", got, rounds, handed)
			r.empty()
		})
	}
}

// Close ends what was handed over, whoever has it by then, and gives it back.
func TestCloseAtTheHandOver(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	for i := range kit.Stressed(20, 60) {
		o := &lookout{}
		s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: 30 * time.Second, Observer: o.observer()})
		r := &relay{T: t, srv: srv, o: o, s: s, l: rlock.New(s, "orders", nil)}
		h := r.lock()
		first := r.next(t.Context(), r.l.Lock)
		second := r.next(t.Context(), r.l.Lock)
		released := make(chan error, 1)
		go func() { released <- h.Release() }()
		kit.SleepUntil(time.Now().Add(time.Duration(i%10) * 20 * time.Microsecond))
		require.NoError(t, s.Close())
		if err := kit.Within(t, kit.LongestWait, released, "the release"); err != nil {
			require.ErrorIs(t, err, holdfast.ErrClosed)
		}
		for _, next := range []<-chan kit.Result{first, second} {
			res := kit.Within(t, kit.LongestWait, next, "the end of a call")
			if res.Err == nil {
				res.Err = res.Hold.Err()
			}
			require.ErrorIs(t, res.Err, holdfast.ErrClosed)
		}
		require.Empty(t, srv.Keyspace(t), "round %d", i)
		o.requireBalance(t)
	}
}

// What frees the lock on the server ends the hold that was handed over as it does others.
func TestWhatIsHandedOverIsLostLikeOthers(t *testing.T) {
	t.Parallel()
	for name, free := range map[string]func(r *relay){
		"by force": func(r *relay) {
			was, err := r.l.ForceUnlock(r.Context())
			require.NoError(r, err)
			require.True(r, was)
		},
		"by force of others": func(r *relay) {
			was, err := rlock.New(kit.Open(r, r.srv.Addr(), nil), "orders", nil).ForceUnlock(r.Context())
			require.NoError(r, err)
			require.True(r, was)
		},
		"without a word": func(r *relay) { r.srv.Do(r, "DEL", "orders") },
		"by a restart": func(r *relay) {
			r.srv.Stop()
			r.srv.Restart()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, released := range []bool{false, true} {
				r := newRelay(t, 6*time.Second)
				h := r.lock()
				heir := r.handOver(h, r.next(t.Context(), r.l.Lock))
				ctx := heir.Context(t.Context())
				free(r)
				switch {
				case name == "by force":
					require.ErrorIs(t, heir.Err(), holdfast.ErrLost, "at once")
				case !released:
					kit.Within(t, kit.LongestWait, ctx.Done(), "the end of the hold")
					require.ErrorIs(t, context.Cause(ctx), holdfast.ErrLost)
				}
				require.ErrorIs(t, heir.Release(), holdfast.ErrLost)
				require.Error(t, ctx.Err())
				require.ErrorIs(t, h.Err(), holdfast.ErrNotHeld)
				require.NoError(t, r.lock().Release(), "the next acquisition")
				kit.Await(t, "an empty server", func() bool { return len(r.srv.Keyspace(t)) == 0 })
				r.o.requireBalance(t)
			}
		})
	}
}

// A server that has taken over is asked how long a lease lasts while the lock passes on: whoever has it then is trusted
// for no longer.
func TestAHandOverWhileTheNextServerIsAsked(t *testing.T) {
	t.Parallel()
	const lease = 9 * time.Second
	former := redistest.Start(t)
	next := redistest.StartReplica(t, former)
	kit.LoadScripts(t, next)
	p := proxy.Start(t, former.Addr())
	r := &relay{T: t, srv: former, o: &lookout{}}
	opts := &holdfast.Options{Lease: lease, Observer: r.o.observer(), Anonymous: true}
	var err error
	r.s, err = holdfast.NewSession(kit.NewClient(t, p.Addr()), opts) // which does not see that a connection is made
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.s.Close() })
	r.l = rlock.New(r.s, "orders", nil)
	h := r.lock()
	former.AwaitReplica(t)
	next.Do(t, "REPLICAOF", "NO", "ONE")
	first, got := h.Deadline(), r.settled(t.Context())
	kit.Await(t, "a renewal", func() bool { return h.Deadline().After(first) })

	renews := kit.ScriptNamed("lock_renew")
	renewal := func(command []string) bool { return renews(command) && slices.Contains(command, "9000") }
	looks := func(command []string) bool { return renews(command) && !renewal(command) }
	p.On(renewal, proxy.Answer(kit.LoadingReply), proxy.EveryTime) // none tells
	p.On(proxy.Command("SUBSCRIBE"), proxy.Stall, proxy.EveryTime)
	look := p.On(looks, proxy.HoldReply, proxy.First)
	p.SetServer(next.Addr())
	p.CutAll()
	look.Wait(t, 1)
	end := time.Now().Add(next.TTLs(t)["orders"])
	require.Greater(t, h.Deadline(), end)
	require.NoError(t, h.Release())
	look.Release()
	heir := kit.Granted(t, kit.LongestWait, got, "the next call")
	require.Equal(t, h.ID(), heir.ID())
	kit.AwaitFor(t, time.Until(end)/2, "the shorter lease", func() bool { return heir.Deadline().Before(end) })
}

// While the server stands still a lock may pass on, and is lost like others if that lasts.
func TestAHandOverWhileTheServerStandsStill(t *testing.T) {
	t.Parallel()
	for name, long := range map[string]bool{"for a moment": false, "for longer than the lease": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRelay(t, 3*time.Second)
			h := r.lock()
			next := r.settled(t.Context())
			r.srv.Pause()
			heir := r.handOver(h, next)
			ctx := heir.Context(t.Context())
			require.NoError(t, ctx.Err())
			if !long {
				r.srv.Resume()
				require.NoError(t, heir.Release())
				r.empty()
				return
			}
			still := kit.Stillness()
			kit.Within(t, kit.LongestWait, ctx.Done(), "the end of trust")
			require.WithinDuration(t, heir.Deadline(), time.Now(), time.Second+still())
			require.ErrorIs(t, heir.Err(), holdfast.ErrLost)
			r.srv.Resume()
			require.ErrorIs(t, heir.Release(), holdfast.ErrLost)
			kit.Await(t, "an empty server", func() bool { return len(r.srv.Keyspace(t)) == 0 })
		})
	}
}

// The lock goes on to somebody whose own call takes it at the same moment, because the server had lost it. Then the
// session has it twice, and keeps one.
func TestACallThatIsGrantedWhatItIsHandedOver(t *testing.T) {
	t.Parallel()
	srv, p := kit.StartProxied(t)
	r := newRelayAt(t, srv, p.Addr(), 30*time.Second)
	h := r.lock()
	next := r.settled(t.Context())
	granted := p.On(kit.ScriptNamed("rlock_stand"), proxy.HoldReply, proxy.First)
	srv.Do(t, "DEL", "orders")
	srv.Do(t, "PUBLISH", "holdfast_line:{orders}:"+r.s.ID(), "first")
	granted.Wait(t, 1)
	require.NoError(t, h.Release(), "handed over")
	granted.Release()
	heir := kit.Granted(t, kit.LongestWait, next, "the call")
	require.NotEqual(t, h.ID(), heir.ID(), "its own")
	require.NoError(t, heir.Release())
	require.Nil(t, core.LockOf(r.l).Granted().Live(), "what was handed over is lost")
	require.NoError(t, kit.Granted(t, kit.Told, kit.GoLock(t.Context(), r.l.Lock), "a newcomer, at once").Release())
	r.empty()
}

// An observer of the hold that was handed over may end the call: the lock goes on to the next one.
func TestAnObserverThatEndsACallAtTheHandOver(t *testing.T) {
	t.Parallel()
	for how, do := range map[string]func(){"panic": func() { panic("sabotage") }, "Goexit": runtime.Goexit} {
		for _, function := range []string{"Hold", "Waited", "Acquired", "WakeUp", "Ended"} {
			t.Run(how+" in "+function, func(t *testing.T) {
				t.Parallel()
				srv := redistest.Start(t)
				saboteur := &saboteur{function: function, do: do}
				s := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: time.Minute, Observer: saboteur.observer()})
				l := rlock.New(s, "orders", nil)
				h := kit.Lock(t, t.Context(), l)
				take := func() error { return lockAndRelease(t.Context(), l) }
				errs := make(chan error, 2)
				var ended []<-chan bool
				for i := range int32(2) {
					ended = append(ended, goSabotaged(func() { errs <- take() }))
					kit.Await(t, "a call that waits", func() bool { return saboteur.waits.Load() > i })
				}
				if function == "WakeUp" { // after the look that follows the subscription
					kit.SleepUntil(time.Now().Add(100 * time.Millisecond))
				}
				saboteur.armed.Store(true)
				released := goSabotaged(func() { _ = h.Release() })
				left := 1 // of the calls that wait; it may be the end of any hold that is told of first
				if !kit.Within(t, kit.LongestWait, released, "the release") {
					require.Equal(t, "Ended", function)
					left = 2
				}
				for range left {
					require.NoError(t, kit.Within(t, kit.Told, errs, "one that has not been ended"))
				}
				for _, end := range ended {
					kit.Within(t, kit.LongestWait, end, "the end of a call")
				}
				require.True(t, saboteur.struck.Load())
				kit.Await(t, "an empty server", func() bool { return len(srv.Keyspace(t)) == 0 })
				requireNothingLeft(t, s, l, rlock.New(kit.Open(t, srv.Addr(), nil), "orders", nil))
			})
		}
	}
}

// Everybody else waits behind the calls that may be handed the lock, and gets it in turn.
func TestOtherLocksOfTheSessionGetWhatIsHandedOn(t *testing.T) {
	t.Parallel()
	for _, k := range kit.Kinds {
		if !strings.HasPrefix(k.Name, "rlock") && !strings.HasPrefix(k.Name, "multilock") {
			continue // on a key of another type
		}
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			r := newRelay(t, 10*time.Second)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan int, 4)
			for range cap(done) {
				go func() { done <- takeTurns(ctx, r.l, 0) }()
			}
			kit.Await(t, "the others", func() bool { return r.o.sum("hold") > 20 })
			l := k.Make(r.s, "orders", 0)
			for range 5 {
				h, err := l.TryLockFor(t.Context(), 5*time.Second)
				require.NoError(t, err)
				require.NoError(t, h.Err())
				require.NoError(t, h.Release())
			}
			cancel()
			total := 0
			for range cap(done) {
				total += kit.Within(t, kit.LongestWait, done, "the end of a goroutine")
			}
			t.Log(total, "acquisitions of the others")
			kit.Await(t, "an empty server", func() bool { return len(k.Free(r.srv.Keyspace(t))) == 0 })
			require.NoError(t, r.s.Close())
		})
	}
}

// A parent is a context that calls what somebody else has written when one derived from it ends.
type parent struct {
	context.Context
	done    chan struct{}
	stopped func()
}

func (p parent) Done() <-chan struct{} { return p.done }

func (p parent) AfterFunc(func()) (stop func() bool) {
	return func() bool { p.stopped(); return true }
}

// The hold may be lost while it is handed over. Then it is nobody's, and the lock is to be had.
func TestAHoldThatIsLostWhileItIsHandedOver(t *testing.T) {
	t.Parallel()
	srv, p := kit.StartProxied(t)
	r := newRelayAt(t, srv, p.Addr(), 30*time.Second)
	h := r.lock()
	next := r.settled(t.Context())
	h.Context(parent{t.Context(), make(chan struct{}), func() {
		was, err := r.l.ForceUnlock(t.Context())
		require.NoError(t, err)
		require.True(t, was)
	}})
	if err := h.Release(); err != nil { // the next call may have been granted it already, and keeps that
		require.ErrorIs(t, err, holdfast.ErrLost)
	}
	heir := kit.Granted(t, kit.LongestWait, next, "the next call")
	require.NotEqual(t, h.ID(), heir.ID())
	require.NoError(t, heir.Release())
	require.NoError(t, kit.Granted(t, kit.Told, kit.GoLock(t.Context(), r.l.Lock), "a newcomer, at once").Release())
	r.empty()
}

// A call that got the lock inside its session leaves its place on the server to the next one. If there is none, its
// release must not hand the lock to that place: nobody waits there.
func TestAReleaseDoesNotGrantToAPlaceThatNobodyHas(t *testing.T) {
	t.Parallel()
	srv, p := kit.StartProxied(t)
	r := newRelayAt(t, srv, p.Addr(), 30*time.Second)
	h := r.lock()
	heir := r.handOver(h, r.settled(t.Context()))
	back := kit.ScriptNamed("rlock_release")
	later := p.On(func(command []string) bool { return back(command) && !slices.Contains(command, heir.ID()) },
		proxy.Answer(kit.LoadingReply), proxy.EveryTime) // the place is given up as well, but that comes later
	require.NoError(t, heir.Release())
	require.Empty(t, r.counts(), "the lock has been given back, and nobody wants it")
	got, err := r.l.TryLock(t.Context())
	require.NoError(t, err)
	later.Remove()
	require.NoError(t, got.Release())
	r.empty()
}
