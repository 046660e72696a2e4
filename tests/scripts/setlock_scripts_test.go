package scripts

import (
	"testing"

	"github.com/holdfast-go/holdfast/tests/redistest"
)

const setChannel = "holdfast_setlock:{x}"

func TestSetlockScripts(t *testing.T) {
	t.Parallel()
	keys := []string{"x"}
	held := func(token string) map[string]redistest.Value {
		return map[string]redistest.Value{"x": {Type: "string", Content: token, Expires: true}}
	}
	seeded := func(token string) [][]string { return [][]string{{"SET", "x", token, "PX", "10000"}} }
	endless := [][]string{{"SET", "x", "a"}}
	none := map[string]redistest.Value{}
	list := [][]string{{"RPUSH", "x", "y"}}
	untouched := map[string]redistest.Value{"x": {Type: "list", Content: []string{"y"}}}
	said := []redistest.Message{{Channel: setChannel, Payload: "0"}}
	got := []any{int64(1), now{}}
	for script, steps := range map[string]map[string]step{
		"setlock_acquire": {
			"takes a free lock":                        {keys: keys, args: []string{"a", "30000", soon, "first"}, reply: got, after: held("a"), ttl: about(30)},
			"leaves another's":                         {seed: seeded("b"), keys: keys, args: []string{"a", "30000", soon, "first"}, reply: "busy", after: held("b"), ttl: about(10)},
			"leaves one without an end":                {seed: endless, keys: keys, args: []string{"b", "30000", soon, "again"}, reply: []any{int64(0), now{}, int64(-1)}, after: map[string]redistest.Value{"x": {Type: "string", Content: "a"}}},
			"leaves one of a token that is used again": {seed: seeded("a"), keys: keys, args: []string{"a", "30000", soon, "first"}, reply: "busy", after: held("a"), ttl: about(10)},
			"a copy finds its lock, and extends it":    {seed: seeded("a"), keys: keys, args: []string{"a", "30000", soon, "again"}, reply: got, after: held("a"), ttl: about(30)},
			"a copy never shortens":                    {seed: seeded("a"), keys: keys, args: []string{"a", "1000", soon, "again"}, reply: got, after: held("a"), ttl: about(10)},
			"a copy takes a free lock":                 {keys: keys, args: []string{"a", "30000", soon, "again"}, reply: got, after: held("a"), ttl: about(30)},
			"adopts":                                   {seed: seeded("a"), keys: keys, args: []string{"a", "30000", soon, "adopt"}, reply: got, after: held("a"), ttl: about(30)},
			"adopts what has no end, and gives it one": {seed: endless, keys: keys, args: []string{"a", "30000", soon, "adopt"}, reply: got, after: held("a"), ttl: about(30)},
			"does not adopt another's":                 {seed: seeded("b"), keys: keys, args: []string{"a", "30000", soon, "adopt"}, reply: []any{int64(-1), now{}}, after: held("b"), ttl: about(10)},
			"adopting creates nothing":                 {keys: keys, args: []string{"a", "30000", soon, "adopt"}, reply: []any{int64(-1), now{}}, after: none},
			"too late, it takes nothing":               {keys: keys, args: []string{"a", "30000", past, "first"}, reply: []any{int64(-2), now{}}, after: none},
			"too late, it extends nothing":             {seed: seeded("a"), keys: keys, args: []string{"a", "30000", past, "again"}, reply: []any{int64(-2), now{}}, after: held("a"), ttl: about(10)},
			"a lease must be one":                      {keys: keys, args: []string{"a", "0", soon, "first"}, fails: "lease must be", after: none},
			"a key of another type stays":              {seed: list, keys: keys, args: []string{"a", "30000", soon, "first"}, fails: "WRONGTYPE", after: untouched},
		},
		"setlock_release": {
			"frees and tells":             {seed: seeded("a"), keys: keys, args: []string{"a", "PUBLISH", setChannel}, reply: int64(3), after: none, messages: said},
			"leaves another's":            {seed: seeded("b"), keys: keys, args: []string{"a", "PUBLISH", setChannel}, reply: int64(0), after: held("b")},
			"nothing there":               {keys: keys, args: []string{"a", "PUBLISH", setChannel}, reply: int64(0), after: none},
			"a message that is refused":   {seed: seeded("a"), keys: keys, args: []string{"a", "NOSUCH", setChannel}, fails: "command called from", after: held("a")},
			"a key of another type stays": {seed: list, keys: keys, args: []string{"a", "PUBLISH", setChannel}, fails: "WRONGTYPE", after: untouched},
		},
		"setlock_renew": {
			"each for itself": {
				seed: seeded("a"), keys: []string{"x", "y", "x"}, args: []string{"30000", "a", "a", "b"},
				reply: []any{now{}, int64(1), int64(0), int64(0)}, after: held("a"), ttl: about(30),
			},
			"never shortens":      {seed: seeded("a"), keys: keys, args: []string{"1000", "a"}, reply: []any{now{}, lastsFor(10000)}, after: held("a"), ttl: about(10)},
			"gives an end":        {seed: endless, keys: keys, args: []string{"30000", "a"}, reply: []any{now{}, int64(1)}, after: held("a"), ttl: about(30)},
			"a lease must be one": {keys: keys, args: []string{"0", "a"}, fails: "lease must be", after: none},
			"a key of another type stays": {
				seed: list, keys: keys, args: []string{"30000", "a"},
				reply: []any{now{}, "WRONGTYPE Operation against a key holding the wrong kind of value"}, after: untouched,
			},
		},
		"setlock_trim": {
			"to what it needs":            {seed: seeded("a"), keys: keys, args: []string{"a", "2000", past, soon}, reply: []any{int64(1), now{}}, after: held("a"), ttl: about(2)},
			"never extends":               {seed: seeded("a"), keys: keys, args: []string{"a", "60000", past, soon}, reply: []any{int64(1), now{}}, after: held("a"), ttl: about(10)},
			"not another's":               {seed: seeded("b"), keys: keys, args: []string{"a", "2000", past, soon}, reply: []any{int64(0), now{}}, after: held("b"), ttl: about(10)},
			"too late":                    {seed: seeded("a"), keys: keys, args: []string{"a", "2000", past, past}, reply: []any{int64(-2), now{}}, after: held("a"), ttl: about(10)},
			"before it was sent":          {seed: seeded("a"), keys: keys, args: []string{"a", "2000", soon, soon}, reply: []any{int64(-2), now{}}, after: held("a"), ttl: about(10)},
			"a lease must be one":         {keys: keys, args: []string{"a", "0", past, soon}, fails: "lease must be", after: none},
			"a key of another type stays": {seed: list, keys: keys, args: []string{"a", "2000", past, soon}, fails: "WRONGTYPE", after: untouched},
		},
		"setlock_holders": {
			"nobody":                      {keys: keys, reply: []any{}, after: none},
			"without an end":              {seed: endless, keys: keys, reply: []any{"a", int64(1), int64(-1)}, after: map[string]redistest.Value{"x": {Type: "string", Content: "a"}}},
			"a key of another type stays": {seed: list, keys: keys, fails: "WRONGTYPE", after: untouched},
		},
		"setlock_force": {
			"frees and tells":             {seed: seeded("b"), keys: keys, args: []string{"PUBLISH", setChannel, soon}, reply: []any{int64(1), now{}}, after: none, messages: said},
			"nobody":                      {keys: keys, args: []string{"PUBLISH", setChannel, soon}, reply: []any{int64(0), now{}}, after: none},
			"too late":                    {seed: seeded("b"), keys: keys, args: []string{"PUBLISH", setChannel, past}, reply: []any{int64(-2), now{}}, after: held("b")},
			"a key of another type stays": {seed: list, keys: keys, args: []string{"PUBLISH", setChannel, soon}, fails: "WRONGTYPE", after: untouched},
		},
	} {
		runSteps(t, script, steps)
	}
}
