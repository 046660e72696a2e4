package scripts

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/redistest"
	"github.com/stretchr/testify/require"
)

// misplaced stores waiters in the line, and something else where it is to be who of them is alive.
func misplaced(waiters ...string) [][]string {
	return with(inLine(waiters...), [][]string{{"SET", aliveKey, "precious"}})
}

func TestLineReleaseScript(t *testing.T) {
	t.Parallel()
	free := map[string]redistest.Value{}
	mine := seed(me, "1")
	precious := token("precious")

	runSteps(t, map[string]step{
		"asks the server for three things where nobody stands in line": {
			seed: mine, call: release{}, reply: int64(3), after: free, messages: []redistest.Message{saidFree},
			inside: map[string]int64{"llen": 1, "hdel": 1, "publish": 1},
		},
		"says how many hear that it is free": {
			seed: mine, listens: []string{channel, channel}, call: release{}, reply: int64(5), after: free,
			messages: []redistest.Message{saidFree},
		},
		"hands on": {
			seed: with(mine, inLine(second, third)), call: release{}, reply: int64(3),
			after: locked("b:1", "1", line(third)), ttl: about(5),
			messages: []redistest.Message{told("b", "b:1 0")},
		},
		"hands on to its own session": {
			seed: with(mine, inLine("a:2 5000")), call: release{}, reply: int64(2),
			after: locked("a:2", "1"), ttl: about(5), messages: []redistest.Message{told("a", "a:2 0")},
		},
		"hands on to its own session while others wait": {
			seed: with(mine, inLine("a:2 5000", third)), call: release{}, reply: int64(3),
			after: locked("a:2", "1", line(third)), ttl: about(5), messages: []redistest.Message{told("a", "a:2 0")},
		},
		"hands on to the last in line": {
			seed: with(mine, inLine(third)), call: release{}, reply: int64(3),
			after: locked("c:1", "1"), ttl: about(10), messages: []redistest.Message{told("c", "c:1 0")},
		},
		"hands on what was held more than once": {
			seed: with(seed(me, "3"), inLine(third)), call: release{}, reply: int64(3),
			after: locked("c:1", "1"), messages: []redistest.Message{told("c", "c:1 0")},
		},
		"hands on without memory": {
			seed: with(mine, inLine(second)), full: true, call: release{}, reply: int64(3),
			after: locked("b:1", "1"), ttl: about(5), messages: []redistest.Message{told("b", "b:1 0")},
		},
		"a nested release hands nothing on": {
			seed: with(seed(me, "3"), inLine(second)), call: release{target: 2}, reply: int64(1),
			after: locked(me, "2", line(second)), ttl: about(10),
		},
		"a nested release of another's": {
			seed: with(seed(ours, "3"), inLine(second)), call: release{target: 2}, reply: int64(0),
			after: locked(ours, "3", line(second)),
		},
		"frees it without knowing the line": {
			seed: with(mine, inLine(second)), call: release{bare: true}, reply: int64(3), after: line(second),
			messages: []redistest.Message{saidFree},
		},
		"leaves another owner's, and its line": {
			seed: with(seed(ours, "1"), inLine(second)), call: release{}, reply: int64(0),
			after: locked(ours, "1", line(second)),
		},
		"a copy leaves the line alone": {
			seed: inLine(second), call: release{}, reply: int64(0), after: line(second),
		},
	})
	tokened := func(before, after string) step {
		return step{
			seed: with(mine, inLine("b:1 5000 fenced"), [][]string{{"SET", tokenKey, before}}),
			call: release{}, reply: int64(3), after: locked("b:1", "1", beside(tokenKey, token(after))),
			messages: []redistest.Message{told("b", "b:1 "+after)},
		}
	}
	runSteps(t, map[string]step{
		"issues the first token": {
			seed: with(mine, inLine("b:1 5000 fenced")), call: release{}, reply: int64(3),
			after:    locked("b:1", "1", beside(tokenKey, token("1"))),
			messages: []redistest.Message{told("b", "b:1 1")},
		},
		"issues a token that expires": {
			seed: with(mine, inLine("b:1 5000 fenced:60000"), [][]string{{"SET", tokenKey, "8000000000000000", "PX", "10000"}}),
			call: release{}, reply: int64(3), after: locked("b:1", "1", beside(tokenKey, brief("8000000000000001"))),
			messages: []redistest.Message{told("b", "b:1 8000000000000001")},
		},
		"issues a token":                       tokened("7", "8"),
		"a token of 16 digits":                 tokened("1000000000000000", "1000000000000001"),
		"the last token that Lua can count":    tokened("9007199254740990", "9007199254740991"),
		"a token that Lua cannot tell apart":   tokened("9007199254740992", "9007199254740993"),
		"a token that Lua cannot tell apart 2": tokened("9223372036854775806", "9223372036854775807"),
	})
	runSteps(t, map[string]step{
		"skips those who are dead": {
			seed: with(mine, inLine(third), [][]string{{"LPUSH", lineKey, second}, {"ZADD", aliveKey, "1", second}}),
			call: release{}, reply: int64(3), after: locked("c:1", "1"),
			messages: []redistest.Message{told("c", "c:1 0")},
		},
		"skips those who do not hear": {
			seed: with(mine, inLine(second, third)), hears: "*:c", call: release{}, reply: int64(3),
			after: locked("c:1", "1"), messages: []redistest.Message{told("c", "c:1 0")},
		},
		"issues no token to those who are dead": {
			seed: with(mine, inLine(third), [][]string{
				{"LPUSH", lineKey, "b:1 5000 fenced"}, {"ZADD", aliveKey, "1", "b:1 5000 fenced"}, {"SET", tokenKey, "7"},
			}),
			call: release{}, reply: int64(3), after: locked("c:1", "1", beside(tokenKey, token("7"))),
			messages: []redistest.Message{told("c", "c:1 0")},
		},
		"skips what is no waiter": {
			seed: with(mine, inLine("", "b", "b:1", "b:1 soon", "b:1 -5", third)), call: release{}, reply: int64(3),
			after: locked("c:1", "1"), messages: []redistest.Message{told("c", "c:1 0")},
		},
		"frees it if all are dead": {
			seed: with(mine, lineOf("1", second, third)), call: release{}, reply: int64(3), after: free,
			messages: []redistest.Message{saidFree},
		},
		"frees it if it was evicted who is alive": {
			seed: with(mine, inLine(second, third), [][]string{{"DEL", aliveKey}}),
			call: release{}, reply: int64(3), after: free, messages: []redistest.Message{saidFree},
		},
		"frees it if the line was evicted": {
			seed: with(mine, inLine(second), [][]string{{"DEL", lineKey}}),
			call: release{}, reply: int64(3), after: beside(aliveKey, line(second)[aliveKey]),
			messages: []redistest.Message{saidFree},
		},
	})
	runSteps(t, map[string]step{
		"is free for others": {
			seed: with(mine, inLine(second)), listens: []string{channel}, dice: forOthers,
			call: release{}, reply: int64(4), after: line(second),
			messages: []redistest.Message{told("b", "free"), saidFree},
		},
		"is free for others with one chance in four": { // one waits in the line, and one besides
			seed: with(mine, inLine(second)), listens: []string{channel}, dice: notForThem + "t = t - t % 1000 + 249",
			call: release{}, reply: int64(4), after: line(second),
			messages: []redistest.Message{told("b", "free"), saidFree},
		},
		"hands on with the other three": {
			seed: with(mine, inLine(second)), listens: []string{channel}, dice: notForThem + "t = t - t % 1000 + 250",
			call: release{}, reply: int64(3), after: locked("b:1", "1"),
			messages: []redistest.Message{told("b", "b:1 0")},
		},
		"hands on although others wait": {
			seed: with(mine, inLine(second)), listens: []string{channel},
			call: release{}, reply: int64(3), after: locked("b:1", "1"),
			messages: []redistest.Message{told("b", "b:1 0")},
		},
		"is free for others, and the first that lives": {
			seed:    with(mine, inLine(third), [][]string{{"LPUSH", lineKey, second}, {"ZADD", aliveKey, "1", second}}),
			listens: []string{channel}, dice: forOthers, call: release{}, reply: int64(4), after: line(third),
			messages: []redistest.Message{told("c", "free"), saidFree},
		},
		"is free for others if all are dead": {
			seed: with(mine, lineOf("1", second)), listens: []string{channel}, dice: forOthers,
			call: release{}, reply: int64(4), after: free, messages: []redistest.Message{saidFree},
		},
		"is free for those who poll": {
			seed: with(mine, inLine(second)), dice: forPollers, call: release{}, reply: int64(3), after: line(second),
			messages: []redistest.Message{told("b", "free"), saidFree},
		},
		"hands on if only those listen who stand in the line": {
			seed: with(mine, inLine(second)), listens: []string{channel, mark}, dice: forOthers,
			call: release{}, reply: int64(3), after: locked("b:1", "1"),
			messages: []redistest.Message{told("b", "b:1 0")},
		},
		"is free for those whom the server does not count": {
			seed: with(mine, inLine(second)), hears: "nothing", dice: forOthers, call: release{unreached: true},
			reply: int64(2), after: line(second),
		},
		"hands on to one whom the server does not count": {
			seed: with(mine, inLine(second)), hears: "nothing", call: release{unreached: true},
			reply: int64(3), after: locked("b:1", "1"),
		},
		"skips the dead whom the server does not count": {
			seed: with(mine, lineOf("1", second)), hears: "nothing", call: release{unreached: true},
			reply: int64(2), after: free,
		},
	})
	runSteps(t, map[string]step{
		"leaves the middle of the line": {
			seed: with(seed(ours, "1"), inLine(second, waiter, third)), call: release{leaves: true}, reply: int64(0),
			after: locked(ours, "1", line(second, third)),
		},
		"leaves as the first, and tells the next": {
			seed: with(seed(ours, "1"), inLine(waiter, second, third)), call: release{leaves: true}, reply: int64(0),
			after: locked(ours, "1", line(second, third)), messages: []redistest.Message{told("b", "first")},
		},
		"leaves as the first, and the next does not hear": {
			seed: with(seed(ours, "1"), inLine(waiter, second)), hears: "nothing", call: release{leaves: true},
			reply: int64(0), after: locked(ours, "1", line(second)),
		},
		"leaves as the only one": {
			seed: with(seed(ours, "1"), inLine(waiter)), call: release{leaves: true}, reply: int64(0),
			after: locked(ours, "1"),
		},
		"leaves the line of a free lock": {
			seed: inLine(second, waiter), call: release{leaves: true}, reply: int64(0), after: line(second),
		},
		"leaves no line": {
			seed: seed(ours, "1"), call: release{leaves: true}, reply: int64(0), after: locked(ours, "1"),
		},
		"has been granted it, and passes it on": {
			seed: with(mine, inLine(second)), call: release{leaves: true}, reply: int64(3),
			after: locked("b:1", "1"), messages: []redistest.Message{told("b", "b:1 0")},
		},
		"has been granted it, and frees it": {
			seed: mine, call: release{leaves: true}, reply: int64(3), after: free,
			messages: []redistest.Message{saidFree},
		},
		"has been granted it, stands there as well, and is not its own next": {
			seed: with(mine, inLine(waiter)), call: release{leaves: true}, reply: int64(3), after: free,
			messages: []redistest.Message{saidFree},
		},
	})
	runSteps(t, map[string]step{
		"a lock of another type stays, with its line": {
			seed: with([][]string{{"SET", lockKey, "precious"}}, inLine(second)), call: release{}, fails: "WRONGTYPE",
			after: map[string]redistest.Value{
				lockKey: precious, lineKey: line(second)[lineKey], aliveKey: line(second)[aliveKey],
			},
		},
		"a line of another type stays, and nothing is freed": {
			seed: with(mine, [][]string{{"SET", lineKey, "precious"}}), call: release{}, fails: "WRONGTYPE",
			after: locked(me, "1", beside(lineKey, precious)),
		},
		"a list of the living of another type stays, and nothing is freed": {
			seed: with(mine, misplaced(second, third)), call: release{}, fails: "WRONGTYPE",
			after: locked(me, "1", lists(second, third), beside(aliveKey, precious)),
		},
		"a list of the living of another type stays, and nobody leaves the line": {
			seed: with(mine, misplaced(waiter, second)), call: release{leaves: true}, fails: "WRONGTYPE",
			after: locked(me, "1", lists(waiter, second), beside(aliveKey, precious)),
		},
		"a token of another type stays, which was to expire": {
			seed: with(mine, inLine("b:1 5000 fenced:60000", third), [][]string{{"RPUSH", tokenKey, "precious"}}),
			call: release{}, reply: int64(3),
			after:    locked("c:1", "1", beside(tokenKey, redistest.Value{Type: "list", Content: []string{"precious"}})),
			messages: []redistest.Message{told("c", "c:1 0")},
		},
		"a token of another type stays": {
			seed: with(mine, inLine("b:1 5000 fenced", third), [][]string{{"RPUSH", tokenKey, "precious"}}),
			call: release{}, reply: int64(3), messages: []redistest.Message{told("c", "c:1 0")},
			after: locked("c:1", "1", beside(tokenKey, redistest.Value{Type: "list", Content: []string{"precious"}})),
		},
	})
}

// A release that may not publish fails, and its owner has the lock again: once, for a lease.
func TestARefusedMessagePutsTheLockBack(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	for _, command := range seed(me, "3") {
		srv.Do(t, command...)
	}
	srv.Grant(t, "mute", "+@all", "~*", "&another")
	conn, err := redistest.Dial(srv.Addr())
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Do("AUTH", "mute", redistest.Password)
	require.NoError(t, err)
	_, err = conn.Do(eval(release{})...)
	require.Error(t, err)
	require.Regexp(t, `can't publish|NOPERM|ACL failure`, err.Error())
	require.Equal(t, locked(me, "1"), srv.Keyspace(t))
	require.InDelta(t, 30*time.Second, srv.TTLs(t)[lockKey], float64(time.Second))
}

func TestLineForceScripts(t *testing.T) {
	t.Parallel()
	free := map[string]redistest.Value{}
	theirs := seed(ours, "3")
	runSteps(t, map[string]step{
		"hands on": {
			twice: true,
			seed:  with(theirs, inLine(second, third)), call: force{}, reply: now{},
			after: locked("b:1", "1", line(third)), ttl: about(5), messages: []redistest.Message{told("b", "b:1 0")},
		},
		"hands on what Redisson holds": {
			twice: true,
			seed:  with(seed(java, "3"), inLine(second)), call: force{}, reply: now{},
			after: locked("b:1", "1"), messages: []redistest.Message{told("b", "b:1 0")},
		},
		"hands on without memory": {
			twice: true,
			seed:  with(theirs, inLine(second)), full: true, call: force{}, reply: now{}, after: locked("b:1", "1"),
			messages: []redistest.Message{told("b", "b:1 0")},
		},
		"is free for others": {
			twice: true,
			seed:  with(theirs, inLine(second)), listens: []string{channel}, dice: forOthers, call: force{},
			reply: now{}, after: line(second), messages: []redistest.Message{told("b", "free"), saidFree},
		},
		"frees it if all are dead": {
			twice: true,
			seed:  with(theirs, lineOf("1", second)), call: force{}, reply: now{}, after: free,
			messages: []redistest.Message{saidFree},
		},
		"frees it without knowing the line": {
			seed: with(theirs, inLine(second)), call: force{bare: true}, reply: now{}, after: line(second),
			messages: []redistest.Message{saidFree},
		},
		"leaves the line of a free lock": {
			seed: inLine(second), call: force{}, reply: head(0), after: line(second),
		},
		"too late, it hands nothing on": {
			seed: with(theirs, inLine(second)), call: force{late: true}, reply: head(-2),
			after: locked(ours, "3", line(second)),
		},
		"a line of another type stays, and nothing is freed": {
			seed: with(theirs, [][]string{{"SET", lineKey, "precious"}}), call: force{}, fails: "WRONGTYPE",
			after: locked(ours, "3", beside(lineKey, token("precious"))),
		},
		"a list of the living of another type stays, and nothing is freed": {
			twice: true,
			seed:  with(theirs, misplaced(second)), call: force{}, fails: "WRONGTYPE",
			after: locked(ours, "3", lists(second), beside(aliveKey, token("precious"))),
		},
	})
	y := func(owner string) map[string]redistest.Value { return beside("y", hash(owner, "1")) }
	all := with(seed(me, "1"), [][]string{{"HSET", "y", me, "1"}, {"PEXPIRE", "y", "10000"}})
	runSteps(t, map[string]step{
		"hands one on and frees the other": {
			seed: with(all, inLine(second)), call: releaseAll{}, reply: []any{int64(3), int64(3), int64(0)},
			after:    locked("b:1", "1"),
			messages: []redistest.Message{{Channel: "two", Payload: "0"}, told("b", "b:1 0")},
		},
		"hands one on to its own session": {
			seed: with(all, inLine("a:2 5000")), call: releaseAll{}, reply: []any{int64(2), int64(3), int64(0)},
			after:    locked("a:2", "1"),
			messages: []redistest.Message{{Channel: "two", Payload: "0"}, told("a", "a:2 0")},
		},
		"hands one on without memory": {
			seed: with(all, inLine(second)), full: true, call: releaseAll{},
			reply: []any{int64(3), int64(3), int64(0)}, after: locked("b:1", "1"),
			messages: []redistest.Message{{Channel: "two", Payload: "0"}, told("b", "b:1 0")},
		},
		"frees one whose line is dead": {
			seed: with(all, lineOf("1", second)), call: releaseAll{}, reply: []any{int64(3), int64(3), int64(0)},
			after:    free,
			messages: []redistest.Message{{Channel: "two", Payload: "0"}, {Channel: "one", Payload: "0"}},
		},
		"leaves another owner's, and its line": {
			seed: with(seed(ours, "1"), [][]string{{"HSET", "y", me, "1"}, {"PEXPIRE", "y", "10000"}}, inLine(second)),
			call: releaseAll{}, reply: []any{int64(0), int64(3), int64(0)},
			after:    locked(ours, "1", line(second)),
			messages: []redistest.Message{{Channel: "two", Payload: "0"}},
		},
		"a line of another type stays, and nothing is freed": {
			seed: with(all, [][]string{{"SET", lineKey, "precious"}}), call: releaseAll{}, fails: "WRONGTYPE",
			after: locked(me, "1", y(me), beside(lineKey, token("precious"))),
		},
		"a key of another type beside the line stays, and nothing is freed": {
			seed: with(all, misplaced(second)), call: releaseAll{}, fails: "WRONGTYPE",
			after: locked(me, "1", y(me), beside(lineKey, line(second)[lineKey]), beside(aliveKey, token("precious"))),
		},
	})
}
