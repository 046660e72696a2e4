package hub

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/cluster"
	"github.com/holdfast-go/holdfast/internal/refusal"
	"github.com/holdfast-go/holdfast/internal/script"
)

// subscribeAtOnce is how many channels one SUBSCRIBE names.
const subscribeAtOnce = 500

// next takes from todo the channels to subscribe to, and reports whether there was one that nobody listens to any
// more.
func (c *conn) next() (begin []*channel, unwanted bool) {
	h := c.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	todo := c.todo
	c.todo = make(map[*channel]struct{}) // a map keeps room for as many as it ever had
	for ch := range todo {
		switch wanted := ch.wanted(); {
		case ch.conn != c: // routed elsewhere meanwhile
		case wanted && ch.state == idle:
			ch.state = asked
			begin = append(begin, ch)
		case !wanted && ch.state == idle:
			c.drop(ch)
		case !wanted:
			unwanted = true
		}
	}
	return begin, unwanted
}

// subscribeAll subscribes to the channels. Only a broken connection is an error.
func (c *conn) subscribeAll(ctx context.Context, client rueidis.DedicatedClient, begin []*channel) error {
	for chunk := range slices.Chunk(begin, subscribeAtOnce) {
		if err := c.subscribe(ctx, client, chunk); err != nil {
			return err
		}
	}
	return nil
}

func (c *conn) subscribe(ctx context.Context, client rueidis.DedicatedClient, channels []*channel) error {
	if c.hub.sharded {
		return c.subscribeSharded(ctx, client, channels)
	}
	err := client.Do(ctx, client.B().Subscribe().Channel(names(channels)...).Build()).Error()
	if !refusal.Is(err) {
		return err
	}
	if len(channels) == 1 {
		c.refused(channels[0], err)
		return nil
	}
	for i := range channels { // the server refuses all because of one
		if err := c.subscribe(ctx, client, channels[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

// subscribeSharded subscribes to each channel by itself: each has a slot of its own, and each
// slot may turn out to be elsewhere.
func (c *conn) subscribeSharded(ctx context.Context, client rueidis.DedicatedClient, channels []*channel) error {
	commands := make(rueidis.Commands, len(channels))
	for i, ch := range channels {
		commands[i] = client.B().Ssubscribe().Channel(ch.name).Build()
	}
	for i, result := range client.DoMulti(ctx, commands...) {
		err := result.Error()
		if err == nil {
			continue
		}
		answer, answered := rueidis.IsRedisErr(err)
		if !answered {
			return err
		}
		addr, moved := answer.IsMoved()
		if addr = cluster.Named(addr, c.addr); !moved || addr == c.addr || !c.hub.moved(channels[i], addr) {
			c.refused(channels[i], err)
		}
	}
	return nil
}

// Delays after a refusal, which may be for want of a right. One that will pass makes them no longer.
const (
	firstAgain = time.Second
	lastAgain  = 30 * time.Second
	warnAgain  = time.Minute // whatever the number of channels

	manyRefusals = 5 // after which the delay is the last
	manyMoves    = 8 // at once, after which the nodes are taken to disagree
)

// refused asks again, after a delay that grows, for a channel that the server refused. Until it is subscribed, the
// channel wakes nobody; every waiter has a timer as well.
func (c *conn) refused(ch *channel, why error) {
	level := c.takeRefusal(ch, why)
	go c.hub.log.Log(c.hub.ctx, level, "holdfast: subscription refused", // as in run
		slog.String("server", c.server), slog.String("channel", ch.name), slog.Any("error", why))
}

// takeRefusal records a refusal, and returns the level at which to log it.
func (c *conn) takeRefusal(ch *channel, why error) slog.Level {
	h := c.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if ch.conn == c {
		ch.state = idle
		if script.Passes(why) {
			ch.refusals = 0 // and the connection that is being replaced is heard until the next one is
		} else {
			c.uncover(ch)
		}
		time.AfterFunc(min(firstAgain<<ch.refusals, lastAgain), func() { h.again(c, ch) })
		ch.refusals, ch.moves = min(ch.refusals+1, manyRefusals), 0
	}
	if time.Since(h.warned) < warnAgain {
		return slog.LevelDebug
	}
	h.warned = time.Now()
	return slog.LevelWarn
}

func names(channels []*channel) []string {
	all := make([]string, len(channels))
	for i, ch := range channels {
		all[i] = ch.name
	}
	return all
}
