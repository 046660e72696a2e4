package scripts

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lua"
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

// seed stores one lock for 10 s.
func seed(fields ...string) [][]string {
	return [][]string{append([]string{"HSET", lockKey}, fields...), {"PEXPIRE", lockKey, "10000"}}
}

// now in a wanted reply stands for the server's time in ms.
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

type step struct {
	seed     [][]string // commands
	call     caller
	reply    any
	fails    string // instead of reply: the error contains this
	after    map[string]redistest.Value
	ttl      [2]time.Duration // of the lock afterwards, at least and at most; zero: not checked
	ttls     map[string]int   // of other keys afterwards, in seconds; one second may have passed
	due      map[string]int   // zset members afterwards that after leaves out: their scores, in ms from the call on
	messages []redistest.Message
}

func TestScripts(t *testing.T) {
	t.Parallel()
	free := map[string]redistest.Value{}
	released := []redistest.Message{{Channel: channel, Payload: "0"}}

	runSteps(t, map[string]step{
		"takes a free lock": {
			call: acquire{}, reply: head(1, 0),
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
			call: acquire{lease: "1000"}, reply: head(1, 0),
			after: map[string]redistest.Value{lockKey: hash("a:1", "3")}, ttl: about(10),
		},
		"raises the count and the expiry": {
			seed: seed("a:1", "1"),
			call: acquire{target: 2}, reply: head(1, 0),
			after: map[string]redistest.Value{lockKey: hash("a:1", "2")}, ttl: about(30),
		},
		"never shortens the expiry": {
			seed: seed("a:1", "1"),
			call: acquire{target: 2, lease: "1"}, reply: head(1, 0),
			after: map[string]redistest.Value{lockKey: hash("a:1", "2")}, ttl: about(10),
		},
		"a re-entry that is the first to want a token gets one": {
			seed: seed("a:1", "1"),
			call: acquire{target: 2, fenced: true}, reply: head(1, 1),
			after: map[string]redistest.Value{lockKey: hash("a:1", "2"), tokenKey: token("1")},
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
		"finds nothing, and publishes nothing": {
			call: release{}, reply: int64(0), after: free,
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
		"to what the longest hold needs": {
			seed: seed("a:1", "2"), call: trim{by: "lock_trim", most: "2000"}, reply: head(1),
			after: map[string]redistest.Value{lockKey: hash("a:1", "2")}, ttl: about(2),
		},
		"never extends": {
			seed: seed("a:1", "2"), call: trim{by: "lock_trim", most: "60000"}, reply: head(1),
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
			call: force{by: "rlock_force"}, reply: head(1), after: free, messages: released,
		},
		"finds nothing": {call: force{by: "rlock_force"}, reply: head(0), after: free},
		"too late, it frees nobody's": {
			seed: seed("b:1", "3"),
			call: force{by: "rlock_force", late: true}, reply: head(-2),
			after: map[string]redistest.Value{lockKey: hash("b:1", "3")},
		},
		"a key of another type stays": {
			seed: [][]string{{"SET", lockKey, "precious"}},
			call: force{by: "rlock_force"}, fails: "WRONGTYPE",
			after: map[string]redistest.Value{lockKey: token("precious")},
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

func runSteps(t *testing.T, steps map[string]step) {
	for name, s := range steps {
		t.Run(s.call.call().script+"/"+name, func(t *testing.T) {
			t.Parallel()
			s.run(t)
		})
	}
}

func (s step) run(t *testing.T) {
	srv := redistest.Start(t)
	s.prepare(t, srv)
	messages := srv.Messages(t, "*")
	srv.ResetStats(t)
	began := time.Now().UnixMilli()
	reply, err := srv.Try(eval(s.call)...)
	inside := srv.CommandStats(t)
	switch {
	case s.fails != "":
		require.ErrorContains(t, err, s.fails)
	default:
		require.NoError(t, err)
		assert.Equal(t, s.reply, withNow(s.withLasts(reply), began))
		s.assertAsked(t, inside["time"])
	}
	after := srv.Keyspace(t)
	for member, ms := range s.due {
		takeDue(t, after, member, began+int64(ms))
	}
	assert.Equal(t, s.after, after)
	assert.Equal(t, s.messages, messages.Drain(t))
	if s.ttl[1] > 0 {
		left := srv.TTLs(t)[lockKey]
		assert.GreaterOrEqual(t, left, s.ttl[0])
		assert.LessOrEqual(t, left, s.ttl[1])
	}
	for key, seconds := range s.ttls {
		most := time.Duration(seconds) * time.Second
		left := srv.TTLs(t)[key]
		assert.GreaterOrEqual(t, left, most-time.Second, key)
		assert.LessOrEqual(t, left, most, key)
	}
	delete(inside, "eval")
	for command := range inside {
		s.runWithout(t, srv, command)
	}
}

// assertAsked asserts that a call with a not-after asks for the time only if it replies the time, and then once.
func (s step) assertAsked(t *testing.T, times int64) {
	if !strings.Contains(lua.Source(s.call.call().script), " not_after ") {
		return
	}
	var told int64
	if slices.Contains(s.reply.([]any), any(now{})) {
		told = 1
	}
	assert.Equal(t, told, times, "TIME")
}

// prepare stores the keyspace that the call finds.
func (s step) prepare(t *testing.T, srv *redistest.Server) {
	for _, command := range s.seed {
		srv.Do(t, command...)
	}
}

// takeDue removes a member from the one zset that has it, and checks that its score is within a second of score.
func takeDue(t *testing.T, space map[string]redistest.Value, member string, score int64) {
	for key, value := range space {
		scores, _ := value.Content.(map[string]float64)
		if got, ok := scores[member]; ok {
			assert.GreaterOrEqual(t, int64(got), score, member)
			assert.LessOrEqual(t, int64(got), score+1000, member)
			if delete(scores, member); len(scores) == 0 {
				delete(space, key)
			}
			return
		}
	}
	assert.Fail(t, "no member", member)
}

// lastsFor in a wanted reply to a renewal is a lease that was longer already, in ms; up to a second may have passed.
type lastsFor int64

// withLasts replaces the remaining time in a reply by the wanted lastsFor, if it fits.
func (s step) withLasts(reply any) any {
	want, _ := s.reply.([]any)
	got, _ := reply.([]any)
	for i := range min(len(want), len(got)) {
		ms, ok := want[i].(lastsFor)
		if n, is := got[i].(int64); ok && is && n <= int64(ms) && n > int64(ms)-1000 {
			got[i] = ms
		}
	}
	return reply
}

// withNow puts now{} where a reply has the server's time.
func withNow(reply any, began int64) any {
	values, ok := reply.([]any)
	if !ok {
		return reply
	}
	for i, v := range values {
		if n, ok := v.(int64); ok && n >= began && n <= time.Now().UnixMilli() {
			values[i] = now{}
		}
	}
	return values
}

// The scripts themselves refuse a lease that is not a whole number of ms within bounds.
func TestScriptsRefuseBadLeases(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	bad := []string{"0", "-1", "0.5", "1.5", "9007199254740992", "1e300", "inf", "nan", "", "abc", "0x10p3"}
	for _, lease := range bad {
		for _, c := range []caller{acquire{}, renew{by: "lock_renew", keys: []string{lockKey}, owners: []string{me}}} {
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
