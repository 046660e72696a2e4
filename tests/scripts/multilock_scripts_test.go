package scripts

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// The scripts that take and release several locks at once.
func TestMultiLockScripts(t *testing.T) {
	t.Parallel()
	free := map[string]redistest.Value{}
	keys := []string{lockKey, "y", "z"}
	all := []string{"a:1", soon, "30000", "20000", "10000"}
	taken := map[string]redistest.Value{lockKey: hash("a:1", "1"), "y": hash("a:1", "1"), "z": hash("a:1", "1")}
	seedAll := append(seed("a:1", "1"),
		[]string{"HSET", "y", "a:1", "1"}, []string{"PEXPIRE", "y", "90000"}, []string{"HSET", "z", "a:1", "1"}, []string{"PEXPIRE", "z", "5000"})
	other := [][]string{{"HSET", "y", "b:1", "1"}, {"PEXPIRE", "y", "10000"}}

	runSteps(t, "rlock_acquire_all", map[string]step{
		"takes all, each with its lease": {
			keys: keys, args: all, reply: []any{int64(1), now{}},
			after: taken, ttls: map[string]int{lockKey: 30, "y": 20, "z": 10},
		},
		"a copy changes no count and shortens no lease": {
			seed: seedAll, keys: keys, args: all, reply: []any{int64(1), now{}},
			after: taken, ttls: map[string]int{lockKey: 30, "y": 90, "z": 10},
		},
		"a copy finds what has been re-entered": {
			seed: seed("a:1", "3"), keys: keys[:1], args: all[:3], reply: []any{int64(1), now{}},
			after: map[string]redistest.Value{lockKey: hash("a:1", "3")},
		},
		"takes none if another has one": {
			seed: other, keys: keys, args: all, reply: "busy", after: map[string]redistest.Value{"y": hash("b:1", "1")},
		},
		"says which, and when it has no expiry": {
			seed: [][]string{{"HSET", "z", "b:1", "1"}}, keys: keys, args: all, reply: []any{int64(0), now{}, int64(-1), int64(3)},
			after: map[string]redistest.Value{"z": {Type: "hash", Content: map[string]string{"b:1": "1"}}},
		},
		"too late, it takes none": {
			keys: keys, args: []string{"a:1", past, "30000", "20000", "10000"}, reply: []any{int64(-2), now{}}, after: free,
		},
		"a key of another type stays, and nothing is taken": {
			seed: [][]string{{"SET", "z", "precious"}}, keys: keys, args: all, fails: "WRONGTYPE",
			after: map[string]redistest.Value{"z": token("precious")},
		},
		"a bad lease among good ones": {
			keys: keys, args: []string{"a:1", soon, "30000", "20000", "0"}, fails: "lease must be", after: free,
		},
	})
	runSteps(t, "rlock_release_all", map[string]step{
		"frees all and tells each": {
			seed: seedAll, keys: keys, args: []string{"a:1", "PUBLISH", "one", "two", "three"}, reply: []any{int64(3), int64(3), int64(3)},
			after: free, messages: []redistest.Message{{Channel: "one", Payload: "0"}, {Channel: "two", Payload: "0"}, {Channel: "three", Payload: "0"}},
		},
		"leaves another owner's": {
			seed: append(seed("a:1", "1"), other...), keys: keys, args: []string{"a:1", "PUBLISH", "one", "two", "three"}, reply: []any{int64(3), int64(0), int64(0)},
			after: map[string]redistest.Value{"y": hash("b:1", "1")}, messages: []redistest.Message{{Channel: "one", Payload: "0"}},
		},
		"a key of another type, and nothing is freed": {
			seed: append(seed("a:1", "1"), []string{"SET", "z", "precious"}), keys: keys, args: []string{"a:1", "PUBLISH", "one", "two", "three"}, fails: "WRONGTYPE",
			after: map[string]redistest.Value{lockKey: hash("a:1", "1"), "z": token("precious")},
		},
	})
}

// What a server tells of itself with a grant: for how long it has been up, and which run of it this is.
func TestAGrantTellsTheServersAge(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	informed := func(info, script string, args ...string) []any {
		began := time.Now().UnixMilli()
		reply, err := srv.Try(append([]string{"EVAL", info + lua.Source(script), "1"}, args...)...)
		require.NoError(t, err)
		values := withNow(reply, began).([]any)
		require.Len(t, values, 5)
		require.Equal(t, []any{int64(1), now{}, int64(0)}, values[:3])
		return values[3:]
	}
	grant := func(script string, args ...string) []any { return informed("", script, args...) }
	first := grant("rlock_acquire", "a", "a:1", "1", "30000", soon, "age")
	again := grant("rlock_acquire", "a", "a:1", "2", "30000", soon, "age")
	single := grant("setlock_acquire", "b", "token", "30000", soon, "first", "age")
	id := regexp.MustCompile(`run_id:(\w{12})`).FindStringSubmatch(srv.Str(t, "INFO", "server"))[1]
	run, err := strconv.ParseInt(id, 16, 64)
	require.NoError(t, err)
	for _, age := range [][]any{first, again, single} {
		assert.GreaterOrEqual(t, age[0], int64(0))
		assert.Less(t, age[0], int64(600))
		assert.Equal(t, run, age[1])
	}
	for uptime, told := range map[int64]int64{
		3600:                  3600,
		-3600:                 0, // its clock was set back
		time.Now().Unix() - 5: 0, // its clock was set for the first time when it was up
	} {
		info := fmt.Sprintf(`local real = redis
			local redis = {call = real.call, error_reply = real.error_reply, pcall = function(command, ...)
				if command ~= 'INFO' then return real.pcall(command, ...) end
				return '# Server\r\nuptime_in_seconds:%d\r\nrun_id:%s00\r\n'
			end}
		`, uptime, id)
		assert.Equal(t, []any{told, run}, informed(info, "rlock_acquire", fmt.Sprint(uptime), "a:1", "1", "30000", soon, "age"))
	}
	srv.Do(t, "ACL", "SETUSER", "default", "-info")
	assert.Equal(t, []any{int64(-1), int64(0)}, grant("rlock_acquire", "c", "a:1", "1", "30000", soon, "age"))
}
