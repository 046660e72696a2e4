package scripts

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/tests/redistest"
)

// These are the scripts that take and release several locks at once.
func TestMultiLockScripts(t *testing.T) {
	t.Parallel()
	free := map[string]redistest.Value{}
	taken := map[string]redistest.Value{lockKey: hash("a:1", "1"), "y": hash("a:1", "1"), "z": hash("a:1", "1")}
	seedAll := append(seed("a:1", "1"),
		[]string{"HSET", "y", "a:1", "1"}, []string{"PEXPIRE", "y", "90000"}, []string{"HSET", "z", "a:1", "1"},
		[]string{"PEXPIRE", "z", "5000"})
	other := [][]string{{"HSET", "y", "b:1", "1"}, {"PEXPIRE", "y", "10000"}}

	runSteps(t, map[string]step{
		"takes all, each with its lease": {
			call: acquireAll{}, reply: now{},
			after: taken, ttls: map[string]int{lockKey: 30, "y": 20, "z": 10},
		},
		"a copy changes no count and shortens no lease": {
			seed: seedAll, call: acquireAll{}, reply: now{},
			after: taken, ttls: map[string]int{lockKey: 30, "y": 90, "z": 10},
		},
		"has one of them": {
			seed: [][]string{{"HSET", lockKey, "a:1", "1"}, {"PEXPIRE", lockKey, "90000"}}, call: acquireAll{}, reply: now{},
			after: taken, ttls: map[string]int{lockKey: 90, "y": 20, "z": 10},
		},
		"a copy finds what has been re-entered": {
			seed: seed("a:1", "3"), call: acquireAll{leases: []string{"30000"}}, reply: now{},
			after: map[string]redistest.Value{lockKey: hash("a:1", "3")},
		},
		"takes none if another has one": {
			seed: other, call: acquireAll{}, reply: append(slices.Clone(busy), int64(2)),
			after: map[string]redistest.Value{"y": hash("b:1", "1")},
		},
		"says which, and when it has no expiry": {
			seed: [][]string{{"HSET", "z", "b:1", "1"}}, call: acquireAll{}, reply: unasked(0, -1, 3),
			after: map[string]redistest.Value{"z": {Type: "hash", Content: map[string]string{"b:1": "1"}}},
		},
		"too late, it takes none": {
			call: acquireAll{late: true}, reply: head(-2), after: free,
		},
		"too late, it extends none": {
			seed: seed("a:1", "1"), call: acquireAll{leases: []string{"30000"}, late: true}, reply: head(-2),
			after: map[string]redistest.Value{lockKey: hash("a:1", "1")}, ttl: about(10),
		},
		"a key of another type stays, and nothing is taken": {
			seed: [][]string{{"SET", "z", "precious"}}, call: acquireAll{}, fails: "WRONGTYPE",
			after: map[string]redistest.Value{"z": token("precious")},
		},
		"a bad lease among good ones": {
			call: acquireAll{leases: []string{"30000", "20000", "0"}}, fails: "lease must be", after: free,
		},
	})
	runSteps(t, map[string]step{
		"frees all and publishes for each": {
			seed: seedAll, call: releaseAll{}, reply: []any{int64(3), int64(3), int64(3)},
			after: free,
			messages: []redistest.Message{
				{Channel: "one", Payload: "0"},
				{Channel: "two", Payload: "0"},
				{Channel: "three", Payload: "0"},
			},
		},
		"leaves another owner's": {
			seed: append(seed("a:1", "1"), other...), call: releaseAll{},
			reply:    []any{int64(3), int64(0), int64(0)},
			after:    map[string]redistest.Value{"y": hash("b:1", "1")},
			messages: []redistest.Message{{Channel: "one", Payload: "0"}},
		},
		"a key of another type, and nothing is freed": {
			seed: append(seed("a:1", "1"), []string{"SET", "z", "precious"}), call: releaseAll{},
			fails: "WRONGTYPE",
			after: map[string]redistest.Value{lockKey: hash("a:1", "1"), "z": token("precious")},
		},
	})
}

// With a grant a server also tells how long it has been up, and which run of it this is, but not to those who know.
func TestAGrantTellsTheServersAge(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	informed := func(info string, c caller) []any {
		began := time.Now().UnixMilli()
		command := eval(c)
		command[1] = info + command[1]
		reply, err := srv.Try(command...)
		require.NoError(t, err)
		values := withNow(reply, began).([]any)
		require.Len(t, values, 6)
		require.Equal(t, head(1, 0), values[:3])
		return values[3:]
	}
	grant := func(c caller) []any { return informed("", c) }
	first := grant(acquire{key: "a", asks: "age"})
	again := grant(acquire{key: "a", target: 2, asks: "age"})
	single := grant(acquireSet{key: "b", asks: "age"})
	id := regexp.MustCompile(`run_id:(\w{12})`).FindStringSubmatch(srv.Str(t, "INFO", "server"))[1]
	run, err := strconv.ParseInt(id, 16, 64)
	require.NoError(t, err)
	for _, age := range [][]any{first, again, single} {
		assert.GreaterOrEqual(t, age[0], int64(0))
		assert.Less(t, age[0], int64(600))
		assert.Equal(t, run, age[1])
		assert.Equal(t, first[2], age[2])
	}
	mark := fmt.Sprintf("table: 0x%x", first[2])
	for _, knows := range []caller{acquire{key: "d", asks: mark}, acquireSet{key: "e", asks: mark}} {
		reply, err := srv.Try(eval(knows)...)
		require.NoError(t, err)
		assert.IsType(t, int64(0), reply)
	}
	srv.Restart()
	for _, knew := range []caller{acquire{key: "f", asks: mark}, acquireSet{key: "g", asks: mark}} {
		age := grant(knew)
		assert.NotEqual(t, run, age[1])
		assert.NotEqual(t, first[2], age[2])
	}
	for uptime, told := range map[int64]int64{
		3600:                  3600,
		-3600:                 0, // its clock was set back
		time.Now().Unix() - 5: 0, // its clock was first set when it was already up
	} {
		info := fmt.Sprintf(`local real = redis
			local redis = {call = real.call, error_reply = real.error_reply, pcall = function(command, ...)
				if command ~= 'INFO' then return real.pcall(command, ...) end
				return '# Server\r\nuptime_in_seconds:%d\r\nrun_id:%s00\r\n'
			end}
		`, uptime, id)
		assert.Equal(t, []any{told, run}, informed(info, acquire{key: fmt.Sprint(uptime), asks: "age"})[:2])
	}
	srv.Do(t, "ACL", "SETUSER", "default", "-info")
	assert.Equal(t, []any{int64(-1), int64(0)}, grant(acquire{key: "c", asks: "age"})[:2])
}
