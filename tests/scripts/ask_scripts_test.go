package scripts

import (
	"testing"

	"github.com/holdfast-go/holdfast/tests/redistest"
)

func TestAskScripts(t *testing.T) {
	t.Parallel()
	const note = "holdfast_asked:{" + lockKey + "}"
	ask := call{"lock_ask", []string{lockKey, note}, []string{"PUBLISH", note}}
	asked := func(holder string) call { return call{"lock_asked", []string{note}, []string{holder}} }
	told := []redistest.Message{{Channel: note}}
	after := func(lock redistest.Value, holders ...string) map[string]redistest.Value {
		pairs := []string{}
		for _, h := range holders {
			pairs = append(pairs, h, "5000007")
		}
		return map[string]redistest.Value{lockKey: lock, note: hash(pairs...)}
	}
	token := redistest.Value{Type: "string", Content: "token", Expires: true}
	const time = "t = 5000007"
	runSteps(t, map[string]step{
		"nobody has it": {call: ask, reply: int64(0), after: keyspace(nil)},
		"one holds it": {
			seed: rwSeed(10, "a:1", "2"), call: ask, dice: time, reply: int64(1), messages: told,
			after: after(hash("a:1", "2"), "a:1"), ttls: map[string]int{note: 60},
			inside: map[string]int64{"hkeys": 1, "hset": 1, "pexpire": 1, "publish": 1, "time": 1},
		},
		"a writer": {
			seed: rwSeed(10, "mode", "write", "a:1:write", "1"), call: ask, dice: time, reply: int64(1), messages: told,
			after: after(hash("mode", "write", "a:1:write", "1"), "a:1"),
		},
		"a writer that reads": {
			seed: rwSeed(10, "mode", "write", "a:1:write", "1", "a:1", "1"), call: ask, dice: time, reply: int64(1),
			messages: told, after: after(hash("mode", "write", "a:1:write", "1", "a:1", "1"), "a:1"),
		},
		"readers": {
			seed: rwSeed(10, "mode", "read", "a:1", "1", "b:1", "2"), call: ask, dice: time, reply: int64(2), messages: told,
			after: after(hash("mode", "read", "a:1", "1", "b:1", "2"), "a:1", "b:1"),
		},
		"a token": {
			seed: [][]string{{"SET", lockKey, "token", "EX", "10"}}, call: ask, dice: time, reply: int64(1), messages: told,
			after: after(token, "token"),
		},
		"something else": {
			seed: [][]string{{"RPUSH", lockKey, "x"}}, call: ask, fails: "WRONGTYPE",
			after: map[string]redistest.Value{lockKey: {Type: "list", Content: []string{"x"}}},
		},
		"asked": {
			seed: [][]string{{"HSET", note, "a:1", "5000000"}, {"EXPIRE", note, "60"}}, call: asked("a:1"), dice: time,
			reply: int64(7), after: map[string]redistest.Value{note: hash("a:1", "5000000")},
		},
		"asked before the clock was set back": {
			seed: [][]string{{"HSET", note, "a:1", "6000000"}, {"EXPIRE", note, "60"}}, call: asked("a:1"), dice: time,
			reply: int64(0), after: map[string]redistest.Value{note: hash("a:1", "6000000")},
		},
		"not asked": {call: asked("a:1"), reply: int64(-1), after: keyspace(nil)},
	})
}
