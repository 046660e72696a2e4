package locks

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A line is the lock "orders", for which sessions wait in a line on the server.
type line struct {
	*testing.T
	srv *redistest.Server
}

const (
	lineKey  = "holdfast_line:{orders}"
	aliveKey = "holdfast_line_alive:{orders}"
)

// A stander is a session in the line, with a proxy of its own.
type stander struct {
	p    *proxy.Proxy
	s    *holdfast.Session
	l    *rlock.Mutex
	subs *proxy.Rule // has the connections that subscribe
}

func newLine(t *testing.T) *line {
	t.Helper()
	srv := redistest.Start(t)
	kit.LoadScripts(t, srv)
	return &line{t, srv}
}

// comes has one more session, whose holds have a lease.
func (q *line) comes(lease time.Duration, opts *rlock.Options) *stander {
	q.Helper()
	st := &stander{p: proxy.Start(q, q.srv.Addr())}
	st.subs = st.p.On(proxy.Command("SUBSCRIBE"), proxy.Pass, proxy.EveryTime)
	st.s = kit.Open(q, st.p.Addr(), &holdfast.Options{Lease: lease})
	st.l = rlock.New(st.s, "orders", opts)
	return st
}

// deafen breaks the session's subscription, and keeps it from making another one until the rule is removed.
func (st *stander) deafen(t *testing.T) *proxy.Rule {
	t.Helper()
	subscribed := st.subs.Conns()
	st.subs.Remove()
	deaf := st.p.On(proxy.Command("SUBSCRIBE"), proxy.ResetBefore, proxy.EveryTime)
	for _, c := range subscribed {
		c.Cut()
	}
	deaf.Wait(t, 1)
	return deaf
}

// awaitInLine waits until one session waits in the line.
func awaitInLine(t *testing.T, srv *redistest.Server) {
	t.Helper()
	kit.Await(t, "a waiter in the line", func() bool { return srv.Int(t, "LLEN", lineKey) == 1 })
}

// waits has a call wait, and returns when it is the last one in the line.
func (q *line) waits(ctx context.Context, take func(context.Context) (*holdfast.Hold, error)) <-chan kit.Result {
	q.Helper()
	before := q.length()
	got := kit.GoLock(ctx, take)
	kit.Await(q, "one more in the line", func() bool { return q.length() == before+1 })
	return got
}

func (q *line) length() int { return int(q.srv.Int(q, "LLEN", lineKey)) }

// sessions is how many listen for what they are told.
func (q *line) sessions() int { return len(q.srv.Strs(q, "PUBSUB", "CHANNELS", lineKey+":*-*")) }

// holder is the wire owner that has the lock; "" if nobody has.
func (q *line) holder() string {
	if owners := q.srv.Strs(q, "HKEYS", "orders"); len(owners) > 0 {
		return owners[0]
	}
	return ""
}

// grants releases a hold when the lock is handed on.
func (q *line) grants(h *holdfast.Hold) {
	q.Helper()
	kit.AwaitHandOn(q, q.srv)
	require.NoError(q, h.Release())
}

// passesOn awaits that the server has granted the lock to another one than the hold.
func (q *line) passesOn(h *holdfast.Hold) {
	q.Helper()
	kit.Await(q, "a grant", func() bool { return q.holder() != "" && q.holder() != h.ID() })
}

// granted requires that a call gets the lock within the time d, and that its trust ends no later than the server's
// lease.
func (q *line) granted(d time.Duration, got <-chan kit.Result, what string) *holdfast.Hold {
	q.Helper()
	h := kit.Granted(q, d, got, what)
	q.trusted(h)
	return h
}

func (q *line) trusted(h *holdfast.Hold) {
	q.Helper()
	deadline := h.Deadline()
	left := time.Duration(q.srv.Int(q, "PTTL", "orders")) * time.Millisecond
	now := time.Now()
	require.NoError(q, h.Err())
	require.Equal(q, h.ID(), q.holder())
	require.False(q, deadline.After(now.Add(left)), "trusted for %v, on the server for %v", deadline.Sub(now), left)
}

// empty awaits that nothing is left.
func (q *line) empty() {
	q.Helper()
	kit.Await(q, "an empty server", func() bool {
		space := q.srv.Keyspace(q)
		delete(space, "redisson_lock_token:{orders}")
		return len(space) == 0
	})
}

// The lock passes on from session to session in the order in which they came, by one call each.
func TestALockPassesOnInTheOrderOfTheLine(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]*rlock.Options{
		"renewed": nil, "fenced": {Fenced: true}, "fixed lease": {FixedLease: 5 * time.Second},
		"non-reentrant": {NonReentrant: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newLine(t)
			h := kit.Lock(t, t.Context(), q.comes(kit.Lease, opts).l)
			var got []<-chan kit.Result
			for range 6 {
				got = append(got, q.waits(t.Context(), q.comes(kit.Lease, opts).l.Lock))
			}
			q.srv.ResetStats(t)
			token := h.Token()
			for i, next := range got {
				require.NoError(t, h.Release())
				h = q.granted(kit.LongestWait, next, "the next one")
				require.Equal(t, name == "fenced", h.Token() > token)
				token = h.Token()
				require.Equal(t, len(got)-1-i, q.length())
			}
			require.NoError(t, h.Release())
			q.empty()
			if name != "fixed lease" { // which begins with a call
				require.Zero(t, q.srv.CommandStats(t)["rpush"], "nobody stood anew")
			}
		})
	}
}

// What a release of another session has granted is a hold like others.
func TestWhatAReleaseGrantsIsAHoldLikeOthers(t *testing.T) {
	t.Parallel()
	q := newLine(t)
	h := kit.Lock(t, t.Context(), q.comes(kit.Lease, nil).l)
	o := &lookout{}
	s := kit.Open(t, q.srv.Addr(), &holdfast.Options{Lease: kit.Lease, Observer: o.observer()})
	l := rlock.New(s, "orders", nil)
	next := q.waits(t.Context(), l.Lock)
	require.NoError(t, h.Release())
	h = q.granted(kit.LongestWait, next, "the lock")
	ctx := h.Context(t.Context())

	held, err := l.Held(ctx)
	require.NoError(t, err)
	require.True(t, held)
	nested := kit.Lock(t, ctx, l)
	n, err := l.HoldCount(ctx)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	holders, err := l.Holders(ctx)
	require.NoError(t, err)
	require.Len(t, holders, 1)
	require.Equal(t, h.ID(), holders[0].ID)
	require.Equal(t, 2, holders[0].Count)
	require.NoError(t, nested.Release())

	require.NoError(t, h.Extend(ctx, time.Minute))
	require.Greater(t, time.Until(h.Deadline()), 50*time.Second)
	q.trusted(h)
	require.NoError(t, ctx.Err())
	require.NoError(t, h.Release())
	require.ErrorIs(t, context.Cause(ctx), holdfast.ErrNotHeld)
	require.Equal(t, 2, o.sum("hold"))
	o.requireBalance(t)

	h = kit.Lock(t, t.Context(), l)
	next = q.waits(t.Context(), q.comes(kit.Lease, nil).l.Lock)
	require.NoError(t, h.Release())
	h = q.granted(kit.LongestWait, next, "the lock")
	deadline := h.Deadline()
	require.NoError(t, h.Detach())
	require.Equal(t, h.ID(), q.holder(), "it lives on")
	left := time.Duration(q.srv.Int(t, "PTTL", "orders")) * time.Millisecond
	require.LessOrEqual(t, time.Until(deadline), left)
	was, err := l.ForceUnlock(t.Context())
	require.NoError(t, err)
	require.True(t, was)
	q.empty()
}

// A hold that a release has granted is renewed in time, and then lasts as long as others.
func TestWhatAReleaseGrantsIsRenewed(t *testing.T) {
	t.Parallel()
	for _, lease := range []time.Duration{3 * time.Second, 5 * time.Second, 30 * time.Second} {
		t.Run(lease.String(), func(t *testing.T) {
			t.Parallel()
			q := newLine(t)
			h := kit.Lock(t, t.Context(), q.comes(lease, nil).l)
			next := q.waits(t.Context(), q.comes(lease, nil).l.Lock)
			kit.SleepUntil(time.Now().Add(min(lease, 4*time.Second) / 2)) // the grant counts from the last sign of life
			require.NoError(t, h.Release())
			h = q.granted(kit.LongestWait, next, "the lock")
			began := h.Deadline()
			kit.Await(t, "renewals", func() bool { return h.Deadline().Sub(began) > min(lease, 5*time.Second) })
			q.trusted(h)
			kit.Await(t, "the session's lease", func() bool {
				return time.Duration(q.srv.Int(t, "PTTL", "orders"))*time.Millisecond > lease*3/5
			})
			require.NoError(t, h.Release())
			q.empty()
		})
	}
}

// A call that ends when the lock is granted to it has it, or it passes on: nobody waits for what nobody has.
func TestACallThatEndsAtTheGrant(t *testing.T) {
	t.Parallel()
	for name, take := range endsSoon {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newLine(t)
			a, b, c := q.comes(kit.Lease, nil), q.comes(kit.Lease, nil), q.comes(kit.Lease, nil)
			got, rounds := 0, kit.Stressed(40, 100)
			for i := range rounds {
				h := kit.Lock(t, t.Context(), a.l)
				d := time.Duration(3+i%8) * 500 * time.Microsecond
				first := kit.GoLock(t.Context(), func(ctx context.Context) (*holdfast.Hold, error) { return take(ctx, b.l, d) })
				second := kit.GoLock(t.Context(), c.l.Lock)
				kit.SleepUntil(time.Now().Add(d + time.Duration(i%5-2)*100*time.Microsecond))
				require.NoError(t, h.Release())
				if r := kit.Within(t, kit.LongestWait, first, "the call that ends"); r.Err == nil {
					got++
					q.trusted(r.Hold)
					require.NoError(t, r.Hold.Release())
				}
				h = kit.Granted(t, kit.Told, second, "the next one, at once")
				require.NoError(t, h.Release())
			}
			t.Log(got, "of", rounds, "got the lock")
			q.empty()
		})
	}
}

// Close ends a call that is granted the lock at the same moment, or its hold, and the lock passes on.
func TestCloseAtTheGrant(t *testing.T) {
	t.Parallel()
	q := newLine(t)
	a, c := q.comes(kit.Lease, nil), q.comes(kit.Lease, nil)
	held, rounds := 0, kit.Stressed(20, 40)
	for i := range rounds {
		h := kit.Lock(t, t.Context(), a.l)
		b := q.comes(kit.Lease, nil)
		first := q.waits(t.Context(), b.l.Lock)
		second := q.waits(t.Context(), c.l.Lock)
		released := make(chan error, 1)
		go func() { released <- h.Release() }()
		kit.SleepUntil(time.Now().Add(time.Duration(i%10) * 50 * time.Microsecond))
		require.NoError(t, b.s.Close())
		require.NoError(t, kit.Within(t, kit.LongestWait, released, "the release"))
		r := kit.Within(t, kit.LongestWait, first, "the end of a call")
		if r.Err == nil {
			held++
			r.Err = r.Hold.Err()
		}
		require.True(t, errors.Is(r.Err, holdfast.ErrClosed), "%v", r.Err)
		require.NoError(t, kit.Granted(t, kit.Told, second, "the next one, at once").Release())
	}
	t.Log(held, "of", rounds, "had the lock")
	q.empty()
}

// A call whose time is over has left the line when it returns: whoever asks next must not find it in the way.
func TestATryBehindACallWhoseTimeIsOver(t *testing.T) {
	t.Parallel()
	q := newLine(t)
	a, b, c := q.comes(kit.Lease, nil), q.comes(kit.Lease, nil), q.comes(kit.Lease, nil)
	unanswered, rounds := 0, kit.Stressed(40, 150)
	for i := range rounds {
		h := kit.Lock(t, t.Context(), a.l)
		still := kit.Stillness()
		_, err := b.l.TryLockFor(t.Context(), time.Duration(i%10+1)*time.Millisecond)
		require.NoError(t, h.Release())
		if errors.Is(err, holdfast.ErrUnknown) { // the server took long: it leaves in the background
			unanswered++
			q.empty()
			continue
		}
		require.ErrorIs(t, err, holdfast.ErrBusy)
		by := b
		if i%2 == 0 {
			by = c
		}
		if h, err = by.l.TryLock(t.Context()); err != nil && still() > 0 {
			h, err = by.l.Lock(t.Context()) // it leaves in the background if that takes too long
		}
		require.NoError(t, err, "%d: %q has it", i, q.holder())
		require.NoError(t, h.Release())
	}
	require.Less(t, unanswered, rounds/2)
	q.empty()
}

// The connection for messages is not the one of calls: what is known of the server's clock stays true when a session
// makes it, and is forgotten when the other one ends, as the next may lead to another server. (Of the latter a session
// finds out that has no waiter: one that has may look by itself before.)
func TestTheConnectionForMessagesIsNoNewServer(t *testing.T) {
	t.Parallel()
	q := newLine(t)
	renewsRarely := kit.Open(t, q.srv.Addr(), &holdfast.Options{Lease: time.Minute}) // a renewal would count as a call
	holder := kit.Lock(t, t.Context(), rlock.New(renewsRarely, "orders", nil))
	waiter, other := q.comes(0, nil), q.comes(0, nil)
	try := func(st *stander) int {
		warm := st.p.On(kit.ScriptNamed("rlock_acquire").With("warm"), proxy.Pass, proxy.EveryTime)
		defer warm.Remove()
		h, err := rlock.New(st.s, "warm", nil).TryLock(t.Context())
		require.NoError(t, err)
		defer func() { require.NoError(t, h.Release()) }()
		warm.WaitAnswered(t, 1)
		return warm.Answered()
	}
	try(waiter)
	try(other)
	require.Equal(t, 1, try(waiter))
	require.Equal(t, 1, try(other))

	attempts := waiter.p.On(proxy.Command("EVALSHA").With("orders"), proxy.Pass, proxy.EveryTime)
	got := q.waits(t.Context(), waiter.l.Lock)
	require.Equal(t, 2, attempts.Matched(), "an attempt, and one that stands in the line")
	require.Equal(t, 1, try(waiter))

	require.NoError(t, holder.Detach(), "a session that holds something looks at it when it has connected again")
	q.srv.Do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	locked, err := other.l.Locked(t.Context()) // over a new connection
	require.NoError(t, err)
	require.True(t, locked)
	require.Equal(t, 2, try(other), "the first one tells the time")
	require.Equal(t, 1, try(other))
	freed, err := other.l.ForceUnlock(t.Context())
	require.NoError(t, err)
	require.True(t, freed)
	require.NoError(t, q.granted(5*time.Second, got, "the waiter").Release())
}
