// Package multilock takes several locks as one: all of them, or none.
//
//	m := multilock.New(
//		rlock.New(session, "account:1", nil),
//		rlock.New(session, "account:2", nil),
//	)
//	err := holdfast.Do(ctx, m.Lock, transfer)
//
// Everybody takes them in the same order, whatever the order of the arguments, so two callers never wait
// for each other in a circle.
package multilock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/internal/several"
	"github.com/holdfast-go/holdfast/rlock"
)

// patience bounds the wait for locks while others are held, because somebody else may want those and not these. A call
// that has waited for longer has as much patience as that: locks that others hold for long must not starve it.
const patience = time.Second

// rest bounds the random pause before the next round, after a round that got only some of the locks.
const rest = 50 * time.Millisecond

// A MultiLock is several locks as one. It is immutable and safe for concurrent use.
type MultiLock struct {
	name    string
	members []holdfast.Locker // in the order in which they are taken
	batch   *several.Batch    // nil if one call cannot take them all
	mistake error
}

var _ holdfast.Locker = (*MultiLock)(nil)

// New makes one lock of several, which may have different kinds, sessions and servers. It sends nothing and cannot
// fail: a mistake comes back from the first call. No lock may be given twice, and no setlock may have a Token.
//
// Members are taken in the order of their mapped names. If several have the same name, on different servers, a call
// does not wait for one of them while it holds another, because callers may list them in different orders. Two sessions
// of one server do not make two locks of one name: a multilock of both waits for itself.
//
// Up to 500 locks of package rlock without tokens, of one session and in a cluster of one slot, are taken by one
// command and given back by another, so nobody sees only some of them taken. They are taken one by one if the owner
// already holds some, if they have not all been free at the same time for more than a second and at eight looks, or
// while their slot is being moved.
//
// It corresponds to Redisson's getMultiLock().
func New(locks ...holdfast.Locker) *MultiLock {
	m := &MultiLock{}
	for _, l := range locks {
		if isNil(l) {
			m.mistake = errors.New("a lock is nil")
			return m
		}
		switch l := l.(type) {
		case *MultiLock:
			m.members = append(m.members, l.members...)
			m.mistake = errors.Join(m.mistake, l.mistake)
		default:
			m.members = append(m.members, l)
			m.mistake = errors.Join(m.mistake, mistake(l))
		}
	}
	slices.SortStableFunc(m.members, order)
	var names []string
	for i, l := range m.members {
		names = append(names, l.Name())
		for _, other := range m.members[:i] {
			if same(l, other) {
				m.mistake = errors.Join(m.mistake, fmt.Errorf("lock %.256q is given twice", l.Name()))
			}
		}
	}
	if len(names) == 0 && m.mistake == nil {
		m.mistake = errors.New("no locks are given")
	}
	m.name = strings.Join(names, ", ")
	m.batch = m.together()
	return m
}

// together returns the batch that all members make up, or nil if they make none.
func (m *MultiLock) together() *several.Batch {
	var locks []*core.Lock
	for _, l := range m.members {
		lock, ok := l.(*rlock.Mutex) // another type that has one inside may have methods of its own to take it
		if !ok {
			return nil
		}
		locks = append(locks, core.LockOf(lock))
	}
	return several.NewBatch(m.label(), locks)
}

func (m *MultiLock) label() session.Label { return session.Label{Kind: "multilock", Name: m.name} }

// Name lists the names of the members, in the order in which they are taken.
func (m *MultiLock) Name() string { return m.name }

// Lock takes all members. It waits until it has them or ctx ends, and waits out an outage of a server. When it takes
// them one by one, it waits for at most a second in all while it holds some, or for as long as it has waited by then.
// Then it releases them, waits for the missing one alone, and tries the others: so it keeps nobody from one lock for
// long because of another, and gets also what others hold for long, one after the other. An error that matches
// ctx.Err() and its cause says that ctx ended first; anything else is what one of the members returned. After an error
// none is held. A lock on a silent server is given back in the background; Lock waits for that for at most 0.1 s after
// ctx has ended.
//
// The hold has no ID and no Token. It ends when the hold of any member ends, and then all others are given back. Its
// Deadline is the earliest of its members'. Release and Extend act on all of them at once, and return all errors. It
// corresponds to lock().
func (m *MultiLock) Lock(ctx context.Context) (*holdfast.Hold, error) {
	return m.take(ctx, "lock", session.Forever)
}

// TryLock makes one attempt for each member, one after the other, and waits for nobody. [holdfast.ErrBusy] says that
// somebody has one of them, [holdfast.ErrLost] that the lease of one ended before the last was taken. After an error
// none is held. It corresponds to tryLock().
func (m *MultiLock) TryLock(ctx context.Context) (*holdfast.Hold, error) {
	return m.take(ctx, "try lock", 0)
}

// TryLockFor waits as Lock does, but at most for the time given, and then fails with [holdfast.ErrBusy]. Whichever of
// ctx and wait ends first decides; ctx wins a tie. It corresponds to tryLock(waitTime). A wait of zero or less is one
// attempt. If a server did not answer by then, TryLockFor returns that error instead of ErrBusy, or
// [holdfast.ErrUnknown] if an attempt was cut off, which takes up to 0.1 s more.
func (m *MultiLock) TryLockFor(ctx context.Context, wait time.Duration) (*holdfast.Hold, error) {
	return m.take(ctx, "try lock for", wait)
}

// take is a whole call, which waits for at most limit.
func (m *MultiLock) take(ctx context.Context, operation string, limit time.Duration) (h *holdfast.Hold, err error) {
	if m.mistake != nil {
		return nil, m.fail(operation, m.mistake)
	}
	defer m.observe(ctx)(&h, &err)
	t := taking{MultiLock: m, ctx: core.WithOwner(ctx), operation: operation, began: time.Now()}
	if m.batch != nil {
		if h, err := m.batch.Lock(t.ctx, operation, limit); !errors.Is(err, several.ErrApart) {
			return (*holdfast.Hold)(h), err
		}
	}
	if limit > 0 && limit != session.Forever {
		limit = max(limit-time.Since(t.began), 1) // with none left an attempt would have no bound
	}
	err = new(session.Retries).WaitFor(t.ctx, limit, &t)
	return t.hold, err
}

// A taking is one call that takes the members one by one. Of their attempts it cuts off only those of [tryUntil]: the
// others do so themselves.
type taking struct {
	*MultiLock
	ctx       context.Context //nolint:containedctx // of the members' calls
	operation string
	began     time.Time
	hold      *holdfast.Hold // when it has all
}

// Once makes one attempt for each member.
func (t *taking) Once(context.Context) error {
	got := make([]*core.Hold, len(t.members))
	defer func() { several.LetGo(t.ctx, got) }()
	for i, l := range t.members {
		h, err := l.TryLock(t.ctx)
		if err != nil {
			return t.fail(t.operation, err)
		}
		got[i] = (*core.Hold)(h)
	}
	return t.fail(t.operation, t.join(got))
}

// Wait gathers the members until it has all or sleep ends. It is no waiting loop of its own: in each round it waits as
// a call for one member, in that one's line.
func (t *taking) Wait(_, sleep context.Context) error {
	for first := 0; ; {
		missing, err := t.round(sleep, first)
		switch {
		case err == nil || !passes(err):
			return t.fail(t.operation, err)
		case sleep.Err() != nil:
			return t.fail(t.operation, explain(sleep, err))
		}
		first = t.beginning(missing)
		// Without it, two calls with locks of one name could take turns in finding each other's lock taken.
		_ = session.Pause(sleep, rand.N(rest))
	}
}

// explain is the error of a call whose last round failed with err, and whose sleep has ended: if ctx has, perhaps while
// the round let go of what it had, that is why the call ends.
func explain(sleep context.Context, err error) error {
	why := new(session.Retries).Interrupted(sleep, context.Cause(sleep))
	switch {
	case errors.Is(why, holdfast.ErrBusy): // its time is over
		return err
	case errors.Is(err, holdfast.ErrBusy):
		return why
	}
	return fmt.Errorf("%w; last attempt: %w", why, err)
}

// errEnded says that a hold ended too early to be of use.
var errEnded = errors.New("it ended before all others were taken")

// passes reports whether a round that failed with err is worth repeating. One that had no reply from a member is: the
// next one waits for that member alone, for as long as its server is silent.
func passes(err error) bool {
	return errors.Is(err, holdfast.ErrBusy) || errors.Is(err, errEnded) || errors.Is(err, session.ErrNoReply) ||
		session.Passes(err)
}

// observe tells the observer of a member's session that a call begins, and returns a function that tells it how the
// call ended.
func (m *MultiLock) observe(ctx context.Context) func(h **holdfast.Hold, err *error) {
	for _, l := range m.members {
		s := sessionOf(l)
		if s == nil {
			continue
		}
		if done := s.Acquiring(ctx, m.label()); done != nil {
			return func(h **holdfast.Hold, err *error) {
				if *h != nil || *err != nil { // else an observer has ended the call
					several.Guard((*core.Hold)(*h), func() { done(session.Acquired{Err: *err}) })
				}
			}
		}
		break
	}
	return func(**holdfast.Hold, *error) {}
}

// round waits for the first member alone, and then takes the others. If its patience for them ends before, it returns
// one as missing, with ErrBusy, and holds none.
func (t *taking) round(sleep context.Context, first int) (missing int, err error) {
	got := make([]*core.Hold, len(t.members)) // so far, each at the place of its member
	defer func() { several.LetGo(sleep, got) }()
	end, limited := sleep.Deadline()
	h, err := lockUntil(t.ctx, t.members[first], end)
	if err != nil {
		return first, err
	}
	got[first] = (*core.Hold)(h)
	soon := time.Now().Add(max(patience, time.Since(t.began)))
	if limited && end.Before(soon) {
		soon = end
	}
	for i, l := range t.members {
		switch {
		case i == first:
			continue
		case i < first || t.holdsNamesake(got, i):
			h, err = tryUntil(t.ctx, l, soon)
		default: // all that are held come before it, for everybody
			h, err = lockUntil(t.ctx, l, soon)
		}
		// Neither is true any more when it has let go of what it has, and waits for this one alone.
		if errors.Is(err, holdfast.ErrDeadlock) || outOfPatience(err, soon, end) {
			err = holdfast.ErrBusy
		}
		if err != nil {
			return i, err
		}
		got[i] = (*core.Hold)(h)
	}
	return first, t.join(got)
}

// outOfPatience reports whether a member failed because its replicas were waited for only until soon, which is not when
// the call ends.
func outOfPatience(err error, soon, end time.Time) bool {
	return errors.Is(err, holdfast.ErrNotAcknowledged) && !soon.Equal(end) && !time.Now().Before(soon)
}

// holdsNamesake reports whether another member with the name of member i is held.
func (m *MultiLock) holdsNamesake(got []*core.Hold, i int) bool {
	for j, h := range got {
		if h != nil && key(m.members[j]) == key(m.members[i]) {
			return true
		}
	}
	return false
}

// join makes one hold of the holds of all members, unless one has ended by now.
func (t *taking) join(got []*core.Hold) error {
	for _, h := range got {
		if err := h.Err(); err != nil {
			return fmt.Errorf("%w: %w", errEnded, err)
		}
	}
	holds := slices.Clone(got)
	clear(got)
	t.hold = (*holdfast.Hold)(several.Join(t.ctx, t.label(), holds))
	return nil
}

func (m *MultiLock) fail(operation string, err error) error {
	if err == nil {
		return nil
	}
	label := m.label()
	return label.Fail(operation, err)
}

// lockUntil waits for a lock until ctx ends or, with ErrBusy, until the moment end, if there is one that comes first.
func lockUntil(ctx context.Context, l holdfast.Locker, end time.Time) (*holdfast.Hold, error) {
	if earlier, ok := ctx.Deadline(); end.IsZero() || ok && !earlier.After(end) {
		return l.Lock(ctx)
	}
	d := time.Until(end)
	if d <= 0 {
		return tryUntil(ctx, l, end)
	}
	if l, ok := l.(interface {
		TryLockFor(ctx context.Context, wait time.Duration) (*holdfast.Hold, error)
	}); ok {
		return l.TryLockFor(ctx, d)
	}
	within, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	h, err := l.Lock(within)
	switch {
	case err == nil || within.Err() == nil || ctx.Err() != nil:
		return h, err
	case errors.Is(err, holdfast.ErrUnknown):
		return nil, session.Unknown(session.ErrNoReply) // it is not ctx that has ended
	}
	return nil, holdfast.ErrBusy
}

// tryUntil makes one attempt, which a silent server keeps for little longer than until end.
func tryUntil(ctx context.Context, l holdfast.Locker, end time.Time) (*holdfast.Hold, error) {
	if now := time.Now(); end.Before(now) {
		end = now
	}
	within, cancel := context.WithDeadlineCause(ctx, end.Add(session.Grace), session.ErrNoReply)
	defer cancel()
	h, err := l.TryLock(session.WithAcksUntil(within, end.Add(session.Grace/2)))
	if errors.Is(err, context.DeadlineExceeded) && errors.Is(context.Cause(within), session.ErrNoReply) {
		return nil, session.Unknown(session.ErrNoReply) // it is not ctx that has ended
	}
	return h, err
}
