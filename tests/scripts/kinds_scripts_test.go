package scripts

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A lock of another kind stays as it is, and the reply says so rather than that it is taken.
func TestScriptsTellLocksOfOtherKinds(t *testing.T) {
	t.Parallel()
	const fails = "WRONGTYPE Operation against a key holding a lock of another kind"
	steps := func(seed [][]string, after map[string]redistest.Value, calls map[string]caller) {
		for name, call := range calls {
			t.Run(name, func(t *testing.T) {
				runSteps(t, map[string]step{"where another is": {seed: seed, call: call, fails: fails, after: after}})
			})
		}
	}
	steps(rwSeed(10, "mode", "read", "b:1", "1"), keyspace(lockOf("mode", "read", "b:1", "1")), map[string]caller{
		"an rlock's acquire": acquire{}, "an rlock's stand": stand{}, "an rlock's force": force{},
		"several rlocks": acquireAll{}, "a fairlock's acquire": acquireFair{}, "a fairlock's try": acquireFair{try: true},
		"a fairlock's force": forceFair{},
	})
	steps(rwSeed(10, "b:1", "1"), keyspace(lockOf("b:1", "1")), map[string]caller{
		"a reader": acquireRead{}, "a writer that tries": acquireWrite{}, "a writer": standWrite{},
		"a force of readers": forceHalf{half: "read"}, "a force of the writer": forceHalf{half: "write"},
		"who holds it": call{"rwlock_holders", []string{lockKey}, []string{"", ""}},
	})
}

// A count that stays is no lock: that would expire.
func TestScriptsOfSetlocksTellCounts(t *testing.T) {
	t.Parallel()
	count := map[string]redistest.Value{lockKey: {Type: "string", Content: "-3"}}
	expires := map[string]redistest.Value{lockKey: {Type: "string", Content: "3", Expires: true}}
	seed, token := [][]string{{"SET", lockKey, "-3"}}, [][]string{{"SET", lockKey, "3", "EX", "10"}}
	const fails = "WRONGTYPE Operation against a key holding a count"
	runSteps(t, map[string]step{
		"a count":           {seed: seed, call: acquireSet{}, fails: fails, after: count},
		"a count by force":  {seed: seed, call: forceSet{}, fails: fails, after: count},
		"a count's holders": {seed: seed, call: look("setlock_holders", lockKey), fails: fails, after: count},
		"a count that is asked for": {
			seed: seed, call: call{"lock_ask", []string{lockKey, "asked"}, []string{publishes, channel}}, fails: fails,
			after: count,
		},
		"a token of digits": {seed: token, call: acquireSet{}, reply: append(unasked(0), lastsFor(10000)), after: expires},
	})
}

// What is no count, as it is too large, nobody takes for one, or for nothing.
func TestScriptsOfCountsTellWhatIsNone(t *testing.T) {
	t.Parallel()
	const large = "9007199254740992" // 2^53
	steps, ids := map[string]step{}, []string{"a"}
	for i, c := range []caller{
		takePermits{n: "1"},
		takePermits{n: "1", stands: true},
		addPermits{n: "1"},
		setPermits{},
		drainPermits{},
		leavePermits{},
		deletePermits{},
		expirePermits{when: "after", ms: "30000"},
		acquirePermits{lease: "0", ids: ids},
		releasePermits{ids: ids},
		countPermits{},
		growPermits{n: "1"},
		resizePermits{n: "1"},
		setLatch{},
		countDown{},
		deleteLatch{},
		look("count_value", lockKey), look("count_life", lockKey),
	} {
		steps[fmt.Sprint("no count ", i)] = step{
			seed: [][]string{{"SET", lockKey, large}}, call: c, fails: "WRONGTYPE", after: beside(lockKey, token(large)),
		}
	}
	runSteps(t, steps)
	runSteps(t, map[string]step{
		"a hash of something else": {
			seed: [][]string{{"HSET", lockKey, "name", "precious"}}, call: look("lock_holders", lockKey), fails: "WRONGTYPE",
			after: beside(lockKey, endless("name", "precious")),
		},
	})
}

func TestNameKind(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	keys := []string{"x", "{x}:timeout", "redisson_lock_timeout:{x}"}
	for _, c := range []struct {
		says string
		seed [][]string
		keys int // that the call names; 0: all
	}{
		{says: "nothing"},
		{says: "lock", seed: [][]string{{"HSET", "x", me, "1"}}},
		{says: "lock", seed: [][]string{{"HSET", "x", me, "1"}, {"ZADD", keys[2], "1000", "dead"}}},
		{says: "fairlock", seed: [][]string{{"HSET", "x", me, "1"}, {"ZADD", keys[2], soon, "b:1"}}},
		{says: "lock", seed: [][]string{{"HSET", "x", me, "1"}, {"ZADD", keys[2], soon, "b:1"}}, keys: 1},
		{says: "rwlock", seed: [][]string{{"HSET", "x", "mode", "read", me, "1"}}},
		{says: "text", seed: [][]string{{"SET", "x", "precious"}}},
		{says: "text", seed: [][]string{{"SET", "x", ""}}},
		{says: "count", seed: [][]string{{"SET", "x", "-2"}}},
		{says: "permits", seed: [][]string{{"SET", "x", "2"}, {"ZADD", keys[1], soon, "b"}}},
		{says: "count", seed: [][]string{{"SET", "x", "2"}, {"ZADD", keys[1], soon, "b"}}, keys: 1},
		{says: "count", seed: [][]string{{"SET", "x", "2"}, {"SET", keys[1], "precious"}}},
		{says: "something", seed: [][]string{{"RPUSH", "x", "precious"}}},
	} {
		srv.Do(t, "FLUSHALL")
		for _, command := range c.seed {
			srv.Do(t, command...)
		}
		before := srv.Keyspace(t)
		if c.keys == 0 {
			c.keys = len(keys)
		}
		assert.Equal(t, c.says, srv.Do(t, eval(look("name_kind", keys[:c.keys]...))...), "%v", c)
		assert.Equal(t, before, srv.Keyspace(t))
	}
}
