package locks

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
)

// Without the message of a grant, the next sign of life finds that the lock is the waiter's.
func TestAGrantWhoseMessageIsLost(t *testing.T) {
	t.Parallel()
	for _, lease := range []time.Duration{6 * time.Second, 30 * time.Second} {
		t.Run(lease.String(), func(t *testing.T) {
			t.Parallel()
			q := newLine(t)
			h := kit.Lock(t, t.Context(), q.comes(lease, nil).l)
			deaf := q.comes(lease, nil)
			next := q.waits(t.Context(), deaf.l.Lock)
			after := q.waits(t.Context(), q.comes(lease, nil).l.Lock)
			kit.SleepUntil(time.Now().Add(600 * time.Millisecond)) // the look of one that has become the first is over
			deaf.p.LoseMessages(true)
			q.grants(h)
			grant := q.holder()
			require.NotEmpty(t, grant, "it is not free in between")
			got := q.granted(kit.LongestWait, next, "the one that has not heard of it")
			require.Equal(t, grant, got.ID(), "before the grant is over")
			require.Positive(t, deaf.p.LostMessages())
			require.NoError(t, got.Release())
			require.NoError(t, q.granted(kit.LongestWait, after, "the next one").Release())
			q.empty()
		})
	}
}

// Whoever is cut off when its turn comes delays the others for the lease of one grant, and does not believe that it has
// the lock when all that was sent arrives at last.
func TestAWaiterThatIsCutOffWhenItsTurnComes(t *testing.T) {
	t.Parallel()
	const lease = 5 * time.Second
	q := newLine(t)
	h := kit.Lock(t, t.Context(), q.comes(lease, nil).l)
	away := q.comes(lease, nil)
	first := q.waits(t.Context(), away.l.Lock)
	second := q.waits(t.Context(), q.comes(lease, nil).l.Lock)
	away.p.Silence()
	q.grants(h)
	q.passesOn(h)
	lost := q.holder()
	require.Contains(t, lost, away.s.ID())
	next := q.granted(2*lease, second, "the next one")
	away.p.ResumeAll()
	kit.Await(t, "the one that was cut off, in the line again", func() bool { return q.length() == 1 })
	require.Empty(t, first)
	q.trusted(next)
	require.NoError(t, next.Release())
	h = q.granted(kit.LongestWait, first, "the one that was cut off")
	require.NotEqual(t, lost, h.ID())
	require.NoError(t, h.Release())
	q.empty()
}

// The reply to a call by which a session stands in the line may be lost, or late, or the call may be.
func TestACallThatStandsWithoutAReply(t *testing.T) {
	t.Parallel()
	stand := kit.ScriptNamed("rlock_stand")
	const lease = 6 * time.Second
	for name, c := range map[string]struct {
		action  proxy.Action
		stands  bool          // by then
		release time.Duration // until the fault ends, after the lock was released; 0: before
	}{
		"lost":                                {action: proxy.DropReply, stands: true},
		"lost without a word":                 {action: proxy.DropReplySilently, stands: true},
		"never sent":                          {action: proxy.ResetBefore},
		"late reply":                          {action: proxy.HoldReply, stands: true, release: 300 * time.Millisecond},
		"reply later than trust":              {action: proxy.HoldReply, stands: true, release: lease + 300*time.Millisecond},
		"late call":                           {action: proxy.Stall, release: 300 * time.Millisecond},
		"call that comes when it is too late": {action: proxy.Stall, release: lease + 300*time.Millisecond},
	} {
		for _, calls := range []proxy.Times{proxy.First, proxy.Second} { // the first one, and a sign of life
			t.Run(name+map[proxy.Times]string{proxy.First: "", proxy.Second: ", of a sign of life"}[calls], func(t *testing.T) {
				t.Parallel()
				q := newLine(t)
				h := kit.Lock(t, t.Context(), q.comes(kit.Lease, nil).l)
				st := q.comes(lease, nil)
				rule := st.p.On(stand, c.action, calls)
				got := kit.GoLock(t.Context(), st.l.Lock)
				rule.WaitMatched(t, int(calls))
				if c.stands {
					kit.Await(t, "its place", func() bool { return q.length() == 1 })
					rule.Wait(t, 1)
				}
				after := kit.GoLock(t.Context(), q.comes(lease, nil).l.Lock)
				kit.Await(t, "another one in the line", func() bool { return q.length() > 0 && q.sessions() == 2 })
				require.NoError(t, h.Release())
				if c.release > 0 {
					kit.SleepUntil(time.Now().Add(c.release))
				}
				rule.Remove()
				for range 2 { // in either order
					select {
					case r := <-got:
						require.NoError(t, r.Err)
						q.trusted(r.Hold)
						require.NoError(t, r.Hold.Release())
						got = nil
					case r := <-after:
						require.NoError(t, r.Err)
						q.trusted(r.Hold)
						require.NoError(t, r.Hold.Release())
						after = nil
					case <-time.After(2 * lease):
						t.Fatalf("nobody has it but %q, in line: %v", q.holder(), q.srv.Strs(t, "LRANGE", lineKey, "0", "-1"))
					}
				}
				q.empty()
			})
		}
	}
}

// An operator's force passes the lock on, whether it meets a holder or a grant that nobody has heard of.
func TestForceAtTheGrant(t *testing.T) {
	t.Parallel()
	q := newLine(t)
	operator := q.comes(kit.Lease, nil)
	a, b, c := q.comes(kit.Lease, nil), q.comes(kit.Lease, nil), q.comes(kit.Lease, nil)
	forced, rounds := 0, kit.Stressed(16, 40)
	for i := range rounds {
		h := kit.Lock(t, t.Context(), a.l)
		first := q.waits(t.Context(), b.l.Lock)
		second := q.waits(t.Context(), c.l.Lock)
		released := make(chan error, 1)
		go func() { released <- h.Release() }()
		kit.SleepUntil(time.Now().Add(time.Duration(i%8) * 40 * time.Microsecond))
		_, err := operator.l.ForceUnlock(t.Context())
		require.NoError(t, err)
		if err := kit.Within(t, kit.LongestWait, released, "the release"); err != nil {
			require.ErrorIs(t, err, holdfast.ErrLost)
		}
		// Each gets the lock at once, in any order: who found in time that it was forced out stands behind the other one,
		// and who did not hear of its turn, because its connection had just ended, was passed over.
		got, out := kit.AnyOf(first, second), 0
		for range 2 {
			h := kit.Granted(t, kit.Told, got, "the lock for one of them, at once")
			if q.holder() != h.ID() {
				out++
				_ = h.Release()
				continue
			}
			q.trusted(h)
			require.NoError(t, h.Release())
		}
		require.LessOrEqual(t, out, 1)
		forced += out
	}
	t.Log(forced, "of", rounds, "were forced out of a grant")
	q.empty()
}

// When a lease ends on the server nobody is told. Those who wait know when that is.
func TestALeaseThatEndsBeforeALine(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 5, 30} {
		q := newLine(t)
		var locks []*rlock.Mutex
		for range n { // to connect takes longer than to stand in the line
			locks = append(locks, rlock.New(kit.Open(t, q.srv.Addr(), nil), "orders", nil))
		}
		lasts := time.Duration(4+n/4) * time.Second // until all stand in the line, on a busy machine too
		h := kit.Lock(t, t.Context(), q.comes(kit.Lease, &rlock.Options{FixedLease: lasts}).l)
		var got []<-chan kit.Result
		for _, l := range locks {
			got = append(got, kit.GoLock(t.Context(), l.Lock))
		}
		kit.Await(t, "all in the line", func() bool { return q.length() == n })
		end := h.Deadline()
		require.NoError(t, h.Detach()) // as if its holder had been killed
		all := kit.AnyOf(got...)
		for i := range n {
			h := q.granted(max(0, time.Until(end))+kit.LongestWait, all, "one of those that wait")
			if i == 0 {
				t.Log(n, "wait:", time.Since(end), "after the end of trust")
				require.False(t, time.Now().Before(end))
			}
			require.NoError(t, h.Release())
		}
		t.Log(n, "wait:", time.Since(end), "until everybody has had it")
		q.empty()
	}
}

// A subscription that breaks may cost a place in the line, and a message.
func TestASubscriptionThatBreaksAtTheGrant(t *testing.T) {
	t.Parallel()
	q := newLine(t)
	a, c := q.comes(kit.Lease, nil), q.comes(kit.Lease, nil)
	for i := range kit.Stressed(8, 24) {
		h := kit.Lock(t, t.Context(), a.l)
		b := q.comes(kit.Lease, nil) // whose connections have not been cut before
		first := q.waits(t.Context(), b.l.Lock)
		second := q.waits(t.Context(), c.l.Lock)
		killed := make(chan bool)
		go func() {
			kit.SleepUntil(time.Now().Add(time.Duration(i%8) * 40 * time.Microsecond))
			for _, conn := range b.subs.Conns() {
				conn.Cut()
			}
			close(killed)
		}()
		require.NoError(t, h.Release())
		<-killed
		got := kit.AnyOf(first, second)
		for range 2 { // they have it as soon as the subscription stands anew
			require.NoError(t, kit.Granted(t, kit.LongestWait/2, got, "the lock for one of them").Release())
		}
		require.NoError(t, b.s.Close())
	}
	q.empty()
}

// While its subscription is broken, a session is told of nothing. Its own releases wake its calls all the same.
func TestAReleaseWakesThoseOfItsSessionWhoHearNothing(t *testing.T) {
	t.Parallel()
	q := newLine(t)
	st := q.comes(kit.Lease, &rlock.Options{Fenced: true})
	h := kit.Lock(t, t.Context(), st.l)
	next := q.waits(t.Context(), st.l.Lock)
	kit.SleepUntil(time.Now().Add(600 * time.Millisecond)) // the look of one that has become the first is over
	deaf := st.deafen(t)
	require.NoError(t, h.Release())
	require.NoError(t, q.granted(kit.Told, next, "the next call").Release())
	deaf.Remove()
	q.empty()
}

// What a server without memory evicts heals with the next sign of life of those concerned.
func TestWhatIsEvictedOfALineHeals(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string][]string{
		"the line": {"DEL", lineKey}, "who is alive": {"DEL", aliveKey}, "both": {"DEL", lineKey, aliveKey},
		"the lock": {"DEL", "orders"}, "all": {"FLUSHALL"}, "all but the lock, and the scripts": {"SCRIPT", "FLUSH"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newLine(t)
			h := kit.Lock(t, t.Context(), q.comes(kit.Lease, nil).l)
			var got []<-chan kit.Result
			for range 3 {
				got = append(got, q.waits(t.Context(), q.comes(kit.Lease, nil).l.Lock))
			}
			q.srv.Do(t, keys...)
			began := time.Now()
			if err := h.Release(); err != nil {
				require.ErrorIs(t, err, holdfast.ErrLost)
			}
			all := make(chan kit.Result)
			for _, g := range got {
				go func() { all <- <-g }()
			}
			for range got {
				h := q.granted(kit.LongestWait, all, "one of those that wait")
				t.Log(time.Since(began))
				require.NoError(t, h.Release())
			}
			q.srv.Do(t, "DEL", aliveKey) // those who have lost their places are in it for a minute
			q.empty()
		})
	}
}

// A call whose place in the line was left by a lost reply gets the lock although it cannot listen. Its place goes with
// it: a release would hand the lock to nobody.
func TestAPlaceThatALostReplyHasLeft(t *testing.T) {
	t.Parallel()
	q := newLine(t)
	st := q.comes(kit.Lease, nil)
	require.NoError(t, kit.Lock(t, t.Context(), st.l).Release()) // now it knows the server's clock
	q.srv.Do(t, "HSET", "orders", "java:1", "1")                 // its release looks at no line
	q.srv.Do(t, "PEXPIRE", "orders", "60000")
	stand := st.p.On(kit.ScriptNamed("rlock_stand"), proxy.HoldReply, proxy.First)
	got := kit.GoLock(t.Context(), st.l.Lock)
	stand.Wait(t, 1)
	require.Equal(t, 1, q.length())

	deaf := st.deafen(t)
	q.srv.Do(t, "DEL", "orders")
	for _, c := range stand.Conns() {
		c.Cut()
	}
	h := q.granted(kit.LongestWait, got, "the call")
	deaf.Remove()
	next := kit.GoLock(t.Context(), rlock.New(st.s, "orders", &rlock.Options{Fenced: true}).Lock) // it inherits none
	kit.Await(t, "the next call in the line", func() bool { return q.sessions() > 0 && q.length() > 0 })
	q.grants(h)
	require.NoError(t, q.granted(kit.Told, next, "the next one, at once").Release())
	q.empty()
}
