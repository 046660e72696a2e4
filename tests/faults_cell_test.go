package tests

import (
	"cmp"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// orders is the lock that faults are about.
const orders = "orders"

// A cell is one try of one operation under one fault: two sessions on a server of their own, the first of them
// through a proxy that makes its commands fail.
type cell struct {
	*testing.T
	kind    kind
	fault   fault
	lease   time.Duration // of the victim
	srv     *redistest.Server
	monitor *monitor
	proxy   *proxy.Proxy
	rule    *proxy.Rule // the fault; nil before it

	victim *holdfast.Session
	mine   locker // the victim's
	theirs locker // of a session that nothing happens to: what the victim's lock excludes
	alike  locker // of that session: the same as the victim's

	holds  []*holdfast.Hold // the victim's, outermost first
	closed bool             // the victim is
	tokens []int64          // of outermost holds, in the order in which they were granted
}

// building lets few cells start at once: what they then wait for costs nothing, but starting does.
var building = make(chan struct{}, 2)

func newCell(t *testing.T, k kind, f fault, lease, fixed time.Duration) *cell {
	building <- struct{}{}
	defer func() { <-building }()
	srv := redistest.Start(t)
	p := proxy.Start(t, srv.Addr())
	loadScripts(t, srv)
	c := &cell{T: t, kind: k, fault: f, lease: lease, srv: srv, proxy: p, monitor: startMonitor(t, srv)}
	c.victim = open(t, p.Addr(), &holdfast.Options{Lease: lease})
	c.mine = k.make(c.victim, orders, fixed)
	other := open(t, srv.Addr(), nil)
	c.theirs, c.alike = k.rival(other, orders, 0), k.make(other, orders, 0)
	// A first acquisition teaches the victim the server's clock, so that from now on one is one command.
	require.NoError(t, c.take(t.Context(), c.mine.Lock))
	require.NoError(t, c.giveBack())
	return c
}

// scriptOf matches the runs of a script of the cell's kind of lock, or of the one that all kinds share.
func scriptOf(k kind, verb string) proxy.Match {
	words := strings.Fields(cmp.Or(k.scripts, k.name))
	names := []string{words[0] + "_" + verb, "lock_" + verb}
	if len(words) > 1 {
		names = append([]string{names[0] + "_" + words[1]}, names...)
	}
	for _, name := range names {
		if slices.Contains(lua.Names(), name) {
			return scriptNamed(name)
		}
	}
	panic("no script of " + k.name + " for " + verb)
}

// loadScripts has a server know all scripts, so that one run is one command.
func loadScripts(t testing.TB, srv *redistest.Server) {
	t.Helper()
	for _, name := range lua.Names() {
		srv.Do(t, "SCRIPT", "LOAD", lua.Source(name))
	}
}

// scriptNamed matches the runs of a script.
func scriptNamed(name string) proxy.Match {
	sum := sha1.Sum([]byte(lua.Source(name)))
	return proxy.Script(hex.EncodeToString(sum[:]))
}

// take takes the lock for the victim. After an error there must be no hold, and without one there must.
func (c *cell) take(ctx context.Context, take func(context.Context) (*holdfast.Hold, error)) error {
	c.Helper()
	h, err := take(ctx)
	require.Equal(c, err == nil, h != nil)
	if err != nil {
		return err
	}
	require.NoError(c, h.Err())
	if len(c.holds) == 0 {
		c.tokens = append(c.tokens, h.Token())
	} else {
		require.Equal(c, c.holds[0].ID(), h.ID())
		require.Equal(c, c.holds[0].Token(), h.Token())
	}
	c.holds = append(c.holds, h)
	return nil
}

// giveBack releases the victim's youngest hold.
func (c *cell) giveBack() error {
	last := len(c.holds) - 1
	h := c.holds[last]
	c.holds = c.holds[:last]
	err := h.Release()
	require.ErrorIs(c, h.Err(), holdfast.ErrNotHeld)
	return err
}

// inner is a context that re-enters the victim's outermost hold.
func (c *cell) inner() context.Context { return c.holds[0].Context(context.Background()) }

// count is the hold count that the server has for the victim, 0 if it has none.
func (c *cell) count() int {
	c.Helper()
	if c.kind.permits {
		return int(c.srv.Int(c, "ZCOUNT", wire.PermitsKey(orders), strconv.FormatInt(time.Now().UnixMilli(), 10), "+inf"))
	}
	if c.kind.oneString {
		holder, err := c.srv.Try("GET", orders)
		require.NoError(c, err)
		if token, _ := holder.(string); strings.HasPrefix(token, c.victim.ID()) {
			return 1
		}
		return 0
	}
	fields, sum := c.srv.Strs(c, "HGETALL", orders), 0
	for i := 0; i < len(fields); i += 2 {
		if strings.HasPrefix(fields[i], c.victim.ID()) {
			count, err := strconv.Atoi(fields[i+1])
			require.NoError(c, err)
			sum += count
		}
	}
	return sum
}

// deliver has what is stalled reach the server, and waits until it has been run.
func (c *cell) deliver() {
	c.Helper()
	caught := c.rule.Count()
	c.rule.Release()
	if c.fault == stalled {
		c.rule.WaitAnswered(c, caught)
	}
}

// agrees waits until the server has what the victim believes in: a hold count, or nothing of the victim's. The holds of
// a shared lock are numbered above those that a release knows of whose copies may still come, so there may be gaps.
func (c *cell) agrees() {
	c.Helper()
	if c.closed {
		return
	}
	await(c, "the hold count that the victim believes in", func() bool {
		count := c.count()
		if c.kind.other != nil && len(c.holds) > 0 {
			return count >= len(c.holds)
		}
		return count == len(c.holds)
	})
}

// believes checks that the victim's holds are held, and that nobody else can have the lock.
func (c *cell) believes() {
	c.Helper()
	for _, h := range c.holds {
		require.NoError(c, h.Err(), "a hold that was lost too early")
	}
	if len(c.holds) > 0 {
		_, err := c.theirs.TryLock(context.Background())
		require.ErrorIs(c, err, holdfast.ErrBusy)
		for _, h := range c.holds {
			require.NoError(c, h.Err(), "a hold that was lost too early")
		}
	}
}

// theyTakeIt checks that the lock is free for others within a time, and takes and releases it.
func (c *cell) theyTakeIt(within time.Duration) {
	c.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	h, err := c.theirs.Lock(ctx)
	require.NoError(c, err, "the lock is not free after %v", within)
	c.tokens = append(c.tokens, h.Token())
	require.NoError(c, h.Release())
}

// settled waits until the server has nothing left but the last tokens, if the kind issues any.
func (c *cell) settled() {
	c.Helper()
	await(c, "an empty server", func() bool { return len(c.kind.free(c.srv.Keyspace(c))) == 0 })
}

// tokensIncrease checks that every outermost hold of a fenced kind had a higher token than those before.
func (c *cell) tokensIncrease() {
	c.Helper()
	for i, token := range c.tokens {
		switch {
		case !c.kind.fenced:
			require.Zero(c, token)
		case i > 0:
			require.Greater(c, token, c.tokens[i-1])
		}
	}
}

// classes are the errors that a caller may tell apart, by the words of the tables below.
var classes = []struct {
	name string
	err  error
}{
	{"busy", holdfast.ErrBusy},
	{"not held", holdfast.ErrNotHeld},
	{"lost", holdfast.ErrLost},
	{"already held", holdfast.ErrAlreadyHeld},
	{"closed", holdfast.ErrClosed},
	{"unknown", holdfast.ErrUnknown},
	{"deadline", context.DeadlineExceeded},
	{"canceled", context.Canceled},
}

// classOf names everything that an error matches: "done" for nil, "unknown deadline" for both.
func classOf(err error) string {
	if err == nil {
		return "done"
	}
	var names []string
	for _, c := range classes {
		if errors.Is(err, c.err) {
			names = append(names, c.name)
		}
	}
	if names == nil {
		return "other: " + err.Error()
	}
	return strings.Join(names, " ")
}

// inParallel runs a subtest for each item, at most so many at a time. Most of them wait for leases to pass, so more
// than the processors would have run at once is right.
func inParallel[T any](t *testing.T, atOnce int, items []T, name func(T) string, test func(*testing.T, T)) {
	queue := make(chan T)
	var wg sync.WaitGroup
	for range atOnce {
		wg.Go(func() {
			for item := range queue {
				t.Run(name(item), func(t *testing.T) { test(t, item) })
			}
		})
	}
	for _, item := range items {
		queue <- item
	}
	close(queue)
	wg.Wait()
}
