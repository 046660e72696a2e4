package scripts

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// Each script by itself: the keyspace before, the call, the reply, the keyspace after, and
// what was published.

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

type step struct {
	seed     [][]string // commands
	keys     []string
	args     []string
	reply    any
	fails    string // instead of reply: the error has this in it
	after    map[string]redistest.Value
	ttl      [2]time.Duration // of the lock afterwards, at least and at most; zero: not looked at
	ttls     map[string]int   // of other keys afterwards, in seconds, of which one may have passed
	due      map[string]int   // members of zsets afterwards, not in after, whose scores are so many ms from the call on
	messages []redistest.Message
}

func TestScripts(t *testing.T) {
	t.Parallel()
	free := map[string]redistest.Value{}
	released := []redistest.Message{{Channel: channel, Payload: "0"}}

	for script, steps := range map[string]map[string]step{
		"rlock_acquire": {
			"takes a free lock": {
				keys: []string{lockKey}, args: []string{"a:1", "1", "30000", soon}, reply: []any{int64(1), now{}, int64(0)},
				after: map[string]redistest.Value{lockKey: hash("a:1", "1")}, ttl: [2]time.Duration{29 * time.Second, 30 * time.Second},
			},
			"issues a token": {
				seed: [][]string{{"SET", tokenKey, "7"}},
				keys: []string{lockKey, tokenKey}, args: []string{"a:1", "1", "30000", soon}, reply: []any{int64(1), now{}, int64(8)},
				after: map[string]redistest.Value{lockKey: hash("a:1", "1"), tokenKey: token("8")},
			},
			"a copy changes no count, and finds its token": {
				seed: append(seed("a:1", "1"), []string{"SET", tokenKey, "7"}),
				keys: []string{lockKey, tokenKey}, args: []string{"a:1", "1", "30000", soon}, reply: []any{int64(1), now{}, int64(7)},
				after: map[string]redistest.Value{lockKey: hash("a:1", "1"), tokenKey: token("7")},
			},
			"a copy of the first lowers no count": {
				seed: seed("a:1", "3"),
				keys: []string{lockKey}, args: []string{"a:1", "1", "1000", soon}, reply: []any{int64(1), now{}, int64(0)},
				after: map[string]redistest.Value{lockKey: hash("a:1", "3")}, ttl: [2]time.Duration{9 * time.Second, 10 * time.Second},
			},
			"raises the count and the expiry": {
				seed: seed("a:1", "1"),
				keys: []string{lockKey}, args: []string{"a:1", "2", "30000", soon}, reply: []any{int64(1), now{}, int64(0)},
				after: map[string]redistest.Value{lockKey: hash("a:1", "2")}, ttl: [2]time.Duration{29 * time.Second, 30 * time.Second},
			},
			"never shortens the expiry": {
				seed: seed("a:1", "1"),
				keys: []string{lockKey}, args: []string{"a:1", "2", "1", soon}, reply: []any{int64(1), now{}, int64(0)},
				after: map[string]redistest.Value{lockKey: hash("a:1", "2")}, ttl: [2]time.Duration{9 * time.Second, 10 * time.Second},
			},
			"a re-entry that is the first to want a token gets one": {
				seed: seed("a:1", "1"),
				keys: []string{lockKey, tokenKey}, args: []string{"a:1", "2", "30000", soon}, reply: []any{int64(1), now{}, int64(1)},
				after: map[string]redistest.Value{lockKey: hash("a:1", "2"), tokenKey: token("1")},
			},
			"leaves another owner's lock, and the token": {
				seed: append(seed("b:1", "1"), []string{"SET", tokenKey, "7"}),
				keys: []string{lockKey, tokenKey}, args: []string{"a:1", "1", "30000", soon}, reply: "busy",
				after: map[string]redistest.Value{lockKey: hash("b:1", "1"), tokenKey: token("7")},
			},
			"says when a lock has no expiry": {
				seed: [][]string{{"HSET", lockKey, "b:1", "1"}},
				keys: []string{lockKey}, args: []string{"a:1", "1", "30000", soon}, reply: []any{int64(0), now{}, int64(-1)},
				after: map[string]redistest.Value{lockKey: {Type: "hash", Content: map[string]string{"b:1": "1"}}},
			},
			"a re-entry never creates": {
				keys: []string{lockKey}, args: []string{"a:1", "2", "30000", soon}, reply: []any{int64(-1), now{}}, after: free,
			},
			"a re-entry never takes another owner's": {
				seed: seed("b:1", "1"),
				keys: []string{lockKey}, args: []string{"a:1", "2", "30000", soon}, reply: []any{int64(-1), now{}},
				after: map[string]redistest.Value{lockKey: hash("b:1", "1")},
			},
			"too late, it creates nothing": {
				keys: []string{lockKey, tokenKey}, args: []string{"a:1", "1", "30000", past}, reply: []any{int64(-2), now{}}, after: free,
			},
			"too late, it raises and extends nothing": {
				seed: seed("a:1", "1"),
				keys: []string{lockKey}, args: []string{"a:1", "2", "30000", past}, reply: []any{int64(-2), now{}},
				after: map[string]redistest.Value{lockKey: hash("a:1", "1")}, ttl: [2]time.Duration{9 * time.Second, 10 * time.Second},
			},
			"a key of another type stays": {
				seed: [][]string{{"SET", lockKey, "precious"}},
				keys: []string{lockKey, tokenKey}, args: []string{"a:1", "1", "30000", soon}, fails: "WRONGTYPE",
				after: map[string]redistest.Value{lockKey: token("precious")},
			},
			"a token of another type stays, and nothing is taken": {
				seed: [][]string{{"RPUSH", tokenKey, "precious"}},
				keys: []string{lockKey, tokenKey}, args: []string{"a:1", "1", "30000", soon}, fails: "WRONGTYPE",
				after: map[string]redistest.Value{tokenKey: {Type: "list", Content: []string{"precious"}}},
			},
		},
		"rlock_release": {
			"lowers the count": {
				seed: seed("a:1", "3"),
				keys: []string{lockKey}, args: []string{"a:1", "2", "PUBLISH", channel}, reply: int64(1),
				after: map[string]redistest.Value{lockKey: hash("a:1", "2")}, ttl: [2]time.Duration{9 * time.Second, 10 * time.Second},
			},
			"frees and tells": {
				seed: seed("a:1", "3"),
				keys: []string{lockKey}, args: []string{"a:1", "0", "PUBLISH", channel}, reply: int64(3), after: free, messages: released,
			},
			"finds nothing, and tells nobody": {
				keys: []string{lockKey}, args: []string{"a:1", "0", "PUBLISH", channel}, reply: int64(0), after: free,
			},
			"leaves another owner's": {
				seed: seed("b:1", "1"),
				keys: []string{lockKey}, args: []string{"a:1", "0", "PUBLISH", channel}, reply: int64(0),
				after: map[string]redistest.Value{lockKey: hash("b:1", "1")},
			},
		},
		"lock_renew": {
			"decides for each name by itself": {
				seed: append(append(seed("a:1", "2"), []string{"SET", "bad", "string"}),
					[]string{"HSET", "other", "b:1", "1"}, []string{"PEXPIRE", "other", "10000"},
					[]string{"HSET", "long", "a:4", "1"}, []string{"PEXPIRE", "long", "90000"}),
				keys: []string{lockKey, "bad", "other", "none", "long"},
				args: []string{"30000", "a:1", "a:2", "a:3", "a:5", "a:4"},
				reply: []any{
					now{}, int64(1), "WRONGTYPE Operation against a key holding the wrong kind of value", int64(0), int64(0), lastsFor(90000),
				},
				after: map[string]redistest.Value{
					lockKey: hash("a:1", "2"), "bad": token("string"), "other": hash("b:1", "1"), "long": hash("a:4", "1"),
				},
				ttl: [2]time.Duration{29 * time.Second, 30 * time.Second},
			},
		},
		"lock_trim": {
			"to what the longest hold needs": {
				seed: seed("a:1", "2"), keys: []string{lockKey}, args: []string{"a:1", "2000", past, soon}, reply: []any{int64(1), now{}},
				after: map[string]redistest.Value{lockKey: hash("a:1", "2")}, ttl: [2]time.Duration{time.Second, 2 * time.Second},
			},
			"never extends": {
				seed: seed("a:1", "2"), keys: []string{lockKey}, args: []string{"a:1", "60000", past, soon}, reply: []any{int64(1), now{}},
				after: map[string]redistest.Value{lockKey: hash("a:1", "2")}, ttl: [2]time.Duration{9 * time.Second, 10 * time.Second},
			},
			"not another's": {
				seed: seed("b:1", "2"), keys: []string{lockKey}, args: []string{"a:1", "2000", past, soon}, reply: []any{int64(0), now{}},
				after: map[string]redistest.Value{lockKey: hash("b:1", "2")}, ttl: [2]time.Duration{9 * time.Second, 10 * time.Second},
			},
			"too late": {
				seed: seed("a:1", "2"), keys: []string{lockKey}, args: []string{"a:1", "2000", past, past}, reply: []any{int64(-2), now{}},
				after: map[string]redistest.Value{lockKey: hash("a:1", "2")}, ttl: [2]time.Duration{9 * time.Second, 10 * time.Second},
			},
			"before it was sent": {
				seed: seed("a:1", "2"), keys: []string{lockKey}, args: []string{"a:1", "2000", soon, soon}, reply: []any{int64(-2), now{}},
				after: map[string]redistest.Value{lockKey: hash("a:1", "2")}, ttl: [2]time.Duration{9 * time.Second, 10 * time.Second},
			},
			"a lease of no time": {
				keys: []string{lockKey}, args: []string{"a:1", "0", past, soon}, fails: "lease must be", after: free,
			},
			"a key of another type stays": {
				seed: [][]string{{"SET", lockKey, "precious"}}, keys: []string{lockKey}, args: []string{"a:1", "2000", past, soon},
				fails: "WRONGTYPE", after: map[string]redistest.Value{lockKey: token("precious")},
			},
		},
		"rlock_force": {
			"frees and tells": {
				seed: seed("b:1", "3"),
				keys: []string{lockKey}, args: []string{"PUBLISH", channel, soon}, reply: []any{int64(1), now{}}, after: free, messages: released,
			},
			"finds nothing": {keys: []string{lockKey}, args: []string{"PUBLISH", channel, soon}, reply: []any{int64(0), now{}}, after: free},
			"too late, it frees nobody's": {
				seed: seed("b:1", "3"),
				keys: []string{lockKey}, args: []string{"PUBLISH", channel, past}, reply: []any{int64(-2), now{}},
				after: map[string]redistest.Value{lockKey: hash("b:1", "3")},
			},
			"a key of another type stays": {
				seed: [][]string{{"SET", lockKey, "precious"}},
				keys: []string{lockKey}, args: []string{"PUBLISH", channel, soon}, fails: "WRONGTYPE",
				after: map[string]redistest.Value{lockKey: token("precious")},
			},
		},
		"lock_holders": {
			"nobody":    {keys: []string{lockKey}, reply: []any{}, after: free},
			"no expiry": {seed: [][]string{{"HSET", lockKey, "b:1", "2"}}, keys: []string{lockKey}, reply: []any{"b:1", int64(2), int64(-1)}, after: map[string]redistest.Value{lockKey: {Type: "hash", Content: map[string]string{"b:1": "2"}}}},
		},
	} {
		runSteps(t, script, steps)
	}
}

func runSteps(t *testing.T, script string, steps map[string]step) {
	for name, s := range steps {
		t.Run(script+"/"+name, func(t *testing.T) {
			t.Parallel()
			s.run(t, script)
		})
	}
}

func (s step) run(t *testing.T, script string) {
	srv := redistest.Start(t)
	s.prepare(t, srv)
	messages := srv.Messages(t, "*")
	srv.ResetStats(t)
	began := time.Now().UnixMilli()
	reply, err := srv.Try(s.call(script)...)
	inside := srv.CommandStats(t)
	switch {
	case s.fails != "":
		require.ErrorContains(t, err, s.fails)
	case s.reply == "busy":
		require.NoError(t, err)
		values := withNow(reply, began).([]any)
		require.GreaterOrEqual(t, len(values), 3)
		assert.Equal(t, []any{int64(0), now{}}, values[:2])
		assert.InDelta(t, 9900, values[2], 1000)
	default:
		require.NoError(t, err)
		assert.Equal(t, s.reply, withNow(s.withLasts(reply), began))
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
		s.runWithout(t, srv, script, command)
	}
}

// prepare makes the keyspace that the call finds.
func (s step) prepare(t *testing.T, srv *redistest.Server) {
	for _, command := range s.seed {
		srv.Do(t, command...)
	}
}

func (s step) call(script string) []string {
	return slices.Concat([]string{"EVAL", lua.Source(script), strconv.Itoa(len(s.keys))}, s.keys, s.args)
}

// takeDue takes a member out of the one zset that has it, with a score that was so many ms when the script was called.
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

// lastsFor is an answer to a renewal: the lease was longer already, so many ms, of which a second may have passed.
type lastsFor int64

// withLasts puts lastsFor where it is expected, and a reply has it.
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

// A lease that is no whole number of ms within bounds is refused by the scripts themselves.
func TestScriptsRefuseBadLeases(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	bad := []string{"0", "-1", "0.5", "1.5", "9007199254740992", "1e300", "inf", "nan", "", "abc", "0x10p3"}
	for _, lease := range bad {
		_, err := srv.Try("EVAL", lua.Source("rlock_acquire"), "1", lockKey, "a:1", "1", lease, "99999999999999")
		assert.ErrorContains(t, err, "lease must be", "%q", lease)
		_, err = srv.Try("EVAL", lua.Source("lock_renew"), "1", lockKey, lease, "a:1")
		assert.ErrorContains(t, err, "lease must be", "%q", lease)
	}
	assert.Empty(t, srv.Keyspace(t))
	_, err := srv.Try("EVAL", lua.Source("rlock_acquire"), "1", lockKey, "a:1", "1", "9007199254740991", "99999999999999")
	assert.NoError(t, err)
}

func FuzzALeaseIsRefusedOrTaken(f *testing.F) {
	for _, seed := range []string{"1", "0", "-1", "1.5", "9007199254740992", "0x10", "1e3", " 5 ", "5\n"} {
		f.Add(seed)
	}
	srv := redistest.Start(f)
	f.Fuzz(func(t *testing.T, lease string) {
		_, err := srv.Try("EVAL", lua.Source("rlock_acquire"), "1", lockKey, "a:1", "1", lease, "99999999999999")
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
