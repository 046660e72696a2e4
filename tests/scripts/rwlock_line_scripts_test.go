package scripts

import (
	"maps"
	"testing"

	"github.com/holdfast-go/holdfast/tests/redistest"
)

// These are the scripts that tell the sessions in the line of writers when it is their turn.

const (
	rwLine    = "holdfast_rwlock_line:{x}"
	rwAlive   = "holdfast_rwlock_alive:{x}"
	rwWaiting = "holdfast_rwlock_waiting:{x}"

	wantsToWrite = me + " 1"
)

// writersWait stores waiters in the line of writers, who are alive until then.
func writersWait(until string, waiters ...string) (commands [][]string) {
	for _, w := range waiters {
		commands = append(commands, []string{"RPUSH", rwLine, w}, []string{"ZADD", rwAlive, until, w})
	}
	for _, key := range []string{rwLine, rwAlive} {
		commands = append(commands, []string{"PEXPIRE", key, "40000"})
	}
	return append(commands, []string{"SET", rwWaiting, "1", "PX", "40000"})
}

// writers is how redistest shows waiters in the line of writers without those of whom it is not known who is alive.
func writers(waiters ...string) map[string]redistest.Value {
	return map[string]redistest.Value{rwLine: {Type: "list", Content: waiters, Expires: true}}
}

// writersAlive is how redistest shows who of them is alive, those apart whose scores depend on the time.
func writersAlive(waiters ...string) map[string]redistest.Value {
	scores := map[string]float64{}
	for _, w := range waiters {
		scores[w] = until
	}
	return beside(rwAlive, redistest.Value{Type: "zset", Content: scores, Expires: true})
}

// some is how redistest shows that some stand in the line.
var some = beside(rwWaiting, redistest.Value{Type: "string", Content: "1", Expires: true})

func all(spaces ...map[string]redistest.Value) map[string]redistest.Value {
	merged := map[string]redistest.Value{}
	for _, s := range spaces {
		maps.Copy(merged, s)
	}
	return merged
}

func mayWrite(session string) redistest.Message {
	return redistest.Message{Channel: rwLine + ":" + session, Payload: "first"}
}

func TestStandToWriteScript(t *testing.T) {
	t.Parallel()
	mine := keyspace(lockOf("mode", "write", "a:1:write", "1"))
	javas := rwSeed(10, "mode", "write", java+":write", "1")
	javasStay := keyspace(lockOf("mode", "write", java+":write", "1"))
	ourRead, javasRead := readKey(ours, 1), readKey(java, 1)
	ourWrite := rwSeed(3, "mode", "write", ours+":write", "1")
	ourWriteStays := keyspace(lockOf("mode", "write", ours+":write", "1"))
	in := func(ms int64, place int64) []any { return []any{int64(0), now{}, ms, place} }
	const never, standing = "1", 15000
	runSteps(t, map[string]step{
		"takes a free lock": {
			call: standWrite{}, reply: taken, after: mine, ttl: about(30),
			inside: map[string]int64{"exists": 1, "time": 1, "hset": 1, "pexpire": 1},
		},
		"takes a free lock without a line":  {call: standWrite{bare: true}, reply: taken, after: mine, ttl: about(30)},
		"takes a free lock without a place": {call: standWrite{looks: true}, reply: taken, after: mine, ttl: about(30)},
		"a copy": {
			seed: rwSeed(10, "mode", "write", "a:1:write", "3"), call: standWrite{lease: "1000"}, reply: taken,
			after: keyspace(lockOf("mode", "write", "a:1:write", "3")), ttl: about(10),
		},
		"a copy of one that goes on": {
			seed: rwSeed(10, "mode", "write", "a:1:write", "1"), call: standWrite{}, reply: taken, after: mine, ttl: about(30),
		},
		"stands behind a holder of ours, as the first": {
			seed: ourWrite, call: standWrite{}, reply: []any{int64(0), now{}, lastsFor(3000), int64(2)},
			after: all(ourWriteStays, writers(wantsToWrite), some), due: map[string]int{wantsToWrite: standing},
			ttls: map[string]int{rwLine: 60, rwWaiting: 60},
		},
		"stands behind Java's, as the first": {
			seed: javas, call: standWrite{}, reply: in(4000, 1),
			after: all(javasStay, writers(wantsToWrite), some), due: map[string]int{wantsToWrite: standing},
		},
		"stands behind one without an expiry": {
			seed: with(javas, persisted), call: standWrite{}, reply: in(4000, 1),
			after: all(beside(lockKey, endless("mode", "write", java+":write", "1")), writers(wantsToWrite), some),
			due:   map[string]int{wantsToWrite: standing},
		},
		"stands behind others": {
			seed: with(javas, writersWait(soon, wantsOne)), call: standWrite{}, reply: in(4000, 0),
			after: all(javasStay, writers(wantsOne, wantsToWrite), writersAlive(wantsOne), some),
			due:   map[string]int{wantsToWrite: standing},
		},
		"stands behind others, and leaves the end of the lease to the first": {
			seed: with(ourWrite, writersWait(soon, wantsOne)), call: standWrite{}, reply: in(4000, 0),
			after: all(ourWriteStays, writers(wantsOne, wantsToWrite), writersAlive(wantsOne), some),
			due:   map[string]int{wantsToWrite: standing},
		},
		"keeps its place": {
			seed: with(javas, writersWait(soon, wantsToWrite, wantsOne)), call: standWrite{}, reply: in(4000, 1),
			after: all(javasStay, writers(wantsToWrite, wantsOne), writersAlive(wantsOne), some),
			due:   map[string]int{wantsToWrite: standing},
		},
		"the dead in front are out": {
			seed: with(javas, writersWait(never, wantsOne)), call: standWrite{}, reply: in(4000, 1),
			after: all(javasStay, writers(wantsToWrite), some), due: map[string]int{wantsToWrite: standing},
		},
		"stands behind readers of ours": {
			seed: with(rwSeed(10, "mode", "read", ours, "1"), [][]string{{"SET", ourRead, "1", "EX", "10"}}),
			call: standWrite{}, reply: in(4000, 2),
			after: all(keyspace(lockOf("mode", "read", ours, "1"), ourRead), writers(wantsToWrite), some),
			due:   map[string]int{wantsToWrite: standing},
		},
		"stands behind readers, one of them Java's": {
			seed: with(rwSeed(10, "mode", "read", ours, "1", java, "1"),
				[][]string{{"SET", ourRead, "1", "EX", "10"}, {"SET", javasRead, "1", "EX", "10"}}),
			call: standWrite{}, reply: in(4000, 1),
			after: all(keyspace(lockOf("mode", "read", ours, "1", java, "1"), ourRead, javasRead), writers(wantsToWrite), some),
			due:   map[string]int{wantsToWrite: standing},
		},
		"stands behind so many that it does not look whose": {
			seed: manyReaders(34, 10, 10), call: standWrite{}, reply: in(4000, 1),
			after: all(keyspace(lockOf(manyFields(34)...), manyHolds(34)...), writers(wantsToWrite), some),
			due:   map[string]int{wantsToWrite: standing},
		},
		"looks without a place": {
			seed: javas, call: standWrite{looks: true}, reply: in(4000, 1), after: javasStay,
		},
		"no line while the slot moves": {
			seed: javas, call: standWrite{bare: true}, reply: in(4000, -1), after: javasStay,
		},
		"readers wait behind it": {
			seed: javas, call: standWrite{ahead: true}, reply: in(1666, 1),
			after: all(javasStay, writers(wantsToWrite), some),
			due:   map[string]int{wantsToWrite: standing, me: 5000},
		},
		"readers wait behind it, and no longer behind the dead": {
			seed: with(javas, [][]string{{"ZADD", rwWriters, "1000", wantsOne}}), call: standWrite{ahead: true},
			reply: in(1666, 1), after: all(javasStay, writers(wantsToWrite), some),
			due: map[string]int{wantsToWrite: standing, me: 5000},
		},
		"takes a free lock, and readers wait behind it no longer": {
			seed: with(writersWait(soon, wantsToWrite), [][]string{{"ZADD", rwWriters, "9e15", me}}),
			call: standWrite{ahead: true}, reply: taken, after: mine, ttl: about(30),
		},
		"takes it as the first, and leaves the others in the line": {
			seed: writersWait(soon, wantsToWrite, wantsOne), call: standWrite{}, reply: taken,
			after: all(mine, writers(wantsOne), writersAlive(wantsOne), some), ttl: about(30),
		},
		"takes it if those in front are dead": {
			seed: writersWait(never, wantsOne), call: standWrite{}, reply: taken, after: mine,
		},
		"a newcomer stands behind those in the line, and tells the first": {
			seed: writersWait(soon, wantsOne), call: standWrite{}, reply: in(4000, 0),
			after: all(writers(wantsOne, wantsToWrite), some),
			due:   map[string]int{wantsOne: 5000, wantsToWrite: standing}, messages: []redistest.Message{mayWrite("b")},
		},
		"a newcomer without a place does not overtake them": {
			seed: writersWait(soon, wantsOne), call: standWrite{looks: true}, reply: in(4000, 0),
			after: all(writers(wantsOne), some), due: map[string]int{wantsOne: 5000},
			messages: []redistest.Message{mayWrite("b")},
		},
		"the next is told if the first does not hear": {
			seed: writersWait(soon, wantsTwo, wantsOne), hears: "*:b", call: standWrite{}, reply: in(4000, 0),
			after: all(writers(wantsOne, wantsToWrite), some),
			due:   map[string]int{wantsOne: 5000, wantsToWrite: standing}, messages: []redistest.Message{mayWrite("b")},
		},
		"stands anew if the line was evicted": {
			seed: with(javas, writersWait(soon, wantsToWrite), [][]string{{"DEL", rwLine}}), call: standWrite{},
			reply: in(4000, 1), after: all(javasStay, writers(wantsToWrite), some),
			due: map[string]int{wantsToWrite: standing},
		},
		"stands without memory": {
			seed: javas, full: true, call: standWrite{}, reply: in(4000, 1),
			after: all(javasStay, writers(wantsToWrite), some), due: map[string]int{wantsToWrite: standing},
		},
		"too late": {
			seed: javas, call: standWrite{late: true, ahead: true}, reply: head(-2), after: javasStay,
		},
		"a line of another type stays, and nothing is taken": {
			seed: [][]string{{"SET", rwLine, "precious"}}, call: standWrite{}, fails: "WRONGTYPE",
			after: beside(rwLine, redistest.Value{Type: "string", Content: "precious"}),
		},
		"takes nothing if the writers' key is of another type": {
			seed: [][]string{{"SET", rwWriters, "precious"}}, call: standWrite{ahead: true},
			fails: "WRONGTYPE", after: beside(rwWriters, redistest.Value{Type: "string", Content: "precious"}),
		},
		"a lease of no time": {call: standWrite{lease: "0"}, fails: "lease must be", after: keyspace(nil)},
	})
}

func TestWritersAreTold(t *testing.T) {
	t.Parallel()
	iWrite := rwSeed(10, "mode", "write", "a:1:write", "1")
	iRead := with(rwSeed(10, "mode", "read", "a:1", "1"), reads("a:1", 10))
	line := writersWait(soon, wantsOne, wantsTwo)
	one := map[string]int{wantsOne: 5000}
	both := all(writers(wantsOne, wantsTwo), writersAlive(wantsTwo), some)
	said := func(payload string) []redistest.Message {
		return []redistest.Message{{Channel: rwChannel, Payload: payload}, mayWrite("b")}
	}
	runSteps(t, map[string]step{
		"by a writer": {
			seed: with(iWrite, line), call: releaseWrite{}, reply: freed, after: both, due: one, messages: said("1"),
		},
		"not by a writer who does not know the line": {
			seed: with(iWrite, line), call: releaseWrite{bare: true}, reply: freed, messages: writeFreed,
			after: all(writers(wantsOne, wantsTwo), writersAlive(wantsOne, wantsTwo), some),
		},
		"nobody in the line costs nothing": {
			seed: iWrite, call: releaseWrite{}, reply: freed, after: keyspace(nil), messages: writeFreed,
			inside: map[string]int64{"hmget": 1, "publish": 1, "del": 1},
		},
		"once": {
			seed: with(iWrite, line, [][]string{{
				"EVAL", "local t = redis.call('TIME') redis.call('ZADD', KEYS[1], t[1] * 1000 + t[2] / 1000 + 4000, ARGV[1])",
				"1", rwAlive, wantsOne,
			}}),
			call: releaseWrite{}, reply: freed, after: both, ttls: map[string]int{rwWaiting: 60},
			due: map[string]int{wantsOne: 3500}, messages: writeFreed,
		},
		"nobody, as all are dead": {
			seed: with(iWrite, writersWait("1", wantsOne)), call: releaseWrite{}, reply: freed, after: keyspace(nil),
			messages: writeFreed,
		},
		"unless they do not hear": {
			seed: with(iWrite, writersWait(soon, wantsTwo, wantsOne)), hears: "*:b", call: releaseWrite{}, reply: int64(2),
			after: all(writers(wantsOne), some), due: one, messages: []redistest.Message{mayWrite("b")},
		},
		"though the server does not count them": {
			seed: with(iWrite, line), hears: "nothing", call: releaseWrite{unreached: true}, reply: int64(2),
			after: both, due: one,
		},
		"not by a downgrade": {
			seed: with(rwSeed(60, "mode", "write", "a:1:write", "1", "a:1", "1"), reads("a:1", 20), line),
			call: releaseWrite{}, reply: freed, messages: writeFreed,
			after: all(keyspace(lockOf("mode", "read", "a:1", "1"), a1), both, writersAlive(wantsOne, wantsTwo), some),
		},
		"not by a nested release": {
			seed: with(rwSeed(60, "mode", "write", "a:1:write", "2"), line), call: releaseWrite{target: 1}, reply: int64(1),
			after: all(keyspace(lockOf("mode", "write", "a:1:write", "1")), both, writersAlive(wantsOne, wantsTwo), some),
		},
		"by the last reader": {
			seed: with(iRead, line), call: releaseRead{}, reply: freed, after: both, due: one, messages: said("0"),
		},
		"by the last reader, whose inner hold goes as well": {
			seed: with(rwSeed(10, "mode", "read", "a:1", "3"), reads("a:1", 10, 10, 10), line), call: releaseRead{also: 1},
			reply: freed, after: both, due: one, messages: said("0"),
		},
		"by the last reader, one of whose holds is over": {
			seed: with(rwSeed(10, "mode", "read", "a:1", "2"), reads("a:1", 10, 10), [][]string{{"DEL", a1}}, line),
			call: releaseRead{}, reply: freed, after: both, due: one, messages: said("0"),
		},
		"not by the last reader while the slot moves": {
			seed: with(iRead, line), call: releaseRead{bare: true}, reply: freed, messages: readFreed,
			after: all(both, writersAlive(wantsOne, wantsTwo), some),
		},
		"not while others read": {
			seed: with(rwSeed(10, "mode", "read", "a:1", "1", "b:1", "1"), reads("a:1", 10), reads("b:1", 10), line),
			call: releaseRead{}, reply: int64(1),
			after: all(keyspace(lockOf("mode", "read", "b:1", "1"), b1), both, writersAlive(wantsOne, wantsTwo), some),
		},
		"by force, of readers": {
			seed: with(iRead, line), call: forceHalf{half: "read"}, reply: now{}, after: both, due: one, messages: said("0"),
		},
		"by force, of a writer": {
			seed: with(iWrite, line), call: forceHalf{half: "write"}, reply: now{}, after: both, due: one, messages: said("1"),
		},
		"not by force while the slot moves": {
			seed: with(iWrite, line), call: forceHalf{half: "write", bare: true}, reply: now{}, messages: writeFreed,
			after: all(writers(wantsOne, wantsTwo), writersAlive(wantsOne, wantsTwo), some),
		},
		"by the first, who gives up": {
			seed: with(rwSeed(10, "mode", "read", "b:1", "1"), writersWait(soon, wantsToWrite, wantsOne)),
			call: releaseWrite{leaves: true}, reply: int64(1), due: one, messages: []redistest.Message{mayWrite("b")},
			after: all(keyspace(lockOf("mode", "read", "b:1", "1")), writers(wantsOne), some),
		},
		"not by another who gives up": {
			seed: with(rwSeed(10, "mode", "read", "b:1", "1"), writersWait(soon, wantsOne, wantsToWrite)),
			call: releaseWrite{leaves: true}, reply: int64(1),
			after: all(keyspace(lockOf("mode", "read", "b:1", "1")), writers(wantsOne), writersAlive(wantsOne), some),
		},
		"by one who gives up, but had the lock": {
			seed: with(iWrite, line), call: releaseWrite{leaves: true}, reply: freed, after: both, due: one, messages: said("1"),
		},
		"and readers by one who gives up and kept them waiting": {
			seed: with(rwSeed(10, "mode", "read", "b:1", "1"), writersWait(soon, wantsToWrite),
				[][]string{{"ZADD", rwWriters, "9e15", me}}),
			call: releaseWrite{ahead: true}, reply: int64(1), messages: writeFreed,
			after: keyspace(lockOf("mode", "read", "b:1", "1")),
		},
	})
}
