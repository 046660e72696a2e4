package hub

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/refusal"
)

// A channel without listeners stays subscribed, for the next listener, until the connection is worn and another one
// takes its place. UNSUBSCRIBE is never sent: while a slow script runs, the server's answer to it makes the client
// panic.
const (
	linger    = time.Second      // of a connection with no wanted channels, and between looks
	wornBy    = 10_000           // unwanted channels, if no more are wanted, all of which have to move
	wornAfter = 30 * time.Second // if any channel is unwanted
)

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
		c.last = make(map[*channel]struct{}) // without the room
		c.wake()
	}
	return true
}

// replace moves the channels to the next connection, which is asked for those that are wanted by then. The last one
// goes on hearing the channels that it has, so nothing is missed meanwhile; replace returns one of them.
func (c *conn) replace() (heard string) {
	h := c.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	c.life++
	c.apart = false
	for _, ch := range h.channels {
		if ch.conn != c {
			continue
		}
		if ch.state == up {
			c.last[ch] = struct{}{}
			heard = ch.name
		}
		ch.state = idle
		c.ask(ch)
	}
	return heard
}

// part says that messages come at other times on the last connection than on the next: whoever listens to a channel has
// to look when it has moved.
func (c *conn) part() {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	c.apart = true
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
	if refusal.Is(err) {
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
		case ch.wanted():
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
