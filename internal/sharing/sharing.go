// Package sharing gives rueidis' client contexts that a shared connection can bear, and knows how the client uses its
// connections.
//
// A connection begins direct: a lone caller writes its call and reads the reply itself, which costs half as much as to
// hand it to the two goroutines of a pipelined connection. It turns pipelined, for good, when two calls meet, or with a
// call whose context can end. Direct, the client would set a context's deadline on the connection, and break it for
// everybody when one call is late. So the client never sees a deadline, and a call of the session's own accord, such as
// a release or a renewal, gets no end of its context either: it ends with the connection, which is given up in time
// when it is silent.
package sharing

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// Directs counts the connections that are direct.
type Directs struct{ n atomic.Int64 }

// A Direct is one of them.
type Direct struct {
	of   *Directs
	over atomic.Bool
}

// Begin counts a connection.
func (d *Directs) Begin() *Direct {
	d.n.Add(1)
	return &Direct{of: d}
}

// End says that the connection turns pipelined, or is closed. More than the first time makes no difference.
func (d *Direct) End() {
	if d.over.CompareAndSwap(false, true) {
		d.of.n.Add(-1)
	}
}

// Ended reports whether End was called.
func (d *Direct) Ended() bool { return d.over.Load() }

// A client is rueidis' for calls that share its connections.
type client struct {
	rueidis.Client
	directs *Directs
}

// Client returns c for calls that share its connections. directs are its direct ones; nil: that is not known, or a
// direct call may last for longer than one of the session's own accord.
func Client(c rueidis.Client, directs *Directs) rueidis.Client {
	if c.Mode() == rueidis.ClientModeCluster {
		directs = nil // nobody knows whose connection a call takes
	}
	return &client{c, directs}
}

func (c *client) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	return c.Client.Do(c.bearable(ctx), command)
}

func (c *client) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	return c.Client.DoMulti(c.bearable(ctx), commands...)
}

// Nodes shares the connections to each node, too.
func (c *client) Nodes() map[string]rueidis.Client {
	nodes := c.Client.Nodes()
	for addr, node := range nodes {
		nodes[addr] = &client{node, nil}
	}
	return nodes
}

// Bearable is c itself, and ctx as it bears it: with less on the stack than a call of [Client]'s.
func Bearable(ctx context.Context, c rueidis.Client) (rueidis.Client, context.Context) {
	if s, ok := c.(*client); ok {
		return s.Client, s.bearable(ctx)
	}
	return c, ctx
}

func (c *client) bearable(ctx context.Context) context.Context {
	switch {
	case !Calls(ctx): // so that what is made for the call is not taken for a dedicated connection
		return own
	case ctx.Done() == nil:
		return ctx
	}
	if AnyDirect(c) && ctx.Err() == nil {
		ctx = unending(ctx)
	}
	return Dateless(ctx)
}

// Calls reports whether ctx may be that of a call on a shared connection. The client makes a dedicated one under none.
func Calls(ctx context.Context) bool { return ctx != context.Background() }

type apartKey struct{}

// Apart is ctx for a call that blocks its connection, as the client bears it. The client makes a dedicated one.
func Apart(ctx context.Context) context.Context {
	return Dateless(context.WithValue(ctx, apartKey{}, true))
}

// IsApart reports whether ctx is one of [Apart].
func IsApart(ctx context.Context) bool { return ctx.Value(apartKey{}) != nil }

// AnyDirect reports whether a connection of c may be direct.
func AnyDirect(c rueidis.Client) bool {
	s, ok := c.(*client)
	return ok && s.directs != nil && s.directs.n.Load() > 0
}

// Dateless is ctx as the client bears it: it ends when ctx does, and does not say so before.
func Dateless(ctx context.Context) context.Context {
	if _, ok := ctx.Deadline(); ok {
		return dateless{ctx}
	}
	return ctx
}

type dateless struct{ context.Context } //nolint:containedctx // what it is for

func (dateless) Deadline() (deadline time.Time, ok bool) { return deadline, false }

type ownKey struct{}

var own = context.WithValue(context.Background(), ownKey{}, true)

// Own is the parent of the contexts of calls that the session makes on its own. They end no sooner than a direct call
// to a silent server does.
func Own() context.Context { return own }

// Owned is the parent of the contexts of other calls that need not end sooner: it has the values of ctx, and no end.
func Owned(ctx context.Context) context.Context {
	return context.WithValue(context.WithoutCancel(ctx), ownKey{}, true)
}

// Unending is ctx for a call on c that its caller may leave behind. It has no end if it derives from Own.
func Unending(ctx context.Context, c rueidis.Client) context.Context {
	if s, ok := c.(*client); ok && s.directs != nil {
		return unending(ctx)
	}
	return ctx
}

func unending(ctx context.Context) context.Context {
	if ctx.Value(ownKey{}) != nil {
		return own
	}
	return ctx
}
