package hub

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// However quickly listeners come and go, in the end a channel is subscribed if it is wanted.
func TestChurnEndsSubscribedIfWanted(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	h := newHub(t, kit.NewClient(t, srv.Addr()), false)
	for round := range 20 {
		var wg sync.WaitGroup
		kept := make([][]*ear, 8)
		for i := range kept {
			wg.Go(func() {
				var mine []*ear
				for range 100 {
					if len(mine) > 0 && rand.IntN(2) == 0 {
						mine[0].Close()
						mine = mine[1:]
						continue
					}
					mine = append(mine, listen(h, "c"+strconv.Itoa(rand.IntN(4))))
				}
				for len(mine) > 0 && rand.IntN(3) > 0 {
					mine[0].Close()
					mine = mine[1:]
				}
				kept[i] = mine
			})
		}
		wg.Wait()
		if round%4 == 3 {
			srv.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
		}
		ears := slices.Concat(kept...)
		kit.Await(t, "the wanted subscriptions", func() bool { // an unwanted one may stay for half a minute
			is := subscribed(t, srv)
			return !slices.ContainsFunc(channelsOf(ears), func(name string) bool { return !slices.Contains(is, name) })
		})
		for _, e := range ears {
			e.hears(t, "a message", func() {
				kit.Await(t, "a subscriber", func() bool { return srv.Int(t, "PUBLISH", e.channel, "0") == 1 })
			})
		}
		for _, e := range ears {
			e.Close()
		}
	}
	kit.Await(t, "the end of all", func() bool { return len(subscribed(t, srv)) == 0 })
}

func channelsOf(ears []*ear) []string {
	names := []string{}
	for _, e := range ears {
		names = append(names, e.channel)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// A listener may call the hub from its callback.
func TestACallbackMayListenAndClose(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	h := newHub(t, kit.NewClient(t, srv.Addr()), false)
	called := make(chan struct{}, 100)
	wake := func(string) {
		e := listen(h, "x")
		listen(h, "elsewhere").Close()
		e.Close()
		called <- struct{}{}
	}
	l := h.Listen("x", wake)
	kit.Within(t, 10*time.Second, called, "the confirmation")
	srv.Do(t, "PUBLISH", "x", "0")
	kit.Within(t, 10*time.Second, called, "a message")
	second := h.Listen("x", wake)
	kit.Within(t, 10*time.Second, called, "the standing subscription")
	l.Close()
	second.Close()
	kit.Await(t, "the end of all", func() bool { return len(subscribed(t, srv)) == 0 })
}

func TestACloseLeavesNothing(t *testing.T) {
	for name, happen := range map[string]func(srv *redistest.Server, p *proxy.Proxy){
		"in quiet":                    func(*redistest.Server, *proxy.Proxy) {},
		"while the server is silent":  func(srv *redistest.Server, _ *proxy.Proxy) { srv.Pause() },
		"while the server is away":    func(srv *redistest.Server, _ *proxy.Proxy) { srv.Stop() },
		"while it dials":              func(_ *redistest.Server, p *proxy.Proxy) { p.StallNew(true); p.CutAll() },
		"while the network is silent": func(_ *redistest.Server, p *proxy.Proxy) { p.StallAll() },
	} {
		t.Run(name, func(t *testing.T) {
			srv := redistest.Start(t)
			p := proxy.Start(t, srv.Addr())
			h := newHub(t, kit.NewClient(t, p.Addr(),
				func(opt *rueidis.ClientOption) { opt.Dialer.Timeout = time.Second }), false)
			listenAll(t, h, 10)
			happen(srv, p)
			listen(h, "one more") // still being subscribed at the close
			closed := make(chan struct{})
			go func() {
				h.Close()
				h.Close() // a second Close does nothing
				close(closed)
			}()
			kit.Within(t, 5*time.Second, closed, "the close")
			assert.Zero(t, hubGoroutines())
			srv.Resume()
			if name == "in quiet" {
				kit.Await(t, "the end of the connection", func() bool { return srv.Connections(t) == 1 })
				assert.Empty(t, subscribed(t, srv))
			}
			late := listen(h, "late") // the hub is closed, so nothing wakes it
			late.Close()
		})
	}
}

// A channel that the user has no right to does not affect the other subscriptions.
func TestARefusedChannelFailsAlone(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	srv.Grant(t, "somebody", "+@all", "~*", "&mine:*")
	h := newHub(t, kit.NewClient(t, srv.Addr(), kit.Login(redistest.Password)...), false)
	first, forbidden, second := listen(h, "mine:1"), listen(h, "theirs"), listen(h, "mine:2")
	for _, e := range []*ear{first, second} {
		kit.Await(t, "the confirmation", func() bool { return e.woken.Load() > 0 })
	}
	third := listen(h, "mine:3")
	kit.Await(t, "the confirmation", func() bool { return third.woken.Load() > 0 })
	assert.Zero(t, forbidden.woken.Load())
	calm := first.woken.Load()
	srv.Do(t, "ACL", "SETUSER", "somebody", "&theirs")
	kit.Await(t, "the confirmation in the end", func() bool { return forbidden.woken.Load() > 0 })
	assert.Equal(t, calm, first.woken.Load(), "its subscription was interrupted")
}
