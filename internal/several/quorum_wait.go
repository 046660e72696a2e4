package several

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/internal/wait"
)

// A call that waits asks again after a random time between these.
const (
	firstAsk = 10 * time.Millisecond
	lastAsk  = 250 * time.Millisecond
)

var askAgain = wait.Exponential(firstAsk, lastAsk)

// A quorumWait is one call that waits for a quorum.
type quorumWait struct {
	*Quorum
	session.Retries
	caller context.Context //nolint:containedctx // as an observer gets it: without what the call adds for its members
	// claims are the owner's; nil: the call's own, under which nobody else can have the lock
	claims     *core.Claims
	wakes      atomic.Pointer[wait.Place] // the place in the line of those who wait
	attempting atomic.Bool                // a grant to the owner now belongs to this call
	stops      []func()                   // end everything that the place has begun
	listening  bool
	row        int // attempts since rowBegan
	rowBegan   time.Time
	took       time.Duration // the last attempt
	hold       *core.Hold    // once granted, until the caller has it
}

// Once makes one attempt.
func (w *quorumWait) Once(ctx context.Context) error { return w.try(core.WithOwner(ctx)) }

// Wait attempts at once if nobody of this process waits, then as the first of those who do.
func (w *quorumWait) Wait(ctx, sleep context.Context) error {
	line, name := w.line()
	defer w.leavePlace()
	now := w.Overtakes() || line.Empty(name) && of(w.Session()).ways.left(name) == 0
	return wait.Until(core.WithOwner(ctx), sleep, now, w)
}

// Interrupted returns why the wait ended. But if it ended because the session in whose line the call waits was closed,
// the call goes on in the line of another session, as long as enough of them are open.
func (w *quorumWait) Interrupted(sleep context.Context, why error) error {
	if !errors.Is(why, wait.ErrClosed) {
		return w.Retries.Interrupted(sleep, why)
	}
	if w.open() < w.need() {
		return session.ErrClosed
	}
	w.leavePlace()
	return nil
}

// TakePlace is where the call waits: in the line of a session that is open. The first call there hears of releases from
// as many servers as may fail and one more, and also asks from time to time.
func (w *quorumWait) TakePlace() *wait.Place {
	if w.Place == nil {
		line, name := w.line()
		place := line.Join(name, true, false)
		w.wakes.Store(place)
		if w.claims != nil { // it is woken when its owner has got one of the locks by another call
			w.stops = append(w.stops, w.claims.Await(w))
		}
		w.Stay(place)
	}
	if w.Place.Head() && !w.listening {
		w.listening = true
		w.listen()
	}
	return w.Place
}

// leavePlace leaves the place, if there is one.
func (w *quorumWait) leavePlace() {
	for _, stop := range w.stops {
		stop()
	}
	w.stops, w.listening = nil, false
	taken := time.Duration(0)
	if w.hold != nil {
		taken = lastAsk // a release of this process is heard of
	}
	w.LeaveTo(taken)
}

// inARow is how often a wake-up is followed at once: it may come of what this call, or another one that waits, has
// given back of an attempt.
const inARow = 8

// tooOften is for how long not to ask, because of the attempts in a row.
func (w *quorumWait) tooOften() time.Duration {
	if w.row == 0 {
		w.rowBegan = time.Now()
	}
	if w.row++; w.row <= inARow {
		return 0
	}
	w.row = 0
	return max(lastAsk-time.Since(w.rowBegan), 0)
}

// listen lets other servers wake the place than the one whose line it is in.
func (w *quorumWait) listen() {
	line, _ := w.line()
	more := len(w.Locks) - w.need()
	for _, l := range w.Locks {
		if s := l.Session(); s.Joint() != line && !s.Closed() && more > 0 {
			w.stops = append(w.stops, s.Listen(l.Channel, w.Place.Wake))
			more--
		}
	}
}

// open is how many of the sessions are.
func (q *Quorum) open() (n int) {
	for _, l := range q.Locks {
		if !l.Session().Closed() {
			n++
		}
	}
	return n
}

// Wake makes the call look again because its owner has got one of the locks by another call.
func (w *quorumWait) Wake() {
	if !w.attempting.Load() {
		w.wakes.Load().Wake()
	}
}

// Attempt tries once. Without a hold and without an error, it is to be tried again after a
// wake-up or after retry.
func (w *quorumWait) Attempt(ctx, sleep context.Context) (done bool, retry time.Duration, err error) {
	if w.Place != nil {
		// A call that hears of a release would otherwise ask before all servers are free, and together with others.
		_, name := w.line()
		_ = session.Pause(sleep, max(rand.N(4*askLater(w.took)/5), of(w.Session()).ways.left(name), w.tooOften()))
		if sleep.Err() != nil {
			return false, 0, w.Interrupted(sleep, context.Cause(sleep))
		}
	}
	began := time.Now()
	w.attempting.Store(true)
	err = w.try(ctx)
	w.attempting.Store(false)
	w.took = time.Since(began)
	if err == nil {
		return true, 0, nil
	}
	retry, err = w.Again(ctx, -1, err, askAgain)
	return false, retry, err
}

// askLater is for how long others are asked for the lock who were told of a release, by the time that asking takes.
func askLater(took time.Duration) time.Duration {
	return min(5*took+2*time.Millisecond, lastAsk)
}

// line returns the line in which the calls of this process wait, and for which name.
func (q *Quorum) line() (line *wait.Lines, name wait.Name) {
	l := q.first()
	name = l.Line()
	name.Of = q.which
	return l.Session().Joint(), name
}

// first is the first lock whose session is not closed.
func (q *Quorum) first() *core.Lock {
	for _, l := range q.Locks {
		if !l.Session().Closed() {
			return l
		}
	}
	return q.Locks[0]
}

// Woken tells the observer why a sleep ended. A call that has waited for long for what its sessions hold says so.
func (w *quorumWait) Woken(by wait.Cause) {
	w.Retries.Woken(by)
	if w.Place.Noticed() {
		w.first().LogStall()
	}
}

// Overtakes reports whether the owner holds enough of the locks by now, perhaps through another call.
func (w *quorumWait) Overtakes() bool {
	return w.claims != nil && w.claims.Held() >= w.need()
}
