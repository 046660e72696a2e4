package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/worker"
)

// Roles are those of the processes that pass a lock on to each other.
var Roles = map[string]func(args []string){"taker": takeTurns}

// A board is memory that all processes of a measurement share. So counting, and checking that nobody holds the lock
// beside another, costs no call, and the counts of a killed process stay.
type board struct {
	open    atomic.Int64 // how many of the processes may go on
	holders atomic.Int64
	crowds  atomic.Int64 // how often there were too many holders
	_       [5]int64
	places  [1000]place // one for each goroutine
}

// A place fills a cache line, so that goroutines do not slow each other down.
type place struct {
	asked, taken atomic.Int64
	_            [6]int64
}

func openBoard(path string) (*board, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close() // the mapping stays
	const size = int(unsafe.Sizeof(board{}))
	if err := f.Truncate(int64(size)); err != nil {
		return nil, err
	}
	shared, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return (*board)(unsafe.Pointer(&shared[0])), nil
}

const (
	passed  = "orders:42" // the lock or semaphore that passes on
	permits = 8           // of a semaphore
)

// A taker takes a lock or one permit, and returns what gives it back.
type taker func() (release func() error, err error)

var takers = map[string]func(s *holdfast.Session, name string) taker{
	"rlock":            lockTaker(Reentrant),
	"fairlock":         lockTaker(Fair),
	"write half":       lockTaker(Write),
	"setlock":          lockTaker(Set),
	"leased semaphore": lockTaker(Leased(permits)),
	"semaphore": func(s *holdfast.Session, name string) taker {
		p, ctx := semaphore.New(s, name), context.Background()
		_, err := p.TrySetPermits(ctx, permits)
		kit.Must(err)
		return func() (func() error, error) {
			return func() error { return p.Release(ctx, 1) }, p.Acquire(ctx, 1)
		}
	},
	"mutex": func(*holdfast.Session, string) taker {
		var mu sync.Mutex
		return func() (func() error, error) {
			mu.Lock()
			return func() error { mu.Unlock(); return nil }, nil
		}
	},
}

func lockTaker(kind Kind) func(s *holdfast.Session, name string) taker {
	return func(s *holdfast.Session, name string) taker {
		l := kind(s, name)
		return func() (func() error, error) {
			h, err := l.Lock(context.Background())
			if err != nil {
				return nil, err
			}
			return h.Release, nil
		}
	}
}

// An order tells a process which part in a shape it has.
type order struct {
	Shape
	Addr, Board     string
	Process         int
	First, Sessions int // the number of its first session, counted through all processes, and how many it has
}

// takeTurns is what each process does: while the board is open for it, its goroutines take the lock again and again,
// until it is killed or each of them has had its turns.
func takeTurns(args []string) {
	var o order
	kit.Must(json.Unmarshal([]byte(args[0]), &o))
	b, err := openBoard(o.Board)
	kit.Must(err)
	takes := make([]taker, o.Sessions*o.Goroutines)
	for i := range o.Sessions {
		s := kit.OpenWorker(o.Addr, 30*time.Second)
		give, err := takers[o.Kind](s, fmt.Sprint("warm:", o.First+i))() // it connects and loads the scripts
		kit.Must(err)
		kit.Must(give())
		shared := takers[o.Kind](s, passed)
		for g := range o.Goroutines {
			takes[i*o.Goroutines+g] = shared
			if o.OwnNames {
				takes[i*o.Goroutines+g] = takers[o.Kind](s, ownName(g))
			}
		}
	}
	worker.Say("ready")
	var wg sync.WaitGroup
	for i, take := range takes {
		wg.Go(func() { b.take(take, &b.places[o.First*o.Goroutines+i], o) })
	}
	wg.Wait()
}

func ownName(goroutine int) string { return fmt.Sprint("orders:", goroutine) }

func (b *board) take(take taker, p *place, o order) {
	for turn := 0; o.Turns == 0 || turn < o.Turns; turn++ {
		for b.open.Load() <= int64(o.Process) {
			time.Sleep(5 * time.Millisecond)
		}
		p.asked.Add(1)
		release, err := take()
		kit.Must(err)
		if !o.OwnNames && b.holders.Add(1) > o.mayHold() {
			b.crowds.Add(1)
		}
		if o.Work > 0 {
			time.Sleep(o.Work)
		}
		p.taken.Add(1)
		b.holders.Add(-1)
		kit.Must(release())
	}
}
