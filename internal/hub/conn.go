package hub

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/cluster"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// Delays between attempts to connect.
const (
	firstDelay = 5 * time.Millisecond
	lastDelay  = time.Second
)

var (
	errNoNode   = errors.New("no such node in the cluster")
	errHandedOn = errors.New("the node has a connection already")
	errWorn     = errors.New("too much of the connection is unwanted")
)

// A channel that nobody listens to any more stays subscribed, for whoever listens next, until
// the connection is worn and another one takes its place. UNSUBSCRIBE is never sent: while a
// slow script runs, the server's answer to it makes the client panic.
const (
	linger    = time.Second      // of a connection of which nothing is wanted, and between looks
	wornBy    = 10_000           // unwanted channels, if no more are wanted, all of which have to move
	wornAfter = 30 * time.Second // if any channel is unwanted

	retireAfter = time.Minute // with nothing to do: the node may have gone
)

// A conn keeps one connection subscribed to the channels that are routed to it. Its
// goroutine is the only one that writes to the connection.
type conn struct {
	hub *Hub

	// guarded by hub.mu; addr is written by the goroutine alone
	addr string                // of a cluster's node; "" for wherever the client connects: see server
	todo map[*channel]struct{} // whose subscription may have to begin, or is not wanted any more
	life int                   // connections that were lost or replaced
	last map[*channel]struct{} // what the one that is being replaced still hears, and the next one not yet
	// outdated says that the present connection is to be given up.
	outdated bool

	server string // where it leads, as far as the client tells; the goroutine's alone

	kick chan struct{} // todo is not empty, or last is
}

func newConn(h *Hub, addr string) *conn {
	return &conn{hub: h, addr: addr, todo: make(map[*channel]struct{}), last: make(map[*channel]struct{}), kick: make(chan struct{}, 1)}
}

// ask makes the goroutine look at the channel. hub.mu is held.
func (c *conn) ask(ch *channel) {
	c.todo[ch] = struct{}{}
	c.wake()
}

func (c *conn) wake() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

// covers reports whether the connection that is being replaced hears the channel. hub.mu is held.
func (c *conn) covers(ch *channel) bool {
	_, covered := c.last[ch]
	return covered
}

// uncover makes the channel depend on the next connection alone, and reports whether that is new. hub.mu is held.
func (c *conn) uncover(ch *channel) bool {
	if !c.covers(ch) {
		return false
	}
	if delete(c.last, ch); len(c.last) == 0 {
		c.wake()
	}
	return true
}

// run keeps a connection while anything is wanted of it.
func (c *conn) run(ctx context.Context) {
	delay, level := firstDelay, slog.LevelWarn
	for ctx.Err() == nil {
		if !c.wanted() {
			select {
			case <-c.kick:
			case <-time.After(retireAfter):
				if c.retire() {
					return
				}
			case <-ctx.Done():
				return
			}
			continue
		}
		began := time.Now()
		err := c.serve(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errHandedOn):
			continue
		}
		c.lost()
		if errors.Is(err, errWorn) {
			continue
		}
		if time.Since(began) > lastDelay { // they stood meanwhile
			delay, level = firstDelay, slog.LevelWarn
		}
		c.hub.log.Log(ctx, level, "holdfast: subscriptions interrupted", slog.String("server", c.server), slog.Any("error", err))
		level = slog.LevelDebug // one warning is enough for one outage
		select {
		case <-time.After(delay/2 + rand.N(delay)):
		case <-ctx.Done():
			return
		}
		delay = min(2*delay, lastDelay)
	}
}

// retire takes c out of the hub, which makes another one when one is needed, unless a channel is routed to c.
func (c *conn) retire() bool {
	h := c.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, ch := range h.channels {
		if ch.conn == c {
			return false
		}
	}
	if h.conns[c.addr] == c {
		delete(h.conns, c.addr)
	}
	return true
}

// wanted forgets the channels that nobody listens to any more and reports whether any is left.
func (c *conn) wanted() bool {
	h := c.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	for ch := range c.todo {
		switch {
		case ch.conn != c: // routed elsewhere meanwhile
			delete(c.todo, ch)
		case len(ch.listeners) == 0:
			c.drop(ch)
		}
	}
	return len(c.todo) > 0
}

// drop forgets a channel that is neither wanted nor subscribed. hub.mu is held.
func (c *conn) drop(ch *channel) {
	delete(c.todo, ch)
	c.uncover(ch)
	ch.conn, ch.state = nil, idle
	if c.hub.channels[ch.name] == ch {
		delete(c.hub.channels, ch.name)
	}
}

// lost records that no channel of this connection is subscribed any longer. A channel whose slot is not known to be on
// this node is asked for elsewhere.
func (c *conn) lost() {
	h := c.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	c.life++
	clear(c.last)
	for _, ch := range h.channels {
		switch {
		case ch.conn != c:
		case h.owners[wire.Slot(ch.name)] != c.addr:
			h.reroute(ch)
		default:
			ch.state = idle
			c.ask(ch)
		}
	}
}

// isOutdated reports whether the connection is to be given up, once.
func (c *conn) isOutdated() (outdated bool) {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	outdated, c.outdated = c.outdated, false
	return outdated
}

func (c *conn) lives() int {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	return c.life
}

// A link is one connection of the client's.
type link struct {
	rueidis.DedicatedClient
	broken <-chan error
}

// link connects, in the present life of c.
func (c *conn) link(ctx context.Context) (*link, error) {
	node, err := c.node(ctx)
	if err != nil {
		return nil, err
	}
	client, _ := node.Dedicate()
	life := c.lives()
	return &link{client, client.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage:      func(m rueidis.PubSubMessage) { c.hub.heard(m.Channel) },
		OnSubscription: func(s rueidis.PubSubSubscription) { c.hub.changed(c, life, s) },
	})}, nil
}

// serve keeps a connection and works on it until it breaks. One that is worn is replaced: it goes when the
// next one has all that is wanted, so nothing is missed and nobody has to look.
func (c *conn) serve(ctx context.Context) error {
	c.isOutdated() // not what is made now
	now, err := c.link(ctx)
	if err != nil {
		return err
	}
	defer func() { now.Close() }()
	var last *link   // is being replaced
	var heard string // one of the channels that move from there; "": none does
	defer func() {
		if last != nil {
			last.Close()
		}
	}()
	began := time.Now()
	var look <-chan time.Time // nil while nothing is unwanted
	for {
		begin, unwanted := c.next()
		if err := c.subscribeAll(ctx, now, begin); err != nil {
			return err
		}
		if last != nil && c.allMoved() {
			if err := c.drain(ctx, last, heard); err != nil {
				return err
			}
			last.Close()
			last = nil
		}
		if unwanted && look == nil {
			look = time.After(linger)
		}
		select {
		case <-c.kick:
			if c.isOutdated() {
				return errWorn
			}
		case <-look:
			look = nil
			switch wear := c.wear(time.Since(began)); {
			case wear == done:
				return errWorn
			case wear == worn && last == nil:
				from := c.server
				heard = c.replace()
				next, err := c.link(ctx)
				if err != nil {
					return err
				}
				if c.server != from { // where messages may come earlier than here
					heard = c.missed()
				}
				last, now, began = now, next, time.Now()
			case wear != fresh:
				look = time.After(linger)
			}
		case err := <-now.broken:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// replace moves the wanted channels to the next connection and forgets the rest. The last connection goes on hearing
// the channels that it has, so nothing is missed meanwhile; replace returns one of them.
func (c *conn) replace() (heard string) {
	h := c.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	c.life++
	for _, ch := range h.channels {
		switch {
		case ch.conn != c:
		case len(ch.listeners) == 0:
			c.drop(ch)
		default:
			if ch.state == up {
				c.last[ch] = struct{}{}
				heard = ch.name
			}
			ch.state = idle
			c.ask(ch)
		}
	}
	return heard
}

// missed says that something may be missed all the same.
func (c *conn) missed() (heard string) {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	clear(c.last)
	return ""
}

// allMoved reports whether the connection that is being replaced has nothing any more that the next one has not.
func (c *conn) allMoved() bool {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	return len(c.last) == 0
}

// drain returns when everything has been heard that was published before the channel, and the others, moved. It
// subscribes once more: whatever the answer, it comes behind those messages. A PING might take another way.
func (c *conn) drain(ctx context.Context, last *link, heard string) error {
	if heard == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, linger)
	defer cancel()
	subscribe := last.B().Subscribe().Channel(heard).Build()
	if c.hub.sharded {
		subscribe = last.B().Ssubscribe().Channel(heard).Build()
	}
	err := last.Do(ctx, subscribe).Error()
	if _, answered := rueidis.IsRedisErr(err); answered {
		return nil
	}
	return err
}

// wear says how much unwanted a connection carries.
type wear uint8

const (
	fresh wear = iota // nothing
	used              // something: it is to be looked at again
	worn              // too much
	done              // nothing else
)

// wear returns how worn a connection of that age is.
func (c *conn) wear(age time.Duration) wear {
	h := c.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	wanted, unwanted := 0, 0
	for _, ch := range h.channels {
		switch {
		case ch.conn != c:
		case len(ch.listeners) > 0:
			wanted++
		default:
			unwanted++
		}
	}
	switch {
	case wanted == 0:
		return done
	case unwanted >= max(wornBy, wanted), unwanted > 0 && age >= wornAfter:
		return worn
	case unwanted > 0:
		return used
	}
	return fresh
}

// answerWithin bounds the search for a node that answers.
const answerWithin = 2 * time.Second

// node is the client to connect through. Any node of a cluster hears plain messages. Of
// sharded ones, whichever is asked for a slot that is not known yet names the right node; so
// it is one that answers.
func (c *conn) node(ctx context.Context) (rueidis.Client, error) {
	h := c.hub
	nodes := h.client.Nodes()
	c.server = c.addr
	if h.client.Mode() != rueidis.ClientModeCluster {
		if len(nodes) == 1 {
			for c.server = range nodes { // the only one
			}
		}
		return h.client, nil
	}
	if node, ok := nodes[c.addr]; ok {
		return node, nil
	}
	if c.addr != "" {
		c.reroute()
		return nil, errNoNode
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	addr, err := cluster.Answering(ctx, h.client, h.wg.Go)
	if err != nil {
		return nil, err
	}
	if h.sharded && !c.become(addr) {
		return nil, errHandedOn
	}
	if node, ok := nodes[addr]; ok {
		c.server = addr
		return node, nil
	}
	return nil, errNoNode
}

// become makes c, which has no address and so no subscriptions, the connection of a node. If
// the node has one, that one gets the channels, and become reports false.
func (c *conn) become(addr string) bool {
	h := c.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if other := h.conns[addr]; other != nil {
		for ch := range c.todo {
			ch.conn = other
			other.ask(ch)
		}
		clear(c.todo)
		return false
	}
	delete(h.conns, c.addr)
	c.addr = addr
	h.conns[addr] = c
	return true
}

// reroute gives the channels of a node that has gone to any other, which will name the right one.
func (c *conn) reroute() {
	h := c.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	for slot, addr := range h.owners {
		if addr == c.addr {
			delete(h.owners, slot)
		}
	}
	clear(c.todo)
	for _, ch := range h.channels {
		if ch.conn == c {
			h.reroute(ch)
		}
	}
}
