package proxy_test

import (
	"context"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// newPair starts a server with a proxy in front of it.
func newPair(t *testing.T) (*redistest.Server, *proxy.Proxy) {
	s := redistest.Start(t)
	return s, proxy.Start(t, s.Addr())
}

// dial connects the plain client through a proxy.
func dial(t *testing.T, p *proxy.Proxy) *redistest.Conn {
	c, err := redistest.Dial(p.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// connect makes a rueidis client with one connection, through a proxy.
func connect(t *testing.T, p *proxy.Proxy) rueidis.Client {
	c, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{p.Addr()}, ForceSingleClient: true, DisableCache: true, DisableRetry: true,
		PipelineMultiplex: -1, AlwaysPipelining: true,
	})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	redistest.Limit(t, c.Close)
	return c
}

// receiveOne reads one reply, however long it takes within the test's patience.
func receiveOne(t *testing.T, c *redistest.Conn) any {
	require.NoError(t, c.SetReadDeadline(time.Now().Add(10*time.Second)))
	reply, err := c.Receive()
	require.NoError(t, err)
	return reply
}

// silent asserts that nothing comes. It can only look for a moment: more would come at once if it did.
func silent(t *testing.T, c *redistest.Conn) {
	require.NoError(t, c.SetReadDeadline(time.Now().Add(30*time.Millisecond)))
	_, err := c.Receive()
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	require.True(t, timeout.Timeout(), "%v", err)
}

func TestForwards(t *testing.T) {
	s, p := newPair(t)
	client := connect(t, p)
	ctx := context.Background()
	long := strings.Repeat("x\r\n", 100_000)
	require.NoError(t, client.Do(ctx, client.B().Set().Key("k").Value(long).Build()).Error())
	got, err := client.Do(ctx, client.B().Get().Key("k").Build()).ToString()
	require.NoError(t, err)
	require.Equal(t, long, got)
	require.Equal(t, long, s.Str(t, "GET", "k"))

	inline := dial(t, p)
	_, err = inline.Write([]byte("PING\r\n"))
	require.NoError(t, err)
	require.Equal(t, "PONG", receiveOne(t, inline))
}

func TestDropReply(t *testing.T) {
	s, p := newPair(t)
	client := connect(t, p)
	ctx := context.Background()
	r := p.On(proxy.Command("incr").With("counter"), proxy.DropReply, proxy.First)
	incr := func() error { return client.Do(ctx, client.B().Incr().Key("counter").Build()).Error() }
	require.Error(t, incr())
	require.Equal(t, "1", s.Str(t, "GET", "counter"))
	require.NoError(t, incr())
	require.Equal(t, "2", s.Str(t, "GET", "counter"))
	require.Equal(t, 1, r.Count())
	require.Equal(t, 2, r.Matched())
}

func TestTheTextOfAScriptIsNoArgument(t *testing.T) {
	_, p := newPair(t)
	r := p.On(proxy.Command("EVAL").With("name"), proxy.Delay(0), proxy.EveryTime)
	c := dial(t, p)
	for matched, key := range []string{"other", "name"} {
		_, err := c.Do("EVAL", "return 'name'", "1", key)
		require.NoError(t, err)
		require.Equal(t, matched, r.Matched())
	}
}

func TestDropReplyEndsPipeline(t *testing.T) {
	s, p := newPair(t)
	c := dial(t, p)
	r := p.On(proxy.Command("SET").With("b"), proxy.DropReply, proxy.EveryTime)
	_, err := c.Write([]byte("SET a 1\r\nSET b 1\r\nSET c 1\r\n"))
	require.NoError(t, err)
	require.Equal(t, "OK", receiveOne(t, c))
	_, err = c.Receive()
	require.Error(t, err)
	r.Wait(t, 1)
	require.ElementsMatch(t, []string{"a", "b"}, s.Strs(t, "KEYS", "*"))
}

func TestDropReplySilently(t *testing.T) {
	s, p := newPair(t)
	c := dial(t, p)
	r := p.On(proxy.Command("INCR"), proxy.DropReplySilently, proxy.First)
	require.NoError(t, c.Send("INCR", "n"))
	require.NoError(t, c.Send("INCR", "n"))
	r.Wait(t, 1)
	silent(t, c)
	require.Equal(t, "1", s.Str(t, "GET", "n"))

	reply, err := dial(t, p).Do("INCR", "n")
	require.NoError(t, err)
	require.EqualValues(t, 2, reply)
}

func TestResetBefore(t *testing.T) {
	s, p := newPair(t)
	r := p.On(proxy.Command("INCR"), proxy.ResetBefore, proxy.Second)
	c := dial(t, p)
	_, err := c.Do("INCR", "n")
	require.NoError(t, err)
	_, err = c.Do("INCR", "n")
	require.ErrorContains(t, err, "reset")
	r.Wait(t, 1)
	require.Equal(t, "1", s.Str(t, "GET", "n"))
	_, err = dial(t, p).Do("INCR", "n")
	require.NoError(t, err)
}

func TestStallDeliversAfterClientHasGone(t *testing.T) {
	s, p := newPair(t)
	r := p.On(proxy.Command("INCR"), proxy.Stall, proxy.First)
	c := dial(t, p)
	require.NoError(t, c.Send("INCR", "n"))
	require.NoError(t, c.Send("INCRBY", "n", "10"))
	r.Wait(t, 1)
	require.NoError(t, c.Close())
	require.Empty(t, s.Keyspace(t))

	_, err := dial(t, p).Do("SET", "n", "100")
	require.NoError(t, err)
	require.Equal(t, 0, r.Answered())
	r.Release()
	r.WaitAnswered(t, 1)
	require.Eventually(t, func() bool { return s.Str(t, "GET", "n") == "111" }, 10*time.Second, time.Millisecond)
}

func TestNthAmongPipelined(t *testing.T) {
	s, p := newPair(t)
	r := p.On(proxy.Command("INCR"), proxy.Answer("-LOADING for a while"), proxy.Times(3))
	c := dial(t, p)
	for range 4 {
		require.NoError(t, c.Send("INCR", "n"))
	}
	require.EqualValues(t, 1, receiveOne(t, c))
	require.EqualValues(t, 2, receiveOne(t, c))
	_, err := c.Receive()
	require.Equal(t, redistest.Error("LOADING for a while"), err)
	require.EqualValues(t, 3, receiveOne(t, c))
	require.Equal(t, "3", s.Str(t, "GET", "n"))
	require.Equal(t, 4, r.Matched())
}

func TestHoldReply(t *testing.T) {
	s, p := newPair(t)
	r := p.On(proxy.Command("INCR"), proxy.HoldReply, proxy.EveryTime)
	c := dial(t, p)
	for n := range 2 {
		require.NoError(t, c.Send("INCR", "n"))
		r.Wait(t, n+1)
		require.EqualValues(t, n+1, s.Int(t, "INCRBY", "n", "0"))
		silent(t, c)
		r.Release()
		require.EqualValues(t, n+1, receiveOne(t, c))
	}
}

func TestRemoveReleases(t *testing.T) {
	_, p := newPair(t)
	r := p.On(proxy.Any, proxy.Stall, proxy.EveryTime)
	c := dial(t, p)
	require.NoError(t, c.Send("PING"))
	r.Wait(t, 1)
	r.Remove()
	require.Equal(t, "PONG", receiveOne(t, c))
	_, err := c.Do("PING")
	require.NoError(t, err)
	require.Equal(t, 1, r.Matched())
}

func TestDelay(t *testing.T) {
	_, p := newPair(t)
	p.On(proxy.Command("PING"), proxy.Delay(50*time.Millisecond), proxy.EveryTime)
	c := dial(t, p)
	start := time.Now()
	_, err := c.Do("PING")
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(start), 50*time.Millisecond)
}

func TestScriptMatchesBothWaysToRunIt(t *testing.T) {
	_, p := newPair(t)
	client := connect(t, p)
	script := rueidis.NewLuaScript("return ARGV[1]")
	const sha = "098e0f0d1448c0a81dafe820f66d460eb09263da"
	r := p.On(proxy.Script(sha), proxy.Pass, proxy.EveryTime)
	other := p.On(proxy.Script("1234"), proxy.DropReply, proxy.EveryTime)
	require.NoError(t, script.Exec(context.Background(), client, nil, []string{"x"}).Error())
	require.Equal(t, 2, r.Matched(), "EVALSHA, refused, and EVAL")
	require.Equal(t, 0, other.Matched())
}

func TestPushesPass(t *testing.T) {
	s, p := newPair(t)
	client := connect(t, p)
	ctx := context.Background()
	dedicated, release := client.Dedicate()
	defer release()
	got := make(chan string, 10)
	dedicated.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) { got <- m.Message }})
	subscribed := p.On(proxy.Command("SUBSCRIBE"), proxy.Pass, proxy.First)
	require.NoError(t, dedicated.Do(ctx, dedicated.B().Subscribe().Channel("a", "b").Build()).Error())
	subscribed.WaitAnswered(t, 1)
	require.Len(t, subscribed.Conns(), 1)

	// Pushes between request and reply must not be taken for the reply.
	for _, text := range []string{"1", "2", "3"} {
		require.EqualValues(t, 1, s.Int(t, "PUBLISH", "b", text))
		require.NoError(t, dedicated.Do(ctx, dedicated.B().Ping().Build()).Error())
		require.Equal(t, text, redistest.Receive(t, got, "a message"))
	}
	require.NoError(t, dedicated.Do(ctx, dedicated.B().Unsubscribe().Build()).Error())
	drop := p.On(proxy.Command("PING"), proxy.DropReply, proxy.First)
	require.Error(t, dedicated.Do(ctx, dedicated.B().Ping().Build()).Error())
	require.Equal(t, 1, drop.Count())
}

func TestPushesPassInRESP2(t *testing.T) {
	s, p := newPair(t)
	c := dial(t, p)
	r := p.On(proxy.Command("PING"), proxy.Answer("+mine"), proxy.Second)
	require.NoError(t, c.Send("SUBSCRIBE", "a", "b"))
	require.Equal(t, []any{"subscribe", "a", int64(1)}, receiveOne(t, c))
	require.Equal(t, []any{"subscribe", "b", int64(2)}, receiveOne(t, c))
	s.Do(t, "PUBLISH", "a", "hello")
	require.Equal(t, []any{"message", "a", "hello"}, receiveOne(t, c))
	require.NoError(t, c.Send("PING", "1"))
	require.Equal(t, []any{"pong", "1"}, receiveOne(t, c))
	require.NoError(t, c.Send("UNSUBSCRIBE"))
	require.NoError(t, c.Send("PING", "2"))
	require.Equal(t, "unsubscribe", receiveOne(t, c).([]any)[0])
	require.Equal(t, "unsubscribe", receiveOne(t, c).([]any)[0])
	require.Equal(t, "mine", receiveOne(t, c))
	require.Equal(t, 1, r.Count())
}

func TestStallConnection(t *testing.T) {
	s, p := newPair(t)
	r := p.On(proxy.Command("CLIENT SETNAME"), proxy.Pass, proxy.EveryTime)
	c, other := dial(t, p), dial(t, p)
	_, err := c.Do("CLIENT", "SETNAME", "victim")
	require.NoError(t, err)
	victim := r.Conns()[0]

	victim.Stall(proxy.ToClient)
	require.NoError(t, c.Send("INCR", "n"))
	require.Eventually(t, func() bool { return s.Str(t, "GET", "n") == "1" }, 10*time.Second, time.Millisecond)
	silent(t, c)
	victim.Resume()
	require.EqualValues(t, 1, receiveOne(t, c))

	victim.Stall(proxy.ToServer)
	require.NoError(t, c.Send("INCR", "n"))
	reply, err := other.Do("INCR", "n")
	require.NoError(t, err)
	require.EqualValues(t, 2, reply)
	victim.Resume()
	require.EqualValues(t, 3, receiveOne(t, c))

	victim.Cut()
	_, err = c.Do("PING")
	require.Error(t, err)
	require.Eventually(t, func() bool { return len(r.Conns()) == 0 }, 10*time.Second, time.Millisecond)
}

func TestAllConnections(t *testing.T) {
	s, p := newPair(t)
	c := dial(t, p)
	_, err := c.Do("PING")
	require.NoError(t, err)

	p.StallAll()
	p.StallNew(true)
	fresh := dial(t, p)
	require.NoError(t, c.Send("INCR", "n"))
	require.NoError(t, fresh.Send("INCR", "n"))
	require.Eventually(t, func() bool { return p.Accepted() == 2 }, 10*time.Second, time.Millisecond)
	silent(t, c)
	silent(t, fresh)
	require.Empty(t, s.Keyspace(t))
	p.ResumeAll()
	receiveOne(t, c)
	receiveOne(t, fresh)

	p.RefuseNew(true)
	_, err = redistest.Dial(p.Addr())
	require.ErrorContains(t, err, "refused")
	p.CutAll()
	_, err = c.Do("PING")
	require.Error(t, err)
	p.RefuseNew(false)

	next := redistest.Start(t)
	p.SetServer(next.Addr())
	_, err = dial(t, p).Do("SET", "moved", "1")
	require.NoError(t, err)
	require.Equal(t, "1", next.Str(t, "GET", "moved"))
}

func TestServerEnd(t *testing.T) {
	s, p := newPair(t)
	c := dial(t, p)
	_, err := c.Do("PING")
	require.NoError(t, err)
	s.Stop()
	_, err = c.Receive()
	require.Error(t, err)
	orphan, err := redistest.Dial(p.Addr())
	if err == nil { // or the reset was faster
		defer orphan.Close()
		_, err = orphan.Do("PING")
	}
	require.Error(t, err, "nobody behind the proxy")
	s.Restart()
	_, err = dial(t, p).Do("PING")
	require.NoError(t, err)
}

func TestLosesMessages(t *testing.T) {
	srv, p := newPair(t)
	c := dial(t, p)
	_, err := c.Do("SUBSCRIBE", "news")
	require.NoError(t, err)
	p.LoseMessages(true)
	require.EqualValues(t, 1, srv.Int(t, "PUBLISH", "news", "lost"))
	require.Eventually(t, func() bool { return p.LostMessages() == 1 }, 10*time.Second, time.Millisecond)
	silent(t, c)
	p.LoseMessages(false)
	srv.Do(t, "PUBLISH", "news", "heard")
	require.Contains(t, receiveOne(t, c), "heard")
}

// What a master sends to its replica is no list of replies, and passes all the same.
func TestAReplicaBehindAProxy(t *testing.T) {
	t.Parallel()
	master, p := newPair(t)
	host, port, err := net.SplitHostPort(p.Addr())
	require.NoError(t, err)
	follows := p.On(proxy.Command("PSYNC"), proxy.Pass, proxy.EveryTime)
	master.Do(t, "CONFIG", "SET", "repl-diskless-sync-delay", "0")
	master.Do(t, "SET", "before", "1")
	replica := redistest.Start(t, "--replicaof", host, port)
	replica.AwaitInStep(t)
	require.Equal(t, "1", replica.Str(t, "GET", "before"))
	require.Equal(t, int64(1), master.Int(t, "WAIT", "1", "10000"))

	stream := follows.Conns()[len(follows.Conns())-1]
	stream.Stall(proxy.ToClient)
	master.Do(t, "SET", "held back", "1")
	require.Equal(t, int64(0), master.Int(t, "WAIT", "1", "50"))
	require.Equal(t, int64(0), replica.Int(t, "EXISTS", "held back"))
	stream.Resume()
	require.Equal(t, int64(1), master.Int(t, "WAIT", "1", "10000"))
	require.Equal(t, int64(1), replica.Int(t, "EXISTS", "held back"))

	stream.Stall(proxy.ToClient)
	master.Do(t, "SET", "lost", "1")
	master.Stop()
	stream.Cut()
	require.Equal(t, int64(0), replica.Int(t, "EXISTS", "lost"))
}

// Connections can be accepted again at once after they were refused, while processes are started.
func TestARefusalThatIsTakenBackAtOnce(t *testing.T) {
	t.Parallel()
	p := proxy.Start(t, "127.0.0.1:1")
	over := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-over:
				return
			default:
				_ = exec.CommandContext(t.Context(), "true").Run()
			}
		}
	}()
	for range 1000 {
		p.RefuseNew(true)
		p.RefuseNew(false)
	}
	close(over)
	<-done
}

// A connection that is on its way to the server when new ones are refused is new.
func TestNoConnectionSurvivesACut(t *testing.T) {
	t.Parallel()
	s, p := newPair(t)
	for range 300 {
		survived := make(chan error, 1)
		began := make(chan struct{})
		go func() {
			close(began)
			c, err := redistest.Dial(p.Addr())
			if err == nil {
				defer c.Close()
				for err == nil && t.Context().Err() == nil {
					_, err = c.Do("PING")
				}
			}
			survived <- err
		}()
		<-began
		p.RefuseNew(true)
		p.CutAll()
		select {
		case err := <-survived:
			require.Error(t, err)
		case <-time.After(10 * time.Second):
			t.Fatal("a connection is still served")
		}
		p.RefuseNew(false)
	}
	require.Equal(t, "PONG", s.Str(t, "PING"))
}
