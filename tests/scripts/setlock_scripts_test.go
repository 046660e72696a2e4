package scripts

import (
	"testing"

	"github.com/holdfast-go/holdfast/tests/redistest"
)

const setChannel = "holdfast_setlock:{x}"

func TestSetlockScripts(t *testing.T) {
	t.Parallel()
	held := func(token string) map[string]redistest.Value {
		return map[string]redistest.Value{"x": {Type: "string", Content: token, Expires: true}}
	}
	seeded := func(token string) [][]string { return [][]string{{"SET", "x", token, "PX", "10000"}} }
	endless := [][]string{{"SET", "x", "a"}}
	none := map[string]redistest.Value{}
	list := [][]string{{"RPUSH", "x", "y"}}
	untouched := map[string]redistest.Value{"x": {Type: "list", Content: []string{"y"}}}
	said := []redistest.Message{{Channel: setChannel, Payload: "0"}}
	got := now{}
	runSteps(t, map[string]step{
		"takes a free lock": {
			call: acquireSet{}, reply: got, after: held("a"), ttl: about(30),
		},
		"takes one by a short call": {
			call: acquireSet{short: true}, reply: got, after: held("a"), ttl: about(30),
		},
		"leaves another's": {
			seed: seeded("b"), call: acquireSet{}, reply: busy, after: held("b"), ttl: about(10),
		},
		"leaves one without an end": {
			seed: endless, call: acquireSet{token: "b", again: true}, reply: unasked(0, -1),
			after: map[string]redistest.Value{"x": {Type: "string", Content: "a"}},
		},
		"leaves one of a token that is used again": {
			seed: seeded("a"), call: acquireSet{}, reply: busy, after: held("a"), ttl: about(10),
		},
		"a copy finds its lock, and extends it": {
			seed: seeded("a"), call: acquireSet{again: true}, reply: got, after: held("a"), ttl: about(30),
		},
		"a copy never shortens": {
			seed: seeded("a"), call: acquireSet{lease: "1000", again: true}, reply: got, after: held("a"),
			ttl: about(10),
		},
		"a copy takes a free lock": {
			call: acquireSet{again: true}, reply: got, after: held("a"), ttl: about(30),
		},
		"too late, it takes nothing": {call: acquireSet{late: true}, reply: head(-2), after: none},
		"too late, it extends nothing": {
			seed: seeded("a"), call: acquireSet{late: true, again: true}, reply: head(-2), after: held("a"),
			ttl: about(10),
		},
		"a lease must be one": {
			call: acquireSet{lease: "0"}, fails: "lease must be", after: none,
		},
		"a key of another type stays": {
			seed: list, call: acquireSet{}, fails: "WRONGTYPE", after: untouched,
		},
	})
	runSteps(t, map[string]step{
		"frees and publishes": {
			seed: seeded("a"), call: releaseSet{}, reply: int64(3), after: none, messages: said,
		},
		"frees by a short call": {
			seed: seeded("a"), call: releaseSet{short: true}, reply: int64(3), after: none, messages: said,
		},
		"leaves another's": {seed: seeded("b"), call: releaseSet{}, reply: int64(0), after: held("b")},
		"nothing there":    {call: releaseSet{}, reply: int64(0), after: none},
		"a message that is refused": {
			seed: seeded("a"), call: releaseSet{publish: "NOSUCH"}, fails: "command called from", after: held("a"),
		},
		"a key of another type stays": {seed: list, call: releaseSet{}, fails: "WRONGTYPE", after: untouched},
	})
	runSteps(t, map[string]step{
		"each for itself": {
			seed:  seeded("a"),
			call:  renew{by: "setlock_renew", keys: []string{"x", "y", "x"}, owners: []string{"a", "a", "b"}},
			reply: []any{now{}, int64(1), int64(0), int64(0)}, after: held("a"), ttl: about(30),
		},
		"never shortens": {
			seed:  seeded("a"),
			call:  renew{by: "setlock_renew", keys: []string{"x"}, owners: []string{"a"}, lease: "1000"},
			reply: []any{now{}, lastsFor(10000)}, after: held("a"), ttl: about(10),
		},
		"gives an end": {
			seed: endless, call: renew{by: "setlock_renew", keys: []string{"x"}, owners: []string{"a"}},
			reply: []any{now{}, int64(1)}, after: held("a"), ttl: about(30),
		},
		"a lease must be one": {
			call:  renew{by: "setlock_renew", keys: []string{"x"}, owners: []string{"a"}, lease: "0"},
			fails: "lease must be", after: none,
		},
		"a key of another type stays": {
			seed: list, call: renew{by: "setlock_renew", keys: []string{"x"}, owners: []string{"a"}},
			reply: []any{now{}, "WRONGTYPE Operation against a key holding the wrong kind of value"},
			after: untouched,
		},
	})
	runSteps(t, map[string]step{
		"nobody": {call: look("setlock_holders", "x"), reply: []any{}, after: none},
		"without an end": {
			seed: endless, call: look("setlock_holders", "x"), reply: []any{"a", int64(1), int64(-1)},
			after: map[string]redistest.Value{"x": {Type: "string", Content: "a"}},
		},
		"a key of another type stays": {
			seed: list, call: look("setlock_holders", "x"), fails: "WRONGTYPE", after: untouched,
		},
	})
	runSteps(t, map[string]step{
		"frees and publishes": {
			seed: seeded("b"), call: forceSet{}, reply: now{}, after: none, messages: said,
		},
		"nobody": {call: forceSet{}, reply: head(0), after: none},
		"too late": {
			seed: seeded("b"), call: forceSet{late: true}, reply: head(-2), after: held("b"),
		},
		"a key of another type stays": {
			seed: list, call: forceSet{}, fails: "WRONGTYPE", after: untouched,
		},
	})
}
