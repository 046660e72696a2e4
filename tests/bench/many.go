package bench

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// Waiters is what it costs when many callers wait for one name each.
type Waiters struct {
	Connections int
	Heap, Stack int64   // bytes per waiter: of its lock, too, but without garbage and the runtime's 480 of a goroutine
	Idle        float64 // commands per waiter and second while nothing happens
}

// MeasureWaiters measures n goroutines that wait for n names that another session holds. Each has so many channels when
// it has waited for a while. Their looks are counted for as long as idle says, if it does: the first are due after 4 s.
func MeasureWaiters(tb testing.TB, kind Kind, n, channels int, idle time.Duration) Waiters {
	srv := redistest.Start(tb)
	holder, waiter := open(tb, 30*time.Second, srv.Addr()), open(tb, 30*time.Second, srv.Addr())
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	names := make([]string, n+1)
	for i := range names {
		names[i] = "orders:" + strconv.Itoa(i)
		h, err := kind(holder, names[i]).Lock(ctx)
		must(tb, err)
		_ = h
	}
	var wg sync.WaitGroup
	wait := func(name string) {
		wg.Go(func() { below(func() { _, _ = kind(waiter, name).Lock(ctx) }) })
	}
	wait(names[n]) // so that the connections exist before memory is read
	subscribed(tb, srv, channels)
	goroutines(n)

	heap, stacks := memory()
	for _, name := range names[:n] {
		wait(name)
	}
	subscribed(tb, srv, (n+1)*channels)
	w := Waiters{Heap: math.MaxInt64, Stack: math.MaxInt64}
	w.Connections = srv.Connections(tb) - 1 // without the holder's

	for range 10 { // the least that is read: a collection keeps what attempts under way allocate during it
		time.Sleep(200 * time.Millisecond)
		heapThen, stacksThen := memory()
		w.Heap, w.Stack = min(w.Heap, (heapThen-heap)/int64(n)), min(w.Stack, (stacksThen-stacks)/int64(n))
	}
	if idle > 0 {
		srv.ResetStats(tb)
		time.Sleep(idle)
		w.Idle = float64(srv.CommandStats(tb)["evalsha"]) / float64(n) / idle.Seconds()
	}
	cancel()
	wg.Wait()
	return w
}

// goroutines begins and ends n of them: the runtime keeps what it has of one for others.
func goroutines(n int) {
	var wg sync.WaitGroup
	end := make(chan struct{})
	for range n {
		wg.Go(func() { <-end })
	}
	close(end)
	wg.Wait()
}

// below calls f below what a program may have on the stack when it calls Lock.
//
//go:noinline
func below(f func()) {
	var frame [256]byte
	f()
	runtime.KeepAlive(&frame)
}

// subscribed waits until n channels have a subscriber.
func subscribed(tb testing.TB, srv *redistest.Server, n int) {
	tb.Helper()
	end := time.Now().Add(30 * time.Second)
	for ; len(srv.Strs(tb, "PUBSUB", "CHANNELS")) != n; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			tb.Fatalf("not %d channels within 30s", n)
		}
	}
}

// Holds is what many renewed holds cost.
type Holds struct {
	Commands float64 // per hold and lease
	PerSlot  float64 // in a cluster: per occupied slot and lease
	Bytes    int64   // heap per hold, without the lock values and their names
	Lost     int
}

// MeasureHolds holds n locks for three leases.
func MeasureHolds(tb testing.TB, n int) Holds {
	srv := redistest.Start(tb)
	const lease = 3 * time.Second
	return measureHolds(tb, open(tb, lease, srv.Addr()), []*redistest.Server{srv}, lease, n, n)
}

// MeasureHold measures how many bytes of heap a renewed hold takes, of n, without its lock and the name.
func MeasureHold(tb testing.TB, n int) int64 {
	srv := redistest.Start(tb)
	s := open(tb, time.Hour, srv.Addr())
	locks, holds := make([]*rlock.Mutex, n), make([]*holdfast.Hold, n)
	for i := range locks {
		locks[i] = rlock.New(s, "orders:"+strconv.Itoa(i), nil)
	}
	return take(tb, locks, holds)
}

// take takes all locks, and returns how many bytes of heap each hold takes.
func take(tb testing.TB, locks []*rlock.Mutex, holds []*holdfast.Hold) int64 {
	cycle(tb, context.Background(), locks[0])
	before, _ := memory()
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			for i := g; i < len(locks); i += 16 {
				h, err := locks[i].Lock(context.Background())
				must(tb, err)
				holds[i] = h
			}
		})
	}
	wg.Wait()
	after, _ := memory()
	runtime.KeepAlive(holds)
	return (after - before) / int64(len(locks))
}

// MeasureClusterHolds holds n locks in that many slots of a cluster for three leases.
func MeasureClusterHolds(tb testing.TB, n, slots int) Holds {
	cluster := redistest.StartCluster(tb, 3)
	const lease = 3 * time.Second
	return measureHolds(tb, open(tb, lease, cluster.Addrs()...), cluster.Nodes, lease, n, slots)
}

func measureHolds(tb testing.TB, s *holdfast.Session, servers []*redistest.Server, lease time.Duration,
	n, slots int,
) Holds {
	locks := make([]*rlock.Mutex, n)
	for i := range locks {
		locks[i] = rlock.New(s, fmt.Sprintf("{%d}:%d", i%slots, i), nil)
	}
	holds := make([]*holdfast.Hold, n)
	m := Holds{Bytes: take(tb, locks, holds)}

	for _, srv := range servers {
		srv.ResetStats(tb)
	}
	const leases = 3
	time.Sleep(leases * lease)
	commands := int64(0)
	for _, srv := range servers {
		commands += srv.CommandStats(tb)["evalsha"]
	}
	m.Commands = float64(commands) / float64(n) / leases
	m.PerSlot = float64(commands) / float64(slots) / leases
	for _, h := range holds {
		if h.Err() != nil {
			m.Lost++
		}
	}
	runtime.KeepAlive(holds)
	must(tb, s.Close())
	return m
}

// MeasureReaders returns how long the server works, in µs, for one reader to come and go while n others read.
func MeasureReaders(tb testing.TB, n int) float64 {
	srv := redistest.Start(tb)
	s := open(tb, time.Hour, srv.Addr())
	ctx := context.Background()
	for range n {
		_, err := Read(s, "orders").Lock(ctx)
		must(tb, err)
	}
	const cycles = 500
	before := workedFor(tb, srv)
	for range cycles {
		cycle(tb, ctx, Read(s, "orders"))
	}
	return (workedFor(tb, srv) - before) / cycles
}

// workedFor returns how long the server has executed scripts, in µs.
func workedFor(tb testing.TB, srv *redistest.Server) (micros float64) {
	for line := range strings.Lines(srv.Str(tb, "INFO", "commandstats")) {
		if _, fields, ok := strings.Cut(line, "cmdstat_evalsha:"); ok {
			_, err := fmt.Sscanf(fields[strings.Index(fields, "usec="):], "usec=%g", &micros)
			must(tb, err)
		}
	}
	return micros
}
