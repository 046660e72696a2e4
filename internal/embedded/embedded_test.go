package embedded

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

func start(t *testing.T) *Server {
	t.Helper()
	s, err := Start()
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// A wire is a connection without a client library. It shows what comes over it.
type wire struct {
	t *testing.T
	net.Conn
	*reader
}

func dial(t *testing.T, s *Server) *wire {
	t.Helper()
	c, err := net.Dial("tcp", s.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return &wire{t, c, newReader(c)}
}

// send sends a command.
func (w *wire) send(line string) {
	w.t.Helper()
	words := strings.Fields(line)
	var text bytes.Buffer
	fmt.Fprintf(&text, "*%d\r\n", len(words))
	for _, word := range words {
		fmt.Fprintf(&text, "$%d\r\n%s\r\n", len(word), word)
	}
	_, err := w.Write(text.Bytes())
	require.NoError(w.t, err)
}

// next returns what comes next, its parts separated by blanks.
func (w *wire) next() string {
	w.t.Helper()
	require.NoError(w.t, w.SetReadDeadline(time.Now().Add(5*time.Second)))
	f, err := w.read()
	require.NoError(w.t, err)
	return strings.Join(strings.Fields(string(f.raw)), " ")
}

// ask sends a command and returns what comes next.
func (w *wire) ask(line string) string {
	w.t.Helper()
	w.send(line)
	return w.next()
}

func TestAListOfWordsIsNoMessage(t *testing.T) {
	t.Parallel()
	for _, hello := range []string{"HELLO 2", "HELLO 3"} {
		w := dial(t, start(t))
		w.ask(hello)
		for _, word := range []string{"message", "pmessage", "subscribe", "unsubscribe", "ssubscribe"} {
			w.ask("RPUSH " + word + " " + word)
			require.Equal(t, fmt.Sprintf("*1 $%d %s", len(word), word), w.ask("LRANGE "+word+" 0 -1"), hello)
			require.Equal(t, "+PONG", w.ask("PING"), hello)
		}
		// Nor is it when the connection has subscribed before.
		w.ask("SUBSCRIBE a")
		w.ask("UNSUBSCRIBE")
		require.Equal(t, "*1 $7 message", w.ask("LRANGE message 0 -1"), hello)
		require.Equal(t, "*1 $9 subscribe", w.ask("LRANGE subscribe 0 -1"), hello)
		require.Equal(t, "+PONG", w.ask("PING"), hello)
	}
}

func TestARefusedSubscriptionHoldsNothingUp(t *testing.T) {
	t.Parallel()
	for hello, push := range map[string]string{"HELLO 2": "*3", "HELLO 3": ">3"} {
		s := start(t)
		w, other := dial(t, s), dial(t, s)
		w.ask(hello)
		require.Equal(t, push+" $9 subscribe $1 a :1", w.ask("SUBSCRIBE a"))
		for _, refused := range []string{"SUBSCRIBE", "SSUBSCRIBE b"} {
			require.Contains(t, w.ask(refused), "-ERR ")
			require.Equal(t, ":1", other.ask("PUBLISH a news"))
			require.Equal(t, push+" $7 message $1 a $4 news", w.next(), "without another command")
		}
	}
}

// The whole answer to a command comes before the next command is passed on.
func TestSubscriptionsAreAnsweredInOrder(t *testing.T) {
	t.Parallel()
	for hello, push := range map[string]string{"HELLO 2": "*3", "HELLO 3": ">3"} {
		w := dial(t, start(t))
		w.ask(hello)
		for _, line := range []string{
			"UNSUBSCRIBE", "SUBSCRIBE a b", "SUBSCRIBE", "PSUBSCRIBE c", "PUNSUBSCRIBE",
			"UNSUBSCRIBE b", "SUBSCRIBE b", "UNSUBSCRIBE", "PING",
		} {
			w.send(line)
		}
		var got []string
		for range 11 {
			got = append(got, w.next())
		}
		require.Equal(t, []string{"$9 subscribe $1 a :1", "$9 subscribe $1 b :2"},
			[]string{strings.TrimPrefix(got[1], push+" "), strings.TrimPrefix(got[2], push+" ")})
		require.Contains(t, got[3], "-ERR ")
		require.Equal(t, push+" $12 punsubscribe $1 c :2", got[5])
		require.Equal(t, push+" $9 subscribe $1 b :2", got[7])
		require.True(t, strings.HasSuffix(got[9], ":0"), got[9])
		require.Equal(t, "+PONG", got[10])
	}
}

// With RESP3 a subscribed connection accepts all commands, as on a real server; with RESP2 it does not.
func TestCommandsOfAListener(t *testing.T) {
	t.Parallel()
	s := start(t)
	w, old, other := dial(t, s), dial(t, s), dial(t, s)
	w.ask("HELLO 3")
	require.Equal(t, "+OK", w.ask("SELECT 5"))
	require.Equal(t, "+OK", w.ask("SET k 5"))
	w.ask("SUBSCRIBE a")
	require.Equal(t, "$1 5", w.ask("GET k"), "in the same database")
	require.Equal(t, "+PONG", w.ask("PING"))
	require.Equal(t, ":1", w.ask("RPUSH l message"))
	require.Equal(t, "*1 $7 message", w.ask("LRANGE l 0 -1"))
	require.Equal(t, "+OK", w.ask("MULTI"))
	require.Equal(t, "+QUEUED", w.ask("GET k"))
	require.Equal(t, "*1 $1 5", w.ask("EXEC"))
	require.Equal(t, "*1 $7 message", w.ask("EVAL return{'message'} 0"))
	require.Equal(t, ":1", other.ask("PUBLISH a news"))
	require.Equal(t, ">3 $7 message $1 a $4 news", w.next())
	require.Equal(t, ">3 $11 unsubscribe $1 a :0", w.ask("UNSUBSCRIBE"))
	require.Equal(t, ":0", other.ask("PUBLISH a news"))
	w.ask("SUBSCRIBE a")
	require.NoError(t, w.Close())
	require.Eventually(t, func() bool { return other.ask("PUBLISH a news") == ":0" }, 5*time.Second, time.Millisecond)

	old.ask("SUBSCRIBE a")
	require.Contains(t, old.ask("GET k"), "-ERR Can't execute 'get'")
}

func TestAClientListensAndAsks(t *testing.T) {
	t.Parallel()
	s := start(t)
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{s.Addr()}, DisableCache: true,
		PipelineMultiplex: -1,
	})
	require.NoError(t, err)
	defer client.Close()
	heard, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- client.Receive(t.Context(), client.B().Subscribe().Channel("a").Build(),
			func(m rueidis.PubSubMessage) { heard <- m.Message })
	}()
	other := dial(t, s)
	require.Eventually(t, func() bool { return other.ask("PUBSUB NUMSUB a") == "*2 $1 a :1" }, 5*time.Second,
		time.Millisecond)
	ttl, err := client.Do(t.Context(), client.B().Pttl().Key("k").Build()).AsInt64()
	require.NoError(t, err)
	require.EqualValues(t, -2, ttl)
	require.Equal(t, ":1", other.ask("PUBLISH a news"))
	require.Equal(t, "news", <-heard)
	require.NoError(t, client.Do(t.Context(), client.B().Unsubscribe().Channel("a").Build()).Error())
	require.NoError(t, <-ended)
}
