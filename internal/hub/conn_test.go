package hub

import (
	"fmt"
	"log/slog"
	"testing"
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

// begin takes what is to begin on c, as its goroutine does before it subscribes.
func (c *conn) begin(t *testing.T) []string {
	t.Helper()
	begin, unwanted := c.next()
	require.False(t, unwanted)
	return names(begin)
}

func TestAWordOfALostConnectionSaysNothing(t *testing.T) {
	h := newIdle(false)
	woken := 0
	h.Listen("x", func() { woken++ })
	c := h.conns[""]
	life := c.lives()
	assert.Equal(t, []string{"x"}, c.begin(t))
	h.changed(c, life, push("subscribe", "x"))
	assert.Equal(t, 1, woken)

	c.lost()
	h.changed(c, life, push("subscribe", "x")) // read before the connection broke
	assert.Equal(t, 1, woken)
	assert.Equal(t, []string{"x"}, c.begin(t), "it must be subscribed anew")
	h.changed(c, life, push("unsubscribe", "x"))
	h.changed(c, c.lives(), push("subscribe", "x"))
	assert.Equal(t, 2, woken)
	assert.Empty(t, c.begin(t))
}

func TestAChannelStaysSubscribedForWhoeverListensNext(t *testing.T) {
	h := newIdle(false)
	woken := 0
	l := h.Listen("x", func() { woken++ })
	c := h.conns[""]
	assert.Equal(t, []string{"x"}, c.begin(t))
	h.changed(c, 0, push("subscribe", "x"))
	l.Close()
	begin, unwanted := c.next()
	assert.Empty(t, begin)
	assert.True(t, unwanted)
	h.heard("x") // nobody's
	assert.Equal(t, 1, woken)

	h.Listen("x", func() { woken++ })
	assert.Equal(t, 2, woken, "it stands")
	assert.Empty(t, c.begin(t))
	h.heard("x")
	assert.Equal(t, 3, woken)
}

func TestWhenAConnectionIsWorn(t *testing.T) {
	for name, c := range map[string]struct {
		wanted, unwanted int
		age              time.Duration
		worn, again      bool
	}{
		"all is wanted":            {wanted: 5, age: time.Hour},
		"nothing is wanted":        {unwanted: 1, worn: true, again: true},
		"there is nothing":         {worn: true},
		"something is not, yet":    {wanted: 1, unwanted: wornBy - 1, age: wornAfter - 1, again: true},
		"something is not, by now": {wanted: 1, unwanted: 1, age: wornAfter, worn: true, again: true},
		"too much is not":          {wanted: 10_000, unwanted: wornBy, worn: true, again: true},
	} {
		t.Run(name, func(t *testing.T) {
			h := newIdle(false)
			for i := range c.wanted {
				h.Listen(fmt.Sprint("wanted ", i), func() {})
			}
			for i := range c.unwanted {
				l := h.Listen(fmt.Sprint("unwanted ", i), func() {})
				h.channels[l.channel.name].state = up
				l.Close()
			}
			conn := h.conns[""]
			if conn == nil {
				conn = newConn(h, "")
			}
			worn, again := conn.worn(c.age)
			assert.Equal(t, []bool{c.worn, c.again}, []bool{worn, again})
		})
	}
}

func TestAnEndThatTheServerMadeIsABeginningElsewhere(t *testing.T) {
	h := newIdle(true)
	woken := 0
	h.Listen("x", func() { woken++ })
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
	h.changed(a, 0, push("ssubscribe", "x")) // not its any more
	assert.Equal(t, 2, woken)
}

// What was routed to another connection is that one's to begin and to end, also when the first
// looks at what it had been asked.
func TestAConnectionLeavesAloneWhatIsRoutedElsewhere(t *testing.T) {
	for name, look := range map[string]func(c *conn){
		"while it works": func(c *conn) { c.next() },
		"after a loss":   func(c *conn) { c.lost(); c.wanted() },
	} {
		t.Run(name, func(t *testing.T) {
			h := newIdle(true)
			h.owners[wire.Slot("x")] = "a:1"
			l := h.Listen("x", func() {})
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
	h.Listen("x", func() {})
	scout := h.conns[""]
	assert.True(t, scout.become("a:1"))
	assert.Same(t, scout, h.conns["a:1"])
	assert.Nil(t, h.conns[""])
	assert.Equal(t, []string{"x"}, scout.begin(t))

	h.Listen("y", func() {})
	second := h.conns[""]
	assert.False(t, second.become("a:1"), "it has one")
	assert.False(t, second.wanted())
	assert.Equal(t, []string{"y"}, scout.begin(t))

	// x has been found here, of y nothing is known: if the node is away, another may have it.
	h.changed(scout, 0, push("ssubscribe", "x"))
	scout.lost()
	assert.Equal(t, []string{"x"}, scout.begin(t))
	assert.Equal(t, []string{"y"}, second.begin(t))
}

func TestARefusedChannelIsAskedForAgainIfItIsStillWanted(t *testing.T) {
	h := newIdle(true)
	l := h.Listen("x", func() {})
	scout, ch := h.conns[""], h.channels["x"]
	assert.Equal(t, []string{"x"}, scout.begin(t))
	scout.refused(ch, assert.AnError)
	assert.Empty(t, scout.begin(t), "not at once")
	h.again(scout, ch)
	assert.Equal(t, []string{"x"}, scout.begin(t))

	h.again(scout, ch) // has been asked for by now
	assert.Empty(t, scout.begin(t))
	scout.refused(ch, assert.AnError)
	l.Close()
	scout.next()
	h.again(scout, ch)
	assert.Empty(t, scout.todo)
	assert.Empty(t, h.channels)
}
