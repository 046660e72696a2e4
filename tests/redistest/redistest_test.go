package redistest_test

import (
	"context"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/tests/redistest"
)

func TestNothingIsLeftBehind(t *testing.T) {
	goroutines := runtime.NumGoroutine()
	var dir, addr string
	t.Run("server", func(t *testing.T) {
		s := redistest.Start(t)
		s.Messages(t, "*")
		addr = s.Addr()
		dir = s.Strs(t, "CONFIG", "GET", "dir")[1]
		require.DirExists(t, dir)
	})
	_, err := redistest.Dial(addr)
	require.ErrorContains(t, err, "refused")
	_, err = os.Stat(dir)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= goroutines+1 }, // + Eventually's own
		10*time.Second, time.Millisecond)
}

func TestMissingServerSaysHowToInstall(t *testing.T) {
	t.Setenv("HOLDFAST_REDIS_SERVER", "no-such-server")
	_, err := redistest.RedisServerPath()
	require.ErrorContains(t, err, "apt-get install redis-server")
}

func TestStopRestartPause(t *testing.T) {
	s := redistest.Start(t, "--maxmemory", "123mb")
	require.Equal(t, []string{"maxmemory", "128974848"}, s.Strs(t, "CONFIG", "GET", "maxmemory"))
	s.Do(t, "SET", "k", "v")
	s.Stop()
	s.Stop()
	_, err := s.Try("PING")
	require.Error(t, err)
	s.Restart()
	require.Empty(t, s.Keyspace(t))

	c, err := redistest.Dial(s.Addr())
	require.NoError(t, err)
	defer c.Close()
	s.Pause()
	require.NoError(t, c.Send("PING"))
	require.NoError(t, c.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
	_, err = c.Receive()
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, c.SetReadDeadline(time.Time{}))
	s.Resume()
	reply, err := c.Receive()
	require.NoError(t, err)
	require.Equal(t, "PONG", reply)
	s.Pause() // a frozen server can be killed
}

func TestKeyspace(t *testing.T) {
	s := redistest.Start(t)
	s.Do(t, "SET", "string", "a\r\nb", "PX", "100000")
	s.Do(t, "HSET", "hash", "f", "1", "g", "")
	s.Do(t, "RPUSH", "list", "b", "a", "b")
	s.Do(t, "SADD", "set", "y", "x")
	s.Do(t, "ZADD", "zset", "1700000000123", "late", "-1.5", "early")
	require.Equal(t, map[string]redistest.Value{
		"string": {Type: "string", Content: "a\r\nb", Expires: true},
		"hash":   {Type: "hash", Content: map[string]string{"f": "1", "g": ""}},
		"list":   {Type: "list", Content: []string{"b", "a", "b"}},
		"set":    {Type: "set", Content: []string{"x", "y"}},
		"zset":   {Type: "zset", Content: map[string]float64{"late": 1700000000123, "early": -1.5}},
	}, s.Keyspace(t))
	ttls := s.TTLs(t)
	require.Len(t, ttls, 1)
	require.InDelta(t, 100*time.Second, ttls["string"], float64(90*time.Second))
}

func TestCommandStatsCountTheClientAlone(t *testing.T) {
	s := redistest.Start(t)
	c, err := redistest.Dial(s.Addr())
	require.NoError(t, err)
	defer c.Close()
	m := s.Messages(t, "*")
	s.ResetStats(t)
	s.Do(t, "SET", "a", "1")
	s.Keyspace(t)
	m.Drain(t)
	require.Empty(t, s.CommandStats(t))
	_, err = c.Do("EVAL", "redis.call('get', KEYS[1]); return redis.call('incr', KEYS[1])", "1", "a")
	require.NoError(t, err)
	_, err = c.Do("CLIENT", "ID")
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"eval": 1, "get": 1, "incr": 1, "client|id": 1}, s.CommandStats(t))
}

func TestConnections(t *testing.T) {
	s := redistest.Start(t)
	s.Messages(t, "*")
	require.Zero(t, s.Connections(t))
	c, err := redistest.Dial(s.Addr())
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Do("CLIENT", "SETNAME", "me")
	require.NoError(t, err)
	require.Equal(t, 1, s.Connections(t))
	require.Equal(t, "me", s.ClientList(t)[0]["name"])
}

func TestMessages(t *testing.T) {
	s := redistest.Start(t)
	m := s.Messages(t, "a:*", "b")
	shard := s.ShardMessages(t, "s1", "s2")
	require.Empty(t, m.Drain(t))
	s.Do(t, "PUBLISH", "a:1", "x")
	s.Do(t, "PUBLISH", "c", "unheard")
	s.Do(t, "PUBLISH", "b", "y")
	want := []redistest.Message{{Channel: "a:1", Payload: "x"}, {Channel: "b", Payload: "y"}}
	require.Equal(t, want, m.Wait(t, 2))
	require.Equal(t, want, m.Drain(t))
	require.Empty(t, m.Drain(t))
	s.Do(t, "SPUBLISH", "s2", "z")
	require.Equal(t, []redistest.Message{{Channel: "s2", Payload: "z"}}, shard.Wait(t, 1))
}

func TestCluster(t *testing.T) {
	c := redistest.StartCluster(t, 3)
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: c.Addrs(), DisableCache: true})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	ctx := context.Background()
	owners := map[*redistest.Server]bool{}
	want := map[string]redistest.Value{}
	for _, key := range []string{"a", "b", "c"} {
		require.NoError(t, client.Do(ctx, client.B().Set().Key(key).Value("1").Build()).Error())
		require.Equal(t, "1", c.NodeOf(t, key).Str(t, "GET", key))
		owners[c.NodeOf(t, key)] = true
		want[key] = redistest.Value{Type: "string", Content: "1"}
	}
	require.Len(t, owners, 3)
	require.Equal(t, want, c.Keyspace(t))

	from, to := c.NodeOf(t, "a"), c.NodeOf(t, "b")
	c.MoveSlot(t, "a", to)
	require.Same(t, to, c.NodeOf(t, "a"))
	_, err = from.Try("GET", "a")
	require.True(t, strings.HasPrefix(err.Error(), "MOVED "), "%v", err)
	got, err := client.Do(ctx, client.B().Get().Key("a").Build()).ToString()
	require.NoError(t, err, "the client follows MOVED")
	require.Equal(t, "1", got)

	to.Restart()
	c.AwaitOK(t)
	require.Same(t, to, c.NodeOf(t, "a"), "a restarted node has its slots again")
}

func TestSentinelFailover(t *testing.T) {
	set := redistest.StartSentinels(t)
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: set.SentinelAddrs(), Sentinel: rueidis.SentinelOption{MasterSet: set.MasterName},
		DisableCache: true,
	})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	ctx := context.Background()
	require.NoError(t, client.Do(ctx, client.B().Set().Key("k").Value("1").Build()).Error())
	require.EqualValues(t, 1, set.Master().Int(t, "WAIT", "1", "10000"))

	old, promoted := set.Master(), set.Replica()
	set.Failover(t)
	require.Same(t, promoted, set.Master())
	require.Equal(t, "1", promoted.Str(t, "GET", "k"))
	require.Eventually(t, func() bool {
		return client.Do(ctx, client.B().Set().Key("k").Value("2").Build()).Error() == nil
	}, 20*time.Second, 10*time.Millisecond)
	require.Equal(t, "2", promoted.Str(t, "GET", "k"))
	require.Same(t, old, set.Replica())
}

func TestAClockThatIsSet(t *testing.T) {
	t.Parallel()
	srv := redistest.StartWithClock(t)
	now := func() time.Time {
		reply := srv.Do(t, "TIME").([]any)
		seconds, err := strconv.ParseInt(reply[0].(string), 10, 64)
		require.NoError(t, err)
		return time.Unix(seconds, 0)
	}
	require.WithinDuration(t, time.Now(), now(), 5*time.Second)
	srv.Do(t, "SET", "x", "1", "PX", "60000")
	if !srv.SetClock(-time.Hour) {
		require.NotEqual(t, "linux", runtime.GOOS)
		return
	}
	require.WithinDuration(t, time.Now().Add(-time.Hour), now(), 5*time.Second)
	require.Greater(t, srv.TTLs(t)["x"], 59*time.Minute)
	srv.Restart()
	require.WithinDuration(t, time.Now().Add(-time.Hour), now(), 5*time.Second)
	srv.Do(t, "SET", "x", "1", "PX", "60000")
	replica := redistest.StartReplica(t, srv)
	require.Greater(t, replica.TTLs(t)["x"], time.Second)
	srv.SetClock(90*time.Second - time.Hour)
	require.Eventually(t, func() bool { return replica.Int(t, "PTTL", "x") < 0 }, 10*time.Second, 10*time.Millisecond)
	require.Eventually(t, func() bool { return len(srv.Keyspace(t)) == 0 }, 10*time.Second, 10*time.Millisecond)
}

func TestAReplicaHasWhatItsMasterHasDoneBeforeItDies(t *testing.T) {
	t.Parallel()
	for _, alone := range []bool{true, false} {
		for range 5 {
			master := redistest.Start(t)
			if !alone {
				redistest.StartReplica(t, master)
			}
			replica := redistest.StartReplica(t, master)
			master.Do(t, "SET", "written", "1")
			master.Stop()
			require.EqualValues(t, 1, replica.Int(t, "EXISTS", "written"))
		}
	}
}
