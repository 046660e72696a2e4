package hub

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// While a script runs for longer than the server's limit, the server answers every command with BUSY. The client
// takes that for the answer to an UNSUBSCRIBE, finds one answer too many, and panics. A slow script must not kill a
// process, so the hub never unsubscribes.
func TestABusyServerIsWaitedOut(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, "--lua-time-limit", "20")
	h := newHub(t, kit.NewClient(t, srv.Addr()), false)
	gone, stays := listen(h, "gone"), listen(h, "stays")
	for _, e := range []*ear{gone, stays} {
		kit.Await(t, "the confirmation", func() bool { return e.woken.Load() > 0 })
	}
	conn, err := redistest.Dial(srv.Addr())
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.Send("EVAL", "while true do end", "0"))
	kit.Await(t, "a busy server", func() bool {
		_, err := srv.Try("PING")
		return err != nil
	})
	gone.Close()
	during := listen(h, "during") // refused, and asked for again
	kit.SleepUntil(time.Now().Add(300 * time.Millisecond))
	srv.Do(t, "SCRIPT", "KILL")
	kit.Await(t, "the end of the script", func() bool {
		_, err := srv.Try("PING")
		return err == nil
	})
	for _, e := range []*ear{stays, during} {
		e.hears(t, "a message", func() {
			kit.Await(t, "a subscriber of "+e.channel,
				func() bool { return srv.Int(t, "PUBLISH", e.channel, "0") == 1 })
		})
	}
}

// A refusal for want of a right makes the next attempt later each time. One that will pass does not: else a listener
// would hear nothing for as long again when the server is well.
func TestABusyServerIsAskedAgainSoon(t *testing.T) {
	t.Parallel()
	p := proxy.Start(t, redistest.Start(t).Addr())
	h := newHub(t, kit.NewClient(t, p.Addr()), false)
	busy := p.On(proxy.Command("SUBSCRIBE"), proxy.Answer("-BUSY Redis is busy running a script."), proxy.EveryTime)
	e := listen(h, "x")
	const delays = 1 + 2 + 4 + 8 // seconds between five attempts, if each made the next later
	kit.AwaitFor(t, delays*time.Second, "five attempts", func() bool { return busy.Matched() >= 5 })
	e.hears(t, "the confirmation", busy.Remove)
}

// While a server refuses the subscription for a moment, the connection that is being replaced goes on hearing messages.
func TestTheLastConnectionIsHeardWhileTheServerIsBusy(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := proxy.Start(t, srv.Addr())
	h := newHub(t, kit.NewClient(t, p.Addr()), false)
	e := listen(h, "x")
	kit.Await(t, "the confirmation", func() bool { return e.woken.Load() > 0 })
	busy := p.On(proxy.Command("SUBSCRIBE"), proxy.Answer("-BUSY Redis is busy running a script."), proxy.EveryTime)
	h.Anew()
	busy.WaitMatched(t, 2) // the first refusal has been read by then
	e.hears(t, "a message", func() { require.EqualValues(t, 1, srv.Int(t, "PUBLISH", "x", "0"), "who hears it") })
	busy.Remove()
	last := p.Conns()
	kit.Await(t, "the next connection alone", func() bool {
		return len(p.Conns()) < len(last) && srv.Int(t, "PUBLISH", "x", "0") == 1
	})
}
