package scripts

import (
	"testing"

	"github.com/holdfast-go/holdfast/tests/redistest"
)

const latchChannel = "redisson_countdownlatch__channel__{x}"

func TestLatchScripts(t *testing.T) {
	t.Parallel()
	count := func(n string) map[string]redistest.Value {
		return map[string]redistest.Value{"x": {Type: "string", Content: n}}
	}
	opened := map[string]redistest.Value{}
	said := func(payload string) []redistest.Message {
		return []redistest.Message{{Channel: latchChannel, Payload: payload}}
	}
	set := func(n string) [][]string { return [][]string{{"SET", "x", n}} }
	runSteps(t, map[string]step{
		"an open one":  {call: setLatch{}, reply: now{}, after: count("2"), messages: said("1")},
		"a closed one": {seed: set("1"), call: setLatch{}, reply: head(0), after: count("1")},
		"Redisson's, stuck at zero": {
			seed: set("0"), call: setLatch{}, reply: now{}, after: count("2"), messages: said("1"),
		},
		"the largest count": {
			call: setLatch{count: "9007199254740991"}, reply: now{}, after: count("9007199254740991"),
			messages: said("1"),
		},
		"too late": {call: setLatch{late: true}, reply: head(-2), after: opened},
		"no latch": {
			seed: [][]string{{"SADD", "x", "y"}}, call: setLatch{}, fails: "WRONGTYPE",
			after: map[string]redistest.Value{"x": {Type: "set", Content: []string{"y"}}},
		},
	})
	runSteps(t, map[string]step{
		"not the last": {
			seed: set("2"), call: countDown{}, reply: int64(1), after: count("1"),
		},
		"not the last, without memory": {
			seed: set("2"), full: true, call: countDown{}, reply: int64(1), after: count("1"),
		},
		"the last": {
			seed: set("1"), call: countDown{}, reply: int64(0), after: opened,
			messages: said("0"),
		},
		"one too many": {call: countDown{}, reply: int64(0), after: opened},
		"Redisson's, stuck at zero": {
			seed: set("0"), call: countDown{}, reply: int64(0), after: opened,
		},
		"the largest count": {
			seed: set("9007199254740991"), call: countDown{}, reply: int64(9007199254740990),
			after: count("9007199254740990"),
		},
	})
	runSteps(t, map[string]step{
		"a closed one": {
			seed: set("2"), call: deleteLatch{}, reply: now{}, after: opened,
			messages: said("1"),
		},
		"an open one": {call: deleteLatch{}, reply: head(0), after: opened},
		"too late":    {seed: set("2"), call: deleteLatch{late: true}, reply: head(-2), after: count("2")},
	})
	runSteps(t, map[string]step{
		"a closed one": {
			seed: set("2"), call: look("count_value", "x"), reply: int64(2), after: count("2"),
		},
		"an open one": {call: look("count_value", "x"), reply: int64(0), after: opened},
		"Redisson's, stuck at zero": {
			seed: set("0"), call: look("count_value", "x"), reply: int64(0), after: count("0"),
		},
		"of a semaphore with permits missing": {
			seed: set("-2"), call: look("count_value", "x"), reply: int64(-2), after: count("-2"),
		},
	})
}
