package scripts

import (
	"testing"

	"github.com/holdfast-go/holdfast/tests/redistest"
)

const scChannel = "redisson_sc:{x}"

func TestSemaphoreScripts(t *testing.T) {
	t.Parallel()
	key := []string{"x"}
	has := func(n string) map[string]redistest.Value {
		return map[string]redistest.Value{"x": {Type: "string", Content: n}}
	}
	until := func(n string) map[string]redistest.Value {
		return map[string]redistest.Value{"x": {Type: "string", Content: n, Expires: true}}
	}
	none := map[string]redistest.Value{}
	said := func(payload string) []redistest.Message {
		return []redistest.Message{{Channel: scChannel, Payload: payload}}
	}
	seeded := func(n string) [][]string { return [][]string{{"SET", "x", n}} }
	expiring := func(n string) [][]string { return [][]string{{"SET", "x", n, "EX", "10"}} }
	const most = "9007199254740991"
	heard := []any{int64(1)} // this test listens
	for script, steps := range map[string]map[string]step{
		"semaphore_acquire": {
			"some of them":   {seed: seeded("5"), keys: key, args: []string{"2", soon}, reply: []any{int64(1), now{}, int64(3)}, after: has("3")},
			"all of them":    {seed: seeded("5"), keys: key, args: []string{"5", soon}, reply: []any{int64(1), now{}, int64(0)}, after: has("0")},
			"too many":       {seed: seeded("5"), keys: key, args: []string{"6", soon}, reply: []any{int64(0), now{}, int64(5)}, after: has("5")},
			"none there":     {keys: key, args: []string{"1", soon}, reply: []any{int64(0), now{}, int64(0)}, after: none},
			"some missing":   {seed: seeded("-2"), keys: key, args: []string{"1", soon}, reply: []any{int64(0), now{}, int64(-2)}, after: has("-2")},
			"too late":       {seed: seeded("5"), keys: key, args: []string{"2", past}, reply: []any{int64(-2), now{}}, after: has("5")},
			"keeps the time": {seed: expiring("5"), keys: key, args: []string{"2", soon}, reply: []any{int64(1), now{}, int64(3)}, after: until("3"), ttl: about(10)},
			"the most":       {seed: seeded(most), keys: key, args: []string{most, soon}, reply: []any{int64(1), now{}, int64(0)}, after: has("0")},
			"no semaphore": {
				seed: [][]string{{"SADD", "x", "y"}}, keys: key, args: []string{"1", soon}, fails: "WRONGTYPE",
				after: map[string]redistest.Value{"x": {Type: "set", Content: []string{"y"}}},
			},
		},
		"semaphore_add": {
			"gives back":          {seed: seeded("3"), keys: key, args: []string{"2", "1", "PUBLISH", scChannel}, reply: heard, after: has("5"), messages: said("5")},
			"makes one":           {keys: key, args: []string{"2", "1", "PUBLISH", scChannel}, reply: heard, after: has("2"), messages: said("2")},
			"or does not":         {keys: key, args: []string{"2", "0", "PUBLISH", scChannel}, reply: []any{int64(-1)}, after: none},
			"if it exists":        {seed: seeded("0"), keys: key, args: []string{"2", "0", "PUBLISH", scChannel}, reply: heard, after: has("2"), messages: said("2")},
			"makes it smaller":    {seed: seeded("1"), keys: key, args: []string{"-3", "1", "PUBLISH", scChannel}, reply: heard, after: has("-2"), messages: said("-2")},
			"keeps the time":      {seed: expiring("1"), keys: key, args: []string{"3", "1", "PUBLISH", scChannel}, reply: heard, after: until("4"), ttl: about(10), messages: said("4")},
			"the most":            {seed: seeded("9007199254740990"), keys: key, args: []string{"1", "1", "PUBLISH", scChannel}, reply: heard, after: has(most), messages: said(most)},
			"one more than that":  {seed: seeded(most), keys: key, args: []string{"1", "1", "PUBLISH", scChannel}, fails: "below 2^53", after: has(most)},
			"one less than least": {seed: seeded("-" + most), keys: key, args: []string{"-1", "1", "PUBLISH", scChannel}, fails: "below 2^53", after: has("-" + most)},
		},
		"semaphore_set": {
			"there is none": {keys: key, args: []string{"5", "0", "PUBLISH", scChannel}, reply: int64(1), after: has("5"), messages: said("5")},
			"for a while":   {keys: key, args: []string{"5", "10000", "PUBLISH", scChannel}, reply: int64(1), after: until("5"), ttl: about(10), messages: said("5")},
			"there is one":  {seed: seeded("0"), keys: key, args: []string{"5", "0", "PUBLISH", scChannel}, reply: int64(0), after: has("0")},
		},
		"semaphore_drain": {
			"some free":      {seed: seeded("3"), keys: key, reply: int64(3), after: has("0")},
			"some missing":   {seed: seeded("-3"), keys: key, reply: int64(-3), after: has("0")},
			"none free":      {seed: seeded("0"), keys: key, reply: int64(0), after: has("0")},
			"none there":     {keys: key, reply: int64(0), after: none},
			"keeps the time": {seed: expiring("3"), keys: key, reply: int64(3), after: until("0"), ttl: about(10)},
		},
		"semaphore_free":   {"some": {seed: seeded("3"), keys: key, reply: int64(3), after: has("3")}, "none there": {keys: key, reply: int64(0), after: none}},
		"semaphore_delete": {"one": {seed: seeded("3"), keys: key, reply: int64(1), after: none}, "none": {keys: key, reply: int64(0), after: none}},
	} {
		runSteps(t, script, steps)
	}
}
