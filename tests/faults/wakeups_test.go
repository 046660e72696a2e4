package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
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

// A waiter that gets no message looks again when its timer ends.
func TestAWaiterWhoseMessageIsLostLooksAgain(t *testing.T) {
	kit.EachAlone(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
		s := kit.Open(t, srv.Addr(), nil)
		t.Run("as soon as the lease in the way has ended", func(t *testing.T) {
			t.Parallel()
			leases := []time.Duration{1500 * time.Millisecond, 2100 * time.Millisecond, 2700 * time.Millisecond}
			late := make([]time.Duration, len(leases)) // the machine may be so at any of them
			var waiters []<-chan kit.Result
			took := kit.Stopwatch()
			for i, lease := range leases {
				name := fmt.Sprint("leased ", i)
				kit.Lock(t, t.Context(), k.Rival(s, name, lease))
				waiters = append(waiters, kit.GoLock(t.Context(), k.Make(s, name, 0).Lock))
			}
			for i, lease := range leases {
				r := kit.Within(t, kit.LongestWait, waiters[i], "the lock")
				require.NoError(t, r.Err)
				late[i] = took() - lease
			}
			require.Less(t, slices.Min(late), 300*time.Millisecond, "all: %v", late)
		})
		t.Run("after 5 s at the latest", func(t *testing.T) {
			t.Parallel()
			kit.Lock(t, t.Context(), k.Rival(s, "freed", time.Hour))
			var waiters []<-chan kit.Result
			for range 3 {
				waiters = append(waiters, kit.GoLock(t.Context(), k.Make(s, "freed", 0).Lock))
			}
			kit.Waiting(t, k, srv)
			k.Wipe(t, srv, "freed") // like a release whose message nobody received
			sinceFreed := kit.Stopwatch()
			got := kit.AnyOf(waiters...)
			for range waiters { // the first waiter wakes the others
				h := kit.Granted(t, 2*kit.LongestWait, got, "the lock for one of them")
				require.Less(t, sinceFreed(), kit.LongestWait)
				require.NoError(t, h.Release())
			}
		})
	})
}

// A waiter that could not subscribe during a release notices the release as soon as it can subscribe again.
func TestAWaiterLooksAgainWhenItsSubscriptionIsBack(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := proxy.Start(t, srv.Addr())
	subscriptions := p.On(proxy.Command("SUBSCRIBE"), proxy.Pass, proxy.EveryTime)
	held := kit.Lock(t, t.Context(),
		rlock.New(kit.Open(t, srv.Addr(), nil), "orders", &rlock.Options{FixedLease: time.Hour}))
	waiter := kit.GoLock(t.Context(), rlock.New(kit.Open(t, p.Addr(), nil), "orders", nil).Lock)
	subscriptions.WaitAnswered(t, 1)

	p.RefuseNew(true)
	subscriptions.Conns()[0].Cut()
	kit.Await(t, "the end of the subscription", func() bool { return len(srv.Strs(t, "PUBSUB", "CHANNELS")) == 0 })
	require.NoError(t, held.Release())
	p.RefuseNew(false)
	took := kit.Stopwatch()
	r := kit.Within(t, kit.LongestWait, waiter, "the lock")
	require.NoError(t, r.Err)
	require.Less(t, took(), 2500*time.Millisecond) // the delay between two attempts to connect
}

// A subscription that goes silent is noticed by the client, or costs no more than a lost message.
func TestAWaiterWhoseSubscriptionIsSilentLooksAgain(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := proxy.Start(t, srv.Addr())
	subscriptions := p.On(proxy.Command("SUBSCRIBE"), proxy.Pass, proxy.EveryTime)
	looks := p.On(kit.ScriptOf(kit.Kinds[0], "acquire"), proxy.Pass, proxy.EveryTime)
	held := kit.Lock(t, t.Context(),
		rlock.New(kit.Open(t, srv.Addr(), nil), "orders", &rlock.Options{FixedLease: time.Hour}))
	waiter := kit.GoLock(t.Context(), rlock.New(kit.Open(t, p.Addr(), nil), "orders", nil).Lock)
	subscriptions.WaitAnswered(t, 1)
	looks.WaitAnswered(t, 2) // the first, and the one after subscribing
	subscriptions.Conns()[0].Stall(proxy.Both)
	require.NoError(t, held.Release())
	released := time.Now()
	require.NoError(t, kit.Within(t, kit.LongestWait, waiter, "the lock").Err)
	t.Log("noticed after", time.Since(released))
}

// trouble is something that goes wrong on a server again and again.
type trouble struct {
	name  string
	every time.Duration
	make  func(srv *redistest.Server)
}

var troubles = []trouble{
	{"subscriptions are killed", 50 * time.Millisecond, func(srv *redistest.Server) {
		_, _ = srv.Try("CLIENT", "KILL", "TYPE", "pubsub")
	}},
	{"all connections are killed", 400 * time.Millisecond, func(srv *redistest.Server) {
		_, _ = srv.Try("CLIENT", "KILL", "TYPE", "pubsub")
		_, _ = srv.Try("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	}},
	{"scripts are flushed", 5 * time.Millisecond, func(srv *redistest.Server) { _, _ = srv.Try("SCRIPT", "FLUSH") }},
	{"the server is restarted", 2 * time.Second, (*redistest.Server).Restart},
}

// Whatever goes wrong with messages and connections, every waiter gets the lock in time.
func TestEveryWaiterGetsTheLockWhile(t *testing.T) {
	t.Parallel()
	kit.InParallel(t, len(troubles), troubles, func(tr trouble) string { return tr.name },
		func(t *testing.T, tr trouble) {
			srv := redistest.Start(t)
			var sessions []*holdfast.Session
			for range 3 { // before there is trouble, in which none might open
				sessions = append(sessions, kit.Open(t, srv.Addr(), nil))
			}
			stop := make(chan struct{})
			var trouble, workers sync.WaitGroup
			trouble.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(tr.every/2 + rand.N(tr.every)):
						tr.make(srv)
					}
				}
			})
			var waits waits
			for _, s := range sessions {
				for i := range 4 {
					l := rlock.New(s, fmt.Sprint("lock ", i%2), nil)
					workers.Go(func() { waits.take(t, l, 5*time.Second) })
				}
			}
			workers.Wait()
			close(stop)
			trouble.Wait()
			t.Logf("%d holds, the longest wait was %v", waits.n, waits.longest)
			// A waiter may have to wait for others, which are quick.
			require.Less(t, waits.longest, kit.LongestWait+time.Second)
		})
}

// waits measures how long it takes to get locks.
type waits struct {
	mu      sync.Mutex
	n       int
	longest time.Duration
}

// take takes a lock and releases it, again and again, for the given time.
func (w *waits) take(t *testing.T, l *rlock.Mutex, duration time.Duration) {
	for end := time.Now().Add(duration); time.Now().Before(end); {
		began, waited := time.Now(), kit.Stopwatch()
		ctx, cancel := context.WithTimeout(context.Background(), 3*kit.LongestWait)
		h, err := l.Lock(ctx)
		cancel()
		if !assert.NoError(t, err) {
			return
		}
		w.mu.Lock()
		w.n++
		if time.Since(began) > w.longest { // only then is the stopwatch worth the delay
			w.longest = max(w.longest, waited())
		}
		w.mu.Unlock()
		<-time.After(time.Millisecond)
		// A restarted server has forgotten everything, and a killed connection may have been carrying the reply.
		if class := kit.ClassOf(h.Release()); !assert.Contains(t, []string{"done", "lost", "unknown"}, class) {
			return
		}
	}
}
