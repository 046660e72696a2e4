package several

import (
	"context"
	"errors"
	"hash/maphash"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/session"
)

// A Quorum is the set of locks that the Redlock algorithm takes: locks on independent servers. It needs more than half
// of them. It is immutable.
type Quorum struct {
	session.Object // without a key
	Locks          []*core.Lock
	ServerTimeout  time.Duration // for which a server is waited for; 0: see timeout
	MinValidity    time.Duration // for how long at least it must be held
	TrustRestarted bool          // a server that has restarted has forgotten nothing
	which          uint64        // tells the set from others that begin with the same lock
}

var seed = maphash.MakeSeed() // of Quorum.which

const (
	leastTimeout = 100 * time.Millisecond
	mostTimeout  = time.Second
)

// InitQuorum makes q, whose options and locks are set, a quorum with the mistake, if there is one.
func InitQuorum(q *Quorum, label session.Label, mistake error) {
	var s *session.Session
	if len(q.Locks) > 0 {
		s = q.Locks[0].Session()
	}
	for _, l := range q.Locks {
		q.which += maphash.Comparable(seed, [2]any{l.Session(), l.Line()}) // in whatever order they are given
	}
	q.Object = session.NewObject(s, label, mistake)
}

// drift is the time that the algorithm subtracts from a lease because clocks run at different speeds.
func drift(length time.Duration) time.Duration { return length/100 + 2*time.Millisecond }

// Validity returns how long at most a lease may be trusted.
func Validity(length time.Duration) time.Duration {
	return length - max(drift(length), lease.Margin(length))
}

// Leases are the shortest and the longest of the locks'.
func (q *Quorum) Leases() (shortest, longest time.Duration) {
	return core.Leases(q.Locks)
}

// need is how many locks are more than half.
func (q *Quorum) need() int { return len(q.Locks)/2 + 1 }

// timeout is for how long a server is waited for.
func (q *Quorum) timeout() time.Duration {
	if q.ServerTimeout > 0 {
		return q.ServerTimeout
	}
	shortest, _ := q.Leases()
	return min(max(shortest/100, leastTimeout), mostTimeout, shortest/4)
}

// asking is for how long a server is waited for that is asked for a lease, and for replicas that are to have it. If
// nobody has set that, these have as long as their sessions say, but no more than a third of the lease.
func (q *Quorum) asking() time.Duration {
	if q.ServerTimeout > 0 {
		return q.ServerTimeout
	}
	shortest, _ := q.Leases()
	return q.timeout() + min(q.acksTimeout(), shortest/3)
}

// acksTimeout is for how long, at most, the sessions wait for replicas; 0: none does.
func (q *Quorum) acksTimeout() (longest time.Duration) {
	for _, l := range q.Locks {
		if acks := l.Session().Config().Acks; acks != nil {
			longest = max(longest, acks.Timeout)
		}
	}
	return longest
}

// Lock waits for the lock for at most limit, or until ctx ends.
func (q *Quorum) Lock(ctx context.Context, operation string, limit time.Duration) (*core.Hold, error) {
	if err := q.Mistake(operation); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, q.Fail(operation, session.Stopped(ctx))
	}
	w := quorumWait{Quorum: q, caller: ctx}
	// Servers are asked by goroutines of their own.
	if slices.ContainsFunc(q.Locks, func(l *core.Lock) bool { return l.Session().Config().Places }) {
		ctx = session.WithPlace(ctx)
	}
	if limit > 0 {
		ctx = q.replicas(ctx, limit) // an attempt is cut off a little later
	}
	if owner := core.OwnerOf(ctx); owner != nil {
		w.claims = owner.Claims(q.Locks)
		defer w.claims.Drop()
	}
	w.About(w.caller, &q.Object)
	defer func() {
		if w.hold != nil { // an observer has ended the call
			_ = w.hold.Inside().Release()
		}
	}()
	err := w.WaitFor(ctx, limit, &w)
	if err != nil {
		err = q.Fail(operation, session.Explain(ctx, err))
	}
	w.Tell(err)
	h := w.hold
	w.hold = nil
	return h, err
}

// try makes one attempt, and tells the observer.
func (w *quorumWait) try(ctx context.Context) (err error) {
	if ctx.Err() != nil {
		return &script.Failure{Class: script.Refused, Err: context.Cause(ctx)}
	}
	w.Asked++
	done := w.Attempting(ctx)
	w.hold, err = w.tryTo(ctx)
	if done != nil {
		done(err)
	}
	return err
}

// tryTo asks all servers at once, under ctx's owner. After an error everything is given back, also by servers that are
// not waited for because the others suffice for one. After none, servers that take longer than the others may still
// be asked, for no longer than their timeout.
func (w *quorumWait) tryTo(ctx context.Context) (h *core.Hold, err error) {
	g := w.newGroup(ctx)
	e := w.attempt(ctx.Done())
	asking, cancel := session.Beside(w.replicas(ctx, sooner(e.limit)), e.limit, errNoAnswer)
	err = errUndone // as long as an observer may keep it from being had
	defer func() {
		if err != nil {
			cancel()
			g.finish(releasedEnd, 0)
			g.giveBack(ctx)
		}
	}()
	errs := atOnce(len(w.Locks), e, func(i int) *session.Session { return w.Locks[i].Session() },
		func(i int) error { return g.ask(asking, i, g.began) })
	if err = g.verdict(errs); err != nil {
		return nil, err
	}
	if !slices.Contains(errs, errUndone) {
		cancel()
	}
	g.took = time.Since(g.began)
	h = core.NewHold(g)
	Guard(h, func() { g.begin(w.caller) })
	return h, nil
}

// within is the context of one call to a server outside of an attempt.
func (q *Quorum) within(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := q.asking()
	return context.WithTimeoutCause(q.replicas(ctx, sooner(limit)), limit, errNoAnswer)
}

// replicas returns ctx, under which replicas are waited for no longer than limit, if any session asks them.
func (q *Quorum) replicas(ctx context.Context, limit time.Duration) context.Context {
	if q.acksTimeout() == 0 {
		return ctx
	}
	return session.WithAcksUntil(ctx, time.Now().Add(limit))
}

// sooner is a little less than the time for which a server is waited for, so that its call can still say that too few
// replicas have it.
func sooner(limit time.Duration) time.Duration { return limit - min(limit/5, session.Grace) }

// answered returns the error of a call that was made within such a context. The end of that context must not be taken
// for the end of the caller's.
func answered(err error) error {
	switch {
	case !errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, session.ErrUnknown):
		return errUndone
	}
	return errNoAnswer
}
