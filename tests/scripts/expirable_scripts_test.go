package scripts

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/holdfast-go/holdfast/tests/redistest"
)

const (
	permitsKey = "{x}:timeout"
	never      = 922337203685477 // a score
	nextYear   = 32503680000000  // simply far away
)

// permits is the state of a semaphore whose permits have leases: how many are free, and the scores of the others.
func permits(free string, taken map[string]float64) map[string]redistest.Value {
	state := map[string]redistest.Value{"x": {Type: "string", Content: free}}
	if len(taken) > 0 {
		state[permitsKey] = redistest.Value{Type: "zset", Content: taken}
	}
	return state
}

// permitsSeed returns the commands that store such a state.
func permitsSeed(free string, taken map[string]float64) [][]string {
	seed := [][]string{{"SET", "x", free}}
	for _, id := range slices.Sorted(maps.Keys(taken)) {
		seed = append(seed, []string{"ZADD", permitsKey, strconv.FormatFloat(taken[id], 'f', 0, 64), id})
	}
	return seed
}

// inTenSeconds is the command that stores a permit whose lease ends in ten seconds.
func inTenSeconds(id string) []string { return untilIn("10000", permitsKey, id) }

// many returns n permits with the same score.
func many(n int, score float64) map[string]float64 {
	taken := map[string]float64{}
	for i := range n {
		taken[fmt.Sprint(i)] = score
	}
	return taken
}

// manyIDs returns the ids of many.
func manyIDs(n int) []string { return slices.Sorted(maps.Keys(many(n, 0))) }

func TestExpirableScripts(t *testing.T) {
	t.Parallel()
	type taken = map[string]float64
	none := map[string]redistest.Value{}
	said := func(payloads ...string) (messages []redistest.Message) {
		for _, payload := range payloads {
			messages = append(messages, redistest.Message{Channel: scChannel, Payload: payload})
		}
		return messages
	}
	heard := []any{int64(1)} // this test listens
	got := now{}
	busy := func(ms int64) []any { return head(0, ms) }
	wrong := redistest.Value{Type: "set", Content: []string{"y"}}
	theLastFirst := manyIDs(2001)
	slices.Reverse(theLastFirst)
	runSteps(t, map[string]step{
		"one of them": {
			seed: permitsSeed("5", nil), call: acquirePermits{lease: "500", ids: []string{"a"}}, reply: got,
			after: permits("4", nil), due: map[string]int{"a": 500},
		},
		"without end": {
			seed: permitsSeed("2", nil), call: acquirePermits{lease: "0", ids: []string{"a"}}, reply: got,
			after: permits("1", taken{"a": never}),
		},
		"the last ones, that never come back": {
			seed: permitsSeed("2", taken{"c": never}), call: acquirePermits{lease: "0", ids: []string{"a", "b"}},
			reply: got, after: permits("0", taken{"a": never, "b": never, "c": never}),
		},
		"the last one, until that is over": {
			seed: permitsSeed("1", taken{"c": never}), call: acquirePermits{lease: "500", ids: []string{"a"}},
			reply: got, after: permits("0", taken{"c": never}), due: map[string]int{"a": 500},
		},
		"too many": {
			seed: permitsSeed("1", taken{"c": never}), call: acquirePermits{lease: "500", ids: []string{"a", "b"}},
			reply: busy(-1), after: permits("1", taken{"c": never}),
		},
		"none are there": {call: acquirePermits{lease: "500", ids: []string{"a"}}, reply: busy(-1), after: none},
		"some missing": {
			seed: permitsSeed("-2", nil), call: acquirePermits{lease: "500", ids: []string{"a"}}, reply: busy(-1),
			after: permits("-2", nil),
		},
		"too late": {
			seed: permitsSeed("5", nil), call: acquirePermits{lease: "500", late: true, ids: []string{"a"}},
			reply: head(-2), after: permits("5", nil),
		},
		"none before another is over": {
			seed:  append(permitsSeed("0", taken{"b": nextYear}), inTenSeconds("c")),
			call:  acquirePermits{lease: "0", ids: []string{"a"}},
			reply: busyNow, after: permits("0", taken{"b": nextYear}), due: map[string]int{"c": 9000},
		},
		"one comes back": {
			seed: permitsSeed("0", taken{"b": 1, "c": never}), call: acquirePermits{lease: "0", ids: []string{"a"}},
			reply: got, after: permits("0", taken{"a": never, "c": never}), messages: said("1"),
		},
		"one comes back, too few": {
			seed:  permitsSeed("0", taken{"b": 1, "c": never}),
			call:  acquirePermits{lease: "0", ids: []string{"a", "d"}},
			reply: busy(-1), after: permits("1", taken{"c": never}), messages: said("1"),
		},
		"one comes back, unpublished while some are missing": {
			seed: permitsSeed("-1", taken{"b": 1}), call: acquirePermits{lease: "0", ids: []string{"a"}},
			reply: busy(-1), after: permits("0", nil),
		},
		"those that are over stay while enough are free": {
			seed: permitsSeed("2", taken{"b": 1}), call: acquirePermits{lease: "0", ids: []string{"a"}},
			reply: got, after: permits("1", taken{"a": never, "b": 1}),
		},
		"more come back than one call takes": {
			seed:  permitsSeed("0", many(2001, 1)),
			call:  acquirePermits{lease: "0", ids: append(manyIDs(2000), "a")},
			reply: head(-3), after: permits("2000", taken{"999": 1}), messages: said("2000"),
		},
		"a copy": {
			seed:  permitsSeed("3", taken{"a": nextYear, "b": nextYear}),
			call:  acquirePermits{lease: "0", ids: []string{"a", "b"}},
			reply: got, after: permits("3", taken{"a": never, "b": never}),
		},
		"a copy shortens no lease": {
			seed:  permitsSeed("3", taken{"a": nextYear}),
			call:  acquirePermits{lease: "500", ids: []string{"a"}},
			reply: got, after: permits("3", taken{"a": nextYear}),
		},
		"a copy that finds none free": {
			seed:  permitsSeed("0", taken{"a": never, "b": never}),
			call:  acquirePermits{lease: "0", ids: []string{"a", "b"}},
			reply: got, after: permits("0", taken{"a": never, "b": never}),
		},
		"a copy of what is over": {
			seed:  permitsSeed("0", taken{"a": 1, "b": 1}),
			call:  acquirePermits{lease: "0", ids: []string{"a", "b"}},
			reply: got, after: permits("0", taken{"a": never, "b": never}), messages: said("2"),
		},
		"a copy of what is over, while enough are free": {
			seed:  permitsSeed("2", taken{"a": 1, "b": 1}),
			call:  acquirePermits{lease: "0", ids: []string{"a", "b"}},
			reply: got, after: permits("2", taken{"a": never, "b": never}),
		},
		"a copy of what is over, while more comes back than one call takes": {
			seed: permitsSeed("0", many(2001, 1)), call: acquirePermits{lease: "0", ids: theLastFirst},
			reply: head(-3), after: permits("2000", taken{"999": 1}), messages: said("2000"),
		},
		"a copy of which others took some": {
			seed:  permitsSeed("1", taken{"a": 1, "b": 1, "c": never}),
			call:  acquirePermits{lease: "0", ids: []string{"a", "b", "d"}},
			reply: got, after: permits("0", taken{"a": never, "b": never, "c": never, "d": never}),
			messages: said("3"),
		},
		"an expiry is the permits', too": {
			seed: [][]string{{"SET", "x", "2", "EX", "10"}}, call: acquirePermits{lease: "0", ids: []string{"a"}},
			reply: got, after: map[string]redistest.Value{
				"x":        {Type: "string", Content: "1", Expires: true},
				permitsKey: {Type: "zset", Content: taken{"a": never}, Expires: true},
			}, ttl: about(10), ttls: map[string]int{permitsKey: 10},
		},
		"as many as a call may": {
			seed: permitsSeed("10000", nil), call: acquirePermits{lease: "0", ids: manyIDs(10000)},
			reply: got, after: permits("0", many(10000, never)),
		},
		"no semaphore": {
			seed: [][]string{{"SADD", "x", "y"}}, call: acquirePermits{lease: "0", ids: []string{"a"}},
			fails: "WRONGTYPE", after: map[string]redistest.Value{"x": wrong},
		},
		"no permits": {
			seed: [][]string{{"SET", "x", "1"}, {"SADD", permitsKey, "y"}},
			call: acquirePermits{lease: "0", ids: []string{"a"}}, fails: "WRONGTYPE",
			after: map[string]redistest.Value{"x": {Type: "string", Content: "1"}, permitsKey: wrong},
		},
		"no lease": {
			seed: permitsSeed("1", nil), call: acquirePermits{lease: "0.5", ids: []string{"a"}},
			fails: "lease must be", after: permits("1", nil),
		},
	})
	runSteps(t, map[string]step{
		"one": {
			seed: permitsSeed("3", taken{"a": nextYear, "b": never}), call: releasePermits{ids: []string{"a"}},
			reply: int64(3), after: permits("4", taken{"b": never}), messages: said("4"),
		},
		"while some are missing": {
			seed: permitsSeed("-2", taken{"a": never}), call: releasePermits{ids: []string{"a"}}, reply: int64(3),
			after: permits("-1", nil), messages: said("-1"),
		},
		"several": {
			seed: permitsSeed("3", taken{"a": nextYear, "b": never, "c": never}),
			call: releasePermits{ids: []string{"a", "c"}}, reply: int64(3), after: permits("5", taken{"b": never}),
			messages: said("2"),
		},
		"an unknown one": {
			seed: permitsSeed("3", taken{"b": never}), call: releasePermits{ids: []string{"a"}}, reply: int64(0),
			after: permits("3", taken{"b": never}),
		},
		"one that is over": {
			seed: permitsSeed("3", taken{"a": 1, "b": never}), call: releasePermits{ids: []string{"a"}},
			reply: int64(0), after: permits("4", taken{"b": never}), messages: said("4"),
		},
		"not all are taken": {
			seed: permitsSeed("3", taken{"b": never}), call: releasePermits{ids: []string{"b", "a"}},
			reply: int64(0), after: permits("3", taken{"b": never}),
		},
		"one of them is over": {
			seed: permitsSeed("0", taken{"a": 1, "b": never}), call: releasePermits{ids: []string{"b", "a"}},
			reply: int64(0), after: permits("1", taken{"b": never}), messages: said("1"),
		},
		"of a semaphore that has gone": {
			seed: [][]string{{"ZADD", permitsKey, "922337203685477", "a"}},
			call: releasePermits{ids: []string{"a"}}, reply: int64(3), after: permits("1", nil),
			messages: said("1"),
		},
		"whose message is refused": {
			seed: permitsSeed("3", taken{"a": never}),
			call: releasePermits{publish: "SPUBLISH?", ids: []string{"a"}}, fails: "command called from",
			after: permits("3", taken{"a": never}),
		},
		"of a semaphore that expires, whose message is refused": {
			seed: with(permitsSeed("3", taken{"a": never}), [][]string{{"EXPIRE", "x", "10"}, {"EXPIRE", permitsKey, "10"}}),
			call: releasePermits{publish: "SPUBLISH?", ids: []string{"a"}}, fails: "command called from",
			after: map[string]redistest.Value{
				"x":        {Type: "string", Content: "3", Expires: true},
				permitsKey: {Type: "zset", Content: taken{"a": never}, Expires: true},
			}, ttls: map[string]int{permitsKey: 10},
		},
		"as many as a call may": {
			seed: permitsSeed("0", many(10000, never)), call: releasePermits{ids: manyIDs(10000)}, reply: int64(3),
			after: permits("10000", nil), messages: said("10000"),
		},
	})
	runSteps(t, map[string]step{
		"longer, and what lasts for longer": {
			seed: append(permitsSeed("0", taken{"b": nextYear, "c": never}), inTenSeconds("a")),
			call: renew{
				by: "semaphore_renew_expirable", keys: []string{permitsKey, permitsKey, permitsKey},
				owners: []string{"a", "b", "c"}, lease: "60000",
			},
			reply: []any{now{}, int64(1), lastsUntil(nextYear), lastsUntil(never)},
			after: permits("0", taken{"b": nextYear, "c": never}), due: map[string]int{"a": 60000},
		},
		"what is over or unknown, and no permits": {
			seed: [][]string{{"ZADD", permitsKey, "1", "a"}, {"SET", "x", "1"}},
			call: renew{
				by: "semaphore_renew_expirable", keys: []string{permitsKey, "y", "x"},
				owners: []string{"a", "a", "a"}, lease: "60000",
			},
			reply: []any{
				now{},
				int64(0), int64(0),
				"WRONGTYPE Operation against a key holding the wrong kind of value",
			},
			after: permits("1", taken{"a": 1}),
		},
		"no lease": {
			call: renew{
				by: "semaphore_renew_expirable", keys: []string{permitsKey}, owners: []string{"a"},
				lease: "0",
			},
			fails: "lease must be", after: none,
		},
		"without memory": {
			seed: append(permitsSeed("0", nil), inTenSeconds("a")), full: true,
			call:  renew{by: "semaphore_renew_expirable", keys: []string{permitsKey}, owners: []string{"a"}, lease: "60000"},
			reply: []any{now{}, int64(1)}, after: permits("0", nil), due: map[string]int{"a": 60000},
		},
	})
	runSteps(t, map[string]step{
		"shorter": {
			seed: permitsSeed("0", taken{"a": never}), call: updatePermit{lease: "500"}, reply: now{},
			after: permits("0", nil), due: map[string]int{"a": 500},
		},
		"without end": {
			seed: permitsSeed("0", taken{"a": nextYear}), call: updatePermit{lease: "0"}, reply: now{},
			after: permits("0", taken{"a": never}),
		},
		"without memory": {
			seed: permitsSeed("0", taken{"a": nextYear}), full: true, call: updatePermit{lease: "0"}, reply: now{},
			after: permits("0", taken{"a": never}),
		},
		"unknown": {
			seed: permitsSeed("0", nil), call: updatePermit{lease: "500"}, reply: head(0),
			after: permits("0", nil),
		},
		"over": {
			seed: permitsSeed("0", taken{"a": 1}), call: updatePermit{lease: "500"}, reply: head(0),
			after: permits("0", taken{"a": 1}),
		},
		"too late": {
			seed: permitsSeed("0", taken{"a": never}), call: updatePermit{lease: "500", late: true},
			reply: head(-2), after: permits("0", taken{"a": never}),
		},
		"no lease": {
			seed: permitsSeed("0", taken{"a": never}), call: updatePermit{lease: "-1"}, fails: "lease must be",
			after: permits("0", taken{"a": never}),
		},
		"before it was sent": {
			seed: permitsSeed("0", taken{"a": never}), call: updatePermit{lease: "500", early: true},
			reply: head(-2), after: permits("0", taken{"a": never}),
		},
	})
	runSteps(t, map[string]step{
		"without end": {
			seed: permitsSeed("0", taken{"a": never}), call: leaseOfPermit{}, reply: int64(-1),
			after: permits("0", taken{"a": never}),
		},
		"unknown": {
			seed: permitsSeed("0", nil), call: leaseOfPermit{}, reply: int64(0), after: permits("0", nil),
		},
		"over": {
			seed: permitsSeed("0", taken{"a": 1}), call: leaseOfPermit{}, reply: int64(0),
			after: permits("0", taken{"a": 1}),
		},
	})
	runSteps(t, map[string]step{
		"some of each": {
			seed: permitsSeed("3", taken{"a": nextYear, "b": never}), call: countPermits{},
			reply: []any{int64(3), int64(2)}, after: permits("3", taken{"a": nextYear, "b": never}),
		},
		"one comes back": {
			seed: permitsSeed("3", taken{"a": 1, "b": never}), call: countPermits{},
			reply: []any{int64(4), int64(1)}, after: permits("4", taken{"b": never}), messages: said("4"),
		},
		"none there": {call: countPermits{}, reply: []any{int64(0), int64(0)}, after: none},
		"one comes back whose number was lost": {
			seed: [][]string{{"ZADD", permitsKey, "1", "a"}}, call: countPermits{},
			reply: []any{int64(1), int64(0)}, after: permits("1", nil), messages: said("1"),
		},
		"some missing": {
			seed: permitsSeed("-3", taken{"b": never}), call: countPermits{}, reply: []any{int64(-3), int64(1)},
			after: permits("-3", taken{"b": never}),
		},
		"more come back than one call takes": {
			seed: permitsSeed("-5", many(2001, 1)), call: countPermits{}, reply: []any{int64(-3)},
			after: permits("1995", taken{"999": 1}), messages: said("1995"),
		},
	})
	runSteps(t, map[string]step{
		"larger": {
			seed: permitsSeed("3", nil), call: growPermits{n: "2"}, reply: heard, after: permits("5", nil),
			messages: said("2"),
		},
		"smaller": {
			seed: permitsSeed("3", nil), call: growPermits{n: "-4"}, reply: []any{int64(0)},
			after: permits("-1", nil),
		},
		"none there": {call: growPermits{n: "2"}, reply: heard, after: permits("2", nil), messages: said("2")},
		"the most": {
			seed: permitsSeed("9007199254740991", nil), call: growPermits{n: "1"}, fails: "below 2^53",
			after: permits("9007199254740991", nil),
		},
		"one below the lowest": {
			seed: permitsSeed("-9007199254740991", nil), call: growPermits{n: "-1"}, fails: "below 2^53",
			after: permits("-9007199254740991", nil),
		},
		"keeps the time": {
			seed: [][]string{{"SET", "x", "1", "EX", "10"}}, call: growPermits{n: "3"}, reply: heard,
			after:    map[string]redistest.Value{"x": {Type: "string", Content: "4", Expires: true}},
			messages: said("3"),
		},
	})
	runSteps(t, map[string]step{
		"larger": {
			seed: permitsSeed("3", taken{"a": 1, "b": never}), call: resizePermits{n: "7"}, reply: now{},
			after: permits("5", taken{"a": 1, "b": never}), messages: said("7"),
		},
		"smaller": {
			seed: permitsSeed("1", taken{"b": never}), call: resizePermits{n: "0"}, reply: now{},
			after: permits("-1", taken{"b": never}), messages: said("0"),
		},
		"as it is": {
			seed: permitsSeed("1", taken{"b": never}), call: resizePermits{n: "2"}, reply: head(0),
			after: permits("1", taken{"b": never}),
		},
		"none there": {call: resizePermits{n: "2"}, reply: now{}, after: permits("2", nil), messages: said("2")},
		"to nothing": {call: resizePermits{n: "0"}, reply: now{}, after: permits("0", nil), messages: said("0")},
		"made anew": {
			call: resizePermits{n: "2", onlyNew: true}, reply: now{}, after: permits("2", nil), messages: said("2"),
		},
		"made anew beside permits that are taken": {
			seed: permitsSeed("0", taken{"b": never})[1:], call: resizePermits{n: "2", onlyNew: true}, reply: now{},
			after: permits("1", taken{"b": never}), messages: said("2"),
		},
		"there already": {
			seed: permitsSeed("1", taken{"b": never}), call: resizePermits{n: "7", onlyNew: true}, reply: head(0),
			after: permits("1", taken{"b": never}),
		},
		"too late": {
			seed: permitsSeed("1", nil), call: resizePermits{n: "7", late: true}, reply: head(-2),
			after: permits("1", nil),
		},
	})
	runSteps(t, map[string]step{
		"with permits": {
			seed: permitsSeed("1", taken{"a": never}), call: deletePermits{leased: true}, reply: now{}, after: none,
		},
		"permits alone": {
			seed: [][]string{{"ZADD", permitsKey, "1", "a"}}, call: deletePermits{leased: true}, reply: now{}, after: none,
		},
		"none there": {call: deletePermits{leased: true}, reply: head(0), after: none},
		"too late": {
			seed: permitsSeed("1", taken{"a": never}), call: deletePermits{leased: true, late: true}, reply: head(-2),
			after: permits("1", taken{"a": never}),
		},
	})
}
