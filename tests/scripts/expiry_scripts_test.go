package scripts

import (
	"testing"

	"github.com/holdfast-go/holdfast/tests/redistest"
)

func TestExpiryScripts(t *testing.T) {
	t.Parallel()
	const farOff = "9007199254740991"
	free := redistest.Value{Type: "string", Content: "5"}
	ending := redistest.Value{Type: "string", Content: "5", Expires: true}
	has := func(v redistest.Value) map[string]redistest.Value { return map[string]redistest.Value{lockKey: v} }
	none := map[string]redistest.Value{}
	seeded, expiring := [][]string{{"SET", lockKey, "5"}}, [][]string{{"SET", lockKey, "5", "EX", "10"}}
	precious := [][]string{{"SADD", lockKey, "precious"}}
	kept := has(redistest.Value{Type: "set", Content: []string{"precious"}})
	runSteps(t, map[string]step{
		"there is none": {call: expirePermits{when: "after", ms: "30000"}, reply: head(0), after: none},
		"gets an end": {
			seed: seeded, call: expirePermits{when: "after", ms: "30000"}, reply: now{}, after: has(ending), ttl: about(30),
		},
		"gets a later one": {
			seed: expiring, call: expirePermits{when: "after", ms: "30000"}, reply: now{}, after: has(ending),
			ttl: about(30),
		},
		"too late": {
			seed: seeded, call: expirePermits{when: "after", ms: "30000", late: true}, reply: head(-2), after: has(free),
		},
		"at a moment": {
			seed: seeded, call: expirePermits{when: "at", ms: farOff}, reply: now{}, after: has(ending),
		},
		"stays":        {seed: expiring, call: expirePermits{when: "never"}, reply: now{}, after: has(free)},
		"stays anyway": {seed: seeded, call: expirePermits{when: "never"}, reply: head(0), after: has(free)},
		"is none to stay": {
			call: expirePermits{when: "never"}, reply: head(0), after: none,
		},
		"no time at all": {
			seed: seeded, call: expirePermits{when: "after", ms: "0"}, fails: "must be a whole number", after: has(free),
		},
		"no semaphore": {
			seed: precious, call: expirePermits{when: "after", ms: "30000"}, fails: "WRONGTYPE", after: kept,
		},
		"its permits are none": {
			seed: append([][]string{{"SET", permitsKey, "precious"}}, seeded...),
			call: expirePermits{when: "after", ms: "30000", leased: true}, fails: "WRONGTYPE",
			after: map[string]redistest.Value{lockKey: free, permitsKey: token("precious")},
		},
	})
	runSteps(t, map[string]step{
		"for ever":   {seed: seeded, call: look("count_life", lockKey), reply: int64(-1), after: has(free)},
		"none there": {call: look("count_life", lockKey), reply: int64(-2), after: none},
		"no count":   {seed: precious, call: look("count_life", lockKey), fails: "WRONGTYPE", after: kept},
	})
}
