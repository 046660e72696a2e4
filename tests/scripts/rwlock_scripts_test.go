package scripts

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/redistest"
)

const (
	rwChannel = "redisson_rwlock:{x}"
	rwWriters = "holdfast_rwlock_writers:{x}"
)

// readKey is the key of a read hold of the lock x.
func readKey(owner string, n int) string {
	return "{x}:" + owner + ":rwlock_timeout:" + strconv.Itoa(n)
}

// reads stores the keys of an owner's read holds, by their leases in seconds.
func reads(owner string, leases ...int) (commands [][]string) {
	for i, seconds := range leases {
		commands = append(commands, []string{"SET", readKey(owner, i+1), "1", "EX", strconv.Itoa(seconds)})
	}
	return commands
}

// rwSeed stores a read-write lock with an expiry.
func rwSeed(seconds int, fields ...string) [][]string {
	return [][]string{append([]string{"HSET", "x"}, fields...), {"EXPIRE", "x", strconv.Itoa(seconds)}}
}

// keyspace is a lock (nil for none) and read holds by their keys.
func keyspace(lock *redistest.Value, holds ...string) map[string]redistest.Value {
	all := map[string]redistest.Value{}
	if lock != nil {
		all["x"] = *lock
	}
	for _, key := range holds {
		all[key] = redistest.Value{Type: "string", Content: "1", Expires: true}
	}
	return all
}

func lockOf(fields ...string) *redistest.Value {
	v := hash(fields...)
	return &v
}

// about is the remaining lease, a moment later, of a lock stored with that many seconds.
func about(seconds int) [2]time.Duration {
	most := time.Duration(seconds) * time.Second
	return [2]time.Duration{most - time.Second, most}
}

// manyReaders stores a lock that lasts for lock seconds, with n readers whose holds last for holds seconds.
func manyReaders(n, lock, holds int) (commands [][]string) {
	commands = rwSeed(lock, manyFields(n)...)
	for i := range n {
		commands = append(commands, reads(fmt.Sprintf("m:%d", i), holds)...)
	}
	return commands
}

func manyFields(n int) []string {
	fields := []string{"mode", "read"}
	for i := range n {
		fields = append(fields, fmt.Sprintf("m:%d", i), "1")
	}
	return fields
}

func manyHolds(n int) (keys []string) {
	for i := range n {
		keys = append(keys, readKey(fmt.Sprintf("m:%d", i), 1))
	}
	return keys
}

// These are the values that the tables of the halves use most.
var (
	a1, a2, a3, b1 = readKey(me, 1), readKey(me, 2), readKey(me, 3), readKey("b:1", 1)

	taken      = now{}
	freed      = int64(3) // the test listens, too
	readFreed  = []redistest.Message{{Channel: rwChannel, Payload: "0"}}
	writeFreed = []redistest.Message{{Channel: rwChannel, Payload: "1"}}
)

func TestAcquireReadScript(t *testing.T) {
	t.Parallel()
	runSteps(t, map[string]step{
		"takes a free lock": {
			call: acquireRead{}, reply: taken,
			after: keyspace(lockOf("mode", "read", "a:1", "1"), a1), ttl: about(30), ttls: map[string]int{a1: 30},
		},
		"reads with others": {
			seed: with(rwSeed(10, "mode", "read", "b:1", "1"), reads("b:1", 10)),
			call: acquireRead{}, reply: taken,
			after: keyspace(lockOf("mode", "read", "a:1", "1", "b:1", "1"), a1, b1), ttl: about(30),
			ttls: map[string]int{a1: 30, b1: 10},
		},
		"never shortens": {
			seed: with(rwSeed(60, "mode", "read", "b:1", "1"), reads("b:1", 60)),
			call: acquireRead{}, reply: taken,
			after: keyspace(lockOf("mode", "read", "a:1", "1", "b:1", "1"), a1, b1), ttl: about(60),
			ttls: map[string]int{a1: 30, b1: 60},
		},
		"again": {
			seed: with(rwSeed(10, "mode", "read", "a:1", "1"), reads("a:1", 10)),
			call: acquireRead{target: 2, nested: true}, reply: taken,
			after: keyspace(lockOf("mode", "read", "a:1", "2"), a1, a2), ttl: about(30),
			ttls: map[string]int{a1: 10, a2: 30},
		},
		"again with a number beyond": {
			seed: with(rwSeed(10, "mode", "read", "a:1", "1"), reads("a:1", 10)),
			call: acquireRead{target: 3, nested: true}, reply: taken,
			after: keyspace(lockOf("mode", "read", "a:1", "3"), a1, a3), ttl: about(30),
			ttls: map[string]int{a3: 30},
		},
		"takes a free lock with a number beyond": {
			call: acquireRead{target: 2}, reply: taken, after: keyspace(lockOf("mode", "read", "a:1", "2"), a2), ttl: about(30),
		},
		"a key that was left behind has its lease": {
			seed: reads("a:1", 60), call: acquireRead{}, reply: taken,
			after: keyspace(lockOf("mode", "read", "a:1", "1"), a1), ttl: about(30), ttls: map[string]int{a1: 30},
		},
		"a copy changes no count and shortens nothing": {
			seed: with(rwSeed(60, "mode", "read", "a:1", "2"), reads("a:1", 60, 60)),
			call: acquireRead{}, reply: taken,
			after: keyspace(lockOf("mode", "read", "a:1", "2"), a1, a2), ttl: about(60),
			ttls: map[string]int{a1: 60},
		},
		"a copy has its lease": {
			seed: with(rwSeed(10, "mode", "read", "a:1", "1"), reads("a:1", 10)),
			call: acquireRead{}, reply: taken,
			after: keyspace(lockOf("mode", "read", "a:1", "1"), a1), ttl: about(30), ttls: map[string]int{a1: 30},
		},
		"under the owner's own writing": {
			seed: rwSeed(10, "mode", "write", "a:1:write", "1"),
			call: acquireRead{nested: true}, reply: taken,
			after: keyspace(lockOf("mode", "write", "a:1:write", "1", "a:1", "1"), a1), ttl: about(30),
		},
		"not while another writes": {
			seed: rwSeed(10, "mode", "write", "b:1:write", "1"),
			call: acquireRead{}, reply: busyNow,
			after: keyspace(lockOf("mode", "write", "b:1:write", "1")),
		},
		"nested, and nothing there": {
			call: acquireRead{nested: true}, reply: unasked(-1), after: keyspace(nil),
		},
		"nested, and others read": {
			seed: with(rwSeed(10, "mode", "read", "b:1", "1"), reads("b:1", 10)),
			call: acquireRead{nested: true}, reply: unasked(-1),
			after: keyspace(lockOf("mode", "read", "b:1", "1"), b1),
		},
		"too late": {
			call: acquireRead{late: true}, reply: head(-2), after: keyspace(nil),
		},
		"too late, and held": {
			seed: with(rwSeed(10, "mode", "read", "a:1", "1"), reads("a:1", 10)),
			call: acquireRead{target: 2, late: true, nested: true}, reply: head(-2),
			after: keyspace(lockOf("mode", "read", "a:1", "1"), a1), ttl: about(10),
		},
		"behind nobody": {
			call: acquireRead{behind: true}, reply: taken,
			after: keyspace(lockOf("mode", "read", "a:1", "1"), a1),
		},
		"behind a writer that waits": {
			seed: [][]string{untilIn("10000", rwWriters, "b:1")}, call: acquireRead{behind: true}, reply: busyNow,
			after: keyspace(nil), due: map[string]int{"b:1": 10000},
		},
		"behind a writer that has been waiting too long": {
			seed: [][]string{{"ZADD", rwWriters, "1000", "b:1"}, {"EXPIRE", rwWriters, "5"}},
			call: acquireRead{behind: true}, reply: taken,
			after: map[string]redistest.Value{
				"x": hash("mode", "read", "a:1", "1"), a1: {Type: "string", Content: "1", Expires: true},
				rwWriters: {Type: "zset", Content: map[string]float64{"b:1": 1000}, Expires: true},
			},
		},
		"again, whoever waits": {
			seed: with(rwSeed(10, "mode", "read", "a:1", "1"), reads("a:1", 10),
				[][]string{{"ZADD", rwWriters, "9e15", "b:1"}}),
			call: acquireRead{target: 2, nested: true, behind: true}, reply: taken,
			after: map[string]redistest.Value{
				"x": hash("mode", "read", "a:1", "2"),
				a1:  {Type: "string", Content: "1", Expires: true}, a2: {Type: "string", Content: "1", Expires: true},
				rwWriters: {Type: "zset", Content: map[string]float64{"b:1": 9e15}},
			},
		},
		"one that has lost its expiry": {
			seed: with(rwSeed(10, "mode", "read", "a:1", "1"), reads("a:1", 10), persisted),
			call: acquireRead{target: 2, nested: true}, reply: taken,
			after: keyspace(lockOf("mode", "read", "a:1", "2"), a1, a2), ttl: about(30),
		},
		"a lease of no time": {call: acquireRead{lease: "0"}, fails: "lease must be", after: keyspace(nil)},
	})
}

func TestAcquireWriteScript(t *testing.T) {
	t.Parallel()
	runSteps(t, map[string]step{
		"takes a free lock": {
			call: acquireWrite{}, reply: taken,
			after: keyspace(lockOf("mode", "write", "a:1:write", "1")), ttl: about(30),
		},
		"again, without adding leases up": {
			seed: rwSeed(20, "mode", "write", "a:1:write", "1"),
			call: acquireWrite{target: 3}, reply: taken,
			after: keyspace(lockOf("mode", "write", "a:1:write", "3")), ttl: about(30),
		},
		"again, without shortening": {
			seed: rwSeed(60, "mode", "write", "a:1:write", "1"),
			call: acquireWrite{target: 2}, reply: taken,
			after: keyspace(lockOf("mode", "write", "a:1:write", "2")), ttl: about(60),
		},
		"a copy changes no count": {
			seed: rwSeed(10, "mode", "write", "a:1:write", "3"),
			call: acquireWrite{lease: "1000"}, reply: taken,
			after: keyspace(lockOf("mode", "write", "a:1:write", "3")), ttl: about(10),
		},
		"not while another writes": {
			seed: rwSeed(10, "mode", "write", "b:1:write", "1"),
			call: acquireWrite{}, reply: busy,
			after: keyspace(lockOf("mode", "write", "b:1:write", "1")),
		},
		"not while anybody reads": {
			seed: with(rwSeed(10, "mode", "read", "b:1", "1"), reads("b:1", 10)),
			call: acquireWrite{}, reply: busy,
			after: keyspace(lockOf("mode", "read", "b:1", "1"), b1),
		},
		"a re-entry never takes": {
			call: acquireWrite{target: 2}, reply: unasked(-1), after: keyspace(nil),
		},
		"too late": {
			call: acquireWrite{late: true}, reply: head(-2), after: keyspace(nil),
		},
		"too late, and held": {
			seed: rwSeed(10, "mode", "write", "a:1:write", "1"),
			call: acquireWrite{target: 2, late: true}, reply: head(-2),
			after: keyspace(lockOf("mode", "write", "a:1:write", "1")), ttl: about(10),
		},
		"one that has lost its expiry": {
			seed: with(rwSeed(10, "mode", "write", "a:1:write", "1"), persisted),
			call: acquireWrite{target: 2}, reply: taken,
			after: keyspace(lockOf("mode", "write", "a:1:write", "2")), ttl: about(30),
		},
		"a lease of no time": {call: acquireWrite{lease: "0"}, fails: "lease must be", after: keyspace(nil)},
	})
}
