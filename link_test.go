package holdfast

import (
	"bufio"
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/sharing"
)

// A wire is a direct connection as the client uses it, and the server's end of it.
type wire struct {
	*link

	all    *links
	server net.Conn
}

func newWire(t *testing.T) *wire {
	t.Helper()
	return wireOver(t, "tcp", "127.0.0.1:0")
}

func wireOver(t *testing.T, network, addr string) *wire {
	t.Helper()
	l, err := net.Listen(network, addr)
	require.NoError(t, err)
	defer l.Close()
	near, err := net.Dial(network, l.Addr().String())
	require.NoError(t, err)
	server, err := l.Accept()
	require.NoError(t, err)
	all := new(links)
	w := &wire{newLink(near, all, "server"), all, server}
	t.Cleanup(func() { _, _ = w.Close(), server.Close() })
	return w
}

// standalone is a client of one server.
type standalone struct{ rueidis.Client }

func (standalone) Mode() rueidis.ClientMode { return rueidis.ClientModeStandalone }

// send sends a command as the client does.
func (w *wire) send(t *testing.T, ctx context.Context, within time.Duration, command string) {
	t.Helper()
	ctx = sharing.Aside(ctx, sharing.Client(standalone{}, &w.all.directs))
	if _, is := ctx.Deadline(); !is {
		require.Nil(t, ctx.Done(), "the client would not call directly")
	}
	require.NoError(t, w.SetDeadline(time.Now().Add(within)))
	_, err := w.Write([]byte(command))
	require.NoError(t, err)
}

// answer returns its first line.
func (w *wire) answer() (string, error) { return bufio.NewReader(w.link).ReadString('\n') }

func (w *wire) call(t *testing.T, ctx context.Context, within time.Duration, command string) (string, error) {
	t.Helper()
	w.send(t, ctx, within, command)
	return w.answer()
}

const script = "*1\r\n$7\r\nEVALSHA\r\n"

func (w *wire) says(t *testing.T, reply string) {
	t.Helper()
	_, err := io.WriteString(w.server, reply)
	require.NoError(t, err)
}

func TestADirectCallIsLeftByItsCallerAlone(t *testing.T) {
	for name, end := range map[string]func() (context.Context, context.CancelFunc){
		"a deadline": func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(t.Context(), 20*time.Millisecond)
		},
		"a short deadline": func() (context.Context, context.CancelFunc) { return context.WithTimeout(t.Context(), soon/2) },
		"a cancellation": func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(20*time.Millisecond, cancel)
			return ctx, cancel
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWire(t)
			const many = 3
			for range many {
				ctx, cancel := end()
				answer, err := w.call(t, ctx, time.Hour, script)
				require.NoError(t, err)
				require.Equal(t, sharing.Ended, answer)
				require.Error(t, ctx.Err())
				cancel()
			}
			for range many {
				w.says(t, "*2\r\n:1\r\n$4\r\nlate\r\n")
			}
			w.says(t, ":7\r\n")
			for _, ctx := range []context.Context{t.Context(), context.WithoutCancel(t.Context())} {
				answer, err := w.call(t, ctx, time.Hour, script)
				require.NoError(t, err)
				require.Equal(t, ":7\r\n", answer)
				w.says(t, ":7\r\n")
			}
			assert.False(t, w.direct.Ended())
		})
	}
}

// A context that no call has taken is nobody's.
func TestAConnectionThatTurnsPipelinedHasNoCaller(t *testing.T) {
	w := newWire(t)
	_, ctx := sharing.Bearable(t.Context(), sharing.Client(standalone{}, &w.all.directs))
	_, direct := ctx.Deadline()
	require.True(t, direct)
	require.NoError(t, w.SetDeadline(time.Time{}))
	require.Nil(t, w.caller)
}

// The reply to a call that was left may come when nobody can wait for it any more.
func TestAPipelinedConnectionLeavesOutWhatADirectCallLeft(t *testing.T) {
	w := newWire(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := w.call(t, ctx, time.Hour, script)
	require.NoError(t, err)
	require.NoError(t, w.SetDeadline(time.Time{}))
	w.says(t, "$4\r\nla")
	time.AfterFunc(10*time.Millisecond, func() { w.says(t, "te\r\n:7\r\n") })
	answer, err := w.answer()
	require.NoError(t, err)
	require.Equal(t, ":7\r\n", answer)
}

// Callers that wait for less than it takes to give a silent connection up do not keep it.
func TestASilentConnectionIsGivenUpThoughCallersLeave(t *testing.T) {
	w := newWire(t)
	const within = 50 * time.Millisecond
	began := time.Now()
	for {
		ctx, cancel := context.WithTimeout(t.Context(), within/5)
		_, err := w.call(t, ctx, within, script)
		cancel()
		if err != nil {
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			break
		}
		require.Less(t, time.Since(began), 10*time.Second)
	}
	require.GreaterOrEqual(t, time.Since(began), within)

	w = newWire(t) // and an answer that is there by then is one
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := w.call(t, ctx, within, script)
	require.NoError(t, err)
	time.Sleep(2 * within)
	w.says(t, ":1\r\n:7\r\n")
	answer, err := w.call(t, t.Context(), time.Hour, script)
	require.NoError(t, err)
	require.Equal(t, ":7\r\n", answer)
}

// A server that answers each call, but later than its caller waits, is not silent.
func TestASlowServerIsNotTakenForASilentOne(t *testing.T) {
	w := newWire(t)
	const within = 200 * time.Millisecond
	go func() {
		for buf := make([]byte, 4096); ; {
			n, err := w.server.Read(buf)
			if err != nil {
				return
			}
			answers := strings.Repeat(":1\r\n", strings.Count(string(buf[:n]), "EVALSHA"))
			time.AfterFunc(25*time.Millisecond, func() { _, _ = io.WriteString(w.server, answers) })
		}
	}()
	for began := time.Now(); time.Since(began) < 3*within; {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		_, err := w.call(t, ctx, within, script)
		cancel()
		require.NoError(t, err, "after %v", time.Since(began))
	}
}

// A call ends with its context also if a server that reads nothing would soon leave no room for the next one.
func TestACallEndsWithItsContextThoughNothingIsRead(t *testing.T) {
	for network, addr := range map[string]string{"tcp": "127.0.0.1:0", "unix": filepath.Join(t.TempDir(), "socket")} {
		t.Run(network, func(t *testing.T) {
			w := wireOver(t, network, addr)
			for range 1000 {
				ctx, cancel := context.WithTimeout(t.Context(), 2*soon)
				began := time.Now()
				_, err := w.call(t, ctx, time.Hour, script+"$300\r\n"+strings.Repeat("x", 300)+"\r\n")
				cancel()
				require.Less(t, time.Since(began), time.Minute)
				if err != nil {
					require.ErrorIs(t, err, os.ErrDeadlineExceeded)
					return
				}
			}
			require.Fail(t, "a silent connection takes everything")
		})
	}
}

func TestAnAnswerThatCameWhileThisProcessStoodStillIsRead(t *testing.T) {
	ending, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	for name, ctx := range map[string]context.Context{
		"the caller's time has passed": ending, "the connection's": t.Context(),
		"of a call that has no end": context.WithoutCancel(t.Context()),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWire(t)
			w.says(t, ":7\r\n")
			w.send(t, ctx, 10*time.Millisecond, script)
			time.Sleep(20 * time.Millisecond)
			answer, err := w.answer()
			require.NoError(t, err)
			require.Equal(t, ":7\r\n", answer)
		})
	}
}

func TestHalfAnAnswerIsNotLeft(t *testing.T) {
	w := newWire(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	w.says(t, "$4\r")
	_, err := w.call(t, ctx, time.Hour, script)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}

// The context of a call for which the client connects is not that of the greeting.
func TestAGreetingEndsWithTheConnection(t *testing.T) {
	w := newWire(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	const within = 50 * time.Millisecond
	began := time.Now()
	_, err := w.call(t, ctx, within, "*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n")
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.GreaterOrEqual(t, time.Since(began), within)
}

// A call that ends as its caller leaves is not mistaken for the next one.
func TestACallerThatLeavesLateEndsNoOtherCall(t *testing.T) {
	w := newWire(t)
	for range 200 {
		ctx, cancel := context.WithCancel(t.Context())
		said := make(chan struct{})
		time.AfterFunc(2*soon, func() {
			go cancel()
			w.says(t, ":1\r\n")
			close(said)
		})
		answer, err := w.call(t, ctx, time.Hour, script)
		require.NoError(t, err)
		require.Contains(t, []string{":1\r\n", sharing.Ended}, answer)
		<-said
		w.says(t, ":7\r\n")
		answer, err = w.call(t, t.Context(), time.Hour, script)
		require.NoError(t, err)
		require.Equal(t, ":7\r\n", answer)
	}
}
