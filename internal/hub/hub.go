// Package hub turns subscriptions into wake-ups. A session has one hub; it keeps one
// connection per server, whatever the number of channels, and no goroutine per channel.
//
// A wake-up is a hint (guarantee G5): it says that something may have changed on the channel. Four events wake
// listeners: a message, which they get; the confirmation of a subscription, so that a caller that first listens and
// then looks misses nothing; each re-subscription after a lost connection; and the end of a subscription by the server.
package hub

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/wire"
)

// A Hub listens for one session.
type Hub struct {
	client  rueidis.Client
	sharded bool
	log     *slog.Logger
	ctx     context.Context //nolint:containedctx // the life of the hub's goroutines
	cancel  context.CancelFunc
	wg      sync.WaitGroup

	// Lost is called when a connection has broken; nil: nobody is told. It is set before the first call.
	Lost func()

	linking sync.Map // the addresses to which a connection is being made

	mu       sync.Mutex // guards all fields below, and those that the connections say it guards
	channels map[string]*channel
	conns    map[string]*conn  // by node address; "" is any node
	owners   map[uint16]string // sharded: the node of a slot, as far as learned
	warned   time.Time         // of a refusal, the last time
	closed   bool
}

// A channel is what somebody listens to, or has listened to on the present connection. It is its first listener, too:
// most have no other.
type channel struct {
	name     string
	hub      *Hub
	conn     *conn    // which is to have the subscription; nil when the channel is forgotten
	hearer   Hearer   // the first; nil when that listens no more
	others   *another // of a list of all others, the last
	state    state
	refusals uint8 // since the subscription last stood, as far as they matter
	moves    uint8 // how often a server has named another one, since it last stood or was refused
}

// wanted reports whether anybody listens.
func (c *channel) wanted() bool { return c.hearer != nil || c.others != nil }

// heard reports whether messages come, by the connection's present life or still by the last one.
func (c *channel) heard() bool { return c.state == up || c.conn.covers(c) }

type state uint8

const (
	idle  state = iota // not subscribed
	asked              // SUBSCRIBE sent
	up                 // confirmed
)

// A Hearer gets the messages of a channel, from the goroutine that reads the connection, or "" if one may have been
// missed. It must not block, and may be called once more after its listener has been closed.
type Hearer interface{ Hear(message string) }

// function is a function that hears.
type function func(message string)

func (f function) Hear(message string) { f(message) }

// A Listener is one interest in a channel. Close it.
type Listener interface{ Close() }

// another is a listener of a channel besides the first.
type another struct {
	channel    *channel
	hearer     Hearer // nil when it has closed
	prev, next *another
}

// New makes a hub that subscribes through client, by SSUBSCRIBE at the node of each
// channel's slot if sharded. It opens no connection until somebody listens.
func New(client rueidis.Client, sharded bool, log *slog.Logger) *Hub {
	ctx, cancel := context.WithCancel(context.Background())
	return &Hub{
		client: client, sharded: sharded, log: log, ctx: ctx, cancel: cancel,
		channels: make(map[string]*channel), conns: make(map[string]*conn), owners: make(map[uint16]string),
	}
}

// Subscribed reports whether the server counts this session among the subscribers of the channel. It still does for a
// while after the last listener has left.
func (h *Hub) Subscribed(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.channels[name]
	return c != nil && c.heard()
}

// Listen is Hear of a function.
func (h *Hub) Listen(name string, hear func(message string)) Listener {
	return h.Hear(name, function(hear))
}

// Hear starts to wake the hearer for the channel, first when the subscription stands. It does not block. (What waits is
// a hearer itself, since a function would be 24 bytes more.)
func (h *Hub) Hear(name string, hearer Hearer) Listener {
	h.mu.Lock()
	c := h.channels[name]
	if c == nil {
		c = &channel{name: name, hub: h, conn: h.route(name), hearer: hearer}
		h.channels[name] = c
		c.conn.ask(c)
		h.mu.Unlock()
		return c
	}
	l := &another{channel: c, hearer: hearer, next: c.others}
	if l.next != nil {
		l.next.prev = l
	}
	c.others = l
	confirmed := c.heard()
	h.mu.Unlock()
	if confirmed {
		hearer.Hear("")
	}
	return l
}

// Close ends the first interest. The subscription ends some time after the last one has gone.
func (c *channel) Close() {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	if c.hearer != nil {
		c.hearer = nil
		c.left()
	}
}

// Close ends another interest.
func (l *another) Close() {
	c := l.channel
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	if l.hearer == nil {
		return
	}
	l.hearer = nil
	if l.next != nil {
		l.next.prev = l.prev
	}
	if l.prev != nil {
		l.prev.next = l.next
	} else {
		c.others = l.next
	}
	c.left()
}

// left has the connection look at a channel that nobody listens to any more. hub.mu is held.
func (c *channel) left() {
	if !c.wanted() {
		c.conn.ask(c)
	}
}

// Anew replaces all connections, because they may lead to the wrong servers by now. If they do not, nobody misses
// anything, and no server finds that nobody listens.
func (h *Hub) Anew() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.conns {
		c.outdated = true
		c.wake()
	}
}

// Linking reports whether a connection to a server is being made.
func (h *Hub) Linking(addr string) bool {
	_, linking := h.linking.Load(addr)
	return linking
}

// Close ends all subscriptions and connections and waits for the goroutines.
func (h *Hub) Close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.cancel()
	h.wg.Wait()
}

// route returns the connection that is to serve the channel. h.mu is held.
func (h *Hub) route(name string) *conn {
	addr := h.owners[wire.Slot(name)]
	c := h.conns[addr]
	if c == nil {
		c = newConn(h, addr)
		h.conns[addr] = c
		if !h.closed {
			h.wg.Go(func() { c.run(h.ctx) })
		}
	}
	return c
}

// moved routes the channel anew, to the node that the server named, or reports that nodes name each other.
func (h *Hub) moved(c *channel, addr string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.moves++; c.moves > manyMoves {
		return false
	}
	h.owners[wire.Slot(c.name)] = addr
	h.reroute(c)
	return true
}

// again asks for a channel that was refused, wherever its slot may be by now.
func (h *Hub) again(from *conn, c *channel) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.conn == from && c.state == idle {
		delete(h.owners, wire.Slot(c.name))
		h.reroute(c)
	}
}

// reroute subscribes to the channel wherever it belongs. h.mu is held.
func (h *Hub) reroute(c *channel) {
	c.state = idle
	from := c.conn
	if c.conn = h.route(c.name); c.conn != from {
		from.uncover(c) // what comes up elsewhere may have been missed
	}
	c.conn.ask(c)
}

// heard gives a message to the listeners of the channel.
func (h *Hub) heard(name, message string) {
	h.mu.Lock()
	c := h.channels[name]
	if c == nil {
		h.mu.Unlock()
		return
	}
	h.wakeAndUnlock(c, message)
}

// changed handles the server's confirmation of a subscription or of its end. life distinguishes the connections of
// from: a late confirmation of one that was lost says nothing.
func (h *Hub) changed(from *conn, life int, s rueidis.PubSubSubscription) {
	h.mu.Lock()
	c := h.channels[s.Channel]
	if c == nil || c.conn != from || from.life != life {
		h.mu.Unlock()
		return
	}
	if strings.HasSuffix(s.Kind, "unsubscribe") {
		if c.state != up { // the beginning of a new one is under way
			h.mu.Unlock()
			return
		}
		// The server ended it: the slot has moved, or somebody may no longer listen.
		delete(h.owners, wire.Slot(c.name))
		h.reroute(c)
	} else {
		if from.untold.Swap(false) && h.Lost != nil {
			defer h.Lost() // without h.mu
		}
		c.state, c.refusals, c.moves = up, 0, 0
		if h.sharded {
			h.owners[wire.Slot(c.name)] = from.addr
		}
		if from.uncover(c) && !from.apart { // nothing has been missed
			h.mu.Unlock()
			return
		}
	}
	h.wakeAndUnlock(c, "")
}

// wakeAndUnlock calls those who listen to a channel, without h.mu, which they may want.
func (h *Hub) wakeAndUnlock(c *channel, message string) {
	var few [4]Hearer
	all := few[:0]
	for l := c.others; l != nil; l = l.next {
		all = append(all, l.hearer)
	}
	if c.hearer != nil {
		all = append(all, c.hearer)
	}
	h.mu.Unlock()
	for _, hearer := range all {
		hearer.Hear(message)
	}
}
