package scripts

import (
	"testing"

	"github.com/holdfast-go/holdfast/tests/redistest"
)

const latchChannel = "redisson_countdownlatch__channel__{x}"

func TestLatchScripts(t *testing.T) {
	t.Parallel()
	key := []string{"x"}
	count := func(n string) map[string]redistest.Value {
		return map[string]redistest.Value{"x": {Type: "string", Content: n}}
	}
	opened := map[string]redistest.Value{}
	said := func(payload string) []redistest.Message {
		return []redistest.Message{{Channel: latchChannel, Payload: payload}}
	}
	set := func(n string) [][]string { return [][]string{{"SET", "x", n}} }
	for script, steps := range map[string]map[string]step{
		"latch_set": {
			"an open one":               {keys: key, args: []string{"2", "PUBLISH", latchChannel}, reply: int64(1), after: count("2"), messages: said("1")},
			"a closed one":              {seed: set("1"), keys: key, args: []string{"2", "PUBLISH", latchChannel}, reply: int64(0), after: count("1")},
			"Redisson's, stuck at zero": {seed: set("0"), keys: key, args: []string{"2", "PUBLISH", latchChannel}, reply: int64(1), after: count("2"), messages: said("1")},
			"the largest count": {
				keys: key, args: []string{"9007199254740991", "PUBLISH", latchChannel}, reply: int64(1), after: count("9007199254740991"), messages: said("1"),
			},
			"no latch": {
				seed: [][]string{{"SADD", "x", "y"}}, keys: key, args: []string{"2", "PUBLISH", latchChannel}, fails: "WRONGTYPE",
				after: map[string]redistest.Value{"x": {Type: "set", Content: []string{"y"}}},
			},
		},
		"latch_count_down": {
			"not the last":              {seed: set("2"), keys: key, args: []string{"PUBLISH", latchChannel}, reply: int64(1), after: count("1")},
			"the last":                  {seed: set("1"), keys: key, args: []string{"PUBLISH", latchChannel}, reply: int64(0), after: opened, messages: said("0")},
			"one too many":              {keys: key, args: []string{"PUBLISH", latchChannel}, reply: int64(0), after: opened},
			"Redisson's, stuck at zero": {seed: set("0"), keys: key, args: []string{"PUBLISH", latchChannel}, reply: int64(0), after: opened},
			"the largest count": {
				seed: set("9007199254740991"), keys: key, args: []string{"PUBLISH", latchChannel}, reply: int64(9007199254740990), after: count("9007199254740990"),
			},
		},
		"latch_delete": {
			"a closed one": {seed: set("2"), keys: key, args: []string{"PUBLISH", latchChannel}, reply: int64(1), after: opened, messages: said("1")},
			"an open one":  {keys: key, args: []string{"PUBLISH", latchChannel}, reply: int64(0), after: opened},
		},
		"latch_count": {
			"a closed one":              {seed: set("2"), keys: key, reply: int64(2), after: count("2")},
			"an open one":               {keys: key, reply: int64(0), after: opened},
			"Redisson's, stuck at zero": {seed: set("0"), keys: key, reply: int64(0), after: count("0")},
		},
	} {
		runSteps(t, script, steps)
	}
}
