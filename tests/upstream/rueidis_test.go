package upstream

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/tests/child"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
	"github.com/redis/rueidis"
)

func TestMain(m *testing.M) {
	if how, addr, dies := strings.Cut(os.Getenv(deed), " at "); dies {
		fmt.Println(map[string]func(string) error{"unsubscribe": unsubscribe, "give up": giveUp}[how](addr))
		os.Exit(0)
	}
	kit.Main(m, nil)
}

// slack is what a busy machine may add to a time.
const slack = 300 * time.Millisecond

func open(t testing.TB, srv *redistest.Server, set func(*rueidis.ClientOption)) rueidis.Client {
	t.Helper()
	opt := rueidis.ClientOption{InitAddress: []string{srv.Addr()}, DisableCache: true}
	if set != nil {
		set(&opt)
	}
	client, err := rueidis.NewClient(opt)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

// A noted connection counts the PINGs that are written to it.
type noted struct {
	net.Conn
	pings *atomic.Int64
}

func (c noted) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.pings.Add(int64(bytes.Count(b[:n], []byte("PING"))))
	return n, err
}

// note has the client use noted connections.
func note(opt *rueidis.ClientOption) (pings *atomic.Int64) {
	pings = &atomic.Int64{}
	opt.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
		conn, err := d.DialContext(ctx, "tcp", addr)
		return noted{conn, pings}, err
	}
	return pings
}

func ping(ctx context.Context, client rueidis.Client) error {
	return client.Do(ctx, client.B().Ping().Build()).Error()
}

// going is closed when a ping in a goroutine of its own has returned.
func going(ctx context.Context, client rueidis.Client) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = ping(ctx, client)
	}()
	return done
}

// ended waits for the end of a context and a busy machine, and reports whether a call that has the context has ended.
func ended(ctx context.Context, done <-chan struct{}) bool {
	<-ctx.Done()
	select {
	case <-done:
		return true
	case <-time.After(slack):
		return false
	}
}

// Expected: a call on a closed client fails with ErrClosing, whatever came before.
// What happens: a call whose context has ended takes the mark of the end away, and the next call connects anew.
func TestAClosedClientComesBack(t *testing.T) {
	t.Parallel()
	client := open(t, redistest.Start(t), nil)
	client.Close()
	require.ErrorIs(t, ping(t.Context(), client), rueidis.ErrClosing)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, ping(over, client), context.Canceled)
	assert.NoError(t, ping(t.Context(), client), "it is mended: the closed client stays closed")
}

// Expected: a client that is closed has no connection any more.
// What happens: one that was being made is kept, and calls go over it. Nobody closes it; closing again does. Behind
// Sentinel, the client does that to itself when another master is named.
func TestAConnectionThatIsBeingMadeOutlivesItsClient(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	var slow atomic.Bool
	dialling, made := make(chan struct{}, 1), make(chan struct{})
	client := open(t, srv, func(opt *rueidis.ClientOption) {
		opt.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			if slow.Load() {
				select {
				case dialling <- struct{}{}:
				default:
				}
				<-made
			}
			return d.DialContext(ctx, "tcp", addr)
		}
	})
	slow.Store(true)
	srv.Restart()
	calls := make(chan struct{})
	go func() {
		defer close(calls)
		_ = ping(t.Context(), client) // it may only find that the connection has ended
		_ = ping(t.Context(), client)
	}()
	kit.Within(t, 5*time.Second, dialling, "a connection that is being made")
	client.Close()
	close(made)
	kit.Within(t, 5*time.Second, calls, "the end of the calls")
	assert.NoError(t, ping(t.Context(), client), "it is mended: the closed client stays closed")
}

// Expected: while no master is there, the client asks sentinels less and less often.
// What happens: it closes the connection to each that names a server which is no master, or away. For each connection
// that ends, one more goroutine asks again, and again. In a few seconds there are hundreds.
func TestSentinelsAreAskedByEverMoreGoroutines(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	sentinel := redistest.StartSentinel(t, "alone", master.Addr())
	var dials atomic.Int64
	client := open(t, sentinel, func(opt *rueidis.ClientOption) {
		opt.Sentinel = rueidis.SentinelOption{MasterSet: "alone", TopologyRefreshInterval: 100 * time.Millisecond}
		opt.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			if addr == sentinel.Addr() {
				dials.Add(1)
			}
			return d.DialContext(ctx, "tcp", addr)
		}
	})
	master.Stop()
	for end := time.Now().Add(20 * time.Second); dials.Load() < 200; {
		if !assert.True(t, time.Now().Before(end), "it is mended: only %d connections to the sentinel", dials.Load()) {
			break
		}
		redistest.Pause(time.Now())
	}
	client.Close()
}

// Expected: the deadline of a call ends that call.
// What happens: the first call of a connection sets its deadline on the connection, which ends with it. So does the
// call of another goroutine, whose context has no end, and which is retried or not as it is a read or a write.
func TestADeadlineEndsTheCallsOfOthers(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	var pings *atomic.Int64
	client := open(t, srv, func(opt *rueidis.ClientOption) {
		opt.PipelineMultiplex = -1 // one connection
		pings = note(opt)
	})
	srv.Pause()
	late, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- ping(late, client) }()
	kit.Await(t, "the first call", func() bool { return pings.Load() == 1 })
	go func() {
		second <- client.Do(context.Background(), client.B().Incr().Key("x").Build()).Error()
	}()
	require.ErrorIs(t, <-first, context.DeadlineExceeded)
	select {
	case err := <-second:
		assert.Error(t, err, "it is mended: the server is stopped, so nothing can have been answered")
		t.Log("the call without a deadline:", err)
	case <-time.After(slack):
		srv.Resume()
		assert.NoError(t, <-second)
		assert.Fail(t, "it is mended: the call without a deadline goes on")
	}
	srv.Resume()
}

// Expected: a call ends with its context.
// What happens: while one goroutine makes the connection, all others wait for it, whatever their contexts say.
func TestACallOutlivesItsContextWhileAnotherDials(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	var slow atomic.Bool
	dialling, goOn := make(chan struct{}), make(chan struct{})
	client := open(t, srv, func(opt *rueidis.ClientOption) {
		opt.DisableRetry = true
		opt.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			if slow.CompareAndSwap(true, false) {
				close(dialling)
				<-goOn
			}
			return d.DialContext(ctx, "tcp", addr)
		}
	})
	slow.Store(true)
	_ = client.Do(t.Context(), client.B().Quit().Build()) // the server closes the connection
	var first <-chan struct{}
	kit.Await(t, "a new connection", func() bool {
		first = going(context.Background(), client)
		select {
		case <-dialling:
			return true
		case <-first:
			return false
		}
	})
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	second := going(short, client)
	assert.False(t, ended(short, second), "it is mended: the call ends with its context")
	close(goOn)
	<-first
	<-second
}

// Expected: a call ends with its context.
// What happens: where the ring of calls under way is full, a call waits for a place in it, whatever its context says.
func TestACallOutlivesItsContextWhereTheRingIsFull(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	var pings *atomic.Int64
	client := open(t, srv, func(opt *rueidis.ClientOption) {
		pings = note(opt)
		opt.RingScaleEachConn = 1 // two places; the default has 1,024
		opt.PipelineMultiplex = -1
		opt.AlwaysPipelining = true
	})
	srv.Pause()
	first, second := going(context.Background(), client), going(context.Background(), client)
	kit.Await(t, "two calls", func() bool { return pings.Load() == 2 })
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	third := going(short, client)
	assert.False(t, ended(short, third), "it is mended: the call ends with its context")
	srv.Resume()
	<-first
	<-second
	<-third
}

// Expected: a call that must connect ends with its context.
// What happens: if a connection is made when the context has little time left, the client sends QUIT instead of a
// greeting, and waits for a second for the answer.
func TestAFarewellTakesASecond(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	var late atomic.Bool
	client := open(t, srv, func(opt *rueidis.ClientOption) {
		opt.DisableRetry = true
		opt.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			conn, err := d.DialContext(ctx, "tcp", addr)
			if late.Load() {
				<-ctx.Done()
			}
			return conn, err
		}
	})
	late.Store(true)
	_ = client.Do(t.Context(), client.B().Quit().Build())
	kit.Await(t, "the end of the connection", func() bool { return srv.Connections(t) == 0 })
	srv.Pause()
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	for short.Err() == nil {
		_ = ping(short, client)
	}
	deadline, _ := short.Deadline()
	assert.Greater(t, time.Since(deadline), 800*time.Millisecond, "it is mended: the call ends with its context")
	srv.Resume()
}

// Expected: whoever stops listening while the server is busy with a script gets an error, or stops listening later.
// What happens: the server answers BUSY to UNSUBSCRIBE, and again to the PING that the client sends behind it. The
// client takes the first one for the answer to both, and has no call for the second: it panics in a goroutine of its
// own, where nobody can recover, so the process ends.
func TestAProcessDiesThatUnsubscribesFromABusyServer(t *testing.T) {
	t.Parallel()
	dies(t, "unsubscribe", redistest.Start(t, "--busy-reply-threshold", "100"))
}

// dies has a process do that at srv, and expects that the client ends it.
func dies(t *testing.T, how string, srv *redistest.Server) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), deed+"="+how+" at "+srv.Addr())
	cmd.SysProcAttr = child.Attributes()
	out, err := cmd.CombinedOutput()
	require.Error(t, err, "it is mended: the process lives: %s", out)
	t.Log(string(out))
	assert.Contains(t, string(out), "panic: protocol bug, message handled out of order")
}

// deed tells a process that it is the one that dies, of what, and where the server is.
const deed = "HOLDFAST_UPSTREAM_DEED"

func unsubscribe(addr string) error {
	ctx := context.Background()
	opt := rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true, DisableRetry: true}
	client, err := rueidis.NewClient(opt)
	if err != nil {
		return err
	}
	other, err := rueidis.NewClient(opt)
	if err != nil {
		return err
	}
	listener, _ := client.Dedicate()
	over := listener.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(rueidis.PubSubMessage) {}})
	if err := listener.Do(ctx, listener.B().Subscribe().Channel("x").Build()).Error(); err != nil {
		return err
	}
	go other.Do(ctx, other.B().Eval().Script("while true do end").Numkeys(0).Build())
	for { // until the server says that it is busy
		err := client.Do(ctx, client.B().Get().Key("x").Build()).Error()
		if answer, ok := rueidis.IsRedisErr(err); ok && strings.HasPrefix(answer.Error(), "BUSY") {
			break
		}
	}
	_ = listener.Do(ctx, listener.B().Unsubscribe().Channel("x").Build()).Error()
	select { // the panic comes with the second answer
	case err := <-over:
		return err
	case <-time.After(20 * time.Second):
		return nil
	}
}

// Expected: a call whose context ends just when its connection is made gets an error, also at a server that has too
// many clients.
// What happens: that server says so before it is asked anything. The client does not greet it any more, but closes the
// connection, for which it starts to read: it finds an answer to nothing, and panics in a goroutine of its own.
func TestAProcessDiesThatGivesUpAServerThatIsFull(t *testing.T) {
	t.Parallel()
	dies(t, "give up", redistest.Start(t))
}

// heard is a connection of which something may have been read ahead.
type heard struct {
	net.Conn
	ahead *bufio.Reader
}

func (h heard) Read(b []byte) (int, error) { return h.ahead.Read(b) }

func giveUp(addr string) error {
	opt := rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true, DisableRetry: true}
	other, err := rueidis.NewClient(opt)
	if err != nil {
		return err
	}
	var end atomic.Pointer[context.CancelFunc] // of the call
	opt.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
		conn, err := d.DialContext(ctx, "tcp", addr)
		if err != nil || end.Load() == nil {
			return conn, err
		}
		ahead := bufio.NewReader(conn)
		_, _ = ahead.Peek(1) // the server has spoken
		(*end.Load())()
		return heard{conn, ahead}, nil
	}
	client, err := rueidis.NewClient(opt)
	if err != nil {
		return err
	}
	for _, text := range []string{"CONFIG SET maxclients 1", "CLIENT KILL TYPE normal SKIPME yes"} {
		command := other.B().Arbitrary(strings.Fields(text)...).Build()
		if err := other.Do(context.Background(), command).Error(); err != nil {
			return err
		}
	}
	for began := time.Now(); time.Since(began) < 20*time.Second; {
		ctx, cancel := context.WithCancel(context.Background())
		end.Store(&cancel)
		err = client.Do(ctx, client.B().Get().Key("x").Build()).Error()
		cancel()
	}
	return err
}

// Expected: a call that is under way when Sentinel names another master fails in words that say that its connection has
// ended, or is repeated if it is a read.
// What happens: it fails with ErrClosing, as if Close had been called; the next call on the same client succeeds.
func TestAnOpenClientSaysThatItIsClosing(t *testing.T) {
	t.Parallel()
	set := redistest.StartSentinels(t)
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: set.SentinelAddrs(), DisableCache: true, ConnWriteTimeout: time.Minute,
		Sentinel: rueidis.SentinelOption{MasterSet: set.MasterName},
	})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	require.NoError(t, ping(t.Context(), client))
	set.Master().Pause()
	err = client.Do(context.Background(), client.B().Incr().Key("x").Build()).Error()
	if !errors.Is(err, rueidis.ErrClosing) { // it depends on the moment, and a busy machine has other moments
		require.Error(t, err, "it is mended: the call went on at the other master")
		t.Log("this time it said:", err)
	}
	kit.Await(t, "the client", func() bool { return ping(t.Context(), client) == nil })
	set.Master().Resume()
}
