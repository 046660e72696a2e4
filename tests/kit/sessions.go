package kit

import (
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/internal/sharing"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// StartServers starts independent servers.
func StartServers(t testing.TB, n int) []*redistest.Server {
	var servers []*redistest.Server
	for range n {
		servers = append(servers, redistest.Start(t))
	}
	return servers
}

// Lease is the lease of a session without options. A process that gets no processor for a second or two keeps it, and a
// release, which tries for a third of it, succeeds.
const Lease = 9 * time.Second

// Open opens a session that ends with the test. Without options the lease is [Lease]. The session is anonymous, because
// tests look at what locks have on the server.
func Open(t testing.TB, addr string, opts *holdfast.Options) *holdfast.Session {
	t.Helper()
	return OpenWith(t, rueidis.ClientOption{InitAddress: []string{addr}}, opts)
}

// OpenWith is Open with client options.
func OpenWith(t testing.TB, client rueidis.ClientOption, opts *holdfast.Options) *holdfast.Session {
	t.Helper()
	if opts == nil {
		opts = &holdfast.Options{Lease: Lease}
	}
	anonymous := *opts
	anonymous.Anonymous = true
	return OpenKnown(t, client, &anonymous)
}

// OpenKnown is OpenWith for a session that publishes which process it is. It dials again where that takes too long: the
// server is there, but the machine may be busy for as long as a short lease allows. Through a proxy, which may hold a
// reply back, the connection is pipelined from the start: directly, no other call would be sent meanwhile.
func OpenKnown(t testing.TB, client rueidis.ClientOption, opts *holdfast.Options) *holdfast.Session {
	t.Helper()
	client.AlwaysPipelining = slices.ContainsFunc(client.InitAddress, proxy.Is)
	return OpenDirect(t, client, opts)
}

// OpenDirect is OpenKnown for a session whose connection begins direct in any case.
func OpenDirect(t testing.TB, client rueidis.ClientOption, opts *holdfast.Options) *holdfast.Session {
	t.Helper()
	var s *holdfast.Session
	var err error
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		s, err = holdfast.Open(client, opts)
		var late net.Error
		if !errors.As(err, &late) || !late.Timeout() {
			break
		}
	}
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	redistest.Limit(t, func() { _ = s.Close() })
	return s
}

// Direct reports whether a session's connection for calls is: a lone caller writes its call and reads the reply itself.
func Direct(s *holdfast.Session) bool {
	return sharing.AnyDirect((*session.Session)(s).Config().Client)
}

// Pipeline has calls of a session meet until its connection is pipelined. Before, no call is sent while the reply to
// another one is held back.
func Pipeline(t testing.TB, s *holdfast.Session) {
	t.Helper()
	l := rlock.New(s, "any", nil)
	for Direct(s) {
		var calls sync.WaitGroup
		for range 2 {
			calls.Go(func() {
				_, err := l.Locked(t.Context())
				assert.NoError(t, err)
			})
		}
		calls.Wait()
	}
}

// OpenAll opens a session on each server.
func OpenAll(t testing.TB, servers []*redistest.Server, opts *holdfast.Options) []*holdfast.Session {
	var sessions []*holdfast.Session
	for _, srv := range servers {
		sessions = append(sessions, Open(t, srv.Addr(), opts))
	}
	return sessions
}

// Login makes a client log in with a password.
func Login(password string) []func(*rueidis.ClientOption) {
	return []func(*rueidis.ClientOption){func(opt *rueidis.ClientOption) {
		opt.Username, opt.Password = "somebody", password
	}}
}

// NewClient connects as a session does, but is in no hurry to give up a silent connection.
func NewClient(t testing.TB, addr string, change ...func(*rueidis.ClientOption)) rueidis.Client {
	t.Helper()
	client, err := rueidis.NewClient(ClientOption(addr, change...))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	redistest.Limit(t, client.Close)
	return client
}

// ClientOption is what NewClient connects with.
func ClientOption(addr string, change ...func(*rueidis.ClientOption)) rueidis.ClientOption {
	opt := rueidis.ClientOption{
		InitAddress: []string{addr}, ForceSingleClient: true,
		PipelineMultiplex: -1, AlwaysPipelining: true, DisableCache: true,
		ConnWriteTimeout: 20 * time.Second, Dialer: net.Dialer{Timeout: 10 * time.Second, KeepAlive: 20 * time.Second},
	}
	for _, f := range change {
		f(&opt)
	}
	return opt
}

// OpenCluster is Open for a cluster.
func OpenCluster(t testing.TB, c *redistest.Cluster, opts *holdfast.Options) *holdfast.Session {
	t.Helper()
	return OpenWith(t, rueidis.ClientOption{InitAddress: c.Addrs()}, opts)
}

// BySentinel are the options of a client that finds its master by Sentinel.
func BySentinel(set *redistest.SentinelSet) rueidis.ClientOption {
	return rueidis.ClientOption{
		InitAddress: set.SentinelAddrs(), Sentinel: rueidis.SentinelOption{MasterSet: set.MasterName},
	}
}
