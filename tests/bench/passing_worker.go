package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/tests/board"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/worker"
)

// Roles are those of the processes that pass a lock on to each other, or wait for each other.
var Roles = map[string]func(args []string){"taker": takeTurns, "ring": kit.RingOwner}

const (
	passed  = "orders:42" // the lock or semaphore that passes on
	permits = 8           // of a semaphore
)

// A taker takes a lock or one permit, and returns what gives it back.
type taker func() (release func() error, err error)

var takers = map[string]func(s *holdfast.Session, addr, name string) taker{
	"rlock":            lockTaker(Reentrant),
	"fairlock":         lockTaker(Fair),
	"write half":       lockTaker(Write),
	"setlock":          lockTaker(Set),
	"leased semaphore": lockTaker(Leased(permits)),
	"semaphore": func(s *holdfast.Session, _, name string) taker {
		p, ctx := semaphore.New(s, name), context.Background()
		_, err := p.TrySetPermits(ctx, permits)
		kit.Must(err)
		return func() (func() error, error) {
			return func() error { return p.Release(ctx, 1) }, p.Acquire(ctx, 1)
		}
	},
	// One element in a list, which the server hands to those who wait for it: the least that passes on at all. It
	// stays with a process that dies.
	"bare list": func(_ *holdfast.Session, addr, name string) taker {
		c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}})
		kit.Must(err)
		ctx := context.Background()
		give := func() error { return c.Do(ctx, c.B().Rpush().Key(name).Element("1").Build()).Error() }
		if c.Do(ctx, c.B().Set().Key("made:"+name).Value("1").Nx().Build()).Error() == nil {
			kit.Must(give())
		}
		return func() (func() error, error) {
			return give, c.Do(ctx, c.B().Blpop().Key(name).Timeout(0).Build()).Error()
		}
	},
	"mutex": func(*holdfast.Session, string, string) taker {
		var mu sync.Mutex
		return func() (func() error, error) {
			mu.Lock()
			return func() error { mu.Unlock(); return nil }, nil
		}
	},
}

func lockTaker(kind Kind) func(s *holdfast.Session, addr, name string) taker {
	return func(s *holdfast.Session, _, name string) taker {
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
	b, err := board.Open(o.Board)
	kit.Must(err)
	takes := make([]taker, o.Sessions*o.Goroutines)
	for i := range o.Sessions {
		s := kit.OpenWorker(o.Addr, 30*time.Second)
		give, err := takers[o.Kind](s, o.Addr, fmt.Sprint("warm:", o.First+i))() // it connects and loads the scripts
		kit.Must(err)
		kit.Must(give())
		shared := takers[o.Kind](s, o.Addr, passed)
		for g := range o.Goroutines {
			takes[i*o.Goroutines+g] = shared
			if o.OwnNames {
				takes[i*o.Goroutines+g] = takers[o.Kind](s, o.Addr, ownName(g))
			}
		}
	}
	worker.Say("ready")
	var wg sync.WaitGroup
	for i, take := range takes {
		wg.Go(func() { takeFrom(b, take, &b.Places[o.First*o.Goroutines+i], o) })
	}
	wg.Wait()
}

func ownName(goroutine int) string { return fmt.Sprint("orders:", goroutine) }

func takeFrom(b *board.Board, take taker, p *board.Place, o order) {
	for turn := 0; o.Turns == 0 || turn < o.Turns; turn++ {
		for b.Open.Load() <= int64(o.Process) {
			time.Sleep(5 * time.Millisecond)
		}
		p.Asked.Add(1)
		release, err := take()
		if err != nil && o.MayFail {
			return
		}
		kit.Must(err)
		if !o.OwnNames && b.Holders.Add(1) > o.mayHold() {
			b.Crowds.Add(1)
		}
		if o.Work > 0 {
			time.Sleep(o.Work)
		}
		p.Taken.Add(1)
		b.Holders.Add(-1)
		kit.Must(release())
	}
}
