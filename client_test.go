package holdfast

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/internal/sharing"
)

func TestHowSoonASilentConnectionIsNoticed(t *testing.T) {
	const unset = 0
	for name, c := range map[string]struct {
		lease                time.Duration
		keepAlive, write     time.Duration
		wantAlive, wantWrite time.Duration
	}{
		"a short lease": {3 * time.Second, unset, unset, 250 * time.Millisecond, 500 * time.Millisecond},
		"the default":   {30 * time.Second, unset, unset, time.Second, 5 * time.Second},
		"a long lease":  {10 * time.Minute, unset, unset, time.Second, 5 * time.Second},
		"a long lease, and what is set": {
			10 * time.Minute, 20 * time.Second, 30 * time.Second, 20 * time.Second, 30 * time.Second,
		},
		"a long lease, and too long":       {10 * time.Minute, time.Hour, time.Hour, 50 * time.Second, 100 * time.Second},
		"one follows from the other":       {10 * time.Minute, 3 * time.Second, unset, 3 * time.Second, 15 * time.Second},
		"what would never notice anything": {10 * time.Minute, -1, -1, 50 * time.Second, 100 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			opt := rueidis.ClientOption{ConnWriteTimeout: c.write, Dialer: net.Dialer{KeepAlive: c.keepAlive}}
			opt.Sentinel.Dialer.KeepAlive = c.keepAlive
			require.NoError(t, setUp(&opt, c.lease, nil))
			assert.Equal(t, c.wantAlive, opt.Dialer.KeepAlive)
			assert.Equal(t, c.wantAlive, opt.Sentinel.Dialer.KeepAlive)
			assert.Equal(t, c.wantWrite, opt.ConnWriteTimeout)
		})
	}
}

// What the client has forgotten is closed when it is, and what it makes later.
func TestNoConnectionOutlivesItsClient(t *testing.T) {
	var all links
	var far []net.Conn
	dial := all.dialer(&rueidis.ClientOption{
		DialFn: func(string, *net.Dialer, *tls.Config) (net.Conn, error) {
			near, other := net.Pipe()
			far = append(far, other)
			return near, nil
		},
	})
	for range 2 {
		_, err := dial(t.Context(), "server", nil, nil)
		require.NoError(t, err)
	}
	all.end()
	_, err := dial(t.Context(), "server", nil, nil)
	require.ErrorIs(t, err, net.ErrClosed)
	require.Len(t, far, 3)
	for _, conn := range far {
		_, err := conn.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
	}
	require.Empty(t, all.open)
}

// A listener is a client that connects for messages as rueidis does, on and on.
type listener struct {
	rueidis.Client
	dial  dialer
	links chan *link
}

func (l *listener) Mode() rueidis.ClientMode { return rueidis.ClientModeStandalone }

func (l *listener) Nodes() map[string]rueidis.Client { return map[string]rueidis.Client{"server": nil} }

func (l *listener) Dedicate() (rueidis.DedicatedClient, func()) {
	made, _ := l.dial(context.Background(), "server", nil, nil)
	link, _ := made.(*link)
	select {
	case l.links <- link:
	default:
	}
	return broken{}, nil
}

type broken struct{ rueidis.DedicatedClient }

func (broken) SetPubSubHooks(rueidis.PubSubHooks) <-chan error { return nil }

func (broken) B() (b rueidis.Builder) { return b }

func (broken) Do(context.Context, rueidis.Completed) rueidis.RedisResult {
	return rueidis.RedisResult{}
}

func (broken) Close() {}

// A connection for messages may be there before the one for calls.
func TestAConnectionForMessagesIsNotTakenForOneForCalls(t *testing.T) {
	var all links
	dial := all.dialer(&rueidis.ClientOption{
		DialFn: func(string, *net.Dialer, *tls.Config) (net.Conn, error) {
			near, _ := net.Pipe()
			return near, nil
		},
	})
	client := &listener{dial: dial, links: make(chan *link, 1)}
	s := session.New(session.Config{Client: client, Lease: time.Minute, Logger: slog.New(slog.DiscardHandler)})
	defer s.Close()
	all.session.Store(s)
	defer s.Listen("channel", func() {})()
	messages := <-client.links
	require.True(t, messages.second)
	require.True(t, messages.direct.Ended())

	// The client makes this one under the context of a call.
	made, err := dial(sharing.Own(), "server", nil, nil)
	require.NoError(t, err)
	calls, _ := made.(*link)
	require.False(t, calls.second)
	require.NoError(t, messages.Close())
	require.True(t, sharing.AnyDirect(sharing.Client(client, &all.directs)))
}

// The client closes a connection that has failed twice, the second time while it makes the next one.
func TestAConnectionEndsOnce(t *testing.T) {
	var all links
	client := &listener{}
	s := session.New(session.Config{Client: client, Lease: time.Minute, Logger: slog.New(slog.DiscardHandler)})
	defer s.Close()
	all.session.Store(s)
	near, _ := net.Pipe()
	l := newLink(near, &all, "server")
	require.NoError(t, l.Close())
	ended := s.Runner().Changes()
	require.Positive(t, ended)
	require.NoError(t, l.Close())
	require.Equal(t, ended, s.Runner().Changes())
}

// A conn keeps what is written.
type conn struct {
	net.Conn
	written []byte
}

func (c *conn) Write(b []byte) (int, error) {
	c.written = append(c.written, b...)
	return len(b), nil
}

func (c *conn) SetDeadline(time.Time) error { return nil }

func TestAWriteWaitsForOthersWhereThatPays(t *testing.T) {
	var all links
	to := &conn{}
	underWay := int64(100)
	l := newLink(to, &all, "")
	l.underWay = func() int64 { return underWay }
	write := func(size int) {
		n, err := l.Write(make([]byte, size))
		require.NoError(t, err)
		require.Equal(t, size, n)
	}
	write(1)
	assert.Zero(t, l.lasted) // direct: nobody else writes
	require.NoError(t, l.SetDeadline(time.Time{}))
	underWay = 16
	write(1)
	assert.Zero(t, l.lasted) // the server would wait
	underWay = 100
	write(1)
	assert.Positive(t, l.lasted)

	l.lasted = time.Minute
	write(10_000) // many came of it
	assert.True(t, l.rests.IsZero())
	l.lasted = time.Minute
	write(100)
	assert.Greater(t, time.Until(l.rests), time.Hour)
	write(100)
	assert.Zero(t, l.lasted)
	assert.Len(t, to.written, 10_203)
}
