package scripts

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A refusal is a reason for which a server refuses a command.
type refusal struct {
	words  string // a pattern
	passes bool   // it passes by itself if one waits
	server func(t *testing.T) (*redistest.Server, []func(*rueidis.ClientOption))
}

var serverRefusals = map[string]refusal{
	"a key of another type": {
		"WRONGTYPE ", false,
		func(t *testing.T) (*redistest.Server, []func(*rueidis.ClientOption)) {
			srv := redistest.Start(t)
			srv.Do(t, "SET", "x", "not a lock")
			return srv, nil
		},
	},
	"no right to the key": {"NOPERM ", false, func(t *testing.T) (*redistest.Server, []func(*rueidis.ClientOption)) {
		srv := redistest.Start(t)
		srv.Grant(t, "somebody", "+@all", "~y", "&*")
		return srv, kit.Login(redistest.Password)
	}},
	"no right to a command in the script": {
		"NOPERM |can't run this command|no permissions to run", false,
		func(t *testing.T) (*redistest.Server, []func(*rueidis.ClientOption)) {
			srv := redistest.Start(t)
			srv.Grant(t, "somebody", "+@all", "-hset", "~*", "&*")
			return srv, kit.Login(redistest.Password)
		},
	},
	"a wrong password": {"WRONGPASS ", false, func(t *testing.T) (*redistest.Server, []func(*rueidis.ClientOption)) {
		srv := redistest.Start(t)
		srv.Grant(t, "somebody", "+@all", "~*")
		return srv, kit.Login("guess")
	}},
	"no memory": {"OOM ", false, func(t *testing.T) (*redistest.Server, []func(*rueidis.ClientOption)) {
		return redistest.Start(t, "--maxmemory", "1"), nil
	}},
	"a replica": {"READONLY ", true, func(t *testing.T) (*redistest.Server, []func(*rueidis.ClientOption)) {
		_, replica := startReplica(t)
		return replica, nil
	}},
	"a replica whose master has gone": {
		"MASTERDOWN ", true,
		func(t *testing.T) (*redistest.Server, []func(*rueidis.ClientOption)) {
			master, replica := startReplica(t)
			master.Stop()
			kit.Await(t, "the replica to notice", func() bool {
				_, err := replica.Try("GET", "x")
				return err != nil
			})
			return replica, nil
		},
	},
	"a master without replicas": {
		"NOREPLICAS ", true,
		func(t *testing.T) (*redistest.Server, []func(*rueidis.ClientOption)) {
			return redistest.Start(t, "--min-replicas-to-write", "1"), nil
		},
	},
	"a cluster without slots": {
		"CLUSTERDOWN ", true,
		func(t *testing.T) (*redistest.Server, []func(*rueidis.ClientOption)) {
			return redistest.Start(t, "--cluster-enabled", "yes"), nil
		},
	},
	"another script runs": {"BUSY ", true, func(t *testing.T) (*redistest.Server, []func(*rueidis.ClientOption)) {
		srv := redistest.Start(t, "--lua-time-limit", "1")
		other, err := redistest.Dial(srv.Addr())
		require.NoError(t, err)
		require.NoError(t, other.Send("EVAL", "while true do end", "0"))
		t.Cleanup(func() { _ = other.Close() })
		kit.Await(t, "the server to be busy", func() bool {
			_, err := srv.Try("GET", "x")
			return err != nil
		})
		return srv, nil
	}},
	"it is loading": {"LOADING ", true, startLoading},
}

func startReplica(t *testing.T) (master, replica *redistest.Server) {
	t.Helper()
	master = redistest.Start(t, "--repl-diskless-sync-delay", "0")
	host, port := "127.0.0.1", master.Strs(t, "CONFIG", "GET", "port")[1]
	replica = redistest.Start(t, "--replicaof", host, port, "--replica-serve-stale-data", "no")
	kit.Await(t, "the replica", func() bool {
		_, err := replica.Try("GET", "x")
		return err == nil
	})
	return master, replica
}

// startLoading starts a server that takes 12 s to load what it has saved. It answers after each 2 MiB, so each key has
// that much. Redis 6.2 cannot be told to answer more often.
func startLoading(t *testing.T) (*redistest.Server, []func(*rueidis.ClientOption)) {
	t.Helper()
	const keys, microseconds = "40", "300000"
	srv := redistest.Start(t, "--key-load-delay", microseconds, "--rdbcompression", "no")
	srv.Do(t, "EVAL", "for i = 1, "+keys+" do redis.call('SETRANGE', i, 2097152, 'v') end", "0")
	srv.Do(t, "SAVE")
	srv.Restart()
	return srv, nil
}

func TestARefusalIsInTheServersWords(t *testing.T) {
	t.Parallel()
	for name, c := range serverRefusals {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, change := c.server(t)
			// a user without the right cannot even connect
			client, err := rueidis.NewClient(kit.ClientOption(srv.Addr(), change...))
			if err != nil {
				require.Regexp(t, c.words, err.Error())
			}
			r := newRunner(t, client)
			for _, lane := range []script.Lane{script.Take, script.Return, script.Keep} {
				err := take(t.Context(), r, lane, "x")
				assertFailed(t, script.Refused, c.passes, err)
				assert.Regexp(t, c.words, err.Error())
				var answer *rueidis.RedisError
				assert.ErrorAs(t, err, &answer, "the server's own error is inside")
			}
		})
	}
}

func TestWhatPassesDoesPass(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, "--min-replicas-to-write", "1")
	r := newRunner(t, kit.NewClient(t, srv.Addr()))
	assert.True(t, script.IsTemporary(take(t.Context(), r, script.Take, "x")))
	assert.Empty(t, srv.Keyspace(t), "refused is: nothing was changed")
	srv.Do(t, "CONFIG", "SET", "min-replicas-to-write", "0")
	assert.NoError(t, take(t.Context(), r, script.Take, "x"))
}

func TestAReplyThatTheHeaderDoesNotListIsBroken(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	r := newRunner(t, kit.NewClient(t, srv.Addr()))
	srv.Do(t, "HSET", "x", "me:1", strconv.Itoa(1))
	srv.Do(t, "PEXPIRE", "x", strconv.FormatInt(time.Hour.Milliseconds(), 10))
	c := script.NewCall(holdersScript).Key("x")
	defer c.Free()
	require.NoError(t, r.Run(t.Context(), script.Take, c))
	_, err := c.ReadInts(nil) // the first element is a string
	assertFailed(t, script.Broken, false, err)
	assert.ErrorContains(t, err, "lock_holders: reply 1 is no integer")
	_, err = c.ReadInt()
	assertFailed(t, script.Broken, false, err)
}
