package scripts

import (
	"testing"

	"github.com/holdfast-go/holdfast/tests/redistest"
)

// These are the scripts that tell the sessions in the line of a semaphore when it is their turn.

// Waiters in the line besides me, for so many permits.
const (
	wantsOne   = "b:1 1"
	wantsTwo   = "c:1 2"
	wantsThree = "d:1 3"
)

// Scores of those who are dead, who have been told, and who are to be told.
const (
	isOver = "1"
	isDue  = "99999999999999"
)

// counted is how redistest shows a semaphore with free permits, and other keys.
func counted(free string, others ...map[string]redistest.Value) map[string]redistest.Value {
	return all(append(others, map[string]redistest.Value{lockKey: {Type: "string", Content: free}})...)
}

// alive is how redistest shows who in the line is alive, those apart whose scores depend on the time.
func alive(scores map[string]float64) map[string]redistest.Value {
	return beside(aliveKey, redistest.Value{Type: "zset", Content: scores, Expires: true})
}

// inLineTold stores a waiter at the end of the line that was told a second ago.
func inLineTold(waiter string) [][]string { return inLineFor("4000", waiter) }

// inLineFor stores a waiter at the end of the line that lives on for so many ms.
func inLineFor(ms, waiter string) [][]string {
	return [][]string{
		{"RPUSH", lineKey, waiter},
		{"PEXPIRE", lineKey, "40000"},
		untilIn(ms, aliveKey, waiter),
		{"PEXPIRE", aliveKey, "40000"},
	}
}

// untilIn stores in a sorted set the moment that comes in so many ms.
func untilIn(ms, key, member string) []string {
	const script = `local now = redis.call('TIME')
		redis.call('ZADD', KEYS[1], now[1] * 1000 + math.floor(now[2] / 1000) + ARGV[2], ARGV[1])`
	return []string{"EVAL", script, "1", key, member, ms}
}

// channelOf is where the session of a waiter listens, for PUBSUB, which does not count who listens to all channels.
func channelOf(session string) string { return lineKey + ":" + session }

func TestPermitLineScripts(t *testing.T) {
	t.Parallel()
	type scores = map[string]float64
	free := func(n string) [][]string { return [][]string{{"SET", lockKey, n}} }
	may := func(sessions ...string) (messages []redistest.Message) {
		for _, s := range sessions {
			messages = append(messages, told(s, "first"))
		}
		return messages
	}
	said := func(n string) redistest.Message { return redistest.Message{Channel: scChannel, Payload: n} }
	heard := func(n int64) []any { return []any{n} }
	const told5 = 5000 // ms that one lives on that was told

	runSteps(t, map[string]step{
		"tells the first": {
			seed: with(free("0"), inLine(wantsOne, wantsTwo)), call: addPermits{n: "1"}, reply: heard(0),
			after: counted("1", lists(wantsOne, wantsTwo), alive(scores{wantsTwo: until})),
			due:   map[string]int{wantsOne: told5}, messages: may("b"),
		},
		"tells one that has called a while ago": {
			seed: with(free("0"), inLineFor("10000", wantsOne)), call: addPermits{n: "1"}, reply: heard(0),
			after: counted("1", lists(wantsOne)), due: map[string]int{wantsOne: told5}, messages: may("b"),
		},
		"tells all for whom there is room": {
			listens: []string{channelOf("d")},
			seed:    with(free("0"), inLine(wantsTwo, wantsOne, wantsThree)), call: addPermits{n: "5"}, reply: heard(0),
			after: counted("5", lists(wantsTwo, wantsOne, wantsThree), alive(scores{wantsThree: until})),
			due:   map[string]int{wantsTwo: told5, wantsOne: told5}, messages: may("c", "b"),
		},
		"tells nobody behind one for whom there is no room": {
			listens: []string{channelOf("d")},
			seed:    with(free("0"), inLine(wantsThree, wantsOne)), call: addPermits{n: "2"}, reply: heard(0),
			after: counted("2", line(wantsThree, wantsOne)),
		},
		"tells nobody while permits are missing": {
			seed: with(free("-2"), inLine(wantsOne)), call: addPermits{n: "2"}, reply: heard(0),
			after: counted("0", line(wantsOne)),
		},
		"tells nobody twice": {
			seed: with(free("1"), inLineTold(wantsOne), inLine(wantsTwo)), call: addPermits{n: "2"}, reply: heard(0),
			after: counted("3", lists(wantsOne, wantsTwo)), due: map[string]int{wantsOne: 3500, wantsTwo: told5},
			messages: may("c"),
		},
		"skips the dead": {
			seed: with(free("0"), lineOf(isOver, wantsThree), inLine(wantsOne)), call: addPermits{n: "1"}, reply: heard(0),
			after: counted("1", lists(wantsOne)), due: map[string]int{wantsOne: told5}, messages: may("b"),
		},
		"skips those who do not hear": {
			seed: with(free("0"), inLine(wantsTwo, wantsOne)), hears: "*:b", call: addPermits{n: "2"}, reply: heard(0),
			after: counted("2", lists(wantsOne)), due: map[string]int{wantsOne: told5}, messages: may("b"),
		},
		"takes those for dead of whom it was evicted who is alive, and tells everybody": {
			seed: with(free("0"), inLine(wantsTwo, wantsOne), [][]string{{"DEL", aliveKey}}),
			call: addPermits{n: "2"}, reply: heard(0), after: counted("2"), messages: []redistest.Message{said("2")},
		},
		"skips one that would not hear, although there is no room for it": {
			seed: with(free("0"), inLine(wantsThree, wantsOne)), hears: "*:b", call: addPermits{n: "1"}, reply: heard(0),
			after: counted("1", lists(wantsOne)), due: map[string]int{wantsOne: told5}, messages: may("b"),
		},
		"leaves one alone that hears, although there is no room for it": {
			seed:    with(free("0"), inLine(wantsThree, wantsOne)),
			listens: []string{channelOf("d")}, call: addPermits{n: "1"}, reply: heard(0),
			after: counted("1", line(wantsThree, wantsOne)),
		},
		"skips what is no waiter": {
			seed: with(free("0"), inLine("", "b", "b:1", "b:1 x", wantsOne)), call: addPermits{n: "1"}, reply: heard(0),
			after: counted("1", lists(wantsOne)), due: map[string]int{wantsOne: told5}, messages: may("b"),
		},
		"tells those, too, who are not in the line": {
			seed: with(free("0"), inLine(wantsOne)), listens: []string{scChannel}, call: addPermits{n: "1"},
			reply: heard(2), after: counted("1", lists(wantsOne)), due: map[string]int{wantsOne: told5},
			messages: append([]redistest.Message{said("1")}, may("b")...),
		},
		"tells only the line if nobody else listens on the channel": {
			seed: with(free("0"), inLine(wantsOne)), listens: []string{scChannel, mark}, call: addPermits{n: "1"},
			reply: heard(0), after: counted("1", lists(wantsOne)), due: map[string]int{wantsOne: told5},
			messages: may("b"),
		},
		"tells the others of what is left over": {
			seed: with(free("0"), inLine(wantsOne)), listens: []string{scChannel, mark}, call: addPermits{n: "2"},
			reply: heard(0), after: counted("2", lists(wantsOne)), due: map[string]int{wantsOne: told5},
			messages: append(may("b"), said("2")),
		},
		"tells the others once, although some are left over": {
			seed: with(free("0"), inLine(wantsOne)), listens: []string{scChannel}, call: addPermits{n: "2"},
			reply: heard(2), after: counted("2", lists(wantsOne)), due: map[string]int{wantsOne: told5},
			messages: append([]redistest.Message{said("2")}, may("b")...),
		},
		"tells those whom the server does not count": {
			seed: with(free("0"), inLine(wantsOne)), hears: "nothing", call: addPermits{n: "1", unreached: true},
			reply: heard(0), after: counted("1", lists(wantsOne)), due: map[string]int{wantsOne: told5},
		},
		"gives back without knowing the line": {
			seed: with(free("0"), inLine(wantsOne)), call: addPermits{n: "1", bare: true}, reply: heard(1),
			after: counted("1", line(wantsOne)), messages: []redistest.Message{said("1")},
		},
		"gives back without memory": {
			seed: with(free("0"), inLine(wantsOne)), full: true, call: addPermits{n: "1"}, reply: heard(0),
			after: counted("1", lists(wantsOne)), due: map[string]int{wantsOne: told5}, messages: may("b"),
		},
		"a line of another type stays, and nothing is given back": {
			seed: with(free("0"), [][]string{{"SET", lineKey, "precious"}}), call: addPermits{n: "1"},
			fails: "WRONGTYPE", after: counted("0", beside(lineKey, token("precious"))),
		},
		"asks the server for four things where nobody stands in line": {
			seed: free("0"), call: addPermits{n: "1"}, reply: heard(1), after: counted("1"),
			messages: []redistest.Message{said("1")},
			inside:   map[string]int64{"getex": 1, "llen": 1, "publish": 1, "incrby": 1},
		},
	})
	runSteps(t, map[string]step{
		"tells the line": {
			seed: inLine(wantsTwo, wantsThree, wantsOne), call: setPermits{}, reply: int64(1),
			after: counted("5", lists(wantsTwo, wantsThree, wantsOne), alive(scores{wantsOne: until})),
			due:   map[string]int{wantsTwo: told5, wantsThree: told5}, messages: may("c", "d"),
		},
		"tells the others of what is left over": {
			seed: inLine(wantsTwo), listens: []string{scChannel, mark}, call: setPermits{}, reply: int64(1),
			after: counted("5", lists(wantsTwo)), due: map[string]int{wantsTwo: told5},
			messages: append(may("c"), said("5")),
		},
		"tells nobody if there is one": {
			seed: with(free("1"), inLine(wantsTwo)), call: setPermits{}, reply: int64(0),
			after: counted("1", line(wantsTwo)),
		},
	})
	few := func(free int64) []any { return head(0, free) }
	const fresh = 15000
	runSteps(t, map[string]step{
		"takes what is free": {
			seed: free("5"), call: takePermits{n: "2", waits: true}, reply: head(1, 3), after: counted("3"),
			inside: map[string]int64{"get": 1, "time": 1, "llen": 1, "decrby": 1},
		},
		"takes what those in the line leave": {
			seed: with(free("5"), inLineTold(wantsOne), inLineTold(wantsTwo)), call: takePermits{n: "2", waits: true},
			reply: head(1, 3), after: counted("3", lists(wantsOne, wantsTwo)),
			due: map[string]int{wantsOne: 3500, wantsTwo: 3500},
		},
		"takes nothing that is for those in the line": {
			seed: with(free("4"), inLineTold(wantsOne), inLineTold(wantsTwo)), call: takePermits{n: "2", waits: true},
			reply: few(4), after: counted("4", lists(wantsOne, wantsTwo)),
			due: map[string]int{wantsOne: 3500, wantsTwo: 3500},
		},
		"takes nothing in front of one who wants more than are free": {
			listens: []string{channelOf("d")},
			seed:    with(free("2"), inLine(wantsThree)), call: takePermits{n: "1", waits: true},
			reply: few(2), after: counted("2", line(wantsThree)),
		},
		"takes what is free, whoever waits, unless it waits itself": {
			seed: with(free("2"), inLine(wantsOne)), call: takePermits{n: "2"}, reply: head(1, 0),
			after: counted("0", line(wantsOne)),
		},
		"takes what is free, whoever waits, as others do that are not in the line": {
			seed: with(free("2"), inLine(wantsOne)), listens: []string{scChannel}, call: takePermits{n: "2", waits: true},
			reply: head(1, 0), after: counted("0", line(wantsOne)),
		},
		"takes what the dead have waited for": {
			seed: with(free("2"), lineOf(isOver, wantsOne, wantsThree)), call: takePermits{n: "2", waits: true},
			reply: head(1, 0), after: counted("0"),
		},
		"tells those for whom the dead have made room": {
			seed: with(free("3"), lineOf(isOver, wantsThree), inLine(wantsTwo)), call: takePermits{n: "1", waits: true},
			reply: head(1, 2), after: counted("2", lists(wantsTwo)), due: map[string]int{wantsTwo: told5},
			messages: may("c"),
		},
		"finds too few, and stands nowhere": {
			seed: free("1"), call: takePermits{n: "2", waits: true}, reply: unasked(0, 1), after: counted("1"),
			inside: map[string]int64{"get": 1},
		},
		"stands first": {
			listens: []string{channelOf("a")},
			seed:    free("1"), call: takePermits{n: "2", stands: true}, reply: few(1),
			after: counted("1", lists(asker)), due: map[string]int{asker: fresh},
			ttls: map[string]int{lineKey: 60},
		},
		"stands behind others": {
			seed: with(free("0"), inLine(wantsOne)), call: takePermits{n: "2", stands: true}, reply: few(0),
			after: counted("0", lists(wantsOne, asker), alive(scores{wantsOne: until})),
			due:   map[string]int{asker: fresh}, ttls: map[string]int{lineKey: 60, aliveKey: 60},
		},
		"stands behind others that leave it too few": {
			listens: []string{channelOf("a")},
			seed:    with(free("2"), inLineTold(wantsOne)), call: takePermits{n: "2", stands: true}, reply: few(2),
			after: counted("2", lists(wantsOne, asker)), due: map[string]int{wantsOne: 3500, asker: fresh},
		},
		"stands where no semaphore is": {
			call: takePermits{n: "2", stands: true}, reply: few(0), after: lists(asker),
			due: map[string]int{asker: fresh},
		},
		"stands still": {
			seed: with(free("0"), inLine(wantsOne), lineOf(isOver, asker)), call: takePermits{n: "2", stands: true},
			reply: few(0), after: counted("0", lists(wantsOne, asker), alive(scores{wantsOne: until})),
			due: map[string]int{asker: fresh}, ttls: map[string]int{lineKey: 60, aliveKey: 60},
		},
		"has its turn": {
			seed: with(free("2"), inLineTold(asker), inLine(wantsOne)), call: takePermits{n: "2", stands: true},
			reply: head(1, 0), after: counted("0", line(wantsOne)),
		},
		"has its turn although it came late": {
			seed: with(free("2"), lineOf(isOver, asker), inLine(wantsOne)), call: takePermits{n: "2", stands: true},
			reply: head(1, 0), after: counted("0", line(wantsOne)),
		},
		"has its turn in the middle of the line": {
			seed: with(free("3"), inLineTold(wantsOne), inLineTold(asker), inLine(wantsTwo)),
			call: takePermits{n: "2", stands: true}, reply: head(1, 1),
			after: counted("1", lists(wantsOne, wantsTwo), alive(scores{wantsTwo: until})),
			due:   map[string]int{wantsOne: 3500},
		},
		"has its turn, and tells the next of what came back besides": {
			seed: with(free("3"), inLine(asker, wantsOne)), call: takePermits{n: "2", stands: true},
			reply: head(1, 1), after: counted("1", lists(wantsOne)), due: map[string]int{wantsOne: told5},
			messages: may("b"),
		},
		"sees that the one in front is dead, and tells the next": {
			seed: with(free("1"), lineOf(isOver, wantsTwo), inLine(wantsOne, asker)),
			call: takePermits{n: "2", stands: true}, reply: few(1),
			after: counted("1", lists(wantsOne, asker)), due: map[string]int{wantsOne: told5, asker: fresh},
			messages: may("b"),
		},
		"tells one in front that has missed its turn": {
			seed: with(free("1"), inLine(wantsOne)), call: takePermits{n: "2", stands: true}, reply: few(1),
			after: counted("1", lists(wantsOne, asker)), due: map[string]int{wantsOne: told5, asker: fresh},
			messages: may("b"),
		},
		"was taken for dead, and stands at the end": {
			seed: with(free("0"), inLine(wantsOne), [][]string{{"ZADD", aliveKey, isDue, "e:1 1"}}),
			call: takePermits{n: "2", stands: true}, reply: few(0),
			after: counted("0", lists(wantsOne, asker), alive(scores{wantsOne: until, "e:1 1": until})),
			due:   map[string]int{asker: fresh},
		},
		"cannot stand without knowing the line": {
			seed: with(free("0"), inLine(wantsOne)), call: takePermits{n: "2", stands: true, bare: true},
			reply: unasked(0, 0), after: counted("0", line(wantsOne)),
		},
		"takes what is free without knowing the line": {
			seed: with(free("2"), inLine(wantsOne)), call: takePermits{n: "2", stands: true, bare: true},
			reply: head(1, 0), after: counted("0", line(wantsOne)),
		},
		"too late, it does not stand": {
			seed: with(free("0"), inLine(wantsOne)), call: takePermits{n: "2", stands: true, late: true}, reply: head(-2),
			after: counted("0", line(wantsOne)), ttls: map[string]int{lineKey: 40},
		},
		"too late, it shows no life": {
			seed: with(free("2"), inLineTold(asker)), call: takePermits{n: "2", stands: true, late: true}, reply: head(-2),
			after: counted("2", lists(asker)), due: map[string]int{asker: 3500},
		},
		"stands without memory": {
			seed: free("0"), full: true, call: takePermits{n: "2", stands: true}, reply: few(0),
			after: counted("0", lists(asker)), due: map[string]int{asker: fresh},
		},
		"a line of another type stays, and nothing is taken": {
			seed: with(free("2"), [][]string{{"SET", lineKey, "precious"}}), call: takePermits{n: "2", waits: true},
			fails: "WRONGTYPE", after: counted("2", beside(lineKey, token("precious"))),
		},
		"a list of the living of another type stays, and nobody stands": {
			seed: with(free("0"), [][]string{{"SET", aliveKey, "precious"}}), call: takePermits{n: "2", stands: true},
			fails: "WRONGTYPE", after: counted("0", beside(aliveKey, token("precious"))),
		},
	})
	runSteps(t, map[string]step{
		"leaves the front, and tells those for whom that makes room": {
			seed: with(free("1"), inLine(asker, wantsOne, wantsTwo)), call: leavePermits{}, reply: int64(1),
			after: counted("1", lists(wantsOne, wantsTwo), alive(scores{wantsTwo: until})),
			due:   map[string]int{wantsOne: told5}, messages: may("b"),
		},
		"leaves the middle": {
			seed: with(free("0"), inLine(wantsOne, asker, wantsTwo)), call: leavePermits{}, reply: int64(1),
			after: counted("0", line(wantsOne, wantsTwo)),
		},
		"leaves one alone whose number begins like its own": {
			seed: with(free("0"), inLine(me+"0 2", asker)), call: leavePermits{}, reply: int64(1),
			after: counted("0", line(me+"0 2")),
		},
		"leaves as the only one": {
			seed: with(free("1"), inLine(asker)), call: leavePermits{}, reply: int64(1), after: counted("1"),
		},
		"is not there": {
			seed: with(free("1"), inLine(wantsOne)), call: leavePermits{}, reply: int64(0),
			after: counted("1", line(wantsOne)),
		},
		"leaves where no semaphore is": {
			seed: inLine(asker, wantsOne), call: leavePermits{}, reply: int64(1), after: line(wantsOne),
		},
		"does not know the line": {
			seed: with(free("1"), inLine(asker)), call: leavePermits{bare: true}, reply: int64(0),
			after: counted("1", line(asker)),
		},
	})
	const uncounted = "tells those whom the server does not count"
	runSteps(t, map[string]step{
		uncounted + ", as it takes": {
			seed: with(free("3"), inLine(asker, wantsOne)), hears: "nothing",
			call: takePermits{n: "2", stands: true, unreached: true}, reply: head(1, 1),
			after: counted("1", lists(wantsOne)), due: map[string]int{wantsOne: told5},
		},
		uncounted + ", as there is a semaphore": {
			seed: inLine(wantsTwo), hears: "nothing", call: setPermits{unreached: true}, reply: int64(1),
			after: counted("5", lists(wantsTwo)), due: map[string]int{wantsTwo: told5},
		},
		uncounted + ", as it leaves": {
			seed: with(free("1"), inLine(asker, wantsOne)), hears: "nothing", call: leavePermits{unreached: true},
			reply: int64(1), after: counted("1", lists(wantsOne)), due: map[string]int{wantsOne: told5},
		},
	})
}

func TestExpirableLineScripts(t *testing.T) {
	t.Parallel()
	type scores = map[string]float64
	has := func(free string, taken scores, others ...map[string]redistest.Value) map[string]redistest.Value {
		return all(append(others, permits(free, taken))...)
	}
	may := func(session string) []redistest.Message { return []redistest.Message{told(session, "first")} }
	left := func(session, n string) []redistest.Message { // and those who listen besides, of what is left over
		return append(may(session), redistest.Message{Channel: scChannel, Payload: n})
	}
	besides := []string{scChannel, mark}
	few := head(0, 4000)
	const told5, fresh = 5000, 15000
	const wantsIt = me + " 1"
	a := []string{"a"}
	runSteps(t, map[string]step{
		"takes what those in the line leave": {
			seed: with(permitsSeed("2", nil), inLineTold(wantsOne)), call: acquirePermits{lease: "0", waits: true, ids: a},
			reply: now{}, after: has("1", scores{"a": never}, lists(wantsOne)), due: map[string]int{wantsOne: 3500},
		},
		"takes nothing that is for those in the line": {
			seed: with(permitsSeed("1", nil), inLineTold(wantsOne)), call: acquirePermits{lease: "0", waits: true, ids: a},
			reply: head(0, -1), after: has("1", nil, lists(wantsOne)), due: map[string]int{wantsOne: 3500},
		},
		"takes nothing that is for those in the line, who leave it too few": {
			seed:  with(permitsSeed("2", nil), inLineTold(wantsOne)),
			call:  acquirePermits{lease: "0", waits: true, ids: []string{"a", "c"}},
			reply: head(0, -1), after: has("2", nil, lists(wantsOne)), due: map[string]int{wantsOne: 3500},
		},
		"takes what is free, whoever waits, unless it waits itself": {
			seed: with(permitsSeed("1", nil), inLine(wantsOne)), call: acquirePermits{lease: "0", ids: a},
			reply: now{}, after: has("0", scores{"a": never}, line(wantsOne)),
		},
		"a copy that has taken them finds others in the line": {
			seed: with(permitsSeed("1", scores{"a": never}), inLineTold(wantsOne)),
			call: acquirePermits{lease: "0", stands: true, ids: a}, reply: now{},
			after: has("1", scores{"a": never}, lists(wantsOne)), due: map[string]int{wantsOne: 3500},
		},
		"stands first": {
			seed: permitsSeed("0", scores{"c": never}), call: acquirePermits{lease: "0", stands: true, ids: a},
			reply: few, after: has("0", scores{"c": never}, lists(wantsIt)), due: map[string]int{wantsIt: fresh},
			ttls: map[string]int{lineKey: 60},
		},
		"is to call again before it counts as dead": {
			seed: append(permitsSeed("0", nil), inTenSeconds("c")), call: acquirePermits{lease: "0", stands: true, ids: a},
			reply: few, after: has("0", nil, lists(wantsIt)), due: map[string]int{"c": 9000, wantsIt: fresh},
		},
		"stands behind others": {
			seed:  with(permitsSeed("0", scores{"c": never}), inLine(wantsOne)),
			call:  acquirePermits{lease: "0", stands: true, ids: a},
			reply: few, after: has("0", scores{"c": never}, lists(wantsOne, wantsIt), alive(scores{wantsOne: until})),
			due: map[string]int{wantsIt: fresh}, ttls: map[string]int{lineKey: 60, aliveKey: 60},
		},
		"has its turn": {
			seed: with(permitsSeed("1", nil), inLineTold(wantsIt), inLine(wantsOne)),
			call: acquirePermits{lease: "0", stands: true, ids: a}, reply: now{},
			after: has("0", scores{"a": never}, line(wantsOne)),
		},
		"has its turn, and tells the next of what came back besides": {
			seed: with(permitsSeed("2", nil), inLine(wantsIt, wantsOne)),
			call: acquirePermits{lease: "0", stands: true, ids: a}, reply: now{},
			after: has("1", scores{"a": never}, lists(wantsOne)), due: map[string]int{wantsOne: told5},
			messages: may("b"),
		},
		"has its turn when a lease is over, and tells the next of what came back besides": {
			seed: with(permitsSeed("0", scores{"c": 1, "d": 1}), inLine(wantsIt, wantsOne)),
			call: acquirePermits{lease: "0", stands: true, ids: a}, reply: now{},
			after: has("1", scores{"a": never}, lists(wantsOne)), due: map[string]int{wantsOne: told5},
			messages: may("b"),
		},
		"tells one in front that a lease is over": {
			seed: with(permitsSeed("0", scores{"c": 1}), inLine(wantsOne)),
			call: acquirePermits{lease: "0", stands: true, ids: a}, reply: few,
			after: has("1", nil, lists(wantsOne, wantsIt)), due: map[string]int{wantsOne: told5, wantsIt: fresh},
			messages: may("b"),
		},
		"passes over those who wait, and tells them that a lease is over": {
			seed: with(permitsSeed("0", scores{"c": 1, "d": 1}), inLine(wantsOne)),
			call: acquirePermits{lease: "0", ids: a}, reply: now{},
			after: has("1", scores{"a": never}, lists(wantsOne)), due: map[string]int{wantsOne: told5},
			messages: may("b"),
		},
		"cannot stand without knowing the line": {
			seed: with(permitsSeed("0", scores{"c": never}), inLine(wantsOne)),
			call: acquirePermits{lease: "0", stands: true, bare: true, ids: a}, reply: head(0, -1, -1),
			after: has("0", scores{"c": never}, line(wantsOne)),
		},
		"too late, it does not stand": {
			seed: with(permitsSeed("0", nil), inLine(wantsOne)),
			call: acquirePermits{lease: "0", stands: true, late: true, ids: a}, reply: head(-2),
			after: has("0", nil, line(wantsOne)),
		},
	})
	runSteps(t, map[string]step{
		"tells the first": {
			seed: with(permitsSeed("0", scores{"a": never}), inLine(wantsOne, wantsTwo)), call: releasePermits{ids: a},
			reply: int64(2), after: has("1", nil, lists(wantsOne, wantsTwo), alive(scores{wantsTwo: until})),
			due: map[string]int{wantsOne: told5}, messages: may("b"),
		},
		"tells those, too, who are not in the line": {
			seed:    with(permitsSeed("0", scores{"a": never}), inLine(wantsOne)),
			listens: []string{scChannel}, call: releasePermits{ids: a},
			reply: int64(2 + 2), after: has("1", nil, lists(wantsOne)), due: map[string]int{wantsOne: told5},
			messages: append([]redistest.Message{{Channel: scChannel, Payload: "1"}}, may("b")...),
		},
		"tells the others of what is left over": {
			seed:    with(permitsSeed("1", scores{"a": never, "c": never}), inLine(wantsOne)),
			listens: besides, call: releasePermits{ids: []string{"a", "c"}}, reply: int64(2),
			after: has("3", nil, lists(wantsOne)), due: map[string]int{wantsOne: told5}, messages: left("b", "2"),
		},
		"gives back without knowing the line": {
			seed: with(permitsSeed("0", scores{"a": never}), inLine(wantsOne)), call: releasePermits{bare: true, ids: a},
			reply: int64(3), after: has("1", nil, line(wantsOne)),
			messages: []redistest.Message{{Channel: scChannel, Payload: "1"}},
		},
		"finds that its lease is over, and tells the first": {
			seed: with(permitsSeed("0", scores{"a": 1}), inLine(wantsOne)), call: releasePermits{ids: a},
			reply: int64(0), after: has("1", nil, lists(wantsOne)), due: map[string]int{wantsOne: told5},
			messages: may("b"),
		},
		"leaves the line, and tells the next": {
			seed: with(permitsSeed("1", nil), inLineTold(wantsIt), inLine(wantsOne)),
			call: releasePermits{leaves: true, ids: a}, reply: int64(0),
			after: has("1", nil, lists(wantsOne)), due: map[string]int{wantsOne: told5}, messages: may("b"),
		},
		"leaves the line, and gives back what it was granted": {
			seed: with(permitsSeed("0", scores{"a": never}), inLine(wantsOne, me+" 7")),
			call: releasePermits{leaves: true, ids: a}, reply: int64(2),
			after: has("1", nil, lists(wantsOne)), due: map[string]int{wantsOne: told5}, messages: may("b"),
		},
	})
	runSteps(t, map[string]step{
		"tells the line of a lease that is over": {
			seed: with(permitsSeed("0", scores{"c": 1}), inLine(wantsOne)), call: countPermits{},
			reply: []any{int64(1), int64(0)}, after: has("1", nil, lists(wantsOne)),
			due: map[string]int{wantsOne: told5}, messages: may("b"),
		},
	})
	runSteps(t, map[string]step{
		"tells the others of what is left over": {
			seed: with(permitsSeed("1", nil), inLine(wantsTwo)), listens: besides, call: growPermits{n: "2"},
			reply: []any{int64(0)}, after: has("3", nil, lists(wantsTwo)), due: map[string]int{wantsTwo: told5},
			messages: left("c", "2"),
		},
		"tells the line that it is larger": {
			seed: with(permitsSeed("0", nil), inLine(wantsOne)), call: growPermits{n: "1"},
			reply: []any{int64(0)}, after: has("1", nil, lists(wantsOne)), due: map[string]int{wantsOne: told5},
			messages: may("b"),
		},
	})
	runSteps(t, map[string]step{
		"tells the others of what is left over": {
			seed: with(permitsSeed("1", scores{"c": never}), inLine(wantsTwo)), listens: besides,
			call: resizePermits{n: "4"}, reply: now{}, after: has("3", scores{"c": never}, lists(wantsTwo)),
			due: map[string]int{wantsTwo: told5}, messages: left("c", "4"),
		},
		"tells the line that there are more": {
			seed: with(permitsSeed("0", scores{"c": never}), inLine(wantsOne)), call: resizePermits{n: "2"},
			reply: now{}, after: has("1", scores{"c": never}, lists(wantsOne)), due: map[string]int{wantsOne: told5},
			messages: may("b"),
		},
	})
	const uncounted = "tells those whom the server does not count"
	unheard := map[string]step{
		uncounted + ", as it takes": {
			seed: permitsSeed("0", scores{"c": 1, "d": 1}),
			call: acquirePermits{lease: "0", ids: a, unreached: true}, reply: now{}, after: has("1", scores{"a": never}),
		},
		uncounted + ", as it gives back": {
			seed: permitsSeed("0", scores{"a": never}), call: releasePermits{ids: a, unreached: true},
			reply: int64(2), after: has("1", nil),
		},
		uncounted + ", as it counts": {
			seed: permitsSeed("0", scores{"c": 1}), call: countPermits{unreached: true}, reply: []any{int64(1), int64(0)},
			after: has("1", nil),
		},
		uncounted + ", as there are more": {
			seed: permitsSeed("0", nil), call: growPermits{n: "1", unreached: true}, reply: []any{int64(0)},
			after: has("1", nil),
		},
		uncounted + ", as there are as many as that": {
			seed: permitsSeed("0", scores{"c": never}), call: resizePermits{n: "2", unreached: true}, reply: now{},
			after: has("1", scores{"c": never}),
		},
	}
	for name, s := range unheard {
		s.seed, s.hears, s.after = with(s.seed, inLine(wantsOne)), "nothing", all(s.after, lists(wantsOne))
		s.due = map[string]int{wantsOne: told5}
		unheard[name] = s
	}
	runSteps(t, unheard)
}
