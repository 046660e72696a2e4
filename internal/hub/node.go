package hub

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/cluster"
)

// answerWithin bounds the search for a node that answers.
const answerWithin = 2 * time.Second

// node is the client to connect through. Any node of a cluster hears plain messages. For sharded channels, any master
// that is asked for a slot that is not known yet names the right node; so it is one that answers. A replica would take
// the channels of its master's slots, but the master does not count who hears them there.
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
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	if node, ok := nodes[c.addr]; ok && (!h.sharded || !cluster.IsReplica(ctx, node)) {
		return node, nil
	}
	if c.addr != "" {
		c.reroute()
		return nil, errNoNode
	}
	find := cluster.Answering
	if h.sharded {
		find = cluster.Master
	}
	addr, err := find(ctx, h.client, h.wg.Go)
	if err != nil {
		return nil, err
	}
	if h.sharded && !c.become(addr) {
		return nil, errHandedOn
	}
	if node, ok := h.client.Nodes()[addr]; ok { // it may have known none before
		c.server = addr
		return node, nil
	}
	return nil, errNoNode
}

// isReplica reports whether the node of the connection says that it is one.
func (c *conn) isReplica(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	node, ok := c.hub.client.Nodes()[c.addr]
	return ok && cluster.IsReplica(ctx, node)
}

// isFormer reports whether the client knows others by now, but not the server of the connection: Sentinel has named
// another master, or it has left the cluster. Nobody ends the connection to one that is only cut off from them.
func (c *conn) isFormer() bool {
	nodes := c.hub.client.Nodes()
	_, ok := nodes[c.server]
	return !ok && len(nodes) > 0 && c.server != ""
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
