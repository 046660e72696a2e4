package faults

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A cell runs one operation under one fault. It has a server to itself and two sessions: the victim's commands go
// through a proxy that makes them fail.
type cell struct {
	*testing.T
	kind    kit.Kind
	fault   fault
	lease   time.Duration // the victim's
	srv     *redistest.Server
	monitor *kit.Monitor
	proxy   *proxy.Proxy
	rule    *proxy.Rule // the fault; nil until it is set

	victim *holdfast.Session
	mine   kit.Locker // the victim's lock
	theirs kit.Locker // the undisturbed session's: what the victim's lock excludes
	alike  kit.Locker // the undisturbed session's: the same kind as the victim's

	holds  []*holdfast.Hold // the victim's, outermost first
	closed bool             // the victim is closed
	tokens []int64          // of the outermost holds, in the order in which they were granted
}

// newCell makes a cell with a server of its own.
func newCell(t *testing.T, k kit.Kind, f fault, lease, fixed time.Duration) *cell {
	return newCellOn(t, kit.StartKnowing, k, f, lease, fixed)
}

// newCellOn makes a cell on a server that knows all scripts and that nobody else uses.
func newCellOn(t *testing.T, server func(t testing.TB) *redistest.Server, k kit.Kind, f fault,
	lease, fixed time.Duration,
) *cell {
	kit.Building <- struct{}{}
	defer func() { <-kit.Building }()
	srv := server(t)
	p := proxy.Start(t, srv.Addr())
	c := &cell{T: t, kind: k, fault: f, lease: lease, srv: srv, proxy: p, monitor: kit.StartMonitor(t, srv)}
	c.victim = kit.Open(t, p.Addr(), &holdfast.Options{Lease: lease})
	c.mine = k.Make(c.victim, kit.Orders, fixed)
	other := kit.Open(t, srv.Addr(), nil)
	c.theirs, c.alike = k.Rival(other, kit.Orders, 0), k.Make(other, kit.Orders, 0)
	// A first acquisition teaches the victim the server's clock, so that from now on an acquisition is a single
	// command. It forgets the clock with a connection, which it gives up where the machine stood still.
	for connections := 0; connections != p.Accepted(); {
		connections = p.Accepted()
		require.NoError(t, c.take(t.Context(), c.mine.Lock))
		if !c.returned() {
			c.agrees()
			connections = 0
		}
	}
	return c
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

// returned gives back the victim's youngest hold, which nothing disturbs, and reports whether the reply came in time.
func (c *cell) returned() bool {
	c.Helper()
	still := kit.Stillness()
	err := c.giveBack()
	require.True(c, err == nil || outOfTime(err, still), err)
	return err == nil
}

// inner returns a context that re-enters the victim's outermost hold.
func (c *cell) inner() context.Context { return c.holds[0].Context(context.Background()) }

// count returns the hold count that the server has for the victim; it is 0 if there is none.
func (c *cell) count() int {
	c.Helper()
	if c.kind.Permits {
		return int(c.srv.Int(c, "ZCOUNT", wire.PermitsKey(kit.Orders),
			strconv.FormatInt(time.Now().UnixMilli(), 10), "+inf"))
	}
	if c.kind.OneString {
		holder, err := c.srv.Try("GET", kit.Orders)
		require.NoError(c, err)
		if token, _ := holder.(string); strings.HasPrefix(token, c.victim.ID()) {
			return 1
		}
		return 0
	}
	fields, sum := c.srv.Strs(c, "HGETALL", kit.Orders), 0
	for i := 0; i < len(fields); i += 2 {
		if strings.HasPrefix(fields[i], c.victim.ID()) {
			count, err := strconv.Atoi(fields[i+1])
			require.NoError(c, err)
			sum += count
		}
	}
	return sum
}

// deliver lets stalled commands reach the server, and waits until they have been executed.
func (c *cell) deliver() {
	c.Helper()
	caught := c.rule.Count()
	c.rule.Release()
	if c.fault == stalled {
		c.rule.WaitAnswered(c, caught)
	}
}

// agrees waits until the server has what the victim believes: a hold count, or nothing of the victim's. The holds of
// a shared lock are numbered, and a new number is above those that a late copy of a release may know. So there may be
// gaps.
func (c *cell) agrees() {
	c.Helper()
	if c.closed {
		return
	}
	kit.Await(c, "the hold count that the victim believes in", func() bool {
		count := c.count()
		if c.kind.Other != nil && len(c.holds) > 0 {
			return count >= len(c.holds)
		}
		return count == len(c.holds)
	})
}

// believes checks that the victim's holds are held and that nobody else can get the lock.
func (c *cell) believes() {
	c.Helper()
	for _, h := range c.holds {
		require.NoError(c, h.Err(), "the hold was lost too early")
	}
	if len(c.holds) > 0 {
		_, err := c.theirs.TryLock(context.Background())
		require.ErrorIs(c, err, holdfast.ErrBusy)
		for _, h := range c.holds {
			require.NoError(c, h.Err(), "the hold was lost too early")
		}
	}
}

// theyTakeIt checks that others can take the lock within the given time, and releases it.
func (c *cell) theyTakeIt(within time.Duration) {
	c.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	h := kit.Granted(c, within, kit.GoLock(ctx, c.theirs.Lock), "the lock for others")
	c.tokens = append(c.tokens, h.Token())
	require.NoError(c, h.Release())
}

// settled waits until nothing is left on the server but the last tokens, if the kind issues any.
func (c *cell) settled() {
	c.Helper()
	kit.Await(c, "an empty server", func() bool { return len(c.kind.Free(c.srv.Keyspace(c))) == 0 })
}

// tokensIncrease checks that each outermost hold of a fenced kind had a higher token than those before it.
func (c *cell) tokensIncrease() {
	c.Helper()
	for i, token := range c.tokens {
		switch {
		case !c.kind.Fenced:
			require.Zero(c, token)
		case i > 0:
			require.Greater(c, token, c.tokens[i-1])
		}
	}
}
