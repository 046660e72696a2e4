// Package bench measures what the toolkit costs. Commands, round trips, allocations and bytes are counted, and so do
// not depend on the machine; time is given as a ratio to the bare commands on the same client in the same run.
package bench

import (
	"context"
	"crypto/sha1" //nolint:gosec // how the server names its scripts
	"encoding/hex"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/setlock"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

func open(tb testing.TB, lease time.Duration, addrs ...string) *holdfast.Session {
	tb.Helper()
	s, err := holdfast.Open(rueidis.ClientOption{InitAddress: addrs}, &holdfast.Options{Lease: lease, Anonymous: true})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

func must(tb testing.TB, err error) {
	if err != nil {
		tb.Helper() // not earlier: it costs as much as a goroutine switch
		tb.Fatal(err)
	}
}

// A Kind makes a lock of one kind.
type Kind func(s *holdfast.Session, name string) holdfast.Locker

// Reentrant makes an rlock.
func Reentrant(s *holdfast.Session, name string) holdfast.Locker { return rlock.New(s, name, nil) }

// Fair makes a fairlock.
func Fair(s *holdfast.Session, name string) holdfast.Locker { return fairlock.New(s, name, nil) }

// Set makes a setlock.
func Set(s *holdfast.Session, name string) holdfast.Locker { return setlock.New(s, name, nil) }

// Read makes the read half of an rwlock.
func Read(s *holdfast.Session, name string) holdfast.Locker { return rwlock.New(s, name, nil).Read() }

// Write makes the write half of an rwlock.
func Write(s *holdfast.Session, name string) holdfast.Locker { return rwlock.New(s, name, nil).Write() }

// PreferredRead makes the read half of an rwlock that lets writers go first.
func PreferredRead(s *holdfast.Session, name string) holdfast.Locker {
	return rwlock.New(s, name, &rwlock.Options{PreferWriter: true}).Read()
}

// cycle locks and releases once.
func cycle(tb testing.TB, ctx context.Context, l holdfast.Locker) {
	h, err := l.Lock(ctx)
	must(tb, err)
	must(tb, h.Release())
}

// Uncontended is what one lock and release cost when nobody else wants the lock.
type Uncontended struct {
	Commands, Inner      float64
	Allocs, AllocsWithin float64 // without and with Hold.Context
	Bytes                float64 // of Allocs
}

// MeasureUncontended counts over many cycles.
func MeasureUncontended(tb testing.TB, ctx context.Context, kind Kind) Uncontended {
	srv := redistest.Start(tb)
	l := kind(open(tb, 30*time.Second, srv.Addr()), "orders:42")
	cycle(tb, ctx, l)

	const cycles = 1000
	srv.ResetStats(tb)
	for range cycles {
		cycle(tb, ctx, l)
	}
	var u Uncontended
	for name, calls := range srv.CommandStats(tb) {
		if name == "evalsha" {
			u.Commands = float64(calls) / cycles
		} else if name != "ping" {
			u.Inner += float64(calls) / cycles
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range cycles {
		cycle(tb, ctx, l)
	}
	runtime.ReadMemStats(&after)
	u.Bytes = float64(after.TotalAlloc-before.TotalAlloc) / cycles
	u.Allocs = testing.AllocsPerRun(cycles, func() { cycle(tb, ctx, l) })
	u.AllocsWithin = testing.AllocsPerRun(cycles, func() {
		h, err := l.Lock(ctx)
		must(tb, err)
		_ = h.Context(ctx)
		must(tb, h.Release())
	})
	return u
}

// A Ratio compares the time of a cycle: ours to bare, and bare to bare, which shows how noisy the machine is.
type Ratio struct{ Ours, Low, High, Noise float64 }

// A Pair makes two functions that do the same with a name: ours, and the two scripts sent by hand.
type Pair func(tb testing.TB, s *holdfast.Session, c rueidis.Client, name string) (ours, bare func())

// Locks takes and releases an rlock.
func Locks(tb testing.TB, s *holdfast.Session, c rueidis.Client, name string) (ours, bare func()) {
	l, acquire, release := rlock.New(s, name, nil), sha("rlock_acquire"), sha("rlock_release")
	ctx, number := context.Background(), 0
	// These are bare, but the same commands: each acquisition has its own owner and a not-after.
	bare = func() {
		number++
		owner := s.ID() + ":" + strconv.Itoa(number)
		_, err := c.Do(ctx, c.B().Evalsha().Sha1(acquire).Numkeys(1).Key(name).
			Arg(owner, notAfter()).Build()).AsInt64()
		must(tb, err)
		_, err = c.Do(ctx, c.B().Evalsha().Sha1(release).Numkeys(1).Key(name).
			Arg(owner).Build()).AsInt64()
		must(tb, err)
	}
	return func() { cycle(tb, ctx, l) }, bare
}

// notAfter is a while from now by the server's clock, which is this machine's.
func notAfter() string { return strconv.FormatInt(time.Now().Add(10*time.Second).UnixMilli(), 10) }

// MeasureRatio interleaves rounds of both functions of a pair, in that many goroutines with one name each, and takes
// the median of the ratios.
func MeasureRatio(tb testing.TB, pair Pair, goroutines, rounds int) Ratio {
	srv := redistest.Start(tb)
	client := bareClient(tb, srv.Addr())
	s, err := holdfast.NewSession(client, nil)
	must(tb, err)
	defer s.Close()

	allOurs, allBare := make([]func(), goroutines), make([]func(), goroutines)
	for i := range goroutines {
		allOurs[i], allBare[i] = pair(tb, s, client, fmt.Sprint("orders:", i))
		allOurs[i]()
	}
	ours, bare := func(i int) { allOurs[i]() }, func(i int) { allBare[i]() }

	const round = 100 * time.Millisecond
	var ratios, noise []float64
	for range rounds {
		before := perSecond(goroutines, round, bare)
		mine := perSecond(goroutines, round, ours)
		after := perSecond(goroutines, round, bare)
		ratios = append(ratios, (before+after)/2/mine)
		noise = append(noise, before/after)
	}
	slices.Sort(ratios)
	slices.Sort(noise)
	return Ratio{Ours: ratios[rounds/2], Low: ratios[rounds/10], High: ratios[rounds*9/10], Noise: noise[rounds/2]}
}

// bareClient is set up like a session's own, so that both sides use the same kind of connection.
func bareClient(tb testing.TB, addr string) rueidis.Client {
	c, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{addr}, PipelineMultiplex: -1, AlwaysPipelining: true, DisableCache: true,
	})
	must(tb, err)
	tb.Cleanup(c.Close)
	return c
}

func sha(script string) string {
	sum := sha1.Sum([]byte(lua.Source(script))) //nolint:gosec // as above
	return hex.EncodeToString(sum[:])
}

// perSecond returns how often f runs per second in that many goroutines.
func perSecond(goroutines int, d time.Duration, f func(i int)) float64 {
	var n atomic.Int64
	var stop atomic.Bool
	var wg sync.WaitGroup
	began := time.Now()
	for i := range goroutines {
		wg.Go(func() {
			for !stop.Load() {
				f(i)
				n.Add(1)
			}
		})
	}
	time.Sleep(d)
	stop.Store(true)
	wg.Wait()
	return float64(n.Load()) / time.Since(began).Seconds()
}

// memory returns how much memory the program uses without garbage, for what it allocates and for stacks: those that
// sleep and use less than a quarter are cut in half by each collection.
func memory() (heap, stacks int64) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc), int64(m.StackInuse)
}
