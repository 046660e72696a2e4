package scripts

import (
	"testing"

	"github.com/holdfast-go/holdfast/tests/redistest"
)

const scChannel = "redisson_sc:{x}"

func TestSemaphoreScripts(t *testing.T) {
	t.Parallel()
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
	runSteps(t, map[string]step{
		"some of them": {seed: seeded("5"), call: takePermits{n: "2"}, reply: head(1, 3), after: has("3")},
		"all of them":  {seed: seeded("5"), call: takePermits{n: "5"}, reply: head(1, 0), after: has("0")},
		"too many":     {seed: seeded("5"), call: takePermits{n: "6"}, reply: unasked(0, 5), after: has("5")},
		"none there":   {call: takePermits{n: "1"}, reply: unasked(0, 0), after: none},
		"some missing": {seed: seeded("-2"), call: takePermits{n: "1"}, reply: unasked(0, -2), after: has("-2")},
		"too late": {
			seed: seeded("5"), call: takePermits{n: "2", late: true}, reply: head(-2), after: has("5"),
		},
		"keeps the time": {
			seed: expiring("5"), call: takePermits{n: "2"}, reply: head(1, 3), after: until("3"), ttl: about(10),
		},
		"the most": {seed: seeded(most), call: takePermits{n: most}, reply: head(1, 0), after: has("0")},
		"no semaphore": {
			seed: [][]string{{"SADD", "x", "y"}}, call: takePermits{n: "1"}, fails: "WRONGTYPE",
			after: map[string]redistest.Value{"x": {Type: "set", Content: []string{"y"}}},
		},
	})
	runSteps(t, map[string]step{
		"gives back": {
			seed: seeded("3"), call: addPermits{n: "2"}, reply: heard, after: has("5"), messages: said("5"),
		},
		"makes one":  {call: addPermits{n: "2"}, reply: heard, after: has("2"), messages: said("2")},
		"makes none": {call: addPermits{n: "2", ifThere: true}, reply: []any{int64(-1)}, after: none},
		"if it exists": {
			seed: seeded("0"), call: addPermits{n: "2", ifThere: true}, reply: heard, after: has("2"),
			messages: said("2"),
		},
		"makes it smaller": {
			seed: seeded("1"), call: addPermits{n: "-3"}, reply: heard, after: has("-2"), messages: said("-2"),
		},
		"keeps the time": {
			seed: expiring("1"), call: addPermits{n: "3"}, reply: heard, after: until("4"), ttl: about(10),
			messages: said("4"),
		},
		"the most": {
			seed: seeded("9007199254740990"), call: addPermits{n: "1"}, reply: heard, after: has(most),
			messages: said(most),
		},
		"one more than that": {
			seed: seeded(most), call: addPermits{n: "1"}, fails: "below 2^53", after: has(most),
		},
		"one below the lowest": {
			seed: seeded("-" + most), call: addPermits{n: "-1"}, fails: "below 2^53", after: has("-" + most),
		},
	})
	runSteps(t, map[string]step{
		"there is none": {call: setPermits{}, reply: int64(1), after: has("5"), messages: said("5")},
		"for a while": {
			call: setPermits{ttl: "10000"}, reply: int64(1), after: until("5"), ttl: about(10),
			messages: said("5"),
		},
		"there is one": {seed: seeded("0"), call: setPermits{}, reply: int64(0), after: has("0")},
	})
	runSteps(t, map[string]step{
		"some free": {seed: seeded("3"), call: drainPermits{}, reply: head(1, 3), after: has("0")},
		"some missing": {
			seed: seeded("-3"), call: drainPermits{}, reply: head(1, -3), after: has("0"),
		},
		"none free":  {seed: seeded("0"), call: drainPermits{}, reply: head(1, 0), after: has("0")},
		"none there": {call: drainPermits{}, reply: head(1, 0), after: none},
		"too late":   {seed: seeded("3"), call: drainPermits{late: true}, reply: head(-2), after: has("3")},
		"keeps the time": {
			seed: expiring("3"), call: drainPermits{}, reply: head(1, 3), after: until("0"),
			ttl: about(10),
		},
	})
	runSteps(t, map[string]step{
		"some":       {seed: seeded("3"), call: look("count_value", "x"), reply: int64(3), after: has("3")},
		"none there": {call: look("count_value", "x"), reply: int64(0), after: none},
	})
	runSteps(t, map[string]step{
		"one":      {seed: seeded("3"), call: deletePermits{}, reply: now{}, after: none},
		"none":     {call: deletePermits{}, reply: head(0), after: none},
		"too late": {seed: seeded("3"), call: deletePermits{late: true}, reply: head(-2), after: has("3")},
	})
}
