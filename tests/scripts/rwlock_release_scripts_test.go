package scripts

import (
	"testing"

	"github.com/holdfast-go/holdfast/tests/redistest"
)

func TestReleaseReadScript(t *testing.T) {
	t.Parallel()
	runSteps(t, map[string]step{
		"frees the lock": {
			seed: with(rwSeed(10, "mode", "read", "a:1", "2"), reads("a:1", 10, 10)),
			call: releaseRead{}, reply: freed,
			after: keyspace(nil), messages: readFreed,
		},
		"nothing there": {
			call: releaseRead{}, reply: int64(0), after: keyspace(nil),
		},
		"another's": {
			seed: with(rwSeed(10, "mode", "read", "b:1", "1"), reads("b:1", 10)),
			call: releaseRead{}, reply: int64(0),
			after: keyspace(lockOf("mode", "read", "b:1", "1"), b1),
		},
		"follows the longest of the others": {
			seed: with(rwSeed(60, "mode", "read", "a:1", "1", "b:1", "1"), reads("a:1", 60), reads("b:1", 20)),
			call: releaseRead{}, reply: int64(1),
			after: keyspace(lockOf("mode", "read", "b:1", "1"), b1), ttl: about(20), ttls: map[string]int{b1: 20},
		},
		"leaves a longer one alone": {
			seed: with(rwSeed(60, "mode", "read", "a:1", "1", "b:1", "1"), reads("a:1", 20), reads("b:1", 60)),
			call: releaseRead{}, reply: int64(1),
			after: keyspace(lockOf("mode", "read", "b:1", "1"), b1), ttl: about(60),
		},
		"follows the longest of 31 others": {
			seed: with(manyReaders(31, 60, 20), rwSeed(60, "a:1", "1"), reads("a:1", 60)),
			call: releaseRead{}, reply: int64(1),
			after: keyspace(lockOf(manyFields(31)...), manyHolds(31)...), ttl: about(20),
		},
		"expires as it did where more read": {
			seed: with(manyReaders(32, 60, 20), rwSeed(60, "a:1", "1"), reads("a:1", 60)),
			call: releaseRead{}, reply: int64(1),
			after: keyspace(lockOf(manyFields(32)...), manyHolds(32)...), ttl: about(60),
		},
		"frees the lock where many have died": {
			seed: with(rwSeed(60, manyFields(300)...), rwSeed(60, "a:1", "1"), reads("a:1", 60)),
			call: releaseRead{}, reply: freed,
			after: keyspace(nil), messages: readFreed,
		},
		"frees a lock without an expiry that nobody holds": {
			seed: with(rwSeed(60, "mode", "read", "a:1", "1", "b:1", "1"), persisted, reads("a:1", 60)),
			call: releaseRead{}, reply: freed,
			after: keyspace(nil), messages: readFreed,
		},
		"a lock that has lost its expiry follows the longest of the others": {
			seed: with(rwSeed(60, "mode", "read", "a:1", "1", "b:1", "1", "c:1", "1"), persisted,
				reads("a:1", 60), reads("b:1", 30), reads("c:1", 30)),
			call: releaseRead{}, reply: int64(1),
			after: keyspace(lockOf("mode", "read", "b:1", "1", "c:1", "1"), b1, readKey("c:1", 1)), ttl: about(30),
		},
		"the dead do not keep it": {
			seed: with(rwSeed(60, "mode", "read", "a:1", "1", "b:1", "1"), reads("a:1", 20)),
			call: releaseRead{}, reply: freed,
			after: keyspace(nil), messages: readFreed,
		},
		"the dead go": {
			seed: with(rwSeed(20, "mode", "read", "a:1", "1", "b:1", "1", "c:1", "7"), reads("a:1", 20),
				reads("b:1", 10)),
			call: releaseRead{}, reply: int64(1),
			after: keyspace(lockOf("mode", "read", "b:1", "1"), b1), ttl: about(10),
		},
		"the long one first: the short one's key is raised to nothing more": {
			// an outer hold of 60 s, an inner one of 5
			seed: with(rwSeed(60, "mode", "read", "a:1", "2"), reads("a:1", 60, 5)),
			call: releaseRead{target: 1, ceiling: 2, lease: "5000", also: 1}, reply: int64(1),
			after: keyspace(lockOf("mode", "read", "a:1", "1"), a1), ttl: about(60), ttls: map[string]int{a1: 60},
		},
		"the short one first: the long one's key is gone, another is raised": {
			// an outer hold of 5 s, an inner one of 60
			seed: with(rwSeed(60, "mode", "read", "a:1", "2"), reads("a:1", 5, 60)),
			call: releaseRead{target: 1, ceiling: 2, lease: "60000", also: 1}, reply: int64(1),
			after: keyspace(lockOf("mode", "read", "a:1", "1"), a1), ttl: about(60), ttls: map[string]int{a1: 60},
		},
		"the inner long one goes": {
			seed: with(rwSeed(60, "mode", "read", "a:1", "2"), reads("a:1", 20, 60)),
			call: releaseRead{target: 1, ceiling: 2, lease: "20000", also: 1}, reply: int64(1),
			after: keyspace(lockOf("mode", "read", "a:1", "1"), a1), ttl: about(20), ttls: map[string]int{a1: 20},
		},
		"a key that was lost is made anew": {
			seed: with(rwSeed(60, "mode", "read", "a:1", "2"), reads("a:1", 60), [][]string{{"DEL", a1}}),
			call: releaseRead{target: 1, ceiling: 2, lease: "20000", also: 1}, reply: int64(1),
			after: keyspace(lockOf("mode", "read", "a:1", "1"), a1), ttl: about(20), ttls: map[string]int{a1: 20},
		},
		"a copy lowers nothing again": {
			seed: with(rwSeed(10, "mode", "read", "a:1", "1"), reads("a:1", 10)),
			call: releaseRead{target: 1, ceiling: 2, lease: "60000", also: 1}, reply: int64(1),
			after: keyspace(lockOf("mode", "read", "a:1", "1"), a1), ttl: about(10),
		},
		"several at once": {
			seed: with(rwSeed(60, "mode", "read", "a:1", "3"), reads("a:1", 20, 60, 60)),
			call: releaseRead{target: 1, ceiling: 3, also: 1}, reply: int64(1),
			after: keyspace(lockOf("mode", "read", "a:1", "1"), a1), ttl: about(20),
		},
		"a late copy raises no count": {
			seed: with(rwSeed(10, "mode", "read", "a:1", "1"), reads("a:1", 10)),
			call: releaseRead{target: 2, ceiling: 3, lease: "60000", also: 2}, reply: int64(1),
			after: keyspace(lockOf("mode", "read", "a:1", "1"), a1), ttl: about(10),
		},
		"what is newer stays": {
			seed: with(rwSeed(10, "mode", "read", "a:1", "3"), reads("a:1", 10, 10, 10)),
			call: releaseRead{ceiling: 2}, reply: int64(1),
			after: keyspace(lockOf("mode", "read", "a:1", "3"), a1, a2, a3), ttl: about(10),
		},
		"under writing, without shortening": {
			seed: with(rwSeed(60, "mode", "write", "a:1:write", "1", "a:1", "2"), reads("a:1", 5, 5)),
			call: releaseRead{target: 1, ceiling: 2, lease: "5000", also: 1}, reply: int64(1),
			after: keyspace(lockOf("mode", "write", "a:1:write", "1", "a:1", "1"), a1), ttl: about(60),
			ttls: map[string]int{a1: 5},
		},
		"the last one under writing": {
			seed: with(rwSeed(60, "mode", "write", "a:1:write", "1", "a:1", "2"), reads("a:1", 5, 5)),
			call: releaseRead{ceiling: 2}, reply: int64(1),
			after: keyspace(lockOf("mode", "write", "a:1:write", "1")), ttl: about(60),
		},
	})
}

func TestReleaseWriteScript(t *testing.T) {
	t.Parallel()
	runSteps(t, map[string]step{
		"frees the lock": {
			seed: rwSeed(10, "mode", "write", "a:1:write", "2"),
			call: releaseWrite{}, reply: freed, after: keyspace(nil), messages: writeFreed,
		},
		"lowers the count, and no lease": {
			seed: rwSeed(60, "mode", "write", "a:1:write", "3"),
			call: releaseWrite{target: 1}, reply: int64(1),
			after: keyspace(lockOf("mode", "write", "a:1:write", "1")), ttl: about(60),
		},
		"goes on reading, for as long as it reads": {
			seed: with(rwSeed(60, "mode", "write", "a:1:write", "1", "a:1", "1"), reads("a:1", 20)),
			call: releaseWrite{}, reply: freed,
			after: keyspace(lockOf("mode", "read", "a:1", "1"), a1), ttl: about(20), messages: writeFreed,
		},
		"expired reads do not go on": {
			seed: rwSeed(60, "mode", "write", "a:1:write", "1", "a:1", "1"),
			call: releaseWrite{}, reply: freed, after: keyspace(nil), messages: writeFreed,
		},
		"another's": {
			seed: rwSeed(10, "mode", "write", "b:1:write", "1"),
			call: releaseWrite{}, reply: int64(0),
			after: keyspace(lockOf("mode", "write", "b:1:write", "1")),
		},
		"its own read holds stay": {
			seed: with(rwSeed(10, "mode", "read", "a:1", "1"), reads("a:1", 10)),
			call: releaseWrite{}, reply: int64(0),
			after: keyspace(lockOf("mode", "read", "a:1", "1"), a1),
		},
		"no longer waits, and lets readers know": {
			seed: with(rwSeed(10, "mode", "read", "b:1", "1"), reads("b:1", 10),
				[][]string{{"ZADD", rwWriters, "9e15", "a:1"}}),
			call: releaseWrite{ahead: true}, reply: int64(1),
			after: keyspace(lockOf("mode", "read", "b:1", "1"), b1), messages: writeFreed,
		},
		"did not wait": {
			call: releaseWrite{ahead: true}, reply: int64(0), after: keyspace(nil),
		},
	})
}

func TestRenewReadScript(t *testing.T) {
	t.Parallel()
	runSteps(t, map[string]step{
		"extends the holds of its owner, and no others": {
			seed:  with(rwSeed(10, "mode", "read", "a:1", "2", "b:1", "1"), reads("a:1", 10, 60), reads("b:1", 10)),
			call:  renew{by: "rwlock_renew_read", keys: []string{"x", a1}, owners: []string{"a:1"}},
			reply: []any{now{}, lastsFor(60000)},
			after: keyspace(lockOf("mode", "read", "a:1", "2", "b:1", "1"), a1, a2, b1), ttl: about(30),
			ttls: map[string]int{a1: 30, a2: 60, b1: 10},
		},
		"never shortens": {
			seed:  with(rwSeed(60, "mode", "write", "a:1:write", "1", "a:1", "1"), reads("a:1", 40)),
			call:  renew{by: "rwlock_renew_read", keys: []string{"x", a1}, owners: []string{"a:1"}},
			reply: []any{now{}, lastsFor(40000)},
			after: keyspace(lockOf("mode", "write", "a:1:write", "1", "a:1", "1"), a1), ttl: about(60),
			ttls: map[string]int{a1: 40},
		},
		"the key that goes last has what another has": {
			seed:  with(rwSeed(10, "mode", "read", "a:1", "2"), reads("a:1", 10, 10), [][]string{{"DEL", a1}}),
			call:  renew{by: "rwlock_renew_read", keys: []string{"x", a1}, owners: []string{"a:1"}},
			reply: []any{now{}, int64(1)},
			after: keyspace(lockOf("mode", "read", "a:1", "2"), a1, a2), ttl: about(30),
			ttls: map[string]int{a1: 30, a2: 30},
		},
		"the key that goes last, without memory": {
			seed: with(rwSeed(60, "mode", "read", "a:1", "2"), reads("a:1", 10, 60), [][]string{{"DEL", a1}}), full: true,
			call:  renew{by: "rwlock_renew_read", keys: []string{"x", a1}, owners: []string{"a:1"}},
			reply: []any{now{}, lastsFor(60000)},
			after: keyspace(lockOf("mode", "read", "a:1", "2"), a1, a2), ttl: about(60),
			ttls: map[string]int{a1: 30, a2: 60},
		},
		"the dead stay dead": {
			seed:  with(rwSeed(10, "mode", "read", "a:1", "1", "b:1", "1"), reads("b:1", 10)),
			call:  renew{by: "rwlock_renew_read", keys: []string{"x", a1}, owners: []string{"a:1"}},
			reply: []any{now{}, int64(0)},
			after: keyspace(lockOf("mode", "read", "a:1", "1", "b:1", "1"), b1), ttl: about(10),
		},
		"a look leaves a lock without an end alone": {
			seed:  with(rwSeed(10, "mode", "read", "a:1", "1"), reads("a:1", 10), persisted),
			call:  renew{by: "rwlock_renew_read", keys: []string{"x", a1}, owners: []string{"a:1"}, lease: "1"},
			reply: []any{now{}, lastsFor(10000)},
			after: map[string]redistest.Value{
				"x": endless("mode", "read", "a:1", "1"), a1: {Type: "string", Content: "1", Expires: true},
			},
		},
		"each name by itself": {
			seed: with(rwSeed(10, "mode", "read", "a:1", "1"), reads("a:1", 10), [][]string{{"SET", "y", "no lock"}}),
			call: renew{
				by: "rwlock_renew_read", keys: []string{"y", "{y}:c", "x", a1, "z", "{z}:d"},
				owners: []string{"c:1", "a:1", "d:1"},
			},
			reply: []any{
				now{},
				"WRONGTYPE Operation against a key holding the wrong kind of value",
				int64(1), int64(0),
			},
			after: map[string]redistest.Value{
				"x": hash("mode", "read", "a:1", "1"), a1: {Type: "string", Content: "1", Expires: true},
				"y": {Type: "string", Content: "no lock"},
			},
			ttl: about(30),
		},
		"a lease of no time": {
			call:  renew{by: "rwlock_renew_read", keys: []string{"x", a1}, owners: []string{"a:1"}, lease: "0"},
			fails: "lease must be", after: keyspace(nil),
		},
	})
}

func TestTrimReadScript(t *testing.T) {
	t.Parallel()
	runSteps(t, map[string]step{
		"to what its longest hold needs, and the lock to the longest of all": {
			seed: with(rwSeed(3600, "mode", "read", "a:1", "2", "b:1", "1"), reads("a:1", 3600, 10), reads("b:1", 60)),
			call: trim{by: "rwlock_trim_read", most: "30000"}, reply: now{},
			after: keyspace(lockOf("mode", "read", "a:1", "2", "b:1", "1"), a1, a2, b1), ttl: about(60),
			ttls: map[string]int{a1: 30, a2: 10, b1: 60},
		},
		"while it writes as well, not the lock": {
			seed: with(rwSeed(3600, "mode", "write", "a:1:write", "1", "a:1", "1"), reads("a:1", 3600)),
			call: trim{by: "rwlock_trim_read", most: "30000"}, reply: now{},
			after: keyspace(lockOf("mode", "write", "a:1:write", "1", "a:1", "1"), a1), ttl: about(3600),
			ttls: map[string]int{a1: 30},
		},
		"not another's": {
			seed: with(rwSeed(60, "mode", "read", "b:1", "1"), reads("b:1", 60)),
			call: trim{by: "rwlock_trim_read", most: "30000"}, reply: head(0),
			after: keyspace(lockOf("mode", "read", "b:1", "1"), b1), ttl: about(60),
		},
		"too late": {
			seed: with(rwSeed(60, "mode", "read", "a:1", "1"), reads("a:1", 60)),
			call: trim{by: "rwlock_trim_read", most: "30000", late: true}, reply: head(-2),
			after: keyspace(lockOf("mode", "read", "a:1", "1"), a1), ttl: about(60),
		},
		"before it was sent": {
			seed: with(rwSeed(60, "mode", "read", "a:1", "1"), reads("a:1", 60)),
			call: trim{by: "rwlock_trim_read", most: "30000", early: true}, reply: head(-2),
			after: keyspace(lockOf("mode", "read", "a:1", "1"), a1), ttl: about(60),
		},
		"a lease of no time": {
			call: trim{by: "rwlock_trim_read", most: "0"}, fails: "lease must be", after: keyspace(nil),
		},
	})
}

func TestForceHalfScript(t *testing.T) {
	t.Parallel()
	runSteps(t, map[string]step{
		"frees from all readers": {
			seed: with(rwSeed(10, "mode", "read", "a:1", "2", "b:1", "1"), reads("a:1", 10, 10), reads("b:1", 10)),
			call: forceHalf{half: "read"}, reply: now{}, after: keyspace(nil), messages: readFreed,
		},
		"frees from the writer, who reads": {
			seed: with(rwSeed(10, "mode", "write", "a:1:write", "1", "a:1", "1"), reads("a:1", 10)),
			call: forceHalf{half: "write"}, reply: now{}, after: keyspace(nil), messages: writeFreed,
		},
		"not the other half": {
			seed: rwSeed(10, "mode", "write", "a:1:write", "1"),
			call: forceHalf{half: "read"}, reply: head(0),
			after: keyspace(lockOf("mode", "write", "a:1:write", "1")),
		},
		"nobody": {call: forceHalf{half: "write"}, reply: head(0), after: keyspace(nil)},
		"too late": {
			seed: rwSeed(10, "mode", "write", "a:1:write", "1"),
			call: forceHalf{half: "write", late: true}, reply: head(-2),
			after: keyspace(lockOf("mode", "write", "a:1:write", "1")),
		},
		"too late, from readers": {
			seed: with(rwSeed(10, "mode", "read", "b:1", "1"), reads("b:1", 10)),
			call: forceHalf{half: "read", late: true}, reply: head(-2),
			after: keyspace(lockOf("mode", "read", "b:1", "1"), b1),
		},
	})
}
