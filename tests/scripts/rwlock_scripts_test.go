package scripts

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/redistest"
)

const (
	rwChannel  = "redisson_rwlock:{x}"
	rwWriters  = "holdfast_rwlock_writers:{x}"
	soon, past = "99999999999999", "1" // server ms, as a not-after
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

func join(commands ...[][]string) (all [][]string) {
	for _, c := range commands {
		all = append(all, c...)
	}
	return all
}

// keyspace is a lock, nil for none, and read holds by their keys.
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

// about is how long a lock of so many seconds lasts a moment later.
func about(seconds int) [2]time.Duration {
	most := time.Duration(seconds) * time.Second
	return [2]time.Duration{most - time.Second, most}
}

// manyReaders stores a lock of so many seconds with n readers whose holds last so many.
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

func TestReadWriteScripts(t *testing.T) {
	t.Parallel()
	key := []string{"x"}
	keys := []string{"x", rwWriters}
	held, freed := []any{int64(1), now{}}, int64(3) // this test listens, too
	a1, a2, a3, b1 := readKey("a:1", 1), readKey("a:1", 2), readKey("a:1", 3), readKey("b:1", 1)
	readFreed := []redistest.Message{{Channel: rwChannel, Payload: "0"}}
	writeFreed := []redistest.Message{{Channel: rwChannel, Payload: "1"}}

	for script, steps := range map[string]map[string]step{
		"rwlock_acquire_read": {
			"takes a free lock": {
				keys: []string{"x", a1}, args: []string{"a:1", "1", "30000", soon, "0"}, reply: held,
				after: keyspace(lockOf("mode", "read", "a:1", "1"), a1), ttl: about(30), ttls: map[string]int{a1: 30},
			},
			"reads with others": {
				seed: join(rwSeed(10, "mode", "read", "b:1", "1"), reads("b:1", 10)),
				keys: []string{"x", a1}, args: []string{"a:1", "1", "30000", soon, "0"}, reply: held,
				after: keyspace(lockOf("mode", "read", "a:1", "1", "b:1", "1"), a1, b1), ttl: about(30), ttls: map[string]int{a1: 30, b1: 10},
			},
			"never shortens": {
				seed: join(rwSeed(60, "mode", "read", "b:1", "1"), reads("b:1", 60)),
				keys: []string{"x", a1}, args: []string{"a:1", "1", "30000", soon, "0"}, reply: held,
				after: keyspace(lockOf("mode", "read", "a:1", "1", "b:1", "1"), a1, b1), ttl: about(60), ttls: map[string]int{a1: 30, b1: 60},
			},
			"again": {
				seed: join(rwSeed(10, "mode", "read", "a:1", "1"), reads("a:1", 10)),
				keys: []string{"x", a2}, args: []string{"a:1", "2", "30000", soon, "1"}, reply: held,
				after: keyspace(lockOf("mode", "read", "a:1", "2"), a1, a2), ttl: about(30), ttls: map[string]int{a1: 10, a2: 30},
			},
			"again with a number beyond": {
				seed: join(rwSeed(10, "mode", "read", "a:1", "1"), reads("a:1", 10)),
				keys: []string{"x", a3}, args: []string{"a:1", "3", "30000", soon, "1"}, reply: held,
				after: keyspace(lockOf("mode", "read", "a:1", "3"), a1, a3), ttl: about(30), ttls: map[string]int{a3: 30},
			},
			"a copy changes no count and shortens nothing": {
				seed: join(rwSeed(60, "mode", "read", "a:1", "2"), reads("a:1", 60, 60)),
				keys: []string{"x", a1}, args: []string{"a:1", "1", "30000", soon, "0"}, reply: held,
				after: keyspace(lockOf("mode", "read", "a:1", "2"), a1, a2), ttl: about(60), ttls: map[string]int{a1: 60},
			},
			"under the owner's own writing": {
				seed: rwSeed(10, "mode", "write", "a:1:write", "1"),
				keys: []string{"x", a1}, args: []string{"a:1", "1", "30000", soon, "1"}, reply: held,
				after: keyspace(lockOf("mode", "write", "a:1:write", "1", "a:1", "1"), a1), ttl: about(30),
			},
			"not while another writes": {
				seed: rwSeed(10, "mode", "write", "b:1:write", "1"),
				keys: []string{"x", a1}, args: []string{"a:1", "1", "30000", soon, "0"}, reply: "busy",
				after: keyspace(lockOf("mode", "write", "b:1:write", "1")),
			},
			"not where another kind of lock is": {
				seed: rwSeed(10, "b:1", "1"),
				keys: []string{"x", a1}, args: []string{"a:1", "1", "30000", soon, "0"}, reply: "busy",
				after: keyspace(lockOf("b:1", "1")),
			},
			"nested, and nothing there": {
				keys: []string{"x", a1}, args: []string{"a:1", "1", "30000", soon, "1"}, reply: []any{int64(-1), now{}}, after: keyspace(nil),
			},
			"nested, and others read": {
				seed: join(rwSeed(10, "mode", "read", "b:1", "1"), reads("b:1", 10)),
				keys: []string{"x", a1}, args: []string{"a:1", "1", "30000", soon, "1"}, reply: []any{int64(-1), now{}},
				after: keyspace(lockOf("mode", "read", "b:1", "1"), b1),
			},
			"too late": {
				keys: []string{"x", a1}, args: []string{"a:1", "1", "30000", past, "0"}, reply: []any{int64(-2), now{}}, after: keyspace(nil),
			},
			"too late, and held": {
				seed: join(rwSeed(10, "mode", "read", "a:1", "1"), reads("a:1", 10)),
				keys: []string{"x", a2}, args: []string{"a:1", "2", "30000", past, "1"}, reply: []any{int64(-2), now{}},
				after: keyspace(lockOf("mode", "read", "a:1", "1"), a1), ttl: about(10),
			},
			"behind nobody": {
				keys: []string{"x", a1, rwWriters}, args: []string{"a:1", "1", "30000", soon, "0"}, reply: held,
				after: keyspace(lockOf("mode", "read", "a:1", "1"), a1),
			},
			"behind a writer that has been waiting too long": {
				seed: [][]string{{"ZADD", rwWriters, "1000", "b:1"}, {"EXPIRE", rwWriters, "5"}},
				keys: []string{"x", a1, rwWriters}, args: []string{"a:1", "1", "30000", soon, "0"}, reply: held,
				after: map[string]redistest.Value{
					"x": hash("mode", "read", "a:1", "1"), a1: {Type: "string", Content: "1", Expires: true},
					rwWriters: {Type: "zset", Content: map[string]float64{"b:1": 1000}, Expires: true},
				},
			},
			"again, whoever waits": {
				seed: join(rwSeed(10, "mode", "read", "a:1", "1"), reads("a:1", 10), [][]string{{"ZADD", rwWriters, "9e15", "b:1"}}),
				keys: []string{"x", a2, rwWriters}, args: []string{"a:1", "2", "30000", soon, "1"}, reply: held,
				after: map[string]redistest.Value{
					"x": hash("mode", "read", "a:1", "2"),
					a1:  {Type: "string", Content: "1", Expires: true}, a2: {Type: "string", Content: "1", Expires: true},
					rwWriters: {Type: "zset", Content: map[string]float64{"b:1": 9e15}},
				},
			},
			"a lease of no time": {keys: []string{"x", a1}, args: []string{"a:1", "1", "0", soon, "0"}, fails: "lease must be", after: keyspace(nil)},
		},
		"rwlock_acquire_write": {
			"takes nothing if the key of those who wait is of another type": {
				seed: [][]string{{"SET", rwWriters, "precious"}}, keys: []string{"x", rwWriters}, args: []string{"a:1", "1", "30000", soon, "0"},
				fails: "WRONGTYPE", after: map[string]redistest.Value{rwWriters: {Type: "string", Content: "precious"}},
			},
			"takes a free lock": {
				keys: key, args: []string{"a:1", "1", "30000", soon, "0"}, reply: held,
				after: keyspace(lockOf("mode", "write", "a:1:write", "1")), ttl: about(30),
			},
			"again, without adding leases up": {
				seed: rwSeed(20, "mode", "write", "a:1:write", "1"),
				keys: key, args: []string{"a:1", "2", "30000", soon, "0"}, reply: held,
				after: keyspace(lockOf("mode", "write", "a:1:write", "2")), ttl: about(30),
			},
			"again, without shortening": {
				seed: rwSeed(60, "mode", "write", "a:1:write", "1"),
				keys: key, args: []string{"a:1", "2", "30000", soon, "0"}, reply: held,
				after: keyspace(lockOf("mode", "write", "a:1:write", "2")), ttl: about(60),
			},
			"a copy changes no count": {
				seed: rwSeed(10, "mode", "write", "a:1:write", "3"),
				keys: key, args: []string{"a:1", "1", "1000", soon, "0"}, reply: held,
				after: keyspace(lockOf("mode", "write", "a:1:write", "3")), ttl: about(10),
			},
			"not while another writes": {
				seed: rwSeed(10, "mode", "write", "b:1:write", "1"),
				keys: key, args: []string{"a:1", "1", "30000", soon, "0"}, reply: "busy",
				after: keyspace(lockOf("mode", "write", "b:1:write", "1")),
			},
			"not while anybody reads": {
				seed: join(rwSeed(10, "mode", "read", "b:1", "1"), reads("b:1", 10)),
				keys: key, args: []string{"a:1", "1", "30000", soon, "0"}, reply: "busy",
				after: keyspace(lockOf("mode", "read", "b:1", "1"), b1),
			},
			"a re-entry never takes": {
				keys: key, args: []string{"a:1", "2", "30000", soon, "0"}, reply: []any{int64(-1), now{}}, after: keyspace(nil),
			},
			"too late": {
				keys: key, args: []string{"a:1", "1", "30000", past, "0"}, reply: []any{int64(-2), now{}}, after: keyspace(nil),
			},
			"too late to wait": {
				seed: rwSeed(10, "mode", "write", "b:1:write", "1"),
				keys: keys, args: []string{"a:1", "1", "30000", past, "5000"}, reply: []any{int64(-2), now{}},
				after: keyspace(lockOf("mode", "write", "b:1:write", "1")),
			},
			"who has waited does no longer": {
				seed: [][]string{{"ZADD", rwWriters, "9e15", "a:1"}},
				keys: keys, args: []string{"a:1", "1", "30000", soon, "5000"}, reply: held,
				after: keyspace(lockOf("mode", "write", "a:1:write", "1")),
			},
			"a lease of no time": {keys: key, args: []string{"a:1", "1", "0", soon, "0"}, fails: "lease must be", after: keyspace(nil)},
		},
		"rwlock_release_read": {
			"frees the lock": {
				seed: join(rwSeed(10, "mode", "read", "a:1", "2"), reads("a:1", 10, 10)),
				keys: []string{"x", a1}, args: []string{"a:1", "0", "0", "10", "PUBLISH", rwChannel}, reply: freed,
				after: keyspace(nil), messages: readFreed,
			},
			"nothing there": {
				keys: []string{"x", a1}, args: []string{"a:1", "0", "0", "10", "PUBLISH", rwChannel}, reply: int64(0), after: keyspace(nil),
			},
			"another's": {
				seed: join(rwSeed(10, "mode", "read", "b:1", "1"), reads("b:1", 10)),
				keys: []string{"x", a1}, args: []string{"a:1", "0", "0", "10", "PUBLISH", rwChannel}, reply: int64(0),
				after: keyspace(lockOf("mode", "read", "b:1", "1"), b1),
			},
			"follows the longest of the others": {
				seed: join(rwSeed(60, "mode", "read", "a:1", "1", "b:1", "1"), reads("a:1", 60), reads("b:1", 20)),
				keys: []string{"x", a1}, args: []string{"a:1", "0", "0", "10", "PUBLISH", rwChannel}, reply: int64(1),
				after: keyspace(lockOf("mode", "read", "b:1", "1"), b1), ttl: about(20), ttls: map[string]int{b1: 20},
			},
			"leaves a longer one alone": {
				seed: join(rwSeed(60, "mode", "read", "a:1", "1", "b:1", "1"), reads("a:1", 20), reads("b:1", 60)),
				keys: []string{"x", a1}, args: []string{"a:1", "0", "0", "10", "PUBLISH", rwChannel}, reply: int64(1),
				after: keyspace(lockOf("mode", "read", "b:1", "1"), b1), ttl: about(60),
			},
			"follows the longest of 31 others": {
				seed: join(manyReaders(31, 60, 20), rwSeed(60, "a:1", "1"), reads("a:1", 60)),
				keys: []string{"x", a1}, args: []string{"a:1", "0", "0", "10", "PUBLISH", rwChannel}, reply: int64(1),
				after: keyspace(lockOf(manyFields(31)...), manyHolds(31)...), ttl: about(20),
			},
			"expires as it did where more read": {
				seed: join(manyReaders(32, 60, 20), rwSeed(60, "a:1", "1"), reads("a:1", 60)),
				keys: []string{"x", a1}, args: []string{"a:1", "0", "0", "10", "PUBLISH", rwChannel}, reply: int64(1),
				after: keyspace(lockOf(manyFields(32)...), manyHolds(32)...), ttl: about(60),
			},
			"frees the lock where many have died": {
				seed: join(rwSeed(60, manyFields(300)...), rwSeed(60, "a:1", "1"), reads("a:1", 60)),
				keys: []string{"x", a1}, args: []string{"a:1", "0", "0", "10", "PUBLISH", rwChannel}, reply: freed,
				after: keyspace(nil), messages: readFreed,
			},
			"frees a lock without an expiry that nobody holds": {
				seed: join(rwSeed(60, "mode", "read", "a:1", "1", "b:1", "1"), [][]string{{"PERSIST", "x"}}, reads("a:1", 60)),
				keys: []string{"x", a1}, args: []string{"a:1", "0", "0", "10", "PUBLISH", rwChannel}, reply: freed,
				after: keyspace(nil), messages: readFreed,
			},
			"the dead do not keep it": {
				seed: join(rwSeed(60, "mode", "read", "a:1", "1", "b:1", "1"), reads("a:1", 20)),
				keys: []string{"x", a1}, args: []string{"a:1", "0", "0", "10", "PUBLISH", rwChannel}, reply: freed,
				after: keyspace(nil), messages: readFreed,
			},
			"the dead go": {
				seed: join(rwSeed(20, "mode", "read", "a:1", "1", "b:1", "1", "c:1", "7"), reads("a:1", 20), reads("b:1", 10)),
				keys: []string{"x", a1}, args: []string{"a:1", "0", "0", "10", "PUBLISH", rwChannel}, reply: int64(1),
				after: keyspace(lockOf("mode", "read", "b:1", "1"), b1), ttl: about(10),
			},
			"the long one first: the short one's key is raised to nothing more": {
				seed: join(rwSeed(60, "mode", "read", "a:1", "2"), reads("a:1", 60, 5)), // an outer hold of 60 s, an inner one of 5
				keys: []string{"x", a1, a2}, args: []string{"a:1", "1", "2", "5000", "PUBLISH", rwChannel}, reply: int64(1),
				after: keyspace(lockOf("mode", "read", "a:1", "1"), a1), ttl: about(60), ttls: map[string]int{a1: 60},
			},
			"the short one first: the long one's key is gone, another is raised": {
				seed: join(rwSeed(60, "mode", "read", "a:1", "2"), reads("a:1", 5, 60)), // an outer hold of 5 s, an inner one of 60
				keys: []string{"x", a1, a2}, args: []string{"a:1", "1", "2", "60000", "PUBLISH", rwChannel}, reply: int64(1),
				after: keyspace(lockOf("mode", "read", "a:1", "1"), a1), ttl: about(60), ttls: map[string]int{a1: 60},
			},
			"the inner long one goes": {
				seed: join(rwSeed(60, "mode", "read", "a:1", "2"), reads("a:1", 20, 60)),
				keys: []string{"x", a1, a2}, args: []string{"a:1", "1", "2", "20000", "PUBLISH", rwChannel}, reply: int64(1),
				after: keyspace(lockOf("mode", "read", "a:1", "1"), a1), ttl: about(20), ttls: map[string]int{a1: 20},
			},
			"a key that was lost is made anew": {
				seed: join(rwSeed(60, "mode", "read", "a:1", "2"), reads("a:1", 60), [][]string{{"DEL", a1}}),
				keys: []string{"x", a1, a2}, args: []string{"a:1", "1", "2", "20000", "PUBLISH", rwChannel}, reply: int64(1),
				after: keyspace(lockOf("mode", "read", "a:1", "1"), a1), ttl: about(20), ttls: map[string]int{a1: 20},
			},
			"a copy lowers nothing again": {
				seed: join(rwSeed(10, "mode", "read", "a:1", "1"), reads("a:1", 10)),
				keys: []string{"x", a1, a2}, args: []string{"a:1", "1", "2", "60000", "PUBLISH", rwChannel}, reply: int64(1),
				after: keyspace(lockOf("mode", "read", "a:1", "1"), a1), ttl: about(10),
			},
			"what is newer stays": {
				seed: join(rwSeed(10, "mode", "read", "a:1", "3"), reads("a:1", 10, 10, 10)),
				keys: []string{"x", a1}, args: []string{"a:1", "0", "2", "10", "PUBLISH", rwChannel}, reply: int64(1),
				after: keyspace(lockOf("mode", "read", "a:1", "3"), a1, a2, a3), ttl: about(10),
			},
			"under writing, without shortening": {
				seed: join(rwSeed(60, "mode", "write", "a:1:write", "1", "a:1", "2"), reads("a:1", 5, 5)),
				keys: []string{"x", a1, a2}, args: []string{"a:1", "1", "2", "5000", "PUBLISH", rwChannel}, reply: int64(1),
				after: keyspace(lockOf("mode", "write", "a:1:write", "1", "a:1", "1"), a1), ttl: about(60), ttls: map[string]int{a1: 5},
			},
			"the last one under writing": {
				seed: join(rwSeed(60, "mode", "write", "a:1:write", "1", "a:1", "2"), reads("a:1", 5, 5)),
				keys: []string{"x", a1}, args: []string{"a:1", "0", "2", "10", "PUBLISH", rwChannel}, reply: int64(1),
				after: keyspace(lockOf("mode", "write", "a:1:write", "1")), ttl: about(60),
			},
		},
		"rwlock_release_write": {
			"frees the lock": {
				seed: rwSeed(10, "mode", "write", "a:1:write", "2"),
				keys: key, args: []string{"a:1", "0", "PUBLISH", rwChannel}, reply: freed, after: keyspace(nil), messages: writeFreed,
			},
			"lowers the count, and no lease": {
				seed: rwSeed(60, "mode", "write", "a:1:write", "2"),
				keys: key, args: []string{"a:1", "1", "PUBLISH", rwChannel}, reply: int64(1),
				after: keyspace(lockOf("mode", "write", "a:1:write", "1")), ttl: about(60),
			},
			"goes on reading, for as long as it reads": {
				seed: join(rwSeed(60, "mode", "write", "a:1:write", "1", "a:1", "1"), reads("a:1", 20)),
				keys: key, args: []string{"a:1", "0", "PUBLISH", rwChannel}, reply: freed,
				after: keyspace(lockOf("mode", "read", "a:1", "1"), a1), ttl: about(20), messages: writeFreed,
			},
			"reads that are over do not go on": {
				seed: rwSeed(60, "mode", "write", "a:1:write", "1", "a:1", "1"),
				keys: key, args: []string{"a:1", "0", "PUBLISH", rwChannel}, reply: freed, after: keyspace(nil), messages: writeFreed,
			},
			"another's": {
				seed: rwSeed(10, "mode", "write", "b:1:write", "1"),
				keys: key, args: []string{"a:1", "0", "PUBLISH", rwChannel}, reply: int64(0),
				after: keyspace(lockOf("mode", "write", "b:1:write", "1")),
			},
			"its own read holds stay": {
				seed: join(rwSeed(10, "mode", "read", "a:1", "1"), reads("a:1", 10)),
				keys: key, args: []string{"a:1", "0", "PUBLISH", rwChannel}, reply: int64(0),
				after: keyspace(lockOf("mode", "read", "a:1", "1"), a1),
			},
			"no longer waits, and lets readers know": {
				seed: join(rwSeed(10, "mode", "read", "b:1", "1"), reads("b:1", 10), [][]string{{"ZADD", rwWriters, "9e15", "a:1"}}),
				keys: keys, args: []string{"a:1", "0", "PUBLISH", rwChannel}, reply: int64(1),
				after: keyspace(lockOf("mode", "read", "b:1", "1"), b1), messages: writeFreed,
			},
			"did not wait": {
				keys: keys, args: []string{"a:1", "0", "PUBLISH", rwChannel}, reply: int64(0), after: keyspace(nil),
			},
		},
		"rwlock_renew_read": {
			"extends the holds of its owner, and no others": {
				seed: join(rwSeed(10, "mode", "read", "a:1", "2", "b:1", "1"), reads("a:1", 10, 60), reads("b:1", 10)),
				keys: []string{"x", a1}, args: []string{"30000", "a:1"}, reply: []any{now{}, lastsFor(60000)},
				after: keyspace(lockOf("mode", "read", "a:1", "2", "b:1", "1"), a1, a2, b1), ttl: about(30),
				ttls: map[string]int{a1: 30, a2: 60, b1: 10},
			},
			"never shortens": {
				seed: join(rwSeed(60, "mode", "write", "a:1:write", "1", "a:1", "1"), reads("a:1", 40)),
				keys: []string{"x", a1}, args: []string{"30000", "a:1"}, reply: []any{now{}, lastsFor(40000)},
				after: keyspace(lockOf("mode", "write", "a:1:write", "1", "a:1", "1"), a1), ttl: about(60), ttls: map[string]int{a1: 40},
			},
			"the key that goes last has what another has": {
				seed: join(rwSeed(10, "mode", "read", "a:1", "2"), reads("a:1", 10, 10), [][]string{{"DEL", a1}}),
				keys: []string{"x", a1}, args: []string{"30000", "a:1"}, reply: []any{now{}, int64(1)},
				after: keyspace(lockOf("mode", "read", "a:1", "2"), a1, a2), ttl: about(30), ttls: map[string]int{a1: 30, a2: 30},
			},
			"the dead stay dead": {
				seed: join(rwSeed(10, "mode", "read", "a:1", "1", "b:1", "1"), reads("b:1", 10)),
				keys: []string{"x", a1}, args: []string{"30000", "a:1"}, reply: []any{now{}, int64(0)},
				after: keyspace(lockOf("mode", "read", "a:1", "1", "b:1", "1"), b1), ttl: about(10),
			},
			"each name by itself": {
				seed: join(rwSeed(10, "mode", "read", "a:1", "1"), reads("a:1", 10), [][]string{{"SET", "y", "no lock"}}),
				keys: []string{"y", "{y}:c", "x", a1, "z", "{z}:d"}, args: []string{"30000", "c:1", "a:1", "d:1"},
				reply: []any{now{}, "WRONGTYPE Operation against a key holding the wrong kind of value", int64(1), int64(0)},
				after: map[string]redistest.Value{
					"x": hash("mode", "read", "a:1", "1"), a1: {Type: "string", Content: "1", Expires: true}, "y": {Type: "string", Content: "no lock"},
				},
				ttl: about(30),
			},
			"a lease of no time": {keys: []string{"x", a1}, args: []string{"0", "a:1"}, fails: "lease must be", after: keyspace(nil)},
		},
		"rwlock_trim_read": {
			"to what its longest hold needs, and the lock to the longest of all": {
				seed: join(rwSeed(3600, "mode", "read", "a:1", "2", "b:1", "1"), reads("a:1", 3600, 10), reads("b:1", 60)),
				keys: key, args: []string{"a:1", "30000", past, soon}, reply: []any{int64(1), now{}},
				after: keyspace(lockOf("mode", "read", "a:1", "2", "b:1", "1"), a1, a2, b1), ttl: about(60),
				ttls: map[string]int{a1: 30, a2: 10, b1: 60},
			},
			"while it writes as well, not the lock": {
				seed: join(rwSeed(3600, "mode", "write", "a:1:write", "1", "a:1", "1"), reads("a:1", 3600)),
				keys: key, args: []string{"a:1", "30000", past, soon}, reply: []any{int64(1), now{}},
				after: keyspace(lockOf("mode", "write", "a:1:write", "1", "a:1", "1"), a1), ttl: about(3600), ttls: map[string]int{a1: 30},
			},
			"not another's": {
				seed: join(rwSeed(60, "mode", "read", "b:1", "1"), reads("b:1", 60)),
				keys: key, args: []string{"a:1", "30000", past, soon}, reply: []any{int64(0), now{}},
				after: keyspace(lockOf("mode", "read", "b:1", "1"), b1), ttl: about(60),
			},
			"too late": {
				seed: join(rwSeed(60, "mode", "read", "a:1", "1"), reads("a:1", 60)),
				keys: key, args: []string{"a:1", "30000", past, past}, reply: []any{int64(-2), now{}},
				after: keyspace(lockOf("mode", "read", "a:1", "1"), a1), ttl: about(60),
			},
			"before it was sent": {
				seed: join(rwSeed(60, "mode", "read", "a:1", "1"), reads("a:1", 60)),
				keys: key, args: []string{"a:1", "30000", soon, soon}, reply: []any{int64(-2), now{}},
				after: keyspace(lockOf("mode", "read", "a:1", "1"), a1), ttl: about(60),
			},
			"a lease of no time": {keys: key, args: []string{"a:1", "0", past, soon}, fails: "lease must be", after: keyspace(nil)},
		},
		"rwlock_force": {
			"frees from all readers": {
				seed: join(rwSeed(10, "mode", "read", "a:1", "2", "b:1", "1"), reads("a:1", 10, 10), reads("b:1", 10)),
				keys: key, args: []string{"read", "PUBLISH", rwChannel, soon}, reply: []any{int64(1), now{}}, after: keyspace(nil), messages: readFreed,
			},
			"frees from the writer, who reads": {
				seed: join(rwSeed(10, "mode", "write", "a:1:write", "1", "a:1", "1"), reads("a:1", 10)),
				keys: key, args: []string{"write", "PUBLISH", rwChannel, soon}, reply: []any{int64(1), now{}}, after: keyspace(nil), messages: writeFreed,
			},
			"not the other half": {
				seed: rwSeed(10, "mode", "write", "a:1:write", "1"),
				keys: key, args: []string{"read", "PUBLISH", rwChannel, soon}, reply: []any{int64(0), now{}},
				after: keyspace(lockOf("mode", "write", "a:1:write", "1")),
			},
			"nobody": {keys: key, args: []string{"write", "PUBLISH", rwChannel, soon}, reply: []any{int64(0), now{}}, after: keyspace(nil)},
			"too late": {
				seed: rwSeed(10, "mode", "write", "a:1:write", "1"),
				keys: key, args: []string{"write", "PUBLISH", rwChannel, past}, reply: []any{int64(-2), now{}},
				after: keyspace(lockOf("mode", "write", "a:1:write", "1")),
			},
		},
	} {
		runSteps(t, script, steps)
	}
}
