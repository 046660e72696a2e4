package scripts

import (
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/tests/redistest"
)

// These are the scripts that pass an rlock on between sessions.

const (
	lineKey  = "holdfast_line:{x}"
	aliveKey = "holdfast_line_alive:{x}"
	mark     = lineKey + ":redisson" // where those listen who stand in the line and listen on the lock's channel as well
)

// Others that stand in the line.
const (
	second = "b:1 5000"
	third  = "c:1 10000"
)

// Holders: one of a session that knows the line, and one of Redisson's.
const (
	ours = "0f8fad5b-d9cb-8f06-a165-70867728950e:42"
	java = "0f8fad5b-d9cb-469f-a165-70867728950e:42"
)

// until is a score that is never over.
const until = 99999999999999

// inLine stores waiters in the line, who are alive.
func inLine(waiters ...string) [][]string { return lineOf(strconv.Itoa(until), waiters...) }

// lineOf stores waiters in the line, who are alive until then.
func lineOf(until string, waiters ...string) [][]string {
	commands := [][]string{append([]string{"RPUSH", lineKey}, waiters...), {"PEXPIRE", lineKey, "40000"}}
	for _, w := range waiters {
		commands = append(commands, []string{"ZADD", aliveKey, until, w})
	}
	return append(commands, []string{"PEXPIRE", aliveKey, "40000"})
}

// with returns the commands of all.
func with(all ...[][]string) [][]string { return slices.Concat(all...) }

// line is how redistest shows waiters in the line, who are alive; nobody in the line are no keys.
func line(waiters ...string) map[string]redistest.Value {
	if len(waiters) == 0 {
		return map[string]redistest.Value{}
	}
	scores := map[string]float64{}
	for _, w := range waiters {
		scores[w] = until
	}
	return map[string]redistest.Value{
		lineKey:  {Type: "list", Content: waiters, Expires: true},
		aliveKey: {Type: "zset", Content: scores, Expires: true},
	}
}

// lists is how redistest shows the line alone.
func lists(waiters ...string) map[string]redistest.Value {
	all := line(waiters...)
	delete(all, aliveKey)
	return all
}

// locked is how redistest shows the lock, with other keys.
func locked(owner, count string, others ...map[string]redistest.Value) map[string]redistest.Value {
	return all(append(others, map[string]redistest.Value{lockKey: hash(owner, count)})...)
}

// one key beside others.
func beside(key string, value redistest.Value) map[string]redistest.Value {
	return map[string]redistest.Value{key: value}
}

// told is a message to the session of a waiter.
func told(session, what string) redistest.Message {
	return redistest.Message{Channel: lineKey + ":" + session, Payload: what}
}

// saidFree is what those are told who do not stand in the line.
var saidFree = redistest.Message{Channel: channel, Payload: "0"}

func TestLineStandScript(t *testing.T) {
	t.Parallel()
	runSteps(t, map[string]step{
		"takes a free lock": {
			call: stand{}, reply: now{}, after: locked(me, "1"), ttl: about(30),
		},
		"takes a free lock, with a token that expires": {
			seed: [][]string{{"SET", tokenKey, "8000000000000000", "PX", "10000"}}, twice: true,
			call: stand{token: true, ttl: true}, reply: head(1, 8000000000000001),
			after: locked(me, "1", beside(tokenKey, brief("8000000000000001"))),
		},
		"takes a free lock, with a token": {
			seed: [][]string{{"SET", tokenKey, "7"}},
			call: stand{token: true}, reply: head(1, 8), after: locked(me, "1", beside(tokenKey, token("8"))),
		},
		"takes a free lock, and leaves the line": {
			seed: inLine(second, waiter, third),
			call: stand{again: true}, reply: now{}, after: locked(me, "1", line(second, third)),
		},
		"stands behind those in the line of a free lock, and is to look soon": {
			seed: inLine(second), call: stand{},
			reply: []any{int64(0), now{}, int64(10), int64(0)},
			after: map[string]redistest.Value{lineKey: lists(second, waiter)[lineKey], aliveKey: line(second)[aliveKey]},
			due:   map[string]int{waiter: 15000},
			ttls:  map[string]int{lineKey: 60, aliveKey: 60},
		},
		"takes a free lock if those in the line are dead": {
			seed: lineOf("1", second), call: stand{}, reply: now{},
			after: locked(me, "1", lists(second), beside(aliveKey, redistest.Value{
				Type: "zset", Content: map[string]float64{second: 1}, Expires: true,
			})),
		},
		"is the first that shows that it is alive": {
			seed: with(seed(ours, "1"), inLine(waiter, second)), call: stand{again: true},
			reply: []any{int64(0), now{}, lastsFor(10000), int64(2)},
			after: locked(ours, "1", lists(waiter, second), beside(aliveKey, line(second)[aliveKey])),
			due:   map[string]int{waiter: 15000},
		},
		"stands as the first": {
			seed: seed(ours, "1"), call: stand{},
			reply: []any{int64(0), now{}, lastsFor(10000), int64(2)},
			after: locked(ours, "1", lists(waiter)), due: map[string]int{waiter: 15000},
			ttls: map[string]int{lineKey: 60},
		},
		"stands behind others": {
			seed: with(seed(java, "1"), inLine(second)), call: stand{},
			reply: []any{int64(0), now{}, lastsFor(10000), int64(0)},
			after: locked(java, "1", lists(second, waiter), beside(aliveKey, line(second)[aliveKey])),
			due:   map[string]int{waiter: 15000},
			ttls:  map[string]int{lineKey: 60, aliveKey: 60},
		},
		"is to listen as the first, behind one that does not know the line": {
			seed: seed(java, "1"), call: stand{},
			reply: []any{int64(0), now{}, lastsFor(10000), int64(1)},
			after: locked(java, "1", lists(waiter)), due: map[string]int{waiter: 15000},
		},
		"says when a lock has no expiry": {
			seed: [][]string{{"HSET", lockKey, java, "1"}}, call: stand{}, reply: head(0, -1, 1),
			after: map[string]redistest.Value{
				lockKey: {Type: "hash", Content: map[string]string{java: "1"}}, lineKey: lists(waiter)[lineKey],
			},
			due: map[string]int{waiter: 15000},
		},
		"shows that it is alive": {
			seed: with(seed(ours, "1"), lineOf("1", second, waiter)), call: stand{again: true},
			reply: []any{int64(0), now{}, lastsFor(10000), int64(0)},
			after: locked(ours, "1", lists(second, waiter), beside(aliveKey, redistest.Value{
				Type: "zset", Content: map[string]float64{second: 1}, Expires: true,
			})),
			due:  map[string]int{waiter: 15000},
			ttls: map[string]int{lineKey: 60, aliveKey: 60},
		},
		"shows that it is alive as the first, and is to listen": {
			seed: with(seed(java, "1"), inLine(waiter, second)), call: stand{again: true},
			reply: []any{int64(0), now{}, lastsFor(10000), int64(1)},
			after: locked(java, "1", lists(waiter, second), beside(aliveKey, line(second)[aliveKey])),
			due:   map[string]int{waiter: 15000},
		},
		"takes those out who are dead in front of it, behind one that does not know the line": {
			seed: with(seed(java, "1"), lineOf("1", second, third), inLine(waiter)), call: stand{again: true},
			reply: []any{int64(0), now{}, lastsFor(10000), int64(1)},
			after: locked(java, "1", lists(waiter)), due: map[string]int{waiter: 15000},
		},
		"leaves those alone who are behind one that lives": {
			seed: with(seed(java, "1"), inLine(third), lineOf("1", second), inLine(waiter)), call: stand{again: true},
			reply: []any{int64(0), now{}, lastsFor(10000), int64(0)},
			after: locked(java, "1", lists(third, second, waiter), beside(aliveKey, redistest.Value{
				Type: "zset", Content: map[string]float64{third: until, second: 1}, Expires: true,
			})),
			due: map[string]int{waiter: 15000},
		},
		"finds its place gone": {
			seed: with(seed(ours, "1"), inLine(second)), call: stand{again: true}, reply: head(-1),
			after: locked(ours, "1", line(second)), ttls: map[string]int{lineKey: 40, aliveKey: 40},
		},
		"finds the line evicted": {
			seed: with(seed(ours, "1"), inLine(waiter), [][]string{{"DEL", lineKey}}),
			call: stand{again: true}, reply: head(-1),
			after: locked(ours, "1", beside(aliveKey, line(waiter)[aliveKey])),
		},
		"lives on where it was evicted who is alive": {
			seed: with(seed(ours, "1"), inLine(second, waiter), [][]string{{"DEL", aliveKey}}),
			call: stand{again: true}, reply: []any{int64(0), now{}, lastsFor(10000), int64(0)},
			after: locked(ours, "1", lists(second, waiter)), due: map[string]int{waiter: 15000},
		},
		"finds a grant": {
			seed: with(seed(me, "1"), inLine(second)), call: stand{again: true}, reply: now{},
			after: locked(me, "1", line(second)), ttl: about(30),
		},
		"finds a grant, and its token": {
			seed: with(seed(me, "1"), [][]string{{"SET", tokenKey, "7"}}),
			call: stand{again: true, token: true}, reply: head(1, 7),
			after: locked(me, "1", beside(tokenKey, token("7"))),
		},
		"finds a grant, and a token with all its digits": {
			seed: with(seed(me, "1"), [][]string{{"SET", tokenKey, "9007199254740993"}}),
			call: stand{again: true, token: true}, reply: append(head(1), "9007199254740993"),
			after: locked(me, "1", beside(tokenKey, token("9007199254740993"))),
		},
		"finds a grant, and leaves a place that a late copy took": {
			seed: with(seed(me, "1"), inLine(second, waiter)), call: stand{again: true}, reply: now{},
			after: locked(me, "1", line(second)),
		},
		"a copy of the first call finds itself": {
			seed: seed(me, "1"), call: stand{}, reply: now{}, after: locked(me, "1"), ttl: about(30),
		},
		"a copy lowers no count, and shortens no lease": {
			seed: seed(me, "3"), call: stand{again: true, lease: "1000"}, reply: now{},
			after: locked(me, "3"), ttl: about(10),
		},
		"a copy finds that its lock has lost its expiry": {
			seed: with(seed(me, "1"), persisted), call: stand{}, reply: now{}, after: locked(me, "1"), ttl: about(30),
		},
		"takes a free lock without knowing the line": {
			seed: inLine(waiter), call: stand{bare: true, again: true}, reply: now{},
			after: locked(me, "1", line(waiter)),
		},
		"takes a free lock at once without knowing the line": {
			call: stand{bare: true}, reply: now{}, after: locked(me, "1"),
		},
		"cannot stand without knowing the line": {
			seed: seed(java, "1"), call: stand{bare: true},
			reply: []any{int64(0), now{}, lastsFor(10000), int64(-1)}, after: locked(java, "1"),
		},
		"too late, it takes nothing": {
			call: stand{late: true, token: true}, reply: head(-2), after: map[string]redistest.Value{},
		},
		"too late, it does not stand": {
			seed: seed(ours, "1"), call: stand{late: true}, reply: head(-2), after: locked(ours, "1"), ttl: about(10),
		},
		"too late, it shows no life": {
			seed: with(seed(ours, "1"), lineOf("1", waiter)), call: stand{late: true, again: true}, reply: head(-2),
			after: locked(ours, "1", lists(waiter), beside(aliveKey, redistest.Value{
				Type: "zset", Content: map[string]float64{waiter: 1}, Expires: true,
			})),
			ttls: map[string]int{lineKey: 40, aliveKey: 40},
		},
		"too late, it extends nothing": {
			seed: seed(me, "1"), call: stand{late: true, again: true}, reply: head(-2),
			after: locked(me, "1"), ttl: about(10),
		},
		"a lease of no time": {
			call: stand{lease: "0"}, fails: "lease must be", after: map[string]redistest.Value{},
		},
		"takes a free lock without memory": {
			seed: inLine(waiter), full: true, call: stand{again: true}, reply: now{}, after: locked(me, "1"),
		},
		"stands without memory": {
			seed: seed(ours, "1"), full: true, call: stand{},
			reply: []any{int64(0), now{}, lastsFor(10000), int64(2)},
			after: locked(ours, "1", lists(waiter)), due: map[string]int{waiter: 15000},
		},
	})
	precious := token("precious")
	runSteps(t, map[string]step{
		"a lock of another type stays": {
			seed: [][]string{{"SET", lockKey, "precious"}}, call: stand{token: true},
			fails: "WRONGTYPE", after: beside(lockKey, precious),
		},
		"a line of another type stays, and nobody stands": {
			seed: with(seed(ours, "1"), [][]string{{"SET", lineKey, "precious"}}), call: stand{},
			fails: "WRONGTYPE", after: locked(ours, "1", beside(lineKey, precious)),
		},
		"a list of the living of another type stays, and nobody stands": {
			seed: with(seed(ours, "1"), [][]string{{"SET", aliveKey, "precious"}}), call: stand{},
			fails: "WRONGTYPE", after: locked(ours, "1", beside(aliveKey, precious)),
		},
		"a token of another type stays, and nothing is taken": {
			seed: [][]string{{"RPUSH", tokenKey, "precious"}}, call: stand{token: true},
			fails: "WRONGTYPE", after: beside(tokenKey, redistest.Value{Type: "list", Content: []string{"precious"}}),
		},
	})
}

// Where others wait besides the line, chance decides: the lock goes on in the line, or is free for everybody.
func TestALineAndOthersShareALock(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	messages := hear(t, srv, lineKey+":*") // those in the line
	for range 3 {
		listen(t, srv, channel)
	}
	tries, free := 200, 0
	for range tries {
		srv.Do(t, "FLUSHALL")
		for _, command := range with(seed(me, "1"), inLine(second)) {
			srv.Do(t, command...)
		}
		switch reply := srv.Do(t, eval(release{})...); reply {
		case int64(3):
			require.Equal(t, []redistest.Message{told("b", "b:1 0")}, messages.Drain(t))
			require.Equal(t, locked("b:1", "1"), srv.Keyspace(t))
		default:
			free++
			require.Equal(t, int64(2+3), reply)
			require.Equal(t, []redistest.Message{told("b", "free")}, messages.Drain(t))
			require.Equal(t, line(second), srv.Keyspace(t))
		}
	}
	// Three wait besides one in the line and who releases: 3 / (4 × 2), and 4 ms of each 256 besides.
	assert.InDelta(t, 77, free, 40) // 40 are more than five standard deviations
}
