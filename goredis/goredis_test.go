package goredis_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/goredis"
)

func TestWhatIsMissingIsRefused(t *testing.T) {
	refused := func(want string, err error) {
		t.Helper()
		assert.ErrorContains(t, err, "goredis: "+want)
	}
	_, err := goredis.ClientOption((*redis.Options)(nil))
	refused("the options are nil", err)
	_, err = goredis.ClientOption(&redis.ClusterOptions{})
	refused("Addrs is empty, must have", err)
	_, err = goredis.ClientOption(&redis.FailoverOptions{MasterName: "m"})
	refused("SentinelAddrs is empty, must have", err)
	_, err = goredis.ClientOption(&redis.FailoverOptions{SentinelAddrs: []string{"a:1"}})
	refused("MasterName is empty, must name", err)
	_, err = goredis.ClientOption(&redis.Options{Protocol: 2, StreamingCredentialsProvider: something{}})
	refused("StreamingCredentialsProvider is set with Protocol 2, must be nil", err)
}

// Where go-redis has a default address, it counts, and is not written into the options.
func TestDefaultAddresses(t *testing.T) {
	c, err := goredis.ClientOption(&redis.Options{})
	require.NoError(t, err)
	assert.Equal(t, []string{"localhost:6379"}, c.InitAddress)

	for _, o := range []*redis.UniversalOptions{{}, {IsClusterMode: true}, {MasterName: "m"}} {
		c, err := goredis.ClientOption(o)
		require.NoError(t, err)
		want := "127.0.0.1:6379"
		if o.MasterName != "" {
			want = "127.0.0.1:26379"
		}
		assert.Equal(t, []string{want}, c.InitAddress)
		assert.Empty(t, o.Addrs)
	}
}

// As go-redis decides what kind of client it makes of UniversalOptions.
func TestUniversalOptionsAreOfThreeKinds(t *testing.T) {
	for _, c := range []struct {
		options           redis.UniversalOptions
		sentinels, single bool
	}{
		{redis.UniversalOptions{Addrs: []string{"a:1"}}, false, true},
		{redis.UniversalOptions{Addrs: []string{"a:1"}, IsClusterMode: true}, false, false},
		{redis.UniversalOptions{Addrs: []string{"a:1", "b:1"}}, false, false},
		{redis.UniversalOptions{Addrs: []string{"a:1", "b:1"}, MasterName: "m"}, true, false},
		{redis.UniversalOptions{Addrs: []string{"a:1"}, MasterName: "m", IsClusterMode: true}, true, false},
		{redis.UniversalOptions{Addrs: []string{"a:1"}, MasterName: "m", RouteRandomly: true}, true, false},
	} {
		got, err := goredis.ClientOption(&c.options)
		require.NoError(t, err)
		assert.Equal(t, c.sentinels, got.Sentinel.MasterSet == "m", c.options)
		assert.Equal(t, c.single, got.ForceSingleClient, c.options)
	}
}

func TestTimeouts(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct{ dial, read, write, wantDial, silence time.Duration }{
		{0, 0, 0, 0, 0},
		{300 * ms, 200 * ms, 0, 300 * ms, 200 * ms},
		{0, 200 * ms, 100 * ms, 0, 200 * ms},
		{0, 200 * ms, 400 * ms, 0, 400 * ms},
		{0, 0, 100 * ms, 0, 0}, // reads have the default, which is longer
		{-1, -1, 100 * ms, 0, 0},
		{-1, -2, 0, 0, 0},
		{-1, 100 * ms, -1, 0, 0},
		{-1, 100 * ms, -2, 0, 0},
	} {
		got, err := goredis.ClientOption(&redis.Options{DialTimeout: c.dial, ReadTimeout: c.read, WriteTimeout: c.write})
		require.NoError(t, err)
		assert.Equal(t, c.wantDial, got.Dialer.Timeout, c)
		assert.Equal(t, c.silence, got.ConnWriteTimeout, c)
	}
}

// go-redis sends no name without a password, and is the default user then.
func TestANameWithoutAPasswordIsNotSent(t *testing.T) {
	c, err := goredis.ClientOption(&redis.FailoverOptions{
		MasterName: "m", SentinelAddrs: []string{"a:1"}, Username: "app", SentinelUsername: "app",
	})
	require.NoError(t, err)
	assert.Empty(t, c.Username)
	assert.Empty(t, c.Sentinel.Username)
}

// A client may shuffle its addresses. Those of the options stay as they are.
func TestTheAddressesAreCopied(t *testing.T) {
	cluster := &redis.ClusterOptions{Addrs: []string{"a:1"}}
	sentinels := &redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"a:1"}}
	c, err := goredis.ClientOption(cluster)
	require.NoError(t, err)
	c.InitAddress[0] = "b:1"
	c, err = goredis.ClientOption(sentinels)
	require.NoError(t, err)
	c.InitAddress[0] = "b:1"
	assert.Equal(t, []string{"a:1"}, cluster.Addrs)
	assert.Equal(t, []string{"a:1"}, sentinels.SentinelAddrs)
}

func TestNothingIsSelectedBelowZero(t *testing.T) {
	c, err := goredis.ClientOption(&redis.Options{DB: -1})
	require.NoError(t, err)
	assert.Zero(t, c.SelectDB)
	c, err = goredis.ClientOption(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"a:1"}, DB: -1})
	require.NoError(t, err)
	assert.Zero(t, c.SelectDB)
}

// A socket of the system is no reason to go without TLS.
func TestTLSOverASocket(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	require.NoError(t, server.Listener.Close())
	server.Listener = listener
	server.StartTLS()
	defer server.Close()
	config := server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	config.ServerName = "example.com"
	option, err := goredis.ClientOption(&redis.Options{Addr: socket, TLSConfig: config})
	require.NoError(t, err)
	conn, err := option.DialCtxFn(t.Context(), socket, &net.Dialer{}, option.TLSConfig)
	require.NoError(t, err)
	defer conn.Close()
	require.IsType(t, (*tls.Conn)(nil), conn)
}

// The dialer of the options is given the network and the address, and an end of its time.
func TestDialer(t *testing.T) {
	for _, c := range []struct{ network, addr, want string }{
		{"", "a:1", "tcp"}, {"tcp6", "a:1", "tcp6"}, {"", "/a", "unix"}, {"unix", "a", "unix"},
	} {
		near, far := net.Pipe()
		defer near.Close()
		defer far.Close()
		began := time.Now()
		option, err := goredis.ClientOption(&redis.Options{
			Network: c.network, Addr: c.addr,
			Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
				deadline, ok := ctx.Deadline()
				assert.True(t, ok)
				assert.WithinRange(t, deadline, began.Add(time.Hour), time.Now().Add(time.Hour))
				assert.Equal(t, c.want, network)
				assert.Equal(t, c.addr, addr)
				return near, nil
			},
		})
		require.NoError(t, err)
		got, err := option.DialCtxFn(t.Context(), option.InitAddress[0], &net.Dialer{Timeout: time.Hour}, &tls.Config{})
		require.NoError(t, err)
		assert.Same(t, near, got)
	}
}

// The dialer in the options of a client does not look at its ctx while it dials with TLS, and returns a nil *tls.Conn
// if it fails.
func TestADialEndsInTimeWhateverTheDialerDoes(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	goOn := make(chan struct{})
	for _, dialer := range []func(context.Context, string, string) (net.Conn, error){
		func(context.Context, string, string) (net.Conn, error) {
			<-goOn
			return (*tls.Conn)(nil), io.ErrUnexpectedEOF
		},
		func(context.Context, string, string) (net.Conn, error) {
			<-goOn
			return near, nil
		},
	} {
		option, err := goredis.ClientOption(&redis.Options{Addr: "a:1", Dialer: dialer})
		require.NoError(t, err)
		_, err = option.DialCtxFn(t.Context(), "a:1", &net.Dialer{Timeout: 10 * time.Millisecond}, nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		dial, ok := errors.AsType[*net.OpError](err) // so that the client knows that nothing was sent
		require.True(t, ok)
		require.Equal(t, "dial", dial.Op)
		require.True(t, dial.Timeout()) // so that Open tries again
		require.ErrorContains(t, err, "a:1")
	}
	close(goOn)
	_, err := far.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}

// A program may have no more than the client.
func TestTheOptionsOfAClientWillDo(t *testing.T) {
	simple := redis.NewClient(&redis.Options{Addr: "a:1", Username: "app", Password: "p", ReadTimeout: -2})
	defer simple.Close()
	c, err := goredis.ClientOption(simple.Options())
	require.NoError(t, err)
	assert.Equal(t, []string{"a:1"}, c.InitAddress)
	assert.Equal(t, "app", c.Username)
	assert.Zero(t, c.ConnWriteTimeout)
	assert.Nil(t, c.AuthCredentialsFn)

	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"a:1"}, Password: "p"})
	defer cluster.Close()
	c, err = goredis.ClientOption(cluster.Options())
	require.NoError(t, err)
	assert.Equal(t, rueidis.ClientOption{
		InitAddress: []string{"a:1"}, Password: "p",
		Dialer: net.Dialer{Timeout: 5 * time.Second}, ConnWriteTimeout: 5 * time.Second,
	}, c)

	failover := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"a:1"}})
	defer failover.Close()
	_, err = goredis.ClientOption(failover.Options())
	require.ErrorContains(t, err, "goredis: Addr is FailoverClient: ")
	require.ErrorContains(t, err, "pass the FailoverOptions or UniversalOptions")
}
