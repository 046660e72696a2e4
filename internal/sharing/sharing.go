// Package sharing gives rueidis' client contexts that a shared connection can bear, and knows how the client uses its
// connections.
//
// A connection begins direct: a lone caller writes its call and reads the reply itself, which costs half as much as to
// hand it to the two goroutines of a pipelined connection. It turns pipelined, for good, when two calls meet. Direct,
// the client would set a context's deadline on the connection, and break it for everybody when one call is late; and it
// does not call directly under a context that can end and has no deadline. So it sees neither: the connection itself
// looks after the context of a script that is under way, see [Direct.Caller] and [Ended]. A call of the session's own
// accord, such as a release or a renewal, gets no end of its context: it ends with the connection, which is given up in
// time when it is silent.
package sharing

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// Directs counts the connections that are direct.
type Directs struct {
	n     atomic.Int64
	heeds atomic.Int64 // how many of them heed a context

	mu   sync.Mutex
	next context.Context //nolint:containedctx // of the call that is about to be direct; guarded by mu
}

// A Direct is one of them.
type Direct struct {
	of    *Directs
	heeds bool
	over  atomic.Bool
}

// Begin counts a connection. If it heeds contexts, it asks for that of each call, see [Direct.Caller].
//
//nolint:revive // heeds is a fact about the connection, not a switch
func (d *Directs) Begin(heeds bool) *Direct {
	d.n.Add(1)
	if heeds {
		d.heeds.Add(1)
	}
	return &Direct{of: d, heeds: heeds}
}

// End says that the connection turns pipelined, or is closed. More than the first time makes no difference.
func (d *Direct) End() {
	if d.over.CompareAndSwap(false, true) {
		d.of.n.Add(-1)
		if d.heeds {
			d.of.heeds.Add(-1)
		}
	}
}

// Ended reports whether End was called.
func (d *Direct) Ended() bool { return d.over.Load() }

// Heeds reports whether the connection heeds contexts.
func (d *Direct) Heeds() bool { return d.heeds }

// Caller returns the context of the call that is about to be direct, once; nil: the call ends with the connection. It
// is the call's only if that runs a script.
func (d *Direct) Caller() context.Context {
	if d.Ended() { // the call is on another connection
		return nil
	}
	d.of.mu.Lock()
	defer d.of.mu.Unlock()
	next := d.of.next
	d.of.next = nil
	if !d.heeds {
		return nil
	}
	return next
}

// watched is the context of a script, as a client bears it that may call directly. The client asks a direct call for
// its deadline just before it sets that of the connection; and, without a direct call, when it connects: then the
// greeting takes the context, for which it is not meant, see [Direct.Caller]. A call that has to queue still ends with
// the context.
type watched struct {
	context.Context //nolint:containedctx // what it is for

	of   *Directs
	kept bool // perhaps, by whoever dials
}

// never is a deadline after all that the client sets by itself.
var never = time.Unix(1<<40, 0)

// Deadline keeps the client from setting an earlier one on the connection, or from leaving the direct path.
func (w *watched) Deadline() (time.Time, bool) {
	if w.of.heeds.Load() == 0 {
		return time.Time{}, false
	}
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	w.of.next = w.Context
	return never, true
}

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
	if _, ok := ctx.(*watched); !ok {
		ctx = c.bearable(ctx)
	}
	return c.Client.Do(ctx, command)
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

// Bearable is c itself, and ctx of a script as it bears it: with less on the stack than a call of [Client]'s.
func Bearable(ctx context.Context, c rueidis.Client) (rueidis.Client, context.Context) {
	s, ok := c.(*client)
	switch {
	case !ok:
		return c, ctx
	case ctx.Done() != nil && AnyDirect(c) && ctx.Err() == nil:
		return s.Client, s.watch(ctx)
	}
	return s.Client, s.bearable(ctx)
}

// watch is ctx of a script that may be direct.
func (c *client) watch(ctx context.Context) context.Context {
	if ctx = unending(ctx); ctx == own {
		return own
	}
	w := spare.Get().(*watched)
	w.Context, w.of = ctx, c.directs
	return w
}

var spare = sync.Pool{New: func() any { return new(watched) }}

// Unwatch gives back a context of [Bearable]'s when the call has returned.
func Unwatch(ctx context.Context) {
	if w, ok := ctx.(*watched); ok && !w.kept {
		*w = watched{}
		spare.Put(w)
	}
}

// Dialling is ctx of a call for which the client connects: the dialer may ask for its deadline, and calls nothing.
func Dialling(ctx context.Context) context.Context {
	if w, ok := ctx.(*watched); ok {
		w.kept = true
	}
	return Dateless(unwatched(ctx))
}

func unwatched(ctx context.Context) context.Context {
	if w, ok := ctx.(*watched); ok {
		return w.Context
	}
	return ctx
}

func (c *client) bearable(ctx context.Context) context.Context {
	ctx = unwatched(ctx) // a batch under a context that can end is not direct
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

// Aside is ctx of scripts that their caller may leave behind. The connection may still have to be made, and is direct.
func Aside(ctx context.Context, c rueidis.Client) context.Context {
	if s, ok := c.(*client); ok && s.directs != nil && ctx.Done() != nil {
		return s.watch(ctx)
	}
	return ctx
}

func unending(ctx context.Context) context.Context {
	if ctx.Value(ownKey{}) != nil {
		return own
	}
	return ctx
}
