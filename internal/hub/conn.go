package hub

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redis/rueidis"
)

// subscribeAtOnce is how many channels one SUBSCRIBE names.
const subscribeAtOnce = 500

// Delays between attempts to connect.
const (
	firstDelay = 5 * time.Millisecond
	lastDelay  = time.Second
)

var errNoNode = errors.New("no such node in the cluster")

// A conn keeps one connection subscribed to the channels that are routed to it. Its
// goroutine is the only one that writes to the connection, so that ends and beginnings
// of a channel's subscription reach the server in the order in which they were wanted.
type conn struct {
	hub  *Hub
	addr string // of a cluster's node; "" for wherever the client connects

	// guarded by hub.mu
	todo map[*channel]struct{} // whose subscription may have to begin or end

	kick chan struct{} // todo is not empty
}

func newConn(h *Hub, addr string) *conn {
	return &conn{hub: h, addr: addr, todo: make(map[*channel]struct{}), kick: make(chan struct{}, 1)}
}

// ask has the goroutine look at the channel. hub.mu is held.
func (c *conn) ask(ch *channel) {
	c.todo[ch] = struct{}{}
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

// run keeps a connection while anything is wanted of it.
func (c *conn) run(ctx context.Context) {
	delay := firstDelay
	for ctx.Err() == nil {
		if !c.wanted() {
			select {
			case <-c.kick:
				continue
			case <-ctx.Done():
				return
			}
		}
		began := time.Now()
		err := c.serve(ctx)
		if ctx.Err() != nil {
			return
		}
		c.lost()
		c.hub.log.Warn("holdfast: subscriptions interrupted", slog.String("server", c.addr), slog.Any("error", err))
		if time.Since(began) > lastDelay {
			delay = firstDelay
		}
		select {
		case <-time.After(delay/2 + rand.N(delay)):
		case <-ctx.Done():
			return
		}
		delay = min(2*delay, lastDelay)
	}
}

// wanted forgets the channels that nobody listens to any more and reports whether any is left.
func (c *conn) wanted() bool {
	h := c.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	for ch := range c.todo {
		if len(ch.listeners) == 0 {
			c.drop(ch)
		}
	}
	return len(c.todo) > 0
}

// drop forgets a channel that is neither wanted nor subscribed. hub.mu is held.
func (c *conn) drop(ch *channel) {
	delete(c.todo, ch)
	ch.conn, ch.state = nil, idle
	if c.hub.channels[ch.name] == ch {
		delete(c.hub.channels, ch.name)
	}
}

// lost notes that no channel of this connection is subscribed any longer.
func (c *conn) lost() {
	h := c.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, ch := range h.channels {
		if ch.conn == c {
			ch.state = idle
			c.ask(ch)
		}
	}
}

// serve makes one connection and works on it until it breaks.
func (c *conn) serve(ctx context.Context) error {
	node, err := c.node()
	if err != nil {
		return err
	}
	client, _ := node.Dedicate()
	defer client.Close()
	broken := client.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage:      func(m rueidis.PubSubMessage) { c.hub.heard(m.Channel) },
		OnSubscription: func(s rueidis.PubSubSubscription) { c.hub.changed(c, s) },
	})
	for {
		begin, end := c.next()
		if len(begin)+len(end) == 0 {
			select {
			case <-c.kick:
				continue
			case err := <-broken:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := c.change(ctx, client, begin, end); err != nil {
			return err
		}
	}
}

// node is the client to connect through. Any node of a cluster hears plain messages; the
// owner of a slot that is not known yet is named by whichever is asked.
func (c *conn) node() (rueidis.Client, error) {
	if c.hub.client.Mode() != rueidis.ClientModeCluster {
		return c.hub.client, nil
	}
	nodes := c.hub.client.Nodes()
	if node, ok := nodes[c.addr]; ok {
		return node, nil
	}
	if c.addr != "" {
		c.reroute()
		return nil, errNoNode
	}
	for _, node := range nodes {
		return node, nil // maps are walked in random order
	}
	return nil, errNoNode
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
			ch.state = idle
			ch.conn = h.route(ch.name)
			ch.conn.ask(ch)
		}
	}
}

// next takes from todo what is to begin and to end on the connection.
func (c *conn) next() (begin, end []*channel) {
	h := c.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	for ch := range c.todo {
		delete(c.todo, ch)
		switch wanted := len(ch.listeners) > 0; {
		case ch.conn != c: // routed elsewhere meanwhile
		case wanted && ch.state == idle:
			ch.state = asked
			begin = append(begin, ch)
		case !wanted && ch.state == idle:
			c.drop(ch)
		case !wanted:
			c.drop(ch)
			end = append(end, ch)
		}
	}
	return begin, end
}

// change subscribes and unsubscribes. Only a broken connection is an error.
func (c *conn) change(ctx context.Context, client rueidis.DedicatedClient, begin, end []*channel) error {
	for chunk := range slices.Chunk(end, subscribeAtOnce) {
		if err := c.unsubscribe(ctx, client, chunk); err != nil {
			return err
		}
	}
	for chunk := range slices.Chunk(begin, subscribeAtOnce) {
		if err := c.subscribe(ctx, client, chunk); err != nil {
			return err
		}
	}
	return nil
}

func (c *conn) unsubscribe(ctx context.Context, client rueidis.DedicatedClient, channels []*channel) error {
	if !c.hub.sharded {
		return client.Do(ctx, client.B().Unsubscribe().Channel(names(channels)...).Build()).Error()
	}
	commands := make(rueidis.Commands, len(channels))
	for i, ch := range channels {
		commands[i] = client.B().Sunsubscribe().Channel(ch.name).Build()
	}
	for _, result := range client.DoMulti(ctx, commands...) {
		// A node that has given the slot away refuses, and has ended the subscription itself.
		if err := result.NonRedisError(); err != nil {
			return err
		}
	}
	return nil
}

func (c *conn) subscribe(ctx context.Context, client rueidis.DedicatedClient, channels []*channel) error {
	if !c.hub.sharded {
		return client.Do(ctx, client.B().Subscribe().Channel(names(channels)...).Build()).Error()
	}
	// Each channel has a slot of its own, and each slot may turn out to be elsewhere.
	commands := make(rueidis.Commands, len(channels))
	for i, ch := range channels {
		commands[i] = client.B().Ssubscribe().Channel(ch.name).Build()
	}
	var refused error
	for i, result := range client.DoMulti(ctx, commands...) {
		answer, isAnswer := rueidis.IsRedisErr(result.Error())
		switch {
		case result.Error() == nil:
		case !isAnswer:
			return result.Error()
		default:
			addr, _ := answer.IsMoved()
			c.hub.moved(channels[i], addr)
			if addr == "" || addr == c.addr {
				refused = answer
			}
		}
	}
	return refused
}

func names(channels []*channel) []string {
	all := make([]string, len(channels))
	for i, ch := range channels {
		all[i] = ch.name
	}
	return all
}
