package peers

import (
	"bufio"
	"context"
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/tests/bench"
	"github.com/holdfast-go/holdfast/tests/board"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/worker"
)

// Roles are those of the Go processes.
var Roles = map[string]func(args []string){"peer": func(args []string) { obey(args[0]) }}

// What the board is open for.
const (
	shut = iota
	warming
	measuring
)

// obey does what each line of its standard input says, and answers each with one line. Peer.java obeys the same lines:
//
//	open  LIBRARY ADDRS LEASE CLIENTS                    connects, and locks and releases once
//	run   THREADS hot|own MICROS free|bound FIRST NAME   locks, works for a while, and releases, while the board is open
//	stop                                                 ends that: how long locking took, and what went wrong
//	hold  N NAME                                         takes N locks that are renewed
//	wait  N NAME                                         waits for N locks that another process has
//	usage                                                of processor time and memory since the process started
//	rest                                                 what memory is in use when the garbage has gone
//
// FIRST is the number of the process' first place on the board. Contexts are free if they cannot end.
func obey(path string) {
	b, err := board.Open(path)
	kit.Must(err)
	opened, current, lease := map[string]locker{}, locker(nil), time.Duration(0)
	var r *run
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		words := strings.Fields(lines.Text())
		number := func(i int) int {
			n, err := strconv.Atoi(words[i])
			kit.Must(err)
			return n
		}
		switch words[0] {
		case "open":
			key := strings.Join(words[1:], " ")
			lease = time.Duration(number(3)) * time.Millisecond
			if opened[key] == nil {
				opened[key] = connect(words[1], strings.Split(words[2], ","), lease)
			}
			current = opened[key]
			worker.Say("open=1")
		case "run":
			r = &run{b: b, hot: words[2] == "hot", work: time.Duration(number(3)) * time.Microsecond}
			r.start(current, number(1), words[4] == "bound", number(5), words[6])
			worker.Say("running=1")
		case "stop":
			worker.Say("%s", r.stop())
		case "hold":
			worker.Say("held=%d", holdMany(current, number(1), words[2], lease))
		case "wait":
			waitMany(current, number(1), words[2], b)
			worker.Say("waiting=1")
		case "usage":
			worker.Say("%s", usage())
		case "rest":
			worker.Say("%s", rest())
		default:
			panic(lines.Text())
		}
	}
}

func connect(library string, addrs []string, lease time.Duration) locker {
	for _, c := range contenders {
		if c.id() == library {
			l, err := c.open(addrs, lease)
			kit.Must(err)
			warm := l(fmt.Sprint("warm:", os.Getpid()))
			for range 60 { // on a busy machine a first call of rueidislock may hang
				if warmed(warm) {
					return l
				}
			}
		}
	}
	panic(library)
}

// warmed reports whether a lock was taken and released within a second. What it is not measured with must not decide
// how the client uses its connection, as one call whose context can end does for the bare commands, for good.
func warmed(l lock) bool {
	done := make(chan error, 1)
	go func() {
		h, err := l(context.Background())
		if err == nil {
			err = h.release()
		}
		done <- err
	}()
	select {
	case err := <-done:
		return err == nil
	case <-time.After(time.Second):
		return false
	}
}

// A run is goroutines that lock and release again and again.
type run struct {
	b       *board.Board
	hot     bool
	work    time.Duration
	cancel  context.CancelFunc
	stopped atomic.Bool
	left    atomic.Int64 // goroutines
	failed  atomic.Int64 // calls
	mu      sync.Mutex
	took    [buckets]int64 // guarded by mu
}

// Eight buckets for each power of two of nanoseconds.
const buckets = 320

func (r *run) start(l locker, threads int, bound bool, first int, name string) {
	var bounded context.Context
	bounded, r.cancel = context.WithCancel(context.Background())
	for i := range threads {
		place, mine, ctx := &r.b.Places[first+i], fmt.Sprint(name, ":", first+i), context.Background()
		flag := place
		if r.hot {
			flag, mine = &r.b.Places[0], name
		}
		if bound {
			ctx = bounded
		}
		r.left.Add(1)
		go r.loop(l(mine), ctx, place, flag)
	}
}

func (r *run) loop(lock lock, ctx context.Context, place, flag *board.Place) {
	var took [buckets]int64
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		for i, n := range took {
			r.took[i] += n
		}
		r.left.Add(-1)
	}()
	for r.b.Open.Load() == shut && !r.stopped.Load() {
		time.Sleep(time.Millisecond)
	}
	for r.b.Open.Load() != shut {
		place.Asked.Add(1)
		began := time.Now()
		h, err := lock(ctx)
		if err != nil {
			if ctx.Err() == nil {
				r.failed.Add(1)
			}
			continue
		}
		// When the board is shut contexts end, and rueidislock gives back with the context.
		if flag.Holders.Add(1) > 1 && r.b.Open.Load() != shut {
			flag.Crowds.Add(1)
		}
		if r.b.Open.Load() == measuring {
			took[min(int(math.Log2(float64(time.Since(began)))*8), buckets-1)]++
		}
		if r.work > 0 {
			time.Sleep(r.work)
		}
		place.Taken.Add(1)
		flag.Holders.Add(-1)
		if h.release() != nil && ctx.Err() == nil {
			r.failed.Add(1)
		}
	}
}

// stop waits for a few seconds: a call that hangs then is counted, and left behind.
func (r *run) stop() string {
	r.stopped.Store(true)
	r.cancel()
	for end := time.Now().Add(5 * time.Second); r.left.Load() > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	answer := []string{fmt.Sprintf("failed=%d hanging=%d", r.failed.Load(), r.left.Load())}
	for i, n := range r.took {
		if n > 0 {
			answer = append(answer, fmt.Sprintf("took%d=%d", i, n))
		}
	}
	return strings.Join(answer, " ")
}

// holdMany takes n locks, and has those renewed that the library does not renew by itself, as its users have to do.
func holdMany(l locker, n int, name string, lease time.Duration) int64 {
	var taken atomic.Int64
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			for i := g; i < n; i += 16 {
				h, err := l(fmt.Sprint(name, ":", i))(context.Background())
				if err != nil {
					continue
				}
				taken.Add(1)
				kept.Store(i, h)
				if h.extend != nil {
					go keep(h, lease)
				}
			}
		})
	}
	wg.Wait()
	return taken.Load()
}

var kept sync.Map // so that no hold is garbage

func keep(h held, lease time.Duration) {
	for range time.Tick(lease / 3) {
		if h.extend() != nil {
			return
		}
	}
}

func waitMany(l locker, n int, name string, b *board.Board) {
	for i := range n {
		go func() {
			lock := l(fmt.Sprint(name, ":", i))
			b.Places[i%len(b.Places)].Asked.Add(1)
			_, _ = lock(context.Background())
			b.Places[0].Crowds.Add(1) // nobody releases
		}()
	}
}

func usage() string {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return fmt.Sprintf("cpu=%d allocs=%d bytes=%d", bench.Worked().Microseconds(), m.Mallocs, m.TotalAlloc)
}

func rest() string {
	runtime.GC()
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return fmt.Sprintf("heap=%d rss=%d", m.HeapAlloc, resident())
}

// resident is how much memory the process has; 0 where the system does not say so.
func resident() (bytes int) {
	text, _ := os.ReadFile("/proc/self/statm")
	if fields := strings.Fields(string(text)); len(fields) > 1 {
		pages, _ := strconv.Atoi(fields[1])
		bytes = pages * os.Getpagesize()
	}
	return bytes
}
