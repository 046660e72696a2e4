package locks

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A runner is one session of a race for one lock.
type runner struct {
	s      *holdfast.Session
	o      *lookout
	locks  []*rlock.Mutex // one lock, with different options
	inside sync.RWMutex   // held for reading by whoever has the lock, so that Close comes in between
}

// A race is what all have.
type race struct {
	*testing.T
	counter int                   // guarded by the lock alone
	last    string                // ID of the last hold, likewise
	held    int                   // acquisitions, likewise
	handed  int                   // of them without the server, likewise
	fails   atomic.Pointer[error] // the first that should not be
}

// Goroutines of several sessions, which come and go, take one lock with whatever options, nested, with and without
// patience. Nobody is ever inside with somebody else, and nothing is left.
func TestARaceForALockThatIsHandedOver(t *testing.T) {
	t.Parallel()
	const sessions, goroutines = 3, 8
	srv := redistest.Start(t)
	r := &race{T: t}
	ctx := kit.Running(t, time.Duration(kit.Stressed(2, 5))*time.Second)
	var all sync.WaitGroup
	for range sessions {
		all.Go(func() {
			for ctx.Err() == nil {
				r.leg(ctx, srv.Addr(), goroutines)
			}
		})
	}
	all.Wait()
	t.Logf("%d acquisitions, %d without the server", r.held, r.handed)
	if err := r.fails.Load(); err != nil {
		t.Fatal(*err)
	}
	require.Zero(t, r.counter)
	require.Positive(t, r.handed)
	require.Empty(t, srv.Keyspace(t))
}

// leg is what one session does from Open to Close.
func (r *race) leg(ctx context.Context, addr string, goroutines int) {
	u := &runner{o: &lookout{}}
	u.s = kit.Open(r, addr, &holdfast.Options{Lease: 10 * time.Second, Observer: u.o.observer()})
	backoff := rlock.Exponential(time.Millisecond, 4*time.Millisecond)
	for _, o := range []*rlock.Options{nil, nil, nil, {NonReentrant: true}, {Backoff: backoff}} {
		u.locks = append(u.locks, rlock.New(u.s, "orders", o))
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(rand.Int64N(int64(time.Second))))
	defer cancel()
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for ctx.Err() == nil {
				r.turn(ctx, u)
			}
		})
	}
	<-ctx.Done()
	if rand.N(2) == 0 { // under way
		u.inside.Lock()
		r.expect(u.s.Close())
		u.inside.Unlock()
		wg.Wait()
	} else {
		wg.Wait()
		r.expect(u.s.Close())
	}
	u.o.requireBalance(r.T)
}

// turn takes the lock once, perhaps.
func (r *race) turn(ctx context.Context, u *runner) {
	l := u.locks[rand.N(len(u.locks))]
	if rand.N(2) == 0 {
		ctx = holdfast.NewOwner(ctx)
	}
	h, err := r.take(ctx, l)
	if err != nil {
		// Of a call whose time is over while its question is under way, on a busy machine, nobody knows.
		r.expect(err, holdfast.ErrBusy, holdfast.ErrUnknown, holdfast.ErrClosed, context.Canceled, context.DeadlineExceeded)
		return
	}
	u.inside.RLock()
	defer u.inside.RUnlock()
	if err := h.Err(); err != nil {
		r.expect(err, holdfast.ErrClosed)
		return
	}
	if r.counter++; r.counter != 1 {
		r.expect(errors.New("two are inside"))
	}
	if r.held++; r.last == h.ID() {
		r.handed++
	}
	r.last = h.ID()
	holds := []*holdfast.Hold{h}
	inner := h.Context(context.Background())
	for range rand.N(3) * rand.N(2) {
		nested, err := u.locks[0].TryLock(inner)
		if err == nil {
			holds = append(holds, nested)
		}
		r.expect(err, holdfast.ErrClosed)
	}
	if rand.N(20) == 0 {
		time.Sleep(rand.N(2 * time.Millisecond))
	}
	rand.Shuffle(len(holds), func(i, j int) { holds[i], holds[j] = holds[j], holds[i] })
	for _, h := range holds[1:] {
		r.expect(h.Release(), holdfast.ErrClosed)
	}
	if err := holds[0].Err(); err != nil {
		r.expect(err, holdfast.ErrClosed)
	}
	r.counter--
	r.expect(holds[0].Release(), holdfast.ErrClosed)
	if inner.Err() == nil {
		r.expect(errors.New("a context outlives its hold"))
	}
}

// take is one of the calls that there are.
func (r *race) take(ctx context.Context, l *rlock.Mutex) (*holdfast.Hold, error) {
	switch rand.N(5) {
	case 0:
		return l.TryLock(ctx)
	case 1:
		return l.TryLockFor(ctx, rand.N(5*time.Millisecond))
	case 2:
		ctx, cancel := context.WithCancel(ctx)
		defer time.AfterFunc(rand.N(5*time.Millisecond), cancel).Stop()
		return l.Lock(ctx)
	default:
		return l.Lock(ctx)
	}
}

// expect notes an error that is none of these.
func (r *race) expect(err error, of ...error) {
	if err != nil && !slices.ContainsFunc(of, func(e error) bool { return errors.Is(err, e) }) {
		r.fails.CompareAndSwap(nil, &err)
	}
}

// Many goroutines of one session take the lock in turns without asking the server each time.
func TestAHundredGoroutinesTakeTurns(t *testing.T) {
	t.Parallel()
	const goroutines, each = 128, 50
	const turn = 10 * time.Millisecond // then another session may have it, however few of this one have had it
	r := newRelay(t, 10*time.Second)
	r.srv.ResetStats(t)
	began := time.Now()
	counter, wires := 0, map[string]bool{} // guarded by the lock alone
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range each {
				h, err := r.l.Lock(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				counter++
				wires[h.ID()] = true
				if err := h.Release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	turns := 1 + int64(time.Since(began)/turn)
	calls := r.srv.CommandStats(t)["evalsha"]
	t.Logf("%d acquisitions, %d wire owners, %d calls in %d turns", counter, len(wires), calls, turns)
	require.Equal(t, goroutines*each, counter)
	require.LessOrEqual(t, calls, max(int64(counter)/10, 4*turns), "on a busy machine a turn is short")
	r.empty()
}

// However eager the goroutines of one session are, another session gets the lock when a turn is over.
func TestAnotherSessionGetsTheLockSoon(t *testing.T) {
	t.Parallel()
	const goroutines, rounds = 8, 15
	r := newRelay(t, 10*time.Second)
	s := kit.Open(t, r.srv.Addr(), nil)
	other, free := rlock.New(s, "orders", nil), rlock.New(s, "free", nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() { takeTurns(ctx, r.l, 0) })
	}
	takes := func(l *rlock.Mutex) time.Duration {
		began := kit.Stopwatch()
		h := kit.Lock(t, t.Context(), l)
		took := began()
		require.NoError(t, h.Release())
		return took
	}
	var waits, calls []time.Duration
	for range rounds {
		waits, calls = append(waits, takes(other)), append(calls, takes(free))
		kit.SleepUntil(time.Now().Add(20 * time.Millisecond)) // a turn of theirs
	}
	cancel()
	wg.Wait()
	slices.Sort(waits)
	slices.Sort(calls)
	t.Log(strings.Trim(fmt.Sprint(waits), "[]"), "beside calls of", calls[rounds/2])
	// On a busy machine the last one of a turn calls for as long as anybody else, and so does who gets it.
	require.Less(t, waits[rounds/2], 60*time.Millisecond+2*calls[rounds/2])
	require.Less(t, waits[rounds-1], kit.Told)
	r.empty()
}
