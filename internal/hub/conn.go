package hub

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// Delays between attempts to connect.
const (
	firstDelay = 5 * time.Millisecond
	lastDelay  = time.Second
)

const retireAfter = time.Minute // with nothing to do: the node may have gone

var (
	errNoNode   = errors.New("no such master in the cluster")
	errHandedOn = errors.New("the node has a connection already")
	errWorn     = errors.New("too much of the connection is unwanted")
	errReplica  = errors.New("the node has become a replica, whose listeners nobody counts")
	errFormer   = errors.New("the client does not know the server any more")
)

// A master that was down takes itself for one until it hears that another has taken over. So whether it still is one
// is asked after the first of these delays, and twice as long after each answer until the last.
const (
	firstRoleCheck = 500 * time.Millisecond
	lastRoleCheck  = time.Minute
)

// A conn keeps one connection subscribed to the channels that are routed to it. Its
// goroutine is the only one that writes to the connection.
type conn struct {
	hub *Hub

	// guarded by hub.mu; addr is written by the goroutine alone
	addr string                // of a cluster's node; "" for wherever the client connects: see server
	todo map[*channel]struct{} // whose subscription may have to begin, or is not wanted any more
	life int                   // connections that were lost or replaced
	last map[*channel]struct{} // channels that the connection being replaced still hears, and the next one not yet
	// outdated says that the present connection is to be replaced, since it may lead to the wrong server by now.
	outdated bool
	// apart says that the one being replaced may lead elsewhere than the next one, where messages come at other times.
	apart bool

	// untold says that the last one has broken before anything was subscribed: others hear of that when something is.
	untold atomic.Bool

	server string // where it leads, as far as the client says; the goroutine's alone

	kick chan struct{} // todo is not empty, or last is
}

func newConn(h *Hub, addr string) *conn {
	return &conn{
		hub: h, addr: addr, todo: make(map[*channel]struct{}), last: make(map[*channel]struct{}),
		kick: make(chan struct{}, 1),
	}
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
		stood := c.lost()
		if errors.Is(err, errWorn) {
			continue
		}
		if time.Since(began) > lastDelay { // they stood meanwhile
			delay, level = firstDelay, slog.LevelWarn
		}
		// Nothing waits for the user's handler, which may block, or end its goroutine.
		go c.hub.log.Log(ctx, level, "holdfast: subscriptions interrupted", slog.String("server", c.server),
			slog.Any("error", err))
		tell := stood || level == slog.LevelWarn
		if c.untold.Store(!tell); tell && c.hub.Lost != nil {
			c.hub.Lost()
		}
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
	delete(h.conns, c.addr)
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
		case !ch.wanted():
			c.drop(ch)
		}
	}
	return len(c.todo) > 0
}

// drop forgets a channel that is neither wanted nor subscribed. hub.mu is held.
func (c *conn) drop(ch *channel) {
	delete(c.todo, ch)
	c.uncover(ch)
	ch.conn = nil
	delete(c.hub.channels, ch.name)
}

// lost records that no channel of this connection is subscribed any longer, and reports whether any was. A channel
// whose slot is not known to be on this node is asked for elsewhere.
func (c *conn) lost() (stood bool) {
	h := c.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	c.life++
	stood = len(c.last) > 0
	clear(c.last)
	for _, ch := range h.channels {
		if ch.conn == c {
			stood = stood || ch.state == up
			h.reroute(ch)
		}
	}
	return stood
}

// isOutdated reports whether the connection is to be replaced, once.
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

// untilBroken is a context for calls on a link: it has ended, for whoever asks, when that is broken. With the old
// protocol, the client would repeat them without end.
type untilBroken struct {
	context.Context //nolint:containedctx // what it is for
	broken          <-chan error
}

func (u untilBroken) Err() error {
	if len(u.broken) > 0 {
		return context.Canceled
	}
	return u.Context.Err()
}

// link connects, for that life of c.
func (c *conn) link(ctx context.Context, life int) (*link, error) {
	node, err := c.node(ctx)
	if err != nil {
		return nil, err
	}
	c.hub.linking.Store(c.server, nil)
	defer c.hub.linking.Delete(c.server)
	client, _ := node.Dedicate()
	return &link{client, client.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage:      func(m rueidis.PubSubMessage) { c.hub.heard(m.Channel, m.Message) },
		OnSubscription: func(s rueidis.PubSubSubscription) { c.hub.changed(c, life, s) },
	})}, nil
}

// serve keeps a connection and works on it until it breaks. One that is worn is replaced: it goes when the
// next one has all that is wanted, so nothing is missed and nobody has to look.
func (c *conn) serve(ctx context.Context) error {
	c.isOutdated() // not what is made now
	now, err := c.link(ctx, c.lives())
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
	renew := func(apart bool) error {
		from := c.server
		next, err := c.link(ctx, c.lives()+1)
		if err != nil {
			return err
		}
		if !apart && len(next.broken) > 0 { // there is no other at the moment, and this one does no harm
			next.Close()
			c.server = from
			return nil
		}
		heard = c.replace()
		if apart || c.server != from {
			c.part()
			heard = "" // whoever listens looks, so the last one need not be heard to its end
		}
		last, now, began = now, next, time.Now()
		return nil
	}
	var look, check <-chan time.Time // nil while nothing is unwanted, or it makes no difference
	delay := firstRoleCheck
	if c.hub.sharded || c.hub.client.Mode() != rueidis.ClientModeStandalone {
		check = time.After(delay)
	}
	for {
		begin, unwanted := c.next()
		if err := c.subscribeAll(untilBroken{ctx, now.broken}, now, begin); err != nil {
			select {
			case why := <-now.broken:
				return cmp.Or(why, err) // that may say no more than that the context has ended
			default:
				return err
			}
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
			switch {
			case !c.isOutdated():
			case last != nil || c.wear(0) == done:
				return errWorn
			default:
				if err := renew(true); err != nil {
					return err
				}
			}
		case <-look:
			look = nil
			switch wear := c.wear(time.Since(began)); {
			case wear == done:
				return errWorn
			case wear == worn && last == nil:
				if err := renew(false); err != nil {
					return err
				}
				if last == nil {
					look = time.After(linger)
				}
			case wear != fresh:
				look = time.After(linger)
			}
		case <-check:
			check = nil
			switch {
			case !c.hub.sharded && c.isFormer():
				return errFormer
			case !c.hub.sharded: // the client may learn of others at any time
			case c.isReplica(ctx):
				return errReplica
			default:
				delay *= 2
			}
			if delay < lastRoleCheck {
				check = time.After(delay)
			}
		case err := <-now.broken:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
