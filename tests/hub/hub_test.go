package hub

import (
	"io"
	"log/slog"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast/internal/hub"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// newHub returns a hub that ends with the test.
func newHub(t testing.TB, client rueidis.Client, sharded bool) *hub.Hub {
	t.Helper()
	return newHubWithLog(t, client, sharded, io.Discard)
}

func newHubWithLog(t testing.TB, client rueidis.Client, sharded bool, log io.Writer) *hub.Hub {
	t.Helper()
	h := hub.New(client, sharded, slog.New(slog.NewTextHandler(log, nil)))
	t.Cleanup(h.Close)
	return h
}

// An ear counts how often a channel woke it.
type ear struct {
	hub.Listener
	channel string
	woken   atomic.Int64
}

func listen(h *hub.Hub, channel string) *ear {
	e := &ear{channel: channel}
	e.Listener = h.Listen(channel, func(string) { e.woken.Add(1) })
	return e
}

// hears waits until the ear is woken after a call of happen.
func (e *ear) hears(t testing.TB, what string, happen func()) {
	t.Helper()
	before := e.woken.Load()
	happen()
	kit.Await(t, what+" on "+e.channel, func() bool { return e.woken.Load() > before })
}

// listenAll listens to n channels and waits for all confirmations.
func listenAll(t testing.TB, h *hub.Hub, n int) []*ear {
	t.Helper()
	ears := make([]*ear, n)
	for i := range ears {
		ears[i] = listen(h, "channel:"+strconv.Itoa(i))
	}
	for _, e := range ears {
		kit.Await(t, "the confirmation", func() bool { return e.woken.Load() > 0 })
	}
	return ears
}

// subscribed returns the channels that somebody has subscribed to.
func subscribed(t testing.TB, srv *redistest.Server) []string {
	t.Helper()
	return srv.Strs(t, "PUBSUB", "CHANNELS")
}

func TestAListenerIsWoken(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	h := newHub(t, kit.NewClient(t, srv.Addr()), false)
	e := listen(h, "x")
	kit.Await(t, "the confirmation", func() bool { return e.woken.Load() == 1 })
	assert.Equal(t, []string{"x"}, subscribed(t, srv), "a listener was woken before its channel was subscribed")

	e.hears(t, "a message", func() { srv.Do(t, "PUBLISH", "x", "0") })
	e.hears(t, "the new subscription after a kill", func() { srv.Do(t, "CLIENT", "KILL", "TYPE", "pubsub") })
	e.hears(t, "a message", func() { srv.Do(t, "PUBLISH", "x", "0") })
	e.hears(t, "the new subscription after a restart", srv.Restart)
	e.hears(t, "a message", func() { srv.Do(t, "PUBLISH", "x", "0") })

	second := &ear{channel: "x"}
	second.hears(t, "the standing subscription", func() {
		second.Listener = h.Listen("x", func(string) { second.woken.Add(1) })
		assert.EqualValues(t, 1, second.woken.Load(), "it is subscribed already, so the first wake-up comes at once")
	})
	both := func() { srv.Do(t, "PUBLISH", "x", "0") }
	e.hears(t, "a message", func() { second.hears(t, "a message", both) })

	srv.Do(t, "PUBLISH", "y", "0")
	before := e.woken.Load()
	e.hears(t, "a message", func() { srv.Do(t, "PUBLISH", "x", "0") })
	assert.Equal(t, before+1, e.woken.Load(), "a message of another channel woke it")
}

// Another server may have taken over when a connection breaks: whoever holds something is told, once.
func TestALostConnectionIsTold(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	h := newHub(t, kit.NewClient(t, srv.Addr()), false)
	var lost atomic.Int64
	h.Lost = func() { lost.Add(1) }
	e := listen(h, "x")
	kit.Await(t, "the confirmation", func() bool { return e.woken.Load() == 1 })
	assert.Zero(t, lost.Load())
	e.hears(t, "the new subscription after a kill", func() { srv.Do(t, "CLIENT", "KILL", "TYPE", "pubsub") })
	assert.EqualValues(t, 1, lost.Load())
}

func TestAListenerWaitsForItsServer(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	h := newHub(t, kit.NewClient(t, srv.Addr()), false)
	srv.Stop()
	e, gone := listen(h, "x"), listen(h, "gone")
	gone.Close()
	e.hears(t, "the confirmation", srv.Restart)
	assert.Equal(t, []string{"x"}, subscribed(t, srv))
}

func TestASubscriptionEndsSomeTimeAfterTheLastHasClosed(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	h := newHub(t, kit.NewClient(t, srv.Addr()), false)
	first, second, other := listen(h, "x"), listen(h, "x"), listen(h, "y")
	for _, e := range []*ear{first, second, other} {
		e.hears(t, "a message", func() {
			kit.Await(t, "a subscriber", func() bool { return srv.Int(t, "PUBLISH", e.channel, "0") == 1 })
		})
	}
	first.Close()
	second.hears(t, "a message", func() { srv.Do(t, "PUBLISH", "x", "0") })
	before := first.woken.Load()
	second.hears(t, "a message", func() { srv.Do(t, "PUBLISH", "x", "0") })
	assert.Equal(t, before, first.woken.Load(), "a closed listener was woken")

	second.Close()
	again := listen(h, "x")
	assert.EqualValues(t, 1, again.woken.Load(), "the subscription still stands")
	again.hears(t, "a message", func() { srv.Do(t, "PUBLISH", "x", "0") })
	again.Close()
	other.Close()
	other.Close() // a second Close does nothing
	kit.Await(t, "the end of all", func() bool { return len(subscribed(t, srv)) == 0 })
	kit.Await(t, "the end of the connection", func() bool { return srv.Connections(t) == 1 })

	again = listen(h, "x")
	again.hears(t, "a message", func() {
		kit.Await(t, "a subscriber", func() bool { return srv.Int(t, "PUBLISH", "x", "0") == 1 })
	})
}

// With the old protocol, too, the hub goes on when its connection breaks while the server is to answer.
func TestASubscriptionWithoutAnAnswerIsBegunAnew(t *testing.T) {
	for name, old := range map[string]bool{"new protocol": false, "old protocol": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := proxy.Start(t, redistest.Start(t).Addr())
			h := newHub(t, kit.NewClient(t, p.Addr(), func(opt *rueidis.ClientOption) {
				opt.AlwaysRESP2, opt.AlwaysPipelining = old, false
				opt.ConnWriteTimeout, opt.Dialer.KeepAlive = time.Second, 500*time.Millisecond
			}), false)
			first := listen(h, "first")
			kit.Await(t, "the confirmation", func() bool { return first.woken.Load() > 0 })
			p.On(proxy.Command("SUBSCRIBE"), proxy.Stall, 1)
			second := listen(h, "second")
			kit.Await(t, "both on a new connection", func() bool {
				return first.woken.Load() > 1 && second.woken.Load() > 0
			})
		})
	}
}

// While a connection is replaced because it may lead to the wrong server, the last one is heard: a release that found
// nobody listening would pass waiters over.
func TestAConnectionIsHeardUntilTheNextOneIs(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := proxy.Start(t, srv.Addr())
	h := newHub(t, kit.NewClient(t, p.Addr()), false)
	e := listenAll(t, h, 1)[0]
	begun := p.On(proxy.Command("SUBSCRIBE"), proxy.Stall, proxy.First)
	h.Anew()
	begun.Wait(t, 1)
	assert.EqualValues(t, 1, srv.Do(t, "PUBLISH", e.channel, "0"), "somebody listens")
	e.hears(t, "that the channel has moved", begun.Release)
	kit.Await(t, "the end of the last connection", func() bool {
		return srv.Do(t, "PUBSUB", "NUMSUB", e.channel).([]any)[1].(int64) == 1
	})
	e.hears(t, "a message", func() { srv.Do(t, "PUBLISH", e.channel, "0") })
}

// When too many channels of a connection are no longer wanted, another connection takes over the others. Nobody
// misses anything meanwhile, so nobody is woken for nothing. A busy fair lock, each of whose waiters has a channel of
// its own, causes this all the time.
func TestAWornConnectionIsReplaced(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	h := newHub(t, kit.NewClient(t, srv.Addr()), false)
	kept := listenAll(t, h, 100)
	wearOut(t, h, "rest")
	quiet, busy := kept[:50], kept[50:]
	kit.Await(t, "a new connection", func() bool {
		for _, e := range busy {
			e.hears(t, "a message", func() { srv.Do(t, "PUBLISH", e.channel, "0") })
		}
		return len(subscribed(t, srv)) == len(kept)
	})
	for _, e := range kept {
		kit.Await(t, "the end of the last connection",
			func() bool { return srv.Do(t, "PUBSUB", "NUMSUB", e.channel).([]any)[1].(int64) == 1 })
	}
	for _, e := range quiet {
		assert.EqualValues(t, 1, e.woken.Load(), "only the confirmation wakes it")
		e.hears(t, "a message", func() { srv.Do(t, "PUBLISH", e.channel, "0") })
	}
}

// Where no other connection can be made, as at a server that has too many clients, the worn one goes on.
func TestAWornConnectionGoesOnWhereThereIsNoOther(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := proxy.Start(t, srv.Addr())
	h := newHub(t, kit.NewClient(t, p.Addr()), false)
	kept := listenAll(t, h, 10)
	full := p.On(proxy.Command("HELLO"), proxy.Answer("-ERR max number of clients reached"), proxy.EveryTime)
	wearOut(t, h, "rest")
	full.Wait(t, 2)
	for _, e := range kept {
		e.hears(t, "a message", func() { assert.EqualValues(t, 1, srv.Do(t, "PUBLISH", e.channel, "0")) })
	}
	full.Remove()
	kit.Await(t, "a new connection", func() bool { return len(subscribed(t, srv)) == len(kept) })
	for _, e := range kept {
		assert.EqualValues(t, 2, e.woken.Load(), "the confirmation and the message wake it")
		e.hears(t, "a message", func() { srv.Do(t, "PUBLISH", e.channel, "0") })
	}
}

// wearOut loads a connection with too many channels that nobody wants.
func wearOut(t *testing.T, h *hub.Hub, prefix string) {
	t.Helper()
	rest := make([]*ear, 11_000)
	for i := range rest {
		rest[i] = listen(h, prefix+":"+strconv.Itoa(i))
	}
	for _, e := range rest {
		kit.Await(t, "the confirmation", func() bool { return e.woken.Load() > 0 })
	}
	for _, e := range rest {
		e.Close()
	}
}

// A session needs one connection for its subscriptions, and less than a kilobyte for a channel.
func TestManyChannelsShareOneConnectionAndNoGoroutines(t *testing.T) {
	srv := redistest.Start(t)
	h := newHub(t, kit.NewClient(t, srv.Addr()), false)
	listenAll(t, h, 1)
	one := hubGoroutines()
	listenAll(t, h, 1000)
	assert.Equal(t, one, hubGoroutines())
	assert.Len(t, subscribed(t, srv), 1000)
	assert.Equal(t, 2, srv.Connections(t), "one for commands, one for subscriptions")

	const n = 20_000
	before := heap()
	names := make([]string, n)
	for i := range names {
		names[i] = "redisson_lock__channel:{" + strconv.Itoa(i) + "}"
	}
	withNames := heap()
	var woken atomic.Int64
	ears := make([]hub.Listener, n)
	for i, name := range names {
		ears[i] = h.Listen(name, func(string) { woken.Add(1) })
	}
	kit.Await(t, "the confirmations", func() bool { return woken.Load() >= n })
	perChannel := (heap() - before) / n
	t.Logf("%d bytes per channel, %d of them its name", perChannel, (withNames-before)/n)
	assert.Less(t, perChannel, int64(1024))
	runtime.KeepAlive(ears)
	runtime.KeepAlive(names)
}

func hubGoroutines() int {
	buf := make([]byte, 4<<20)
	return strings.Count(string(buf[:runtime.Stack(buf, true)]), "internal/hub.(*conn).run(")
}

// heap returns the number of reachable bytes.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
