package redistest

import (
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// Message is one published message.
type Message struct {
	Channel string
	Payload string
}

// Messages collects what is published, in the order in which the server sent it.
type Messages struct {
	server *Server
	conn   *Conn
	done   chan struct{} // closed when the reader has ended

	mu      sync.Mutex
	changed chan struct{} // closed and replaced with every arrival
	got     []Message
	pings   int // Drain's marks sent
	pongs   int // … and answered
	drained int // messages that came before the last answer
	ended   error
}

// Messages collects the messages of all channels that match one of the patterns, until the test ends. It returns
// once the server has confirmed the subscription. On a cluster node it sees the plain messages of all nodes.
func (s *Server) Messages(t testing.TB, patterns ...string) *Messages {
	t.Helper()
	return s.collect(t, "PSUBSCRIBE", patterns)
}

// ShardMessages collects the messages of sharded channels, which know no patterns. All must be in slots of this
// server.
func (s *Server) ShardMessages(t testing.TB, channels ...string) *Messages {
	t.Helper()
	return s.collect(t, "SSUBSCRIBE", channels)
}

func (s *Server) collect(t testing.TB, command string, channels []string) *Messages {
	t.Helper()
	conn, err := Dial(s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	m := &Messages{server: s, conn: conn, done: make(chan struct{}), changed: make(chan struct{})}
	if err := m.subscribe(command, channels); err != nil {
		_ = conn.Close()
		t.Fatalf("%s %v: %v", command, channels, err)
	}
	go m.read()
	t.Cleanup(m.close)
	return m
}

func (m *Messages) subscribe(command string, channels []string) error {
	commands := [][]string{{"CLIENT", "SETNAME", observerName}}
	for _, ch := range channels {
		commands = append(commands, []string{command, ch})
	}
	for _, args := range commands {
		m.server.observer.note(args...)
		if _, err := m.conn.Do(args...); err != nil {
			return err
		}
	}
	return m.conn.SetReadDeadline(time.Time{})
}

// Wait waits until at least n messages have arrived and returns all that have, leaving them in place.
func (m *Messages) Wait(t testing.TB, n int) []Message {
	t.Helper()
	m.await(t, strconv.Itoa(n)+" messages", func() bool { return len(m.got) >= n })
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.got)
}

// Drain takes the messages that the server has published until now, and only those, without waiting for more: a
// later Wait counts from zero. So a test can tell at once that nothing was published. (Messages from other nodes of a
// cluster may still be in flight.)
func (m *Messages) Drain(t testing.TB) []Message {
	t.Helper()
	m.mu.Lock()
	m.pings++
	mark := m.pings
	m.mu.Unlock()
	// The server answers a PING after what it has published to this connection before.
	m.server.observer.note("PING", "drain")
	if err := m.conn.Send("PING", "drain"); err != nil {
		t.Fatal(err)
	}
	m.await(t, "answer to PING", func() bool { return m.pongs >= mark })
	m.mu.Lock()
	defer m.mu.Unlock()
	got := slices.Clone(m.got[:m.drained])
	m.got = slices.Delete(m.got, 0, m.drained)
	m.drained = 0
	return got
}

// await waits until a condition on the collected holds; it is asked under the mutex.
func (m *Messages) await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	timeout := time.After(waitTimeout)
	for {
		m.mu.Lock()
		ok, changed, ended, got := holds(), m.changed, m.ended, len(m.got)
		m.mu.Unlock()
		switch {
		case ok:
			return
		case ended != nil:
			t.Fatalf("waiting for %s: %v", what, ended)
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("waiting for %s: not after %v; %d messages", what, waitTimeout, got)
		}
	}
}

func (m *Messages) read() {
	defer close(m.done)
	for {
		reply, err := m.conn.Receive()
		m.mu.Lock()
		switch elems, _ := reply.([]any); {
		case err != nil:
			m.ended = err
		case len(elems) == 2: // pong, its text
			m.pongs++
			m.drained = len(m.got)
		case len(elems) == 4: // pmessage, pattern, channel, payload
			m.add(elems[2], elems[3])
		case len(elems) == 3 && elems[0] == "smessage":
			m.add(elems[1], elems[2])
		}
		close(m.changed)
		m.changed = make(chan struct{})
		m.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (m *Messages) add(channel, payload any) {
	ch, _ := channel.(string)
	text, _ := payload.(string)
	m.got = append(m.got, Message{Channel: ch, Payload: text})
}

func (m *Messages) close() {
	_ = m.conn.Close()
	<-m.done
}
