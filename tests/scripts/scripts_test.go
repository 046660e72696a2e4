package scripts

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast/tests/redistest"
)

// These tests check each script by itself: the keys before, the call, the reply, the keys after, and the messages.

const (
	lockKey  = "x"
	tokenKey = "redisson_lock_token:{x}"
	channel  = "redisson_lock__channel:{x}"
)

// hash is a lock's hash with an expiry, as redistest shows it.
func hash(fields ...string) redistest.Value {
	content := map[string]string{}
	for i := 0; i < len(fields); i += 2 {
		content[fields[i]] = fields[i+1]
	}
	return redistest.Value{Type: "hash", Content: content, Expires: true}
}

func token(n string) redistest.Value { return redistest.Value{Type: "string", Content: n} }

// brief is a token that expires.
func brief(n string) redistest.Value {
	return redistest.Value{Type: "string", Content: n, Expires: true}
}

// endless is a lock's hash that has lost its expiry, and persisted takes it away.
func endless(fields ...string) redistest.Value {
	v := hash(fields...)
	v.Expires = false
	return v
}

var persisted = [][]string{{"PERSIST", lockKey}}

// seed stores one lock for 10 s.
func seed(fields ...string) [][]string {
	return [][]string{append([]string{"HSET", lockKey}, fields...), {"PEXPIRE", lockKey, "10000"}}
}

// now in a wanted reply stands for the server's time in ms; alone, it is the reply of a timed call that was granted.
type now struct{}

// head is the head of the reply of a timed call: its code, the time, and what follows.
func head(code int64, rest ...int64) []any {
	reply := []any{code, now{}}
	for _, n := range rest {
		reply = append(reply, n)
	}
	return reply
}

// unasked is such a head from a script that has not asked for the time.
func unasked(code int64, rest ...int64) []any {
	reply := head(code, rest...)
	reply[1] = int64(0)
	return reply
}

// what seed stores belongs to somebody else, for 10 s.
var (
	busy    = append(unasked(0), lastsFor(10000))
	busyNow = append(head(0), lastsFor(10000))
)

func TestScripts(t *testing.T) {
	t.Parallel()
	free := map[string]redistest.Value{}
	released := []redistest.Message{{Channel: channel, Payload: "0"}}

	runSteps(t, map[string]step{
		"takes a free lock": {
			call: acquire{}, reply: now{},
			after: map[string]redistest.Value{lockKey: hash("a:1", "1")}, ttl: about(30),
		},
		"issues a token": {
			seed: [][]string{{"SET", tokenKey, "7"}},
			call: acquire{fenced: true}, reply: head(1, 8),
			after: map[string]redistest.Value{lockKey: hash("a:1", "1"), tokenKey: token("8")},
		},
		"a copy changes no count, and finds its token": {
			seed: append(seed("a:1", "1"), []string{"SET", tokenKey, "7"}),
			call: acquire{fenced: true}, reply: head(1, 7),
			after: map[string]redistest.Value{lockKey: hash("a:1", "1"), tokenKey: token("7")},
		},
		"a copy of the first lowers no count": {
			seed: seed("a:1", "3"),
			call: acquire{lease: "1000"}, reply: now{},
			after: map[string]redistest.Value{lockKey: hash("a:1", "3")}, ttl: about(10),
		},
		"raises the count and the expiry": {
			seed: seed("a:1", "1"),
			call: acquire{target: 3}, reply: now{},
			after: map[string]redistest.Value{lockKey: hash("a:1", "3")}, ttl: about(30),
		},
		"never shortens the expiry": {
			seed: seed("a:1", "1"),
			call: acquire{target: 2, lease: "1"}, reply: now{},
			after: map[string]redistest.Value{lockKey: hash("a:1", "2")}, ttl: about(10),
		},
		"a re-entry that is the first to want a token gets one": {
			seed: seed("a:1", "1"),
			call: acquire{target: 2, fenced: true}, reply: head(1, 1),
			after: map[string]redistest.Value{lockKey: hash("a:1", "2"), tokenKey: token("1")},
		},
		"a re-entry that wants a token gets one of its own": {
			seed: with(seed("a:1", "1"), [][]string{{"SET", tokenKey, "7"}}),
			call: acquire{target: 2, fenced: true}, reply: head(1, 8),
			after: map[string]redistest.Value{lockKey: hash("a:1", "2"), tokenKey: token("8")},
		},
		"one that has lost its expiry": {
			seed: with(seed("a:1", "1"), persisted), call: acquire{}, reply: now{},
			after: map[string]redistest.Value{lockKey: hash("a:1", "1")}, ttl: about(30),
		},
		"leaves another owner's lock, and the token": {
			seed: append(seed("b:1", "1"), []string{"SET", tokenKey, "7"}),
			call: acquire{fenced: true}, reply: busy,
			after: map[string]redistest.Value{lockKey: hash("b:1", "1"), tokenKey: token("7")},
		},
		"says when a lock has no expiry": {
			seed: [][]string{{"HSET", lockKey, "b:1", "1"}},
			call: acquire{}, reply: unasked(0, -1),
			after: map[string]redistest.Value{lockKey: {Type: "hash", Content: map[string]string{"b:1": "1"}}},
		},
		"a re-entry never creates": {
			call: acquire{target: 2}, reply: unasked(-1), after: free,
		},
		"a re-entry never takes another owner's": {
			seed: seed("b:1", "1"),
			call: acquire{target: 2}, reply: unasked(-1),
			after: map[string]redistest.Value{lockKey: hash("b:1", "1")},
		},
		"takes it once, and for half a minute, without more arguments": {
			call: acquire{short: true}, reply: now{},
			after: map[string]redistest.Value{lockKey: hash("a:1", "1")}, ttl: about(30),
		},
		"too late, it creates nothing": {
			call: acquire{late: true, fenced: true}, reply: head(-2), after: free,
		},
		"too late, it raises and extends nothing": {
			seed: seed("a:1", "1"),
			call: acquire{target: 2, late: true}, reply: head(-2),
			after: map[string]redistest.Value{lockKey: hash("a:1", "1")}, ttl: about(10),
		},
		"a key of another type stays": {
			seed: [][]string{{"SET", lockKey, "precious"}},
			call: acquire{fenced: true}, fails: "WRONGTYPE",
			after: map[string]redistest.Value{lockKey: token("precious")},
		},
		"issues a token that expires, beyond the clock": {
			seed: [][]string{{"SET", tokenKey, "8000000000000000", "PX", "10000"}}, twice: true,
			call: acquire{fenced: true, ttl: "60000"}, reply: head(1, 8000000000000001),
			after: map[string]redistest.Value{lockKey: hash("a:1", "1"), tokenKey: brief("8000000000000001")},
		},
		"issues a token that expires, with all its digits": {
			seed: [][]string{{"SET", tokenKey, "9007199254740993", "PX", "10000"}}, twice: true,
			call: acquire{fenced: true, ttl: "60000"}, reply: append(head(1), "9007199254740994"),
			after: map[string]redistest.Value{lockKey: hash("a:1", "1"), tokenKey: brief("9007199254740994")},
		},
		"a token that others count without an expiry keeps none": {
			seed: [][]string{{"SET", tokenKey, "8000000000000000"}}, twice: true,
			call: acquire{fenced: true, ttl: "60000"}, reply: head(1, 8000000000000001),
			after: map[string]redistest.Value{lockKey: hash("a:1", "1"), tokenKey: token("8000000000000001")},
		},
		"a copy finds its token that expires": {
			seed: append(seed("a:1", "1"), []string{"SET", tokenKey, "7", "PX", "60000"}),
			call: acquire{fenced: true, ttl: "60000"}, reply: head(1, 7),
			after: map[string]redistest.Value{lockKey: hash("a:1", "1"), tokenKey: brief("7")},
		},
		"tells its age besides a token that expires": {
			seed: [][]string{{"RPUSH", tokenKey, "precious"}},
			call: acquire{fenced: true, asks: "age", ttl: "60000"}, fails: "WRONGTYPE", twice: true,
			after: map[string]redistest.Value{tokenKey: {Type: "list", Content: []string{"precious"}}},
		},
		"a text that is no token stays, and nothing is taken": {
			seed: [][]string{{"SET", tokenKey, "precious"}},
			call: acquire{fenced: true, ttl: "60000"}, fails: "not an integer", twice: true,
			after: map[string]redistest.Value{tokenKey: token("precious")},
		},
		"a token of another type stays, and nothing is taken": {
			seed: [][]string{{"RPUSH", tokenKey, "precious"}},
			call: acquire{fenced: true}, fails: "WRONGTYPE",
			after: map[string]redistest.Value{tokenKey: {Type: "list", Content: []string{"precious"}}},
		},
	})
	runSteps(t, map[string]step{
		"lowers the count": {
			seed: seed("a:1", "3"),
			call: release{target: 2}, reply: int64(1),
			after: map[string]redistest.Value{lockKey: hash("a:1", "2")}, ttl: about(10),
		},
		"frees and publishes": {
			seed: seed("a:1", "3"),
			call: release{}, reply: int64(3), after: free, messages: released,
		},
		"frees and publishes without more arguments": {
			seed: seed("a:1", "3"),
			call: release{short: true}, reply: int64(3), after: free, messages: released,
		},
		"finds nothing, and publishes nothing": {
			call: release{}, reply: int64(0), after: free,
		},
		"lowers the count without memory": {
			seed: seed("a:1", "3"), full: true,
			call: release{target: 2}, reply: int64(1),
			after: map[string]redistest.Value{lockKey: hash("a:1", "2")},
		},
		"leaves another owner's": {
			seed: seed("b:1", "1"),
			call: release{}, reply: int64(0),
			after: map[string]redistest.Value{lockKey: hash("b:1", "1")},
		},
	})
	runSteps(t, map[string]step{
		"decides for each name by itself": {
			seed: append(append(seed("a:1", "2"), []string{"SET", "bad", "string"}),
				[]string{"HSET", "other", "b:1", "1"}, []string{"PEXPIRE", "other", "10000"},
				[]string{"HSET", "long", "a:4", "1"}, []string{"PEXPIRE", "long", "90000"}),
			call: renew{
				by: "lock_renew", keys: []string{lockKey, "bad", "other", "none", "long"},
				owners: []string{"a:1", "a:2", "a:3", "a:5", "a:4"},
			},
			reply: []any{
				now{},
				int64(1), "WRONGTYPE Operation against a key holding the wrong kind of value", int64(0),
				int64(0), lastsFor(90000),
			},
			after: map[string]redistest.Value{
				lockKey: hash("a:1", "2"), "bad": token("string"), "other": hash("b:1", "1"), "long": hash("a:4", "1"),
			},
			ttl: about(30),
		},
	})
	runSteps(t, map[string]step{
		"a look leaves a lock without an end alone": {
			seed:  with(seed("a:1", "1"), persisted),
			call:  renew{by: "lock_renew", keys: []string{lockKey}, owners: []string{"a:1"}, lease: "1"},
			reply: []any{now{}, int64(1)}, after: map[string]redistest.Value{lockKey: endless("a:1", "1")},
		},
	})
	runSteps(t, map[string]step{
		"to what the longest hold needs": {
			seed: seed("a:1", "2"), call: trim{by: "lock_trim", most: "2000"}, reply: now{},
			after: map[string]redistest.Value{lockKey: hash("a:1", "2")}, ttl: about(2),
		},
		"never extends": {
			seed: seed("a:1", "2"), call: trim{by: "lock_trim", most: "60000"}, reply: now{},
			after: map[string]redistest.Value{lockKey: hash("a:1", "2")}, ttl: about(10),
		},
		"not another's": {
			seed: seed("b:1", "2"), call: trim{by: "lock_trim", most: "2000"}, reply: head(0),
			after: map[string]redistest.Value{lockKey: hash("b:1", "2")}, ttl: about(10),
		},
		"too late": {
			seed: seed("a:1", "2"), call: trim{by: "lock_trim", most: "2000", late: true}, reply: head(-2),
			after: map[string]redistest.Value{lockKey: hash("a:1", "2")}, ttl: about(10),
		},
		"before it was sent": {
			seed: seed("a:1", "2"), call: trim{by: "lock_trim", most: "2000", early: true}, reply: head(-2),
			after: map[string]redistest.Value{lockKey: hash("a:1", "2")}, ttl: about(10),
		},
		"the first in the line looks again": {
			seed: with(seed("a:1", "2"), inLine(second, third)), call: trim{by: "lock_trim", most: "2000", lined: true},
			reply: now{}, after: locked("a:1", "2", line(second, third)), ttl: about(2),
			messages: []redistest.Message{told("b", "first")},
		},
		"a lease of no time": {
			call: trim{by: "lock_trim", most: "0"}, fails: "lease must be", after: free,
		},
		"a key of another type stays": {
			seed: [][]string{{"SET", lockKey, "precious"}}, call: trim{by: "lock_trim", most: "2000"},
			fails: "WRONGTYPE", after: map[string]redistest.Value{lockKey: token("precious")},
		},
	})
	runSteps(t, map[string]step{
		"frees and publishes": {
			seed: seed("b:1", "3"),
			call: force{}, reply: now{}, after: free, messages: released,
		},
		"finds nothing": {call: force{}, reply: head(0), after: free},
		"too late, it frees nobody's": {
			seed: seed("b:1", "3"),
			call: force{late: true}, reply: head(-2),
			after: map[string]redistest.Value{lockKey: hash("b:1", "3")},
		},
		"a key of another type stays": {
			seed: [][]string{{"SET", lockKey, "precious"}},
			call: force{}, fails: "WRONGTYPE",
			after: map[string]redistest.Value{lockKey: token("precious")},
		},
	})
	runSteps(t, map[string]step{
		"no token": {call: look("rlock_token", tokenKey), reply: []any{int64(0)}, after: free},
		"the last one": {
			seed: [][]string{{"SET", tokenKey, "7"}}, call: look("rlock_token", tokenKey), reply: []any{"7"},
			after: map[string]redistest.Value{tokenKey: token("7")},
		},
		"a key of another type": {
			seed: [][]string{{"RPUSH", tokenKey, "precious"}}, call: look("rlock_token", tokenKey), fails: "WRONGTYPE",
			after: map[string]redistest.Value{tokenKey: {Type: "list", Content: []string{"precious"}}},
		},
	})
	runSteps(t, map[string]step{
		"nobody": {call: look("lock_holders", lockKey), reply: []any{}, after: free},
		"no expiry": {
			seed: [][]string{{"HSET", lockKey, "b:1", "2"}}, call: look("lock_holders", lockKey),
			reply: []any{"b:1", int64(2), int64(-1)},
			after: map[string]redistest.Value{lockKey: {Type: "hash", Content: map[string]string{"b:1": "2"}}},
		},
	})
}

// The scripts themselves refuse a lease that is not a whole number of ms within bounds.
func TestScriptsRefuseBadLeases(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	bad := []string{"0", "-1", "0.5", "1.5", "9007199254740992", "1e300", "inf", "nan", "", "abc", "0x10p3"}
	for _, lease := range bad {
		for _, c := range []caller{
			acquire{}, acquireSet{}, renew{by: "lock_renew", keys: []string{lockKey}, owners: []string{me}},
		} {
			_, err := srv.Try(withLease(c, lease)...)
			assert.ErrorContains(t, err, "lease must be", "%q", lease)
		}
	}
	assert.Empty(t, srv.Keyspace(t))
	_, err := srv.Try(eval(acquire{lease: "9007199254740991"})...)
	assert.NoError(t, err)
}

// withLease is a call with another lease than the usual one, possibly a value that is no string.
func withLease(c caller, lease string) []string {
	command := eval(c)
	command[slices.Index(command, halfAMin)] = lease
	return command
}

func FuzzALeaseIsRefusedOrTaken(f *testing.F) {
	for _, seed := range []string{"1", "0", "-1", "1.5", "9007199254740992", "0x10", "1e3", " 5 ", "5\n"} {
		f.Add(seed)
	}
	srv := redistest.Start(f)
	f.Fuzz(func(t *testing.T, lease string) {
		_, err := srv.Try(withLease(acquire{}, lease)...)
		left, _ := srv.Try("PTTL", lockKey)
		_, _ = srv.Try("DEL", lockKey)
		switch {
		case err != nil && left != int64(-2):
			t.Errorf("lease %q: %v, and a key with PTTL %v", lease, err, left)
		case err == nil && left == int64(-1):
			t.Errorf("lease %q: taken without an expiry", lease)
		}
	})
}
