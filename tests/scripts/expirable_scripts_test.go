package scripts

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/redistest"
)

const (
	permitsKey = "{x}:timeout"
	never      = 922337203685477 // a score
	nextYear   = 32503680000000  // so to speak
)

// permits is the state of a semaphore with permits that have leases: how many are free, and the scores of the others.
func permits(free string, taken map[string]float64) map[string]redistest.Value {
	state := map[string]redistest.Value{"x": {Type: "string", Content: free}}
	if len(taken) > 0 {
		state[permitsKey] = redistest.Value{Type: "zset", Content: taken}
	}
	return state
}

// permitsSeed are the commands that make such a state.
func permitsSeed(free string, taken map[string]float64) [][]string {
	seed := [][]string{{"SET", "x", free}}
	for _, id := range slices.Sorted(maps.Keys(taken)) {
		seed = append(seed, []string{"ZADD", permitsKey, strconv.FormatFloat(taken[id], 'f', 0, 64), id})
	}
	return seed
}

// inTenSeconds is the command that makes a permit whose lease is over then.
func inTenSeconds(id string) []string {
	return []string{"EVAL", "redis.call('ZADD', KEYS[1], redis.call('TIME')[1] * 1000 + 10000, ARGV[1])", "1", permitsKey, id}
}

// many are so many permits with a score.
func many(n int, score float64) map[string]float64 {
	taken := map[string]float64{}
	for i := range n {
		taken[fmt.Sprint(i)] = score
	}
	return taken
}

// manyIDs are the ids of many.
func manyIDs(n int) []string { return slices.Sorted(maps.Keys(many(n, 0))) }

func TestExpirableScripts(t *testing.T) {
	t.Parallel()
	keys := []string{"x", permitsKey}
	zset := []string{permitsKey}
	type taken = map[string]float64
	none := map[string]redistest.Value{}
	said := func(payloads ...string) (messages []redistest.Message) {
		for _, payload := range payloads {
			messages = append(messages, redistest.Message{Channel: scChannel, Payload: payload})
		}
		return messages
	}
	acquire := func(lease, notAfter string, ids ...string) []string {
		return append([]string{lease, notAfter, "PUBLISH", scChannel}, ids...)
	}
	about := func(args ...string) []string { return append([]string{"PUBLISH", scChannel}, args...) }
	key, heard := []string{"x"}, []any{int64(1)} // this test listens
	got := []any{int64(1), now{}, int64(0)}
	last := func(ms int64) []any { return []any{int64(1), now{}, ms} }
	busy := func(ms int64) []any { return []any{int64(0), now{}, ms} }
	wrong := redistest.Value{Type: "set", Content: []string{"y"}}
	for script, steps := range map[string]map[string]step{
		"semaphore_acquire_expirable": {
			"one of them": {seed: permitsSeed("5", nil), keys: keys, args: acquire("500", soon, "a"), reply: got, after: permits("4", nil), due: map[string]int{"a": 500}},
			"without end": {seed: permitsSeed("2", nil), keys: keys, args: acquire("0", soon, "a"), reply: got, after: permits("1", taken{"a": never})},
			"the last ones, that never come back": {
				seed: permitsSeed("2", taken{"c": never}), keys: keys, args: acquire("0", soon, "a", "b"),
				reply: last(-1), after: permits("0", taken{"a": never, "b": never, "c": never}),
			},
			"the last one, until that is over": {
				seed: permitsSeed("1", taken{"c": never}), keys: keys, args: acquire("500", soon, "a"),
				reply: last(500), after: permits("0", taken{"c": never}), due: map[string]int{"a": 500},
			},
			"too many":       {seed: permitsSeed("1", taken{"c": never}), keys: keys, args: acquire("500", soon, "a", "b"), reply: busy(-1), after: permits("1", taken{"c": never})},
			"none are there": {keys: keys, args: acquire("500", soon, "a"), reply: busy(-1), after: none},
			"some missing":   {seed: permitsSeed("-2", nil), keys: keys, args: acquire("500", soon, "a"), reply: busy(-1), after: permits("-2", nil)},
			"too late":       {seed: permitsSeed("5", nil), keys: keys, args: acquire("500", past, "a"), reply: []any{int64(-2), now{}}, after: permits("5", nil)},
			"none before another is over": {
				seed: append(permitsSeed("0", taken{"b": nextYear}), inTenSeconds("c")), keys: keys, args: acquire("0", soon, "a"),
				reply: "busy", after: permits("0", taken{"b": nextYear}), due: map[string]int{"c": 9000},
			},
			"one comes back": {
				seed: permitsSeed("0", taken{"b": 1, "c": never}), keys: keys, args: acquire("0", soon, "a"),
				reply: last(-1), after: permits("0", taken{"a": never, "c": never}), messages: said("1"),
			},
			"one comes back, too few": {
				seed: permitsSeed("0", taken{"b": 1, "c": never}), keys: keys, args: acquire("0", soon, "a", "d"),
				reply: busy(-1), after: permits("1", taken{"c": never}), messages: said("1"),
			},
			"one comes back, not told of while some are missing": {
				seed: permitsSeed("-1", taken{"b": 1}), keys: keys, args: acquire("0", soon, "a"), reply: busy(-1), after: permits("0", nil),
			},
			"those that are over stay while enough are free": {
				seed: permitsSeed("2", taken{"b": 1}), keys: keys, args: acquire("0", soon, "a"), reply: got, after: permits("1", taken{"a": never, "b": 1}),
			},
			"more come back than at once": {
				seed: permitsSeed("0", many(2001, 1)), keys: keys, args: acquire("0", soon, append(manyIDs(2000), "a")...),
				reply: []any{int64(-3), now{}}, after: permits("2000", taken{"999": 1}), messages: said("2000"),
			},
			"a copy": {
				seed: permitsSeed("3", taken{"a": nextYear, "b": nextYear}), keys: keys, args: acquire("0", soon, "a", "b"),
				reply: got, after: permits("3", taken{"a": never, "b": never}),
			},
			"a copy that finds none free": {
				seed: permitsSeed("0", taken{"a": never, "b": never}), keys: keys, args: acquire("0", soon, "a", "b"),
				reply: last(-1), after: permits("0", taken{"a": never, "b": never}),
			},
			"a copy of what is over": {
				seed: permitsSeed("0", taken{"a": 1, "b": 1}), keys: keys, args: acquire("0", soon, "a", "b"),
				reply: last(-1), after: permits("0", taken{"a": never, "b": never}), messages: said("2"),
			},
			"a copy of what is over, while enough are free": {
				seed: permitsSeed("2", taken{"a": 1, "b": 1}), keys: keys, args: acquire("0", soon, "a", "b"),
				reply: got, after: permits("2", taken{"a": never, "b": never}),
			},
			"a copy of which others took some": {
				seed: permitsSeed("1", taken{"a": 1, "b": 1, "c": never}), keys: keys, args: acquire("0", soon, "a", "b", "d"),
				reply: last(-1), after: permits("0", taken{"a": never, "b": never, "c": never, "d": never}), messages: said("3"),
			},
			"an expiry is the permits', too": {
				seed: [][]string{{"SET", "x", "2", "EX", "10"}}, keys: keys, args: acquire("0", soon, "a"), reply: got, after: map[string]redistest.Value{
					"x":        {Type: "string", Content: "1", Expires: true},
					permitsKey: {Type: "zset", Content: taken{"a": never}, Expires: true},
				}, ttl: [2]time.Duration{9 * time.Second, 10 * time.Second}, ttls: map[string]int{permitsKey: 10},
			},
			"as many as a call may": {seed: permitsSeed("10000", nil), keys: keys, args: acquire("0", soon, manyIDs(10000)...), reply: last(-1), after: permits("0", many(10000, never))},
			"no semaphore":          {seed: [][]string{{"SADD", "x", "y"}}, keys: keys, args: acquire("0", soon, "a"), fails: "WRONGTYPE", after: map[string]redistest.Value{"x": wrong}},
			"no permits":            {seed: [][]string{{"SET", "x", "1"}, {"SADD", permitsKey, "y"}}, keys: keys, args: acquire("0", soon, "a"), fails: "WRONGTYPE", after: map[string]redistest.Value{"x": {Type: "string", Content: "1"}, permitsKey: wrong}},
			"no lease":              {seed: permitsSeed("1", nil), keys: keys, args: acquire("0.5", soon, "a"), fails: "lease must be", after: permits("1", nil)},
		},
		"semaphore_release_expirable": {
			"one":                          {seed: permitsSeed("3", taken{"a": nextYear, "b": never}), keys: keys, args: about("a"), reply: int64(3), after: permits("4", taken{"b": never}), messages: said("4")},
			"while some are missing":       {seed: permitsSeed("-2", taken{"a": never}), keys: keys, args: about("a"), reply: int64(3), after: permits("-1", nil), messages: said("-1")},
			"several":                      {seed: permitsSeed("3", taken{"a": nextYear, "b": never, "c": never}), keys: keys, args: about("a", "c"), reply: int64(3), after: permits("5", taken{"b": never}), messages: said("2")},
			"an unknown one":               {seed: permitsSeed("3", taken{"b": never}), keys: keys, args: about("a"), reply: int64(0), after: permits("3", taken{"b": never})},
			"one that is over":             {seed: permitsSeed("3", taken{"a": 1, "b": never}), keys: keys, args: about("a"), reply: int64(0), after: permits("4", taken{"b": never}), messages: said("4")},
			"not all are taken":            {seed: permitsSeed("3", taken{"b": never}), keys: keys, args: about("b", "a"), reply: int64(0), after: permits("3", taken{"b": never})},
			"one of them is over":          {seed: permitsSeed("0", taken{"a": 1, "b": never}), keys: keys, args: about("b", "a"), reply: int64(0), after: permits("1", taken{"b": never}), messages: said("1")},
			"of a semaphore that has gone": {seed: [][]string{{"ZADD", permitsKey, "922337203685477", "a"}}, keys: keys, args: about("a"), reply: int64(3), after: permits("1", nil), messages: said("1")},
			"whose message is refused":     {seed: permitsSeed("3", taken{"a": never}), keys: keys, args: []string{"SPUBLISH?", scChannel, "a"}, fails: "command called from", after: permits("3", taken{"a": never})},
			"as many as a call may":        {seed: permitsSeed("0", many(10000, never)), keys: keys, args: about(manyIDs(10000)...), reply: int64(3), after: permits("10000", nil), messages: said("10000")},
		},
		"semaphore_renew_expirable": {
			"longer, and what lasts for longer": {
				seed: append(permitsSeed("0", taken{"b": nextYear, "c": never}), inTenSeconds("a")), keys: []string{permitsKey, permitsKey, permitsKey}, args: []string{"60000", "a", "b", "c"},
				reply: []any{now{}, int64(1), int64(1), int64(1)}, after: permits("0", taken{"b": nextYear, "c": never}), due: map[string]int{"a": 60000},
			},
			"what is over or unknown, and no permits": {
				seed: [][]string{{"ZADD", permitsKey, "1", "a"}, {"SET", "x", "1"}}, keys: []string{permitsKey, "y", "x"}, args: []string{"60000", "a", "a", "a"},
				reply: []any{now{}, int64(0), int64(0), "WRONGTYPE Operation against a key holding the wrong kind of value"}, after: permits("1", taken{"a": 1}),
			},
			"no lease": {keys: zset, args: []string{"0", "a"}, fails: "lease must be", after: none},
		},
		"semaphore_update_expirable": {
			"shorter":            {seed: permitsSeed("0", taken{"a": never}), keys: zset, args: []string{"500", "a", past, soon}, reply: []any{int64(1), now{}}, after: permits("0", nil), due: map[string]int{"a": 500}},
			"without end":        {seed: permitsSeed("0", taken{"a": nextYear}), keys: zset, args: []string{"0", "a", past, soon}, reply: []any{int64(1), now{}}, after: permits("0", taken{"a": never})},
			"unknown":            {seed: permitsSeed("0", nil), keys: zset, args: []string{"500", "a", past, soon}, reply: []any{int64(0), now{}}, after: permits("0", nil)},
			"over":               {seed: permitsSeed("0", taken{"a": 1}), keys: zset, args: []string{"500", "a", past, soon}, reply: []any{int64(0), now{}}, after: permits("0", taken{"a": 1})},
			"too late":           {seed: permitsSeed("0", taken{"a": never}), keys: zset, args: []string{"500", "a", past, past}, reply: []any{int64(-2), now{}}, after: permits("0", taken{"a": never})},
			"no lease":           {seed: permitsSeed("0", taken{"a": never}), keys: zset, args: []string{"-1", "a", past, soon}, fails: "lease must be", after: permits("0", taken{"a": never})},
			"before it was sent": {seed: permitsSeed("0", taken{"a": never}), keys: zset, args: []string{"500", "a", soon, soon}, reply: []any{int64(-2), now{}}, after: permits("0", taken{"a": never})},
		},
		"semaphore_lease_expirable": {
			"without end": {seed: permitsSeed("0", taken{"a": never}), keys: zset, args: []string{"a"}, reply: int64(-1), after: permits("0", taken{"a": never})},
			"unknown":     {seed: permitsSeed("0", nil), keys: zset, args: []string{"a"}, reply: int64(0), after: permits("0", nil)},
			"over":        {seed: permitsSeed("0", taken{"a": 1}), keys: zset, args: []string{"a"}, reply: int64(0), after: permits("0", taken{"a": 1})},
		},
		"semaphore_count_expirable": {
			"some of each":                {seed: permitsSeed("3", taken{"a": nextYear, "b": never}), keys: keys, args: about(), reply: []any{int64(3), int64(2)}, after: permits("3", taken{"a": nextYear, "b": never})},
			"one comes back":              {seed: permitsSeed("3", taken{"a": 1, "b": never}), keys: keys, args: about(), reply: []any{int64(4), int64(1)}, after: permits("4", taken{"b": never}), messages: said("4")},
			"none there":                  {keys: keys, args: about(), reply: []any{int64(0), int64(0)}, after: none},
			"some missing":                {seed: permitsSeed("-3", taken{"b": never}), keys: keys, args: about(), reply: []any{int64(-3), int64(1)}, after: permits("-3", taken{"b": never})},
			"more come back than at once": {seed: permitsSeed("-5", many(2001, 1)), keys: keys, args: about(), reply: []any{int64(-3)}, after: permits("1995", taken{"999": 1}), messages: said("1995")},
		},
		"semaphore_add_expirable": {
			"larger":         {seed: permitsSeed("3", nil), keys: key, args: append([]string{"2"}, about()...), reply: heard, after: permits("5", nil), messages: said("2")},
			"smaller":        {seed: permitsSeed("3", nil), keys: key, args: append([]string{"-4"}, about()...), reply: []any{int64(0)}, after: permits("-1", nil)},
			"none there":     {keys: key, args: append([]string{"2"}, about()...), reply: heard, after: permits("2", nil), messages: said("2")},
			"the most":       {seed: permitsSeed("9007199254740991", nil), keys: key, args: append([]string{"1"}, about()...), fails: "below 2^53", after: permits("9007199254740991", nil)},
			"keeps the time": {seed: [][]string{{"SET", "x", "1", "EX", "10"}}, keys: key, args: append([]string{"3"}, about()...), reply: heard, after: map[string]redistest.Value{"x": {Type: "string", Content: "4", Expires: true}}, messages: said("3")},
		},
		"semaphore_resize_expirable": {
			"larger":     {seed: permitsSeed("3", taken{"a": 1, "b": never}), keys: keys, args: append([]string{"7"}, about(soon)...), reply: []any{int64(1), now{}}, after: permits("5", taken{"a": 1, "b": never}), messages: said("7")},
			"smaller":    {seed: permitsSeed("1", taken{"b": never}), keys: keys, args: append([]string{"0"}, about(soon)...), reply: []any{int64(1), now{}}, after: permits("-1", taken{"b": never}), messages: said("0")},
			"as it is":   {seed: permitsSeed("1", taken{"b": never}), keys: keys, args: append([]string{"2"}, about(soon)...), reply: []any{int64(0), now{}}, after: permits("1", taken{"b": never})},
			"none there": {keys: keys, args: append([]string{"2"}, about(soon)...), reply: []any{int64(1), now{}}, after: permits("2", nil), messages: said("2")},
			"to nothing": {keys: keys, args: append([]string{"0"}, about(soon)...), reply: []any{int64(1), now{}}, after: permits("0", nil), messages: said("0")},
			"too late":   {seed: permitsSeed("1", nil), keys: keys, args: append([]string{"7"}, about(past)...), reply: []any{int64(-2), now{}}, after: permits("1", nil)},
		},
		"semaphore_delete": {
			"with permits":  {seed: permitsSeed("1", taken{"a": never}), keys: keys, reply: int64(1), after: none},
			"permits alone": {seed: [][]string{{"ZADD", permitsKey, "1", "a"}}, keys: keys, reply: int64(1), after: none},
			"none there":    {keys: keys, reply: int64(0), after: none},
		},
	} {
		runSteps(t, script, steps)
	}
}
