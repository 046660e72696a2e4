package hub

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/wire"
)

// newIdle returns a hub whose connections do nothing by themselves.
func newIdle(sharded bool) *Hub {
	h := New(nil, sharded, slog.New(slog.DiscardHandler))
	h.Close()
	return h
}

func push(kind, channel string) rueidis.PubSubSubscription {
	return rueidis.PubSubSubscription{Kind: kind, Channel: channel}
}

// begin takes the channels that are about to be subscribed on c, as its goroutine does.
func (c *conn) begin(t *testing.T) []string {
	t.Helper()
	begin, unwanted := c.next()
	require.False(t, unwanted)
	return names(begin)
}

func TestAWordOfALostConnectionSaysNothing(t *testing.T) {
	h := newIdle(false)
	woken := 0
	h.Listen("x", func(string) { woken++ })
	c := h.conns[""]
	life := c.lives()
	assert.Equal(t, []string{"x"}, c.begin(t))
	h.changed(c, life, push("subscribe", "x"))
	assert.Equal(t, 1, woken)

	assert.True(t, c.lost(), "a channel was subscribed")
	assert.False(t, c.lost(), "none was")
	h.changed(c, life, push("subscribe", "x")) // read before the connection broke
	assert.Equal(t, 1, woken)
	assert.Equal(t, []string{"x"}, c.begin(t), "it must be subscribed anew")
	h.changed(c, life, push("unsubscribe", "x"))
	h.changed(c, c.lives(), push("unsubscribe", "x")) // the beginning of a new one is under way
	assert.Equal(t, 1, woken)
	assert.Empty(t, c.begin(t))
	h.changed(c, c.lives(), push("subscribe", "x"))
	assert.Equal(t, 2, woken)
	assert.Empty(t, c.begin(t))
}

func TestAChannelStaysSubscribedForWhoeverListensNext(t *testing.T) {
	h := newIdle(false)
	woken := 0
	l := h.Listen("x", func(string) { woken++ })
	c := h.conns[""]
	assert.Equal(t, []string{"x"}, c.begin(t))
	h.changed(c, 0, push("subscribe", "x"))
	l.Close()
	begin, unwanted := c.next()
	assert.Empty(t, begin)
	assert.True(t, unwanted)
	h.heard("x", "0") // nobody listens to it
	assert.Equal(t, 1, woken)

	h.Listen("x", func(string) { woken++ })
	assert.Equal(t, 2, woken, "it stands")
	assert.Empty(t, c.begin(t))
	h.heard("x", "0")
	assert.Equal(t, 3, woken)
}

func TestWhenAConnectionIsWorn(t *testing.T) {
	for name, c := range map[string]struct {
		wanted, unwanted int
		age              time.Duration
		wear             wear
	}{
		"all is wanted":            {wanted: 5, age: time.Hour, wear: fresh},
		"nothing is wanted":        {unwanted: 1, wear: done},
		"there is nothing":         {wear: done},
		"something is not, yet":    {wanted: 1, unwanted: wornBy - 1, age: wornAfter - 1, wear: used},
		"something is not, by now": {wanted: 1, unwanted: 1, age: wornAfter, wear: worn},
		"too much is not":          {wanted: wornBy, unwanted: wornBy, wear: worn},
		"more is wanted":           {wanted: wornBy + 1, unwanted: wornBy, wear: used},
	} {
		t.Run(name, func(t *testing.T) {
			h := newIdle(false)
			for i := range c.wanted {
				h.Listen(fmt.Sprint("wanted ", i), func(string) {})
			}
			for i := range c.unwanted {
				l := h.Listen(fmt.Sprint("unwanted ", i), func(string) {})
				h.channels[l.(*channel).name].state = up
				l.Close()
			}
			conn := h.conns[""]
			if conn == nil {
				conn = newConn(h, "")
			}
			assert.Equal(t, c.wear, conn.wear(c.age))
		})
	}
}

// Nobody has to look because another connection takes over, unless that has missed something.
func TestWhatMovesToTheNextConnectionIsHeardAllTheTime(t *testing.T) {
	var told map[string]int
	setUp := func() (*Hub, *conn) {
		h := newIdle(false)
		told = map[string]int{}
		h.Listen("up", func(string) { told["up"]++ })
		c := h.conns[""]
		c.begin(t)
		h.changed(c, 0, push("subscribe", "up"))
		h.Listen("asked", func(string) { told["asked"]++ })
		c.begin(t)
		h.Listen("gone", func(string) {}).Close()
		return h, c
	}
	t.Run("it takes over", func(t *testing.T) {
		h, c := setUp()
		assert.Equal(t, "up", c.replace())
		assert.ElementsMatch(t, []string{"up", "asked"}, c.begin(t))
		h.heard("up", "0") // by the last one
		late := 0
		h.Listen("up", func(string) { late++ })
		assert.Equal(t, 1, late, "it stands")
		assert.True(t, h.Subscribed("up"))
		h.changed(c, 0, push("subscribe", "asked")) // an answer to the last one
		h.changed(c, 1, push("subscribe", "asked"))
		assert.False(t, c.allMoved())
		<-c.kick
		h.changed(c, 1, push("subscribe", "up"))
		assert.True(t, c.allMoved())
		assert.Len(t, c.kick, 1, "the last connection can go")
		assert.Equal(t, map[string]int{"up": 2, "asked": 1}, told)
	})
	t.Run("it is lost itself", func(t *testing.T) {
		h, c := setUp()
		c.replace()
		c.begin(t)
		assert.True(t, c.lost(), "one was heard")
		assert.False(t, h.Subscribed("up"))
		c.begin(t)
		h.changed(c, 2, push("subscribe", "up"))
		assert.Equal(t, 2, told["up"])
	})
	t.Run("it may be another node's", func(t *testing.T) {
		h, c := setUp()
		c.replace()
		c.part()
		c.begin(t)
		assert.False(t, c.allMoved())
		h.changed(c, 1, push("subscribe", "up"))
		assert.True(t, c.allMoved())
		assert.Equal(t, 2, told["up"])
		c.replace()
		c.begin(t)
		h.changed(c, 2, push("subscribe", "up"))
		assert.Equal(t, 2, told["up"], "nothing is missed this time")
	})
	for name, end := range map[string]func(h *Hub, c *conn, ch *channel){
		"the server refuses it":       func(_ *Hub, c *conn, ch *channel) { c.refused(ch, assert.AnError) },
		"the server does not have it": func(h *Hub, _ *conn, ch *channel) { h.moved(ch, "a:1") },
	} {
		t.Run(name, func(t *testing.T) {
			h, c := setUp()
			c.replace()
			c.begin(t)
			end(h, c, h.channels["up"])
			assert.True(t, c.allMoved())
			assert.False(t, h.Subscribed("up"))
		})
	}
}

// Close costs the same however many listen: thousands may give up together.
func TestToCloseCostsTheSameHoweverManyListen(t *testing.T) {
	const n = 50_000
	h := newIdle(false)
	began := time.Now()
	listeners := make([]Listener, n)
	for i := range listeners {
		listeners[i] = h.Listen("x", func(string) {})
	}
	listening := time.Now()
	for _, l := range slices.Backward(listeners[:n-1]) {
		l.Close()
		l.Close() // a second Close does nothing
	}
	closed := time.Since(listening)
	t.Logf("%d listened within %v, and closed within %v", n, listening.Sub(began), closed)
	assert.Less(t, closed, 10*listening.Sub(began))
	assert.Same(t, listeners[n-1], h.channels["x"].others)
	assert.Nil(t, h.channels["x"].others.next)
	assert.Nil(t, h.channels["x"].hearer)
}

func TestAnEndThatTheServerMadeIsABeginningElsewhere(t *testing.T) {
	h := newIdle(true)
	woken := 0
	h.Listen("x", func(string) { woken++ })
	scout := h.conns[""]
	assert.Equal(t, []string{"x"}, scout.begin(t))
	h.moved(h.channels["x"], "a:1")
	a := h.conns["a:1"]
	assert.Empty(t, scout.begin(t))
	assert.Equal(t, []string{"x"}, a.begin(t))
	h.changed(a, 0, push("ssubscribe", "x"))
	assert.Equal(t, "a:1", h.owners[wire.Slot("x")])

	h.changed(a, 0, push("sunsubscribe", "x"))
	assert.Equal(t, 2, woken)
	assert.Empty(t, a.begin(t))
	assert.Equal(t, []string{"x"}, scout.begin(t))
	h.changed(a, 0, push("ssubscribe", "x")) // no longer its channel
	assert.Equal(t, 2, woken)
}

// A channel that was routed to another connection belongs to that one, even if the first one later gets the answer to
// its request.
func TestAConnectionLeavesAloneWhatIsRoutedElsewhere(t *testing.T) {
	for name, look := range map[string]func(c *conn){
		"while it works": func(c *conn) { c.next() },
		"after a loss":   func(c *conn) { c.lost(); c.wanted() },
	} {
		t.Run(name, func(t *testing.T) {
			h := newIdle(true)
			h.owners[wire.Slot("x")] = "a:1"
			l := h.Listen("x", func(string) {})
			a, ch := h.conns["a:1"], h.channels["x"]
			a.ask(ch)
			h.moved(ch, "b:1")
			b := h.conns["b:1"]
			assert.Equal(t, []string{"x"}, b.begin(t))
			h.changed(b, 0, push("ssubscribe", "x"))
			l.Close()
			look(a)
			_, unwanted := b.next()
			assert.True(t, unwanted)
			b.lost()
			assert.False(t, b.wanted())
			assert.Empty(t, h.channels)
		})
	}
}

func TestWhoeverFindsTheWayBecomesTheNodesConnection(t *testing.T) {
	h := newIdle(true)
	h.Listen("x", func(string) {})
	scout := h.conns[""]
	assert.True(t, scout.become("a:1"))
	assert.Same(t, scout, h.conns["a:1"])
	assert.Nil(t, h.conns[""])
	assert.Equal(t, []string{"x"}, scout.begin(t))

	h.Listen("y", func(string) {})
	second := h.conns[""]
	assert.False(t, second.become("a:1"), "it has one")
	assert.False(t, second.wanted())
	assert.Equal(t, []string{"y"}, scout.begin(t))

	// x has been found here, and nothing is known of y: if the node is down, another may have it.
	h.changed(scout, 0, push("ssubscribe", "x"))
	scout.lost()
	assert.Equal(t, []string{"x"}, scout.begin(t))
	assert.Equal(t, []string{"y"}, second.begin(t))
}

func TestARefusedChannelIsAskedForAgainIfItIsStillWanted(t *testing.T) {
	h := newIdle(true)
	l := h.Listen("x", func(string) {})
	scout, ch := h.conns[""], h.channels["x"]
	assert.Equal(t, []string{"x"}, scout.begin(t))
	scout.refused(ch, assert.AnError)
	assert.Empty(t, scout.begin(t), "not at once")
	h.again(scout, ch)
	assert.Equal(t, []string{"x"}, scout.begin(t))

	h.again(scout, ch) // it has been asked for by now
	assert.Empty(t, scout.begin(t))
	scout.refused(ch, assert.AnError)
	l.Close()
	scout.next()
	h.again(scout, ch)
	assert.Empty(t, scout.todo)
	assert.Empty(t, h.channels)
}

// A node that has refused a channel is not asked for it again, since another may have the slot by now; and what a
// channel was refused where it does not belong any more says nothing.
func TestARefusedChannelIsAskedForElsewhere(t *testing.T) {
	h := newIdle(true)
	h.Listen("x", func(string) {})
	scout, ch := h.conns[""], h.channels["x"]
	scout.begin(t)
	for i := range manyMoves {
		require.True(t, h.moved(ch, fmt.Sprint("a:", i)))
	}
	require.False(t, h.moved(ch, "b:1"), "they name each other")
	a := ch.conn
	a.begin(t)
	a.refused(ch, assert.AnError)
	h.again(a, ch)
	assert.Empty(t, a.begin(t))
	assert.Equal(t, []string{"x"}, scout.begin(t))
	require.True(t, h.moved(ch, "b:1"), "from the beginning")
	h.changed(h.conns["b:1"], 0, push("ssubscribe", "x"))
	scout.refused(ch, assert.AnError)
	assert.True(t, h.Subscribed("x"))
}

// An outage of which nobody was told is told of when anything is subscribed again, once.
func TestALossIsToldWhenAnythingStandsAgain(t *testing.T) {
	h := newIdle(false)
	told := 0
	h.Lost = func() { told++ }
	h.Listen("x", func(string) {})
	h.Listen("y", func(string) {})
	c := h.conns[""]
	c.begin(t)
	c.untold.Store(true)
	h.changed(c, 0, push("subscribe", "x"))
	h.changed(c, 0, push("subscribe", "y"))
	assert.Equal(t, 1, told)
}

// Whoever of several stops to listen, the others go on.
func TestListenersLeaveInAnyOrder(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2, 3}, {1, 2, 3, 0}, {2, 1, 3, 0}, {3, 1, 2, 0}, {2, 3, 0, 1}} {
		h := newIdle(false)
		var heard [4]int
		var listeners [4]Listener
		for i := range listeners {
			listeners[i] = h.Listen("x", func(string) { heard[i]++ })
		}
		var want [4]int
		for n, i := range order {
			listeners[i].Close()
			for _, left := range order[n+1:] {
				want[left]++
			}
			h.heard("x", "0")
			assert.Equal(t, want, heard)
		}
		assert.False(t, h.channels["x"].wanted())
	}
}

// A missing right stays missing for a while, and for many names.
func TestRefusedChannelsAreAskedForRarelyAndWarnedOfOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 200
		var log strings.Builder
		h := New(nil, false, slog.New(slog.NewTextHandler(&log, nil)))
		h.Close()
		for i := range n {
			h.Listen(fmt.Sprint(i), func(string) {})
		}
		c := h.conns[""]
		var asked []time.Duration
		for began := time.Now(); time.Since(began) <= warnAgain; time.Sleep(time.Second / 2) {
			synctest.Wait()
			begin, _ := c.next()
			for _, ch := range begin {
				if ch.name == "0" {
					asked = append(asked, time.Since(began))
				}
				c.refused(ch, assert.AnError)
			}
		}
		assert.Equal(t, []time.Duration{
			0, 1 * time.Second, 3 * time.Second, 7 * time.Second, 15 * time.Second,
			31 * time.Second,
		}, asked)
		synctest.Wait() // the log is written meanwhile
		assert.Equal(t, 1, strings.Count(log.String(), "subscription refused"))

		for range 2 { // until nothing is in flight any more
			time.Sleep(lastAgain)
			synctest.Wait()
		}
		for _, ch := range h.channels {
			c.refused(ch, assert.AnError)
		}
		synctest.Wait()
		assert.Equal(t, 2, strings.Count(log.String(), "subscription refused"), "it still is")
		h.changed(c, 0, push("subscribe", "0"))
		assert.Zero(t, h.channels["0"].refusals, "a later refusal is the first again")
		time.Sleep(lastAgain)
	})
}

// Nodes come and go; what was meant for one of them does not stay for ever.
func TestAConnectionWithNothingToDoRetires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(nil, true, slog.New(slog.DiscardHandler))
		defer h.Close()
		conns := func() int {
			synctest.Wait()
			h.mu.Lock()
			defer h.mu.Unlock()
			return len(h.conns)
		}
		h.mu.Lock()
		h.owners[wire.Slot("x")] = "node"
		c := h.route("x")
		h.channels["x"] = &channel{name: "x", conn: c} // about to be subscribed there
		h.mu.Unlock()
		time.Sleep(retireAfter)
		assert.Equal(t, 1, conns())
		h.mu.Lock()
		delete(h.channels, "x")
		h.mu.Unlock()
		time.Sleep(retireAfter)
		assert.Zero(t, conns())
	})
}
