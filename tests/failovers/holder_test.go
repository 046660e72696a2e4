package failovers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/board"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/worker"
)

// groups are of processes that ask as many replicas. Each has its own locks, one of each of these kinds.
var (
	groups = []struct {
		name string
		acks holdfast.Acks
	}{{"all", holdfast.AcksAll}, {"none", 0}}
	kinds = []string{"rlock", "fairlock", "rwlock write"}
)

const (
	all, none = 0, 1 // of groups

	lease = 30 * time.Second
)

// What is on the board: who may go on, and how. Phases of a round follow each other.
const (
	going   = iota
	keeping // who asks all replicas, and keeps what it has, may do so until they are going again
	kept    // all may
	phases
)

// placeOf is where a lock is counted: Asked are calls, Taken those that acquired it, Crowds those that did while
// somebody else had it and could not know better.
func placeOf(b *board.Board, group, kind int) *board.Place {
	return &b.Places[group*(len(kinds)+1)+kind]
}

// keptOf counts the holds of a group that were kept.
func keptOf(b *board.Board, group int) *atomic.Int64 { return &placeOf(b, group, len(kinds)).Taken }

// trustOf is where a process says how long it may trust what it has of a lock, on the clock that all processes share.
func trustOf(b *board.Board, group, kind int, keeps bool, round int64) *atomic.Int64 {
	i := 4*(group*len(kinds)+kind) + 2*int(round%2)
	if keeps {
		i++
	}
	return &b.Places[100+i].Holders
}

// A plan is what a process does.
type plan struct {
	Board, Prefix string
	Group         int
	Keeps         bool // it keeps some of its holds over failovers
	Addrs         []string
	MasterSet     string
}

// holder is a process that takes locks, works, and releases them, until it is ended.
func holder(args []string) {
	var p plan
	kit.Must(json.Unmarshal([]byte(args[0]), &p))
	b, err := board.Open(p.Board)
	kit.Must(err)
	s, err := holdfast.Open(
		rueidis.ClientOption{InitAddress: p.Addrs, Sentinel: rueidis.SentinelOption{MasterSet: p.MasterSet}},
		&holdfast.Options{Lease: lease, Acks: groups[p.Group].acks, AcksTimeout: 500 * time.Millisecond, Anonymous: true},
	)
	kit.Must(err)
	var wg sync.WaitGroup
	for {
		round := b.Open.Load() / phases
		ctx, cancel := context.WithCancel(context.Background())
		for i, name := range kinds { // of this round: what was forgotten stays taken until its lease ends
			l := kit.KindOf(name).Make(s, fmt.Sprint(p.Prefix, groups[p.Group].name, " ", name, " ", round), 0)
			for range p.goroutines() {
				wg.Go(func() { p.load(ctx, b, i, round, l) })
			}
		}
		for ended := false; !ended && b.Open.Load()/phases == round; {
			select {
			case <-worker.Stopped():
				ended = true
			case <-time.After(5 * time.Millisecond):
			}
		}
		cancel()
		select {
		case <-worker.Stopped():
			wg.Wait()
			kit.Must(s.Close())
			return
		default:
		}
	}
}

// load takes a lock again and again, and keeps it over a failover if it is to.
func (p *plan) load(ctx context.Context, b *board.Board, kind int, round int64, l kit.Locker) {
	place := placeOf(b, p.Group, kind)
	mine, other := trustOf(b, p.Group, kind, p.Keeps, round), trustOf(b, p.Group, kind, !p.Keeps, round)
	for ctx.Err() == nil {
		place.Asked.Add(1)
		keeps := p.Keeps && p.mayKeep(b.Open.Load()%phases) // before the call: no replica may hear of it
		hold, err := l.Lock(ctx)
		switch {
		case err == nil:
			place.Taken.Add(1)
			trust := func() { mine.Store(int64(worker.Now() + time.Until(hold.Deadline()))) }
			if mine.Load() > 0 || other.Load() > int64(worker.Now()) {
				place.Crowds.Add(1)
			}
			trust()
			held := hold.Context(ctx)
			if pause(held, 20); keeps && hold.Extend(held, lease) == nil { // acknowledged as well
				trust()
				keptOf(b, p.Group).Add(1)
				// Renewals are not acknowledged: what replicas have ends with the lease that they were asked about.
				for b.Open.Load()%phases > going && held.Err() == nil {
					pause(held, 5)
				}
			}
			mine.Store(0)
			_ = hold.Release() // it may be lost
			continue
		case ctx.Err() == nil && !errors.Is(err, holdfast.ErrNotAcknowledged):
			worker.Say("%v", err)
		}
		pause(ctx, 5)
	}
}

// goroutines are how many want the same lock. Where holds are kept there is one: what a call hands over to another one
// of its process is no news to the server, and a replica may have it.
func (p *plan) goroutines() int {
	if p.Keeps {
		return 1
	}
	return 2
}

// mayKeep decides whether the next hold is kept: while not all may, of those that all replicas have every other one.
func (p *plan) mayKeep(now int64) bool {
	return now == kept || now == keeping && p.Group == all && rand.IntN(2) == 0
}

// pause waits for up to so many milliseconds.
func pause(ctx context.Context, most int) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Duration(1+rand.IntN(most)) * time.Millisecond):
	}
}
