package scripts

import (
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/tests/redistest"
)

type guardCommands struct {
	as       string   // how the lock has its owners
	commands []string // words with blanks between
}

func (g guardCommands) call() call {
	args := []string{g.as, me}
	for _, command := range g.commands {
		words := strings.Fields(command)
		args = append(append(args, strconv.Itoa(len(words))), words...)
	}
	return call{"guard_commands", []string{lockKey}, args}
}

func TestGuardScripts(t *testing.T) {
	t.Parallel()
	n := token("1")
	by := func(as string) guardCommands { return guardCommands{as, []string{"INCR n"}} }
	with := func(lock redistest.Value, n ...redistest.Value) map[string]redistest.Value {
		space := map[string]redistest.Value{lockKey: lock}
		for _, v := range n {
			space["n"] = v
		}
		return space
	}
	permit := func(score float64) redistest.Value {
		return redistest.Value{Type: "zset", Content: map[string]float64{me: score}}
	}
	done, denied := []any{int64(1)}, int64(0)
	runSteps(t, map[string]step{
		"of a hash": {
			seed: seed(me, "2"),
			call: by("field"), reply: done, after: with(hash(me, "2"), n),
		},
		"another's hash": {
			seed: seed("b:1", "1"),
			call: by("field"), reply: denied, after: with(hash("b:1", "1")),
		},
		"a lock that nobody has": {call: by("field"), reply: denied, after: map[string]redistest.Value{}},
		"a string nobody has": {
			call: by("string"), reply: denied, after: map[string]redistest.Value{},
		},
		"a permit nobody has": {
			call: by("permit"), reply: denied, after: map[string]redistest.Value{},
		},
		"of a string": {
			seed: [][]string{{"SET", "x", me}},
			call: by("string"), reply: done, after: with(token(me), n),
		},
		"another's string": {
			seed: [][]string{{"SET", "x", "b"}},
			call: by("string"), reply: denied, after: with(token("b")),
		},
		"of a permit": {
			seed: [][]string{{"ZADD", "x", soon, me}},
			call: by("permit"), reply: done, after: with(permit(99999999999999), n),
		},
		"a permit that is over": {
			seed: [][]string{{"ZADD", "x", past, me}},
			call: by("permit"), reply: denied, after: with(permit(1)),
		},
		"a key of another type": {
			seed: [][]string{{"SET", "x", me}},
			call: by("field"), fails: "WRONGTYPE", after: with(token(me)),
		},
		"no commands": {
			seed: seed(me, "1"),
			call: guardCommands{as: "field"}, reply: []any{}, after: with(hash(me, "1")),
		},
	})
}
