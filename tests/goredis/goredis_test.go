// Package goredis has programs that reach a server with go-redis and, by the same options, with Holdfast.
package goredis

import (
	"context"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/goredis"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// open opens a session with what the options became.
func open(t *testing.T, client rueidis.ClientOption, err error) *holdfast.Session {
	t.Helper()
	require.NoError(t, err)
	return kit.OpenWith(t, client, nil)
}

// requireSame locks some names, sees each lock with the client of go-redis, and sees them gone. In a cluster, the names
// are on all nodes.
func requireSame(t *testing.T, rdb redis.UniversalClient, s *holdfast.Session) {
	t.Helper()
	t.Cleanup(func() { _ = rdb.Close() })
	for i := range 16 {
		name := t.Name() + strconv.Itoa(i)
		hold := kit.Lock(t, t.Context(), rlock.New(s, name, nil))
		count, err := rdb.HGet(t.Context(), name, hold.ID()).Result()
		require.NoError(t, err)
		require.Equal(t, "1", count)
		require.NoError(t, hold.Release())
		there, err := rdb.Exists(t.Context(), name).Result()
		require.NoError(t, err)
		require.Zero(t, there)
	}
}

// same is requireSame for UniversalOptions, which a program gives to both.
func same(t *testing.T, o *redis.UniversalOptions) {
	t.Helper()
	client, err := goredis.ClientOption(o)
	requireSame(t, redis.NewUniversalClient(o), open(t, client, err))
}

// sessions are those of the server's connections that are not made by go-redis or by the test.
func sessions(t *testing.T, srv *redistest.Server, field string) []string {
	t.Helper()
	var values []string
	for _, c := range srv.ClientList(t) {
		if c["name"] == "holdfast" {
			values = append(values, c[field])
		}
	}
	slices.Sort(values)
	return slices.Compact(values)
}

func TestSingle(t *testing.T) {
	srv := redistest.Start(t)
	same(t, &redis.UniversalOptions{Addrs: []string{srv.Addr()}})
	same(t, &redis.UniversalOptions{Addrs: []string{srv.Addr()}, Protocol: 2, DB: 3})

	o := &redis.Options{Addr: srv.Addr(), DB: 5}
	rdb := redis.NewClient(o)
	client, err := goredis.ClientOption(o)
	s := open(t, client, err)
	requireSame(t, rdb, s)
}

// A program may be handed the client, and no options.
func TestTheOptionsOfAClient(t *testing.T) {
	srv := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: srv.Addr(), DB: 5, ReadTimeout: -1})
	client, err := goredis.ClientOption(rdb.Options())
	s := open(t, client, err)
	requireSame(t, rdb, s)

	cluster := redistest.StartCluster(t, 2)
	rc := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs()})
	client, err = goredis.ClientOption(rc.Options())
	s = open(t, client, err)
	requireSame(t, rc, s)
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	srv := redistest.Start(t, "--unixsocket", path)
	same(t, &redis.UniversalOptions{Addrs: []string{path}})

	o := &redis.Options{Network: "unix", Addr: path, ClientName: "holdfast"}
	client, err := goredis.ClientOption(o)
	s := open(t, client, err)
	require.Equal(t, []string{path + ":0"}, sessions(t, srv, "addr"))
	requireSame(t, redis.NewClient(o), s)
}

func TestPassword(t *testing.T) {
	srv := redistest.Start(t)
	srv.Do(t, "CONFIG", "SET", "requirepass", "of the default user") // those who are connected stay so
	o := &redis.UniversalOptions{Addrs: []string{srv.Addr()}, Password: "of the default user"}
	same(t, o)

	o.Password = "wrong"
	client, err := goredis.ClientOption(o)
	require.NoError(t, err)
	_, err = holdfast.Open(client, nil)
	require.ErrorContains(t, err, "WRONGPASS")
}

func TestUser(t *testing.T) {
	srv := redistest.Start(t)
	srv.Grant(t, "app", "~*", "&*", "+@all")
	o := &redis.UniversalOptions{
		Addrs: []string{srv.Addr()}, Username: "app", Password: redistest.Password, ClientName: "holdfast",
	}
	s := open(t, must(goredis.ClientOption(o)), nil)
	require.Equal(t, []string{"app"}, sessions(t, srv, "user"))
	requireSame(t, redis.NewUniversalClient(o), s)
}

// must is for what a row of a test may not fail at.
func must(c rueidis.ClientOption, err error) rueidis.ClientOption {
	if err != nil {
		panic(err)
	}
	return c
}

// A connection that is made after the credentials have changed logs in with the new ones.
func TestCredentialsThatChange(t *testing.T) {
	var user atomic.Pointer[string]
	for name, o := range map[string]*redis.Options{
		"provider": {CredentialsProvider: func() (string, string) { return *user.Load(), redistest.Password }},
		"provider with a context": {
			CredentialsProviderContext: func(context.Context) (string, string, error) {
				return *user.Load(), redistest.Password, nil
			},
		},
		"stream": {StreamingCredentialsProvider: &stream{user: &user}},
	} {
		t.Run(name, func(t *testing.T) {
			srv := redistest.Start(t)
			srv.Grant(t, "first", "~*", "&*", "+@all")
			srv.Grant(t, "second", "~*", "&*", "+@all")
			user.Store(new("first"))
			o.Addr, o.ClientName = srv.Addr(), "holdfast"
			s := open(t, must(goredis.ClientOption(o)), nil)
			require.Equal(t, []string{"first"}, sessions(t, srv, "user"))

			user.Store(new("second"))
			if provider, ok := o.StreamingCredentialsProvider.(*stream); ok {
				provider.send()
			}
			srv.Do(t, "CLIENT", "KILL", "USER", "first")
			hold := kit.Lock(t, t.Context(), rlock.New(s, t.Name(), nil))
			require.Equal(t, []string{"second"}, sessions(t, srv, "user"))
			require.NoError(t, hold.Release())
		})
	}
}

// A stream sends credentials when send is called.
type stream struct {
	user     *atomic.Pointer[string]
	listener auth.CredentialsListener
}

func (s *stream) Subscribe(l auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
	s.listener = l
	return auth.NewBasicCredentials(*s.user.Load(), redistest.Password), func() error { return nil }, nil
}

func (s *stream) send() {
	s.listener.OnNext(auth.NewBasicCredentials(*s.user.Load(), redistest.Password))
}

// The options' dialer decides where an address leads.
func TestDialer(t *testing.T) {
	srv := redistest.Start(t)
	var asked atomic.Int64
	same(t, &redis.UniversalOptions{
		Addrs: []string{"redis.invalid:6379"},
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			asked.Add(1)
			if network != "tcp" || addr != "redis.invalid:6379" {
				return nil, net.UnknownNetworkError(network + " " + addr)
			}
			return new(net.Dialer).DialContext(ctx, network, srv.Addr())
		},
	})
	require.GreaterOrEqual(t, asked.Load(), int64(2))
}

func TestCluster(t *testing.T) {
	c := redistest.StartCluster(t, 3)
	for _, n := range c.Nodes {
		n.Grant(t, "app", "~*", "&*", "+@all")
	}
	same(t, &redis.UniversalOptions{Addrs: c.Addrs(), DB: 7}) // as in go-redis, the number does not count
	same(t, &redis.UniversalOptions{Addrs: c.Addrs()[:1], IsClusterMode: true})

	o := &redis.ClusterOptions{
		Addrs: c.Addrs(), Username: "app", Password: redistest.Password, ClientName: "holdfast",
		ReadOnly: true, RouteRandomly: true,
	}
	s := open(t, must(goredis.ClientOption(o)), nil)
	requireSame(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs()}), s)
	for _, n := range c.Nodes {
		require.Equal(t, []string{"app"}, sessions(t, n, "user"))
	}
}

// What the options say of sentinels is for them, and the rest for the master, also after a failover.
func TestSentinel(t *testing.T) {
	set := redistest.StartSentinels(t)
	for _, s := range set.Sentinels {
		s.Do(t, "ACL", "SETUSER", "watcher", "on", ">of sentinels", "~*", "&*", "+@all")
	}
	for _, s := range []*redistest.Server{set.Master(), set.Replica()} {
		s.Grant(t, "app", "~*", "&*", "+@all")
	}
	o := &redis.UniversalOptions{
		Addrs: set.SentinelAddrs(), MasterName: set.MasterName, DB: 2, ClientName: "holdfast",
		Username: "app", Password: redistest.Password, SentinelUsername: "watcher", SentinelPassword: "of sentinels",
	}
	s := open(t, must(goredis.ClientOption(o)), nil)
	require.Equal(t, []string{"app"}, sessions(t, set.Master(), "user"))
	require.Equal(t, []string{"2"}, sessions(t, set.Master(), "db"))
	var users []string
	for _, sentinel := range set.Sentinels {
		users = append(users, sessions(t, sentinel, "user")...)
	}
	require.Equal(t, []string{"watcher"}, slices.Compact(users))

	rdb := redis.NewUniversalClient(o)
	requireSame(t, rdb, s)
	set.Failover(t)
	hold := kit.Lock(t, t.Context(), rlock.New(s, t.Name(), nil))
	kit.Await(t, "go-redis to follow", func() bool {
		count, err := rdb.HGet(t.Context(), t.Name(), hold.ID()).Result()
		return err == nil && count == "1"
	})
	require.NoError(t, hold.Release())
}
