package script

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"
	"golang.org/x/sync/semaphore"

	"github.com/holdfast-go/holdfast/internal/sharing"
)

// A Lane says which places a call may take in front of the connection.
type Lane uint8

const (
	// Take is for attempts to take something, and looks.
	Take Lane = iota
	// Return is for releases. They have places of their own, so that no number of attempts can keep a holder from giving
	// back its locks.
	Return
	// Keep is for renewals. No number of attempts or releases can keep a holder from renewing its locks.
	Keep

	lanes = 3
)

// The client's ring has 1,024 places for calls in flight; beyond them a caller is stuck
// whatever its context says. So callers queue here, where ctx is heeded, and some of the
// ring stays free for the client's own PINGs and subscriptions. Each attempt that succeeds is
// followed by a release, so there are no fewer places for these: else releases pile up in front
// of a server that is far away and has nothing to do.
var placesIn = [lanes]int64{Take: 440, Return: 460, Keep: 100}

// A gate counts the calls in flight on a connection.
type gate struct {
	places [lanes]*semaphore.Weighted
	silent atomic.Bool  // the last call had no answer
	stood  atomic.Int64 // the runner's changes when the last call that was answered began

	// leaving is closed when the client has a new connection, or none, in place of the one that it leaves; nil: it
	// leaves none.
	leaving atomic.Pointer[chan struct{}]

	mu       sync.Mutex   // guards the rest
	left     [lanes]int64 // places of callers that have gone, of calls that may still be in flight
	key      string       // of one of them
	draining bool
}

func newGate() *gate {
	g := new(gate)
	for lane, n := range placesIn {
		g.places[lane] = semaphore.NewWeighted(n)
	}
	return g
}

// stands reports whether the connection is known to be up: it answered the last call, and no connection has changed
// since.
func (g *gate) stands(changes int64) bool { return g.stood.Load() == changes && !g.silent.Load() }

// answers records an answer to a call that began after that many changes.
func (g *gate) answers(changes int64) {
	if g.silent.Load() {
		g.silent.Store(false)
	}
	if g.stood.Load() != changes {
		g.stood.Store(changes)
	}
}

// leave makes calls wait in front of the connection until settle is called.
func (g *gate) leave() (settle func()) {
	left := make(chan struct{})
	g.leaving.Store(&left)
	return func() {
		g.leaving.CompareAndSwap(&left, nil) // another one may have begun
		close(left)
	}
}

// settled waits until the client leaves no connection, or reports that ctx has ended before.
func (g *gate) settled(ctx context.Context) bool {
	left := g.leaving.Load()
	if left == nil {
		return true
	}
	ctx, stop := inTime(ctx)
	defer stop()
	select {
	case <-*left:
		return true
	case <-ctx.Done():
		return false
	}
}

// A place is one in front of a connection, for one call. A call that is alone has all of them.
type place struct {
	gate  *gate
	lane  Lane
	alone bool
}

// leave gives the place up.
func (p place) leave() {
	p.share()
	p.gate.places[p.lane].Release(1)
}

// share leaves a call that is alone with one place.
func (p place) share() {
	if !p.alone {
		return
	}
	for lane, n := range placesIn {
		if Lane(lane) == p.lane {
			n--
		}
		p.gate.places[lane].Release(n)
	}
}

// alone takes all places, or reports that ctx has ended before.
func (g *gate) alone(ctx context.Context) bool {
	for lane, n := range placesIn {
		if g.places[lane].Acquire(ctx, n) != nil {
			for before := range lane {
				g.places[before].Release(placesIn[before])
			}
			return false
		}
	}
	return true
}

// Alone calls do while no call of the runner to the server of key is under way, or returns why ctx has ended before. It
// is for what the session does of its own accord: two calls that meet make a direct connection pipelined, for good.
// Where no connection is direct, it calls do at once.
func (r *Runner) Alone(ctx context.Context, key string, do func() error) error {
	if !sharing.AnyDirect(r.client) {
		return do()
	}
	p, err := r.place(ctx, Keep, key)
	if err != nil {
		return err
	}
	defer p.leave()
	return do()
}

// place waits for one in front of the connection to the server of key, or until ctx ends. A call's times must be
// determined when it has its place: it may have had to wait for long. A renewal of a direct connection is alone, see
// [Runner.Alone].
func (r *Runner) place(ctx context.Context, lane Lane, key string) (place, error) {
	outlasts, _ := ctx.(*Outlasting)
	waits := ctx.Err() == nil && (outlasts == nil || outlasts.Caller.Err() == nil)
	if waits {
		p := place{gate: r.nodes.gate(key), lane: lane, alone: lane == Keep && sharing.AnyDirect(r.client)}
		if p.take(ctx) {
			if p.gate.settled(ctx) {
				if p.gate.silent.Load() { // perhaps since it waits
					Limited(ctx)
				}
				return p, nil
			}
			p.leave()
		}
	}
	why := context.Cause(Limited(ctx))
	if outlasts != nil {
		why = cmp.Or(context.Cause(outlasts.Caller), why)
	}
	if waits {
		why = unplaced{why}
	}
	return place{}, &Failure{Class: Refused, Err: why}
}

// unplaced is why a call was not sent for which there was no place in time, as others had no reply.
type unplaced struct{ error }

func (u unplaced) Unwrap() error { return u.error }

// Unplaced reports whether err says so.
func Unplaced(err error) bool {
	_, yes := errors.AsType[unplaced](err)
	return yes
}

func (p place) take(ctx context.Context) bool {
	if p.alone {
		return p.gate.alone(ctx)
	}
	places := p.gate.places[p.lane]
	if places.TryAcquire(1) {
		return true
	}
	ctx, stop := inTime(ctx)
	defer stop()
	return places.Acquire(ctx, 1) == nil
}

// abandon gives a place back once the call of a caller that has gone is certainly out of the
// client's ring: it stays there until it is answered, or the connection is given up.
func (r *Runner) abandon(g *gate, lane Lane, key string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left[lane]++
	g.key = key
	if !g.draining {
		g.draining = true
		r.wg.Go(func() { r.drain(g) })
	}
}

// drain gives back places until none is left. A connection is answered in the order of its
// calls, so those before another call are out of the ring when that one has returned.
func (r *Runner) drain(g *gate) {
	for {
		left, key := g.takeLeft()
		if left == ([lanes]int64{}) {
			return
		}
		r.client.Do(context.Background(), marker(r.client.B(), key))
		for lane, n := range left {
			g.places[lane].Release(n)
		}
	}
}

// takeLeft takes the places that have been left since the last time; nothing ends the draining.
func (g *gate) takeLeft() (left [lanes]int64, key string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	left, g.left = g.left, left
	g.draining = left != g.left
	return left, g.key
}

// marker is a command of no effect to the server of key, which the client does not repeat.
func marker(b rueidis.Builder, key string) rueidis.Completed {
	return b.Arbitrary("EXISTS").Keys(key).Build()
}
