package scripts

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

var (
	acquireScript = script.Load("rlock_acquire")
	holdersScript = script.Load("lock_holders")
)

// anyAcquire matches the acquisition, whichever command carries it.
var anyAcquire = proxy.Command("EVAL", "EVALSHA")

// newRunner returns a runner that leaves nothing behind.
func newRunner(t testing.TB, client rueidis.Client) *script.Runner {
	t.Helper()
	began := time.Now()
	r := script.NewRunner(client, func() time.Duration { return time.Since(began) }, 30*time.Second)
	t.Cleanup(func() {
		client.Close()
		r.Wait()
	})
	return r
}

// take runs an acquisition of the key that is never late.
func take(ctx context.Context, r *script.Runner, lane script.Lane, key string) error {
	c := takeCall(key)
	defer c.Free()
	if err := r.Run(ctx, lane, c); err != nil {
		return err
	}
	_, err := c.ReadInt()
	return err
}

// takeAnew is take after the connection was cut; the first calls may still find the old one.
func takeAnew(ctx context.Context, r *script.Runner) error {
	for {
		if err := take(ctx, r, script.Take, "x"); ctx.Err() != nil || err == nil {
			return err
		}
	}
}

func takeCall(key string) *script.Call {
	return script.NewCall(acquireScript).Key(key).Arg("me:1").Int(1 << 53).Int(60_000)
}

// assertFailed asserts the class of a failure, and whether it may pass by itself.
func assertFailed(t testing.TB, class script.Class, temporary bool, err error) {
	t.Helper()
	require.Error(t, err)
	assert.Equal(t, class, script.ClassOf(err), "%v", err)
	assert.Equal(t, temporary, script.IsTemporary(err), "%v", err)
}

func TestAScriptThatTheServerForgotIsSentInFull(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	r := newRunner(t, kit.NewClient(t, srv.Addr()))
	for _, want := range []map[string]int64{
		{"evalsha": 1, "eval": 1}, // a new server knows no scripts
		{"evalsha": 1},
	} {
		srv.ResetStats(t)
		require.NoError(t, take(t.Context(), r, script.Take, "x"))
		stats := srv.CommandStats(t)
		assert.Equal(t, want["evalsha"], stats["evalsha"])
		assert.Equal(t, want["eval"], stats["eval"])
	}
	srv.Do(t, "SCRIPT", "FLUSH")
	require.NoError(t, take(t.Context(), r, script.Take, "x"))

	srv.Do(t, "SCRIPT", "FLUSH")
	r.RunAll(t.Context(), []*script.Call{takeCall("a"), takeCall("b"), takeCall("c")}, func(_ int, err error) {
		assert.NoError(t, err)
	})
	assert.Len(t, srv.Keyspace(t), 4)
}

func TestABatchIsAnsweredCallByCall(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := proxy.Start(t, srv.Addr())
	r := newRunner(t, kit.NewClient(t, p.Addr()))
	srv.Do(t, "SET", "k1", "not a lock")
	calls := make([]*script.Call, 4)
	for i := range calls {
		calls[i] = takeCall("k" + strconv.Itoa(i))
	}
	next := 0
	r.RunAll(t.Context(), calls, func(i int, err error) {
		assert.Equal(t, next, i)
		next++
		if i == 1 {
			assertFailed(t, script.Refused, false, err)
			assert.ErrorContains(t, err, "WRONGTYPE")
			return
		}
		_, err = calls[i].ReadInt()
		assert.NoError(t, err)
	})
	assert.Equal(t, len(calls), next)

	p.On(anyAcquire.With("k2"), proxy.DropReply, proxy.EveryTime)
	r.RunAll(t.Context(), calls, func(i int, err error) {
		switch i {
		case 0:
			assert.NoError(t, err)
		case 1:
			assertFailed(t, script.Refused, false, err)
		default: // the connection was lost, and the reply to the third call with it
			assertFailed(t, script.Unknown, true, err)
		}
	})
}

func TestALostConnectionLeavesTheOutcomeUnknown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault    proxy.Action
		executed int
	}{
		"after the server ran the script": {proxy.DropReply, 1},
		"before":                          {proxy.ResetBefore, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			p := proxy.Start(t, srv.Addr())
			r := newRunner(t, kit.NewClient(t, p.Addr()))
			require.NoError(t, take(t.Context(), r, script.Take, "known"))
			p.On(anyAcquire, c.fault, proxy.First)
			assertFailed(t, script.Unknown, true, take(t.Context(), r, script.Take, "x"))
			assert.Len(t, srv.Keyspace(t), 1+c.executed)
			assert.NoError(t, take(t.Context(), r, script.Take, "x"), "the next call has a new connection")
		})
	}
}

func TestADialThatIsRefusedSentNothing(t *testing.T) {
	t.Parallel()
	client, err := rueidis.NewClient(kit.ClientOption(refusing(t)))
	require.ErrorContains(t, err, "refused")
	err = take(t.Context(), newRunner(t, client), script.Take, "x")
	assertFailed(t, script.Refused, true, err)
	assert.ErrorContains(t, err, "connection refused")
}

// refusing is an address that refuses connections, and that nobody else gets: it is bound, and not listened at.
func refusing(t *testing.T) string {
	t.Helper()
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, syscall.Close(socket)) })
	require.NoError(t, syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	at, err := syscall.Getsockname(socket)
	require.NoError(t, err)
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(at.(*syscall.SockaddrInet4).Port))
}

func TestAClosedClientIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	client := kit.NewClient(t, redistest.Start(t).Addr())
	r := newRunner(t, client)
	client.Close()
	err := take(t.Context(), r, script.Take, "x")
	assertFailed(t, script.Unknown, false, err)
	assert.ErrorIs(t, err, rueidis.ErrClosing)
}

func TestTheCallersContextEndsTheCall(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := proxy.Start(t, srv.Addr())
	r := newRunner(t, kit.NewClient(t, p.Addr()))
	rule := p.On(anyAcquire, proxy.Stall, proxy.EveryTime)
	why := errors.New("why")

	ended, end := context.WithCancelCause(t.Context())
	end(why)
	err := take(ended, r, script.Take, "x")
	assertFailed(t, script.Refused, false, err)
	assert.ErrorIs(t, err, why)
	assert.Zero(t, rule.Matched(), "nothing is sent when the context has ended before")

	ctx, end := context.WithCancelCause(t.Context())
	go func() {
		<-rule.Fired()
		end(why)
	}()
	err = take(ctx, r, script.Take, "x")
	assertFailed(t, script.Unknown, false, err)
	assert.ErrorIs(t, err, why)

	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // enough to send it
	defer cancel()
	err = take(ctx, r, script.Take, "x")
	assertFailed(t, script.Unknown, false, err)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	rule.Remove()
}

// A batch, too, ends with its context while another caller connects to a silent server.
func TestABatchWaitsForNobodyElsesConnection(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := proxy.Start(t, srv.Addr())
	r := newRunner(t, kit.NewClient(t, p.Addr()))
	require.NoError(t, take(t.Context(), r, script.Take, "x"))
	srv.Pause()
	defer srv.Resume()
	before := p.Accepted()
	p.CutAll()
	r.Changing()
	patient, cancel := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() { gone <- takeAnew(patient, r) }()
	kit.Await(t, "a connection", func() bool { return p.Accepted() > before })

	const patience = 500 * time.Millisecond // enough to begin
	ctx, end := context.WithTimeout(t.Context(), patience)
	defer end()
	calls, next, elapsed := []*script.Call{takeCall("a"), takeCall("b")}, 0, kit.Stopwatch()
	r.RunAll(ctx, calls, func(i int, err error) {
		assert.Equal(t, next, i)
		next++
		assertFailed(t, script.Unknown, false, err)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
	})
	assert.Equal(t, len(calls), next)
	assert.Less(t, elapsed(), 10*patience)
	cancel()
	assert.ErrorIs(t, kit.Within(t, 5*time.Second, gone, "the end of the one that connects"), context.Canceled)
}

// A caller that finds no connection dials under its own context; callers that come meanwhile get its error.
func TestSomebodyElsesDeadlineFailsNobody(t *testing.T) {
	t.Parallel()
	for name, silent := range map[string]bool{"the network is silent": false, "the server is stopped": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			p := proxy.Start(t, srv.Addr())
			var dials atomic.Int32
			r := newRunner(t, kit.NewClient(t, p.Addr(), func(opt *rueidis.ClientOption) {
				opt.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
					if dials.Add(1) == 2 && !silent {
						<-ctx.Done()
					}
					return d.DialContext(ctx, "tcp", addr)
				}
			}))
			require.NoError(t, take(t.Context(), r, script.Take, "x"))
			if silent {
				srv.Pause() // the kernel goes on accepting connections
			}
			p.CutAll()
			kit.Await(t, "the connections' end", func() bool { return len(p.Conns()) == 0 })

			hasty, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			first := make(chan error, 1)
			go func() { first <- takeAnew(hasty, r) }()
			kit.Await(t, "a dial", func() bool { return dials.Load() > 1 })
			patient, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			joined := make(chan error, 50)
			for i := range cap(joined) {
				go func() { joined <- take(patient, r, script.Lane(i%3), "x") }()
			}
			assert.ErrorIs(t, kit.Within(t, 5*time.Second, first, "the hasty caller"), context.DeadlineExceeded)
			srv.Resume()
			var failed []error
			for range cap(joined) {
				if err := kit.Within(t, 5*time.Second, joined, "the patient callers"); err != nil {
					failed = append(failed, err)
				}
			}
			assert.Empty(t, failed)
		})
	}
}
