package faults

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// The lease of the holds in these tests. It also bounds how long after its sending an acquisition may be executed.
const (
	lateLease    = 18 * time.Second
	lateNotAfter = lateLease / 3
)

// late is a story of a script that is executed twice, or long after it was sent.
type late struct {
	name    string
	verb    string // of the script
	action  proxy.Action
	highest int // the highest hold count that the server may ever have
	tries   int // with HOLDFAST_STRESS; otherwise one with each kind
	play    func(c *cell)
}

// of returns those of the kinds of locks that the story runs with, in turn.
func (l late) of(kinds []kit.Kind) []kit.Kind {
	return slices.DeleteFunc(slices.Clone(kinds), func(k kit.Kind) bool {
		return k.Permits && (l.highest > 1 || l.verb == "force") || k.OneString && l.highest > 1 || k.Together &&
			(l.highest > 1 || l.verb == "force")
	})
}

var lateKinds = []kit.Kind{
	kit.KindOf("rlock"), kit.KindOf("rlock fenced"), kit.KindOf("rwlock read"),
	kit.KindOf("rwlock write preferred"), kit.KindOf("setlock"), kit.KindOf("semaphore expirable"),
	kit.KindOf("multilock together"),
}

func TestScriptsRepeatedOrExecutedLate(t *testing.T) { playLate(t, lates, lateKinds) }

// playLate plays each story with each kind, perhaps more than once.
func playLate(t *testing.T, lates []late, kinds []kit.Kind) {
	type try struct {
		late
		n int
	}
	var tries []try
	for _, l := range lates {
		for _, n := range kit.UpTo(max(kit.Stressed(0, l.tries), len(l.of(kinds)))) {
			tries = append(tries, try{l, n})
		}
	}
	kit.InParallel(t, 16, tries, func(tr try) string { return tr.name }, func(t *testing.T, tr try) {
		of := tr.of(kinds)
		k := of[tr.n%len(of)]
		session := 3 * time.Second // so that a silent connection is soon given up
		if tr.action == proxy.DropReply {
			session = kit.Lease // none is silent
		}
		c := newCell(t, k, stalled, session, lateLease)
		c.rule = c.proxy.On(kit.ScriptOf(k, tr.verb), tr.action, proxy.First)
		tr.play(c)
		for len(c.holds) > 0 {
			c.believes()
			require.NoError(t, c.giveBack())
		}
		c.theyTakeIt(lateNotAfter) // far sooner than the lease of a ghost would end
		c.settled()
		require.LessOrEqual(t, c.monitor.Highest(t, kit.Orders), tr.highest)
		c.tokensIncrease()
	})
}

// stalledTake takes the lock although the first copy of the script is stalled: the client gives up the silent
// connection and sends a second copy. The first is still in the network then. It returns when that had been sent.
func (c *cell) stalledTake(ctx context.Context, take func(context.Context) (*holdfast.Hold, error)) (sent time.Time) {
	c.Helper()
	began := time.Now()
	stalled := make(chan time.Time, 1)
	go func() {
		<-c.rule.Fired()
		stalled <- time.Now()
	}()
	require.NoError(c, c.take(ctx, take))
	require.Equal(c, 1, c.rule.Count())
	require.Less(c, time.Since(began), lateNotAfter, "the first copy would refuse itself")
	return <-stalled
}

// stalledTry makes an attempt whose script is stalled, and gives it up. It returns when the script had been sent.
func (c *cell) stalledTry() (sent time.Time) {
	c.Helper()
	c.givesUp(func(ctx context.Context) error { return kit.ErrorOf(c.mine.TryLock(ctx)) })
	return time.Now()
}

// givesUp makes a call whose script is stalled, and cancels it.
func (c *cell) givesUp(call func(ctx context.Context) error) {
	c.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	returned := make(chan error, 1)
	go func() { returned <- call(ctx) }()
	c.rule.Wait(c, 1)
	cancel()
	require.ErrorIs(c, kit.Within(c, lateNotAfter, returned, "the end of the call"), holdfast.ErrUnknown)
}

// theyHold lets the other session take the lock, and checks that it keeps the lock whatever happens meanwhile.
func (c *cell) theyHold(meanwhile func()) {
	c.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), lateNotAfter)
	defer cancel()
	h, err := c.theirs.Lock(ctx)
	require.NoError(c, err)
	c.tokens = append(c.tokens, h.Token())
	meanwhile()
	_, err = c.mine.TryLock(context.Background())
	require.ErrorIs(c, err, holdfast.ErrBusy)
	require.NoError(c, h.Err())
	require.NoError(c, h.Release())
}

// lates are all stories. At the end of each, the lock must be free for others, with nothing of the victim's left.
var lates = []late{
	{"a lock script is repeated", "acquire", proxy.DropReply, 1, 50, func(c *cell) {
		require.NoError(c, c.take(context.Background(), c.mine.TryLock))
		require.Equal(c, 1, c.count())
	}},
	{"a re-entry is repeated", "acquire", proxy.DropReply, 2, 25, func(c *cell) {
		c.rule.Remove()
		require.NoError(c, c.take(context.Background(), c.mine.Lock))
		c.rule = c.proxy.On(kit.ScriptOf(c.kind, "acquire"), proxy.DropReply, proxy.First)
		require.NoError(c, c.take(c.inner(), c.mine.Lock))
		require.Equal(c, 2, c.count())
	}},
	{"an unlock script is repeated", "release", proxy.DropReply, 1, 50, func(c *cell) {
		require.NoError(c, c.take(context.Background(), c.mine.Lock))
		require.NoError(c, c.giveBack())
		require.Zero(c, c.count())
	}},
	{"a lock script comes while its lock is held", "acquire", proxy.Stall, 1, 15, func(c *cell) {
		c.stalledTake(context.Background(), c.mine.Lock)
		c.deliver()
		require.Equal(c, 1, c.count())
	}},
	{"a lock script comes while its lock is held twice", "acquire", proxy.Stall, 2, 15, func(c *cell) {
		c.stalledTake(context.Background(), c.mine.Lock)
		require.NoError(c, c.take(c.inner(), c.mine.Lock))
		c.deliver()
		require.Equal(c, 2, c.count())
	}},
	{"a lock script comes after the release, before its not-after", "acquire", proxy.Stall, 1, 15, func(c *cell) {
		sent := c.stalledTake(context.Background(), c.mine.Lock)
		require.NoError(c, c.giveBack())
		c.deliver()
		// Now the server has a ghost, which the session gives back when no more copies can come.
		require.Equal(c, 1, c.count())
		kit.SleepUntil(sent.Add(lateNotAfter))
	}},
	{"a lock script comes after the release, when others hold", "acquire", proxy.Stall, 1, 15, func(c *cell) {
		c.stalledTake(context.Background(), c.mine.Lock)
		require.NoError(c, c.giveBack())
		c.theyHold(c.deliver)
	}},
	{"a lock script comes after the release, after its not-after", "acquire", proxy.Stall, 1, 15, func(c *cell) {
		sent := c.stalledTake(context.Background(), c.mine.Lock)
		require.NoError(c, c.giveBack())
		kit.SleepUntil(sent.Add(lateNotAfter + 5*time.Millisecond))
		c.deliver()
		require.Zero(c, c.count())
	}},
	{"a lock script that was given up comes before its not-after", "acquire", proxy.Stall, 1, 15, func(c *cell) {
		c.stalledTry()
		c.deliver()
	}},
	{"a lock script that was given up comes when it has been given back", "acquire", proxy.Stall, 1, 15, func(c *cell) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		waits := kit.GoLock(ctx, c.mine.Lock)
		c.rule.Wait(c, 1)
		again := c.proxy.On(kit.ScriptOf(c.kind, "acquire"), proxy.ResetBefore, proxy.EveryTime)
		again.Wait(c, 1) // now the stalled command is alone on its connection
		match, locks := kit.ScriptOf(c.kind, "release"), 1
		if c.kind.Together { // they are given back one by one
			match, locks = kit.ScriptNamed("rlock_release"), 2
		}
		returns := c.proxy.On(match, proxy.Pass, proxy.EveryTime)
		cancel()
		require.ErrorIs(c, kit.Within(c, time.Second, waits, "the end of the wait").Err, holdfast.ErrUnknown)
		sent := time.Now() // or a little earlier
		returns.WaitAnswered(c, locks)
		again.Remove()
		c.deliver()
		// Now the server has a ghost, which the session gives back when no more copies can come.
		require.Equal(c, 1, c.count())
		kit.SleepUntil(sent.Add(lateNotAfter))
	}},
	// The waiting call got its hold through another call's, and has nothing to do with what it sent before.
	{
		"a lock script comes when its caller has entered what another call of its owner took", "acquire", proxy.Stall, 2,
		15, func(c *cell) {
			returns := c.proxy.On(kit.ScriptOf(c.kind, "release"), proxy.Pass, proxy.EveryTime)
			owner := holdfast.NewOwner(context.Background())
			sent := time.Now()
			enters := kit.GoLock(owner, c.mine.Lock)
			c.rule.Wait(c, 1)
			require.NoError(c, c.take(owner, c.mine.Lock)) // gets its turn when the first attempt has failed
			entered := kit.Within(c, lateNotAfter, enters, "the re-entry")
			require.NoError(c, entered.Err)
			c.holds = append(c.holds, entered.Hold)
			require.Equal(c, 2, c.count())
			require.NoError(c, c.giveBack())
			require.NoError(c, c.giveBack())
			returns.WaitAnswered(c, 3) // what it sent before is given back, too, at once and once more when no copy can come
			c.deliver()
			require.Less(c, time.Since(sent), lateNotAfter, "the first copy would refuse itself")
			require.Equal(c, 1, c.count())
			kit.SleepUntil(sent.Add(lateNotAfter))
		},
	},
	{"a lock script that was given up comes after its not-after", "acquire", proxy.Stall, 1, 15, func(c *cell) {
		sent := c.stalledTry()
		c.theyHold(func() { kit.SleepUntil(sent.Add(lateNotAfter + 5*time.Millisecond)) })
		c.deliver()
		require.Zero(c, c.count())
	}},
	{
		"a lock script that was given up comes just when it has been given back for the last time", "acquire",
		proxy.Stall, 1, 15, func(c *cell) {
			returns := c.proxy.On(kit.ScriptOf(c.kind, "release"), proxy.Pass, proxy.EveryTime)
			sent := c.stalledTry()
			kit.SleepUntil(sent.Add(lateNotAfter - 300*time.Millisecond))
			for before := returns.Answered(); returns.Answered() == before && time.Since(sent) < 2*lateNotAfter; {
				time.Sleep(50 * time.Microsecond)
			}
			c.deliver()
		},
	},
	{"an unlock script comes when the lock is free", "release", proxy.Stall, 1, 15, func(c *cell) {
		require.NoError(c, c.take(context.Background(), c.mine.Lock))
		require.NoError(c, c.giveBack())
		c.deliver()
	}},
	{"an unlock script comes when others hold", "release", proxy.Stall, 1, 15, func(c *cell) {
		require.NoError(c, c.take(context.Background(), c.mine.Lock))
		require.NoError(c, c.giveBack())
		c.theyHold(c.deliver)
	}},
	{"an unlock script comes when its sender holds again", "release", proxy.Stall, 1, 15, func(c *cell) {
		require.NoError(c, c.take(context.Background(), c.mine.Lock))
		require.NoError(c, c.giveBack())
		require.NoError(c, c.take(context.Background(), c.mine.Lock))
		c.deliver()
		require.Equal(c, 1, c.count())
	}},
	// On a shared lock the hold then has a number that the late script does not know.
	{"a nested unlock script comes when its sender has entered again", "release", proxy.Stall, 3, 15, func(c *cell) {
		require.NoError(c, c.take(context.Background(), c.mine.Lock))
		require.NoError(c, c.take(c.inner(), c.mine.Lock))
		require.NoError(c, c.giveBack())
		require.NoError(c, c.take(c.inner(), c.mine.Lock))
		if c.kind.Other == nil {
			require.Equal(c, 2, c.count())
		}
		c.deliver()
		c.believes()
	}},
	// A force is meant for the present holder, not for whoever holds the lock when the network is back.
	{"a forced unlock script that was given up comes when others hold", "force", proxy.Stall, 1, 5, func(c *cell) {
		h := kit.Lock(c, context.Background(), c.alike)
		c.tokens = append(c.tokens, h.Token())
		c.givesUp(func(ctx context.Context) error { return kit.ErrorOf(c.mine.ForceUnlock(ctx)) })
		kit.SleepUntil(time.Now().Add(lateNotAfter))
		require.NoError(c, h.Release())
		c.theyHold(c.deliver)
	}},
	// A replay changes no count (G3): the server must not go on counting a hold that was released.
	{"a nested lock script comes when its hold is released", "acquire", proxy.Stall, 2, 15, func(c *cell) {
		c.rule.Remove()
		require.NoError(c, c.take(context.Background(), c.mine.Lock))
		c.rule = c.proxy.On(kit.ScriptOf(c.kind, "acquire"), proxy.Stall, proxy.First)
		sent := c.stalledTake(c.inner(), c.mine.Lock)
		require.NoError(c, c.giveBack())
		c.deliver()
		kit.SleepUntil(sent.Add(lateNotAfter))
		kit.Await(c, "the count that is true", func() bool { return c.count() == 1 })
	}},
}

// A telling connection reports when its client closes it.
type telling struct {
	net.Conn
	closed chan<- struct{}
}

func (c *telling) Close() error {
	err := c.Conn.Close()
	c.closed <- struct{}{}
	return err
}

// A server's clock may run 1 % slower than the session's, and the session may have heard of it long ago. A copy is not
// executed when it has given back for the last time what the call may have taken.
func TestAServersClockThatIsSlowExecutesNoCopyLater(t *testing.T) {
	t.Parallel()
	srv := redistest.StartWithClock(t)
	kit.LoadScripts(t, srv)
	p := proxy.Start(t, srv.Addr())
	s := kit.Open(t, p.Addr(), nil)
	l := rlock.New(s, "x", nil)
	require.NoError(t, kit.Lock(t, t.Context(), l).Release()) // now the server's clock is known
	(*session.Session)(s).Skip(100 * time.Second)
	if !srv.SetClock(99 * time.Second) {
		t.Skip("the server's clock cannot be set here")
	}
	var first []string
	acquires, releases := kit.ScriptNamed("rlock_acquire"), kit.ScriptNamed("rlock_release")
	lost := p.On(func(command []string) bool {
		is := acquires(command)
		if is && first == nil {
			first = command
		}
		return is
	}, proxy.ResetBefore, proxy.First)
	back := p.On(releases, proxy.Pass, proxy.EveryTime)
	h := kit.Lock(t, t.Context(), l) // by a second attempt
	lost.Wait(t, 1)
	require.NoError(t, h.Release())
	back.WaitAnswered(t, 2) // once more, because of the first
	srv.Do(t, first...)
	require.Empty(t, srv.Keyspace(t))
}

// The server behind a new connection may be another one, whose clock is behind. An acquisition must then not carry a
// not-after from the former server's clock, or it could be executed much too late.
func TestTheClockOfAServerIsForgottenWithItsConnection(t *testing.T) {
	t.Parallel()
	for name, looks := range map[string]bool{"by the call that connects": false, "by those after it": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			p := proxy.Start(t, srv.Addr())
			closed := make(chan struct{}, 100)
			opt := rueidis.ClientOption{InitAddress: []string{p.Addr()}}
			opt.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
				conn, err := d.DialContext(ctx, "tcp", addr)
				return &telling{conn, closed}, err
			}
			s := kit.OpenWith(t, opt, &holdfast.Options{Lease: lateLease})
			acquire := kit.ScriptOf(kit.KindOf("rlock"), "acquire")
			ahead := time.Now().Add(time.Hour).UnixMilli()
			granted := p.On(acquire, proxy.Answer(fmt.Sprintf("*3\r\n:1\r\n:%d\r\n:0", ahead)), proxy.First)
			notAfter := make(chan int64, 100)
			p.On(func(command []string) bool {
				if !acquire(command) {
					return false
				}
				n, err := strconv.ParseInt(command[5], 10, 64) // behind the owner
				assert.NoError(t, err)
				notAfter <- n
				return true
			}, proxy.Pass, proxy.EveryTime)

			kit.Lock(t, t.Context(), rlock.New(s, "former", &rlock.Options{FixedLease: time.Minute}))
			granted.Remove()
			<-notAfter // the server's clock was not known yet
			kit.Lock(t, t.Context(), rlock.New(s, "known", &rlock.Options{FixedLease: time.Minute}))
			require.NotEmpty(t, notAfter)
			for len(notAfter) > 0 {
				require.Greater(t, <-notAfter, ahead, "the session believes the former server")
			}
			for len(closed) > 0 {
				<-closed
			}
			p.CutAll()
			kit.Within(t, 5*time.Second, closed, "the end of the connection")
			if looks {
				_, err := rlock.New(s, "other", nil).Locked(t.Context())
				require.NoError(t, err)
			}
			kit.Lock(t, t.Context(), rlock.New(s, "later", &rlock.Options{FixedLease: lateLease}))
			require.NotEmpty(t, notAfter)
			for len(notAfter) > 0 {
				require.LessOrEqual(t, <-notAfter, time.Now().Add(lateNotAfter).UnixMilli())
			}
		})
	}
}
