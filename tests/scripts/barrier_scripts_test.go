package scripts

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/tests/redistest"
)

const barrierKey = "holdfast_barrier:{x}"

// The parties' ids.
var (
	partyA = strings.Repeat("a", 16)
	partyB = strings.Repeat("b", 16)
	partyC = strings.Repeat("c", 16)
	partyD = strings.Repeat("d", 16)
)

// arriveAt is a call of a party, to join or to arrive; without an id it only looks.
type arriveAt struct {
	id           string
	at, tripped  int
	full, breaks bool
	parties      int // 0: 3
}

func (a arriveAt) call() call {
	flag := map[bool]string{false: "0", true: "1"}
	return call{"barrier_arrive", []string{"x", permitsKey, barrierKey}, []string{
		a.id, strconv.Itoa(a.at), strconv.Itoa(a.tripped), flag[a.full], strconv.Itoa(cmp.Or(a.parties, 3)),
		flag[a.breaks], publishes, barrierKey,
	}}
}

// lives stores a semaphore of three places: of these parties that live for ten seconds.
func lives(ids ...string) [][]string {
	seed := [][]string{{"SET", "x", strconv.Itoa(3 - len(ids))}}
	for _, id := range ids {
		seed = append(seed, inTenSeconds(id))
	}
	return seed
}

// barrierFields are how far a barrier is.
func barrierFields(gen, tripped, full, arrived string, marks ...string) []string {
	return append([]string{"gen", gen, "tripped", tripped, "full", full, "arrived", arrived}, marks...)
}

func TestBarrierScript(t *testing.T) {
	t.Parallel()
	// far stores how far the barrier is.
	far := func(fields []string, lives [][]string) [][]string {
		return with(lives, [][]string{append([]string{"HSET", barrierKey}, fields...), {"PEXPIRE", barrierKey, "10000"}})
	}
	// after is the state afterwards, with these parties.
	type state = map[string]redistest.Value
	due := func(ids ...string) map[string]int {
		all := map[string]int{}
		for _, id := range ids {
			all[id] = 9000
		}
		return all
	}
	after := func(free string, fields []string) state {
		return state{"x": token(free), barrierKey: hash(fields...)}
	}
	is := func(gen, tripped, full, mark int64) []any { return []any{gen, tripped, full, lastsFor(10000), mark} }
	said := func(payload string) []redistest.Message { return tells(barrierKey, payload) }
	long := map[string]int{barrierKey: 100 * 24 * 3600}
	abc := []string{partyA, partyB, partyC}
	ab := abc[:2]

	runSteps(t, map[string]step{
		"the first one joins": {
			seed: lives(partyA), call: arriveAt{id: partyA}, reply: is(1, 0, 0, 0), due: due(partyA), ttls: long,
			after: after("2", barrierFields("1", "0", "0", "0", partyA, "0")),
		},
		"the last one joins": {
			seed: far(barrierFields("1", "0", "0", "1", partyA, "1", partyB, "0"), lives(abc...)),
			call: arriveAt{id: partyC}, reply: is(1, 0, 1, 0), due: due(abc...), ttls: long,
			after: after("0", barrierFields("1", "0", "1", "1", partyA, "1", partyB, "0", partyC, "0")),
		},
		"one joins while another has taken its place, but not joined": {
			seed: far(barrierFields("1", "0", "0", "0", partyA, "0"), lives(abc...)),
			call: arriveAt{id: partyC, breaks: true}, reply: is(1, 0, 0, 0), due: due(abc...),
			after: after("0", barrierFields("1", "0", "0", "0", partyA, "0", partyC, "0")),
		},
		"a copy of a join": {
			seed: far(barrierFields("4", "3", "1", "1", partyA, "4", partyB, "3", partyC, "0"), lives(abc...)),
			call: arriveAt{id: partyC, breaks: true}, reply: is(4, 3, 1, 0), due: due(abc...),
			after: after("0", barrierFields("4", "3", "1", "1", partyA, "4", partyB, "3", partyC, "0")),
		},
		"one joins when all are gone": {
			seed: far(barrierFields("7", "6", "1", "1", partyB, "7", partyC, "6"), lives(partyA)),
			call: arriveAt{id: partyA, breaks: true}, reply: is(1, 0, 0, 0), due: due(partyA),
			after: after("2", barrierFields("1", "0", "0", "0", partyA, "0")),
		},
		"one joins later": {
			seed: far(barrierFields("4", "3", "1", "1", partyA, "4", partyB, "3", partyC, "2"), lives(partyA, partyB, partyD)),
			call: arriveAt{id: partyD}, reply: is(4, 3, 1, 0), due: due(partyA, partyB, partyD), ttls: long,
			after: after("0", barrierFields("4", "3", "1", "1", partyA, "4", partyB, "3", partyD, "0")),
		},
		"one joins in place of another, and breaks the generation": {
			seed: far(barrierFields("4", "3", "1", "1", partyA, "4", partyB, "3", partyC, "2"), lives(partyA, partyB, partyD)),
			call: arriveAt{id: partyD, breaks: true}, reply: is(5, 3, 1, 0), due: due(partyA, partyB, partyD),
			after:    after("0", barrierFields("5", "3", "1", "0", partyA, "4", partyB, "3", partyD, "0")),
			messages: said("5"),
		},
		"one joins while others are gone": {
			seed: far(barrierFields("4", "3", "1", "1", partyA, "4", partyB, "3", partyC, "2"), lives(partyA, partyD)),
			call: arriveAt{id: partyD}, reply: is(4, 3, 1, 0), due: due(partyA, partyD),
			after: after("1", barrierFields("4", "3", "1", "1", partyA, "4", partyD, "0")),
		},
		"one joins while others are gone, and breaks the generation once": {
			seed: far(barrierFields("4", "3", "1", "1", partyA, "4", partyB, "3", partyC, "2"), lives(partyA, partyD)),
			call: arriveAt{id: partyD, breaks: true}, reply: is(5, 3, 0, 0), due: due(partyA, partyD),
			after: after("1", barrierFields("5", "3", "0", "0", partyA, "4", partyD, "0")), messages: said("5"),
		},

		"arrives": {
			seed: far(barrierFields("4", "3", "1", "1", partyA, "4", partyB, "3", partyC, "3"), lives(abc...)),
			call: arriveAt{id: partyB, at: 4, tripped: 3}, reply: is(4, 3, 1, 4), due: due(abc...), ttls: long,
			after: after("0", barrierFields("4", "3", "1", "2", partyA, "4", partyB, "4", partyC, "3")),
		},
		"arrives again": {
			seed: far(barrierFields("4", "3", "1", "2", partyA, "4", partyB, "4", partyC, "3"), lives(abc...)),
			call: arriveAt{id: partyB, at: 4, tripped: 3, full: true, breaks: true}, reply: is(4, 3, 1, 4), due: due(abc...),
			after: after("0", barrierFields("4", "3", "1", "2", partyA, "4", partyB, "4", partyC, "3")),
			inside: map[string]int64{
				"zscore": 1, "get": 1, "zcard": 1, "zcount": 1, "hmget": 1, "zrangebyscore": 1, "time": 1,
			},
		},
		"arrives last": {
			seed: far(barrierFields("4", "3", "1", "2", partyA, "4", partyB, "4", partyC, "3"), lives(abc...)),
			call: arriveAt{id: partyC, at: 4, tripped: 3, breaks: true}, reply: is(5, 4, 1, 4), due: due(abc...),
			after:    after("0", barrierFields("5", "4", "1", "0", partyA, "4", partyB, "4", partyC, "4")),
			messages: said("5"),
		},
		"arrives before all places were taken": {
			seed: far(barrierFields("1", "0", "0", "1", partyA, "1", partyB, "0"), lives(ab...)),
			call: arriveAt{id: partyB, at: 1}, reply: is(1, 0, 0, 1), due: due(ab...),
			after: after("1", barrierFields("1", "0", "0", "2", partyA, "1", partyB, "1")),
		},
		"arrives before another one that has only taken its place": {
			seed: far(barrierFields("4", "3", "1", "1", partyA, "4", partyB, "3"), lives(partyA, partyB, partyD)),
			call: arriveAt{id: partyB, at: 4, tripped: 3}, reply: is(4, 3, 1, 4), due: due(partyA, partyB, partyD),
			after: after("0", barrierFields("4", "3", "1", "2", partyA, "4", partyB, "4")),
		},
		"arrives before another one, while one that has arrived is gone": {
			seed: far(barrierFields("4", "3", "1", "1", partyA, "3", partyB, "3", partyC, "4"), lives(ab...)),
			call: arriveAt{id: partyA, at: 4, tripped: 3}, reply: is(4, 3, 1, 4), due: due(ab...),
			after: after("1", barrierFields("4", "3", "1", "2", partyA, "4", partyB, "3")),
		},
		"one counts out": {
			seed: far(barrierFields("4", "3", "1", "2", partyA, "4", partyB, "4", partyC, "3"), lives(ab...)),
			call: arriveAt{id: partyB, at: 4, tripped: 3}, reply: is(5, 4, 1, 4), due: due(ab...), ttls: long,
			after: after("1", barrierFields("5", "4", "1", "0", partyA, "4", partyB, "4")), messages: said("5"),
		},
		"one counts out whose lease is over": {
			seed: far(barrierFields("4", "3", "1", "2", partyA, "4", partyB, "4", partyC, "3"),
				with([][]string{{"ZADD", permitsKey, "1", partyC}}, lives(ab...), [][]string{{"SET", "x", "0"}})),
			call: arriveAt{id: partyB, at: 4, tripped: 3}, reply: is(5, 4, 1, 4), due: due(ab...),
			after: state{
				"x": token("0"), permitsKey: {Type: "zset", Content: map[string]float64{partyC: 1}},
				barrierKey: hash(barrierFields("5", "4", "1", "0", partyA, "4", partyB, "4")...),
			}, messages: said("5"),
		},
		"one that is gone breaks the generation": {
			seed: far(barrierFields("4", "3", "1", "1", partyA, "4", partyB, "3", partyC, "3"), lives(ab...)),
			call: arriveAt{id: partyB, at: 4, tripped: 3, breaks: true}, reply: is(5, 3, 0, 4), due: due(ab...), ttls: long,
			after:    after("1", barrierFields("5", "3", "0", "0", partyA, "4", partyB, "4", partyC, "3")),
			messages: said("5"),
		},
		"nothing breaks before all places were taken": {
			seed: far(barrierFields("1", "0", "0", "1", partyA, "1", partyB, "0"), lives(partyA)),
			call: arriveAt{id: partyA, at: 1, breaks: true}, reply: is(1, 0, 0, 1), due: due(partyA),
			after: after("2", barrierFields("1", "0", "0", "1", partyA, "1", partyB, "0")),
		},

		"comes when its generation has tripped": {
			seed: far(barrierFields("5", "4", "1", "1", partyA, "5", partyB, "4", partyC, "4"), lives(abc...)),
			call: arriveAt{id: partyB, at: 4, tripped: 3, full: true}, reply: is(5, 4, 1, 4), due: due(abc...),
			after: after("0", barrierFields("5", "4", "1", "1", partyA, "5", partyB, "4", partyC, "4")),
		},
		"comes when its generation is broken": {
			seed: far(barrierFields("6", "3", "0", "1", partyA, "6", partyB, "3"), lives(ab...)),
			call: arriveAt{id: partyB, at: 4, tripped: 3, full: true, breaks: true}, reply: is(6, 3, 0, 3), due: due(ab...),
			after: after("1", barrierFields("6", "3", "0", "1", partyA, "6", partyB, "3")),
		},

		"the server has forgotten": {
			seed: lives(abc...), call: arriveAt{id: partyA, at: 5, tripped: 4, full: true}, reply: is(5, 4, 1, 5),
			after: after("0", barrierFields("5", "4", "1", "1", partyA, "5")), due: due(abc...), ttls: long,
		},
		"the server has forgotten, and nothing is broken": {
			seed: lives(abc...), call: arriveAt{id: partyA, at: 5, tripped: 4, full: true, breaks: true}, reply: is(5, 4, 1, 5),
			after: after("0", barrierFields("5", "4", "1", "1", partyA, "5")), due: due(abc...), ttls: long,
		},
		"the server has forgotten, and none has tripped": {
			seed: lives(abc...), call: arriveAt{id: partyA, at: 1}, reply: is(1, 0, 0, 1),
			after: after("0", barrierFields("1", "0", "0", "1", partyA, "1")), due: due(abc...),
		},
		"the server has forgotten the last generation": {
			seed: far(barrierFields("4", "3", "1", "2", partyA, "4", partyB, "4", partyC, "3"), lives(abc...)),
			call: arriveAt{id: partyC, at: 5, tripped: 4, full: true}, reply: is(5, 4, 1, 5), due: due(abc...),
			after: after("0", barrierFields("5", "4", "1", "1", partyA, "4", partyB, "4", partyC, "5")),
		},
		"the server has forgotten that all places were taken": {
			seed: far(barrierFields("1", "0", "0", "1", partyA, "1", partyB, "0"), lives(ab...)),
			call: arriveAt{id: partyB, at: 1, full: true}, reply: is(2, 1, 1, 1), due: due(ab...),
			after: after("1", barrierFields("2", "1", "1", "0", partyA, "1", partyB, "1")), messages: said("2"),
		},
		"the server has forgotten that all places were taken, and one that has arrived looks": {
			seed: far(barrierFields("1", "0", "0", "1", partyA, "1", partyB, "0"), lives(abc...)),
			call: arriveAt{id: partyA, at: 1, full: true}, reply: is(1, 0, 1, 1), due: due(abc...),
			after: after("0", barrierFields("1", "0", "1", "1", partyA, "1", partyB, "0")),
		},
		"the server has forgotten a party": {
			seed: lives(ab...), call: arriveAt{id: partyA, at: 5, tripped: 2, full: true, breaks: true},
			reply: is(6, 2, 0, 5), due: due(ab...), messages: said("6"),
			after: after("1", barrierFields("6", "2", "0", "0", partyA, "5")),
		},
		"the server has forgotten a party, and another one has its place": {
			seed: far(barrierFields("1", "0", "0", "0", partyC, "0"), lives(abc...)),
			call: arriveAt{id: partyA, at: 5, tripped: 2, full: true, breaks: true}, reply: is(6, 2, 0, 5), due: due(abc...),
			messages: said("6"),
			after:    after("0", barrierFields("6", "2", "0", "0", partyA, "5", partyC, "0")),
		},
		"the last one that had joined": {
			seed: far(barrierFields("6", "2", "0", "0", partyA, "5", partyC, "0"), lives(abc...)),
			call: arriveAt{id: partyB, at: 6, tripped: 2, breaks: true}, reply: is(6, 2, 1, 6), due: due(abc...),
			after: after("0", barrierFields("6", "2", "1", "1", partyA, "5", partyB, "6", partyC, "0")),
		},
		"what it knows of another generation is no news": {
			seed: far(barrierFields("6", "3", "0", "1", partyA, "6", partyB, "3"), lives(ab...)),
			call: arriveAt{id: partyB, at: 5, tripped: 3, full: true, breaks: true}, reply: is(6, 3, 0, 3), due: due(ab...),
			after: after("1", barrierFields("6", "3", "0", "1", partyA, "6", partyB, "3")),
		},

		"no party": {
			seed: far(barrierFields("4", "3", "1", "1", partyA, "4", partyC, "3"), lives(ab...)),
			call: arriveAt{id: partyC, at: 4}, reply: []any{int64(0)}, due: due(ab...),
			after: after("1", barrierFields("4", "3", "1", "1", partyA, "4", partyC, "3")),
		},
		"its lease is over": {
			seed: permitsSeed("2", map[string]float64{partyA: 1}), call: arriveAt{id: partyA}, reply: []any{int64(0)},
			after: permits("2", map[string]float64{partyA: 1}),
		},
		"its lease is over, and another's is not": {
			seed: permitsSeed("1", map[string]float64{partyA: 1, partyB: never}), call: arriveAt{id: partyA},
			reply: []any{int64(0)}, after: permits("1", map[string]float64{partyA: 1, partyB: never}),
		},
		"another number of places": {
			seed: lives(partyA), call: arriveAt{id: partyA, parties: 4}, reply: []any{int64(0), int64(3)},
			after: state{"x": token("2")}, due: due(partyA),
		},
		"too many places": {
			seed: lives(partyA), call: arriveAt{id: partyA, at: 1, parties: 2}, reply: []any{int64(0), int64(3)},
			after: state{"x": token("2")}, due: due(partyA),
		},
		"one has left since the number of places was lost": {
			seed: far(barrierFields("4", "3", "1", "1", partyA, "4", partyB, "3"),
				with(lives(ab...), [][]string{{"SET", "x", "0"}})),
			call: arriveAt{id: partyA, at: 4, tripped: 3}, reply: is(4, 3, 1, 4), due: due(ab...),
			after: after("1", barrierFields("4", "3", "1", "1", partyA, "4", partyB, "3")),
		},

		"one has left whom all have waited for": {
			seed: far(barrierFields("4", "3", "1", "2", partyA, "4", partyB, "4", partyC, "3"), lives(ab...)),
			call: arriveAt{}, reply: is(5, 4, 1, 0), due: due(ab...), messages: said("5"),
			after: after("1", barrierFields("5", "4", "1", "0", partyA, "4", partyB, "4")),
		},
		"one has left whom the others wait for": {
			seed: far(barrierFields("4", "3", "1", "1", partyA, "4", partyB, "3", partyC, "3"), lives(ab...)),
			call: arriveAt{breaks: true}, reply: is(5, 3, 0, 0), due: due(ab...), messages: said("5"),
			after: after("1", barrierFields("5", "3", "0", "0", partyA, "4", partyB, "3", partyC, "3")),
		},
		"one has left who had arrived": {
			seed: far(barrierFields("4", "3", "1", "1", partyA, "3", partyB, "3", partyC, "4"), lives(ab...)),
			call: arriveAt{}, reply: is(4, 3, 1, 0), due: due(ab...),
			after: after("1", barrierFields("4", "3", "1", "1", partyA, "3", partyB, "3", partyC, "4")),
		},
		"all have left": {
			seed: far(barrierFields("4", "3", "1", "1", partyC, "3"), lives()), call: arriveAt{}, reply: []any{int64(0)},
			after: state{"x": token("3")}, messages: said("0"),
		},
		"all have left before the first generation was over": {
			seed: far(barrierFields("1", "0", "0", "1", partyC, "1"), lives()), call: arriveAt{}, reply: []any{int64(0)},
			after: state{"x": token("3")}, messages: said("0"),
		},
		"all have left before": {
			seed: lives(), call: arriveAt{}, reply: []any{int64(0)}, after: state{"x": token("3")},
		},
		"one has left, and nobody has joined": {
			seed: lives(partyA), call: arriveAt{}, reply: []any{int64(0)}, after: state{"x": token("2")}, due: due(partyA),
		},

		"a key of another type": {
			seed: slices.Concat(lives(partyA), [][]string{{"SET", barrierKey, "precious"}}), call: arriveAt{id: partyA},
			fails: "WRONGTYPE", after: state{"x": token("2"), barrierKey: token("precious")}, due: due(partyA),
		},
		"a text that is no count": {
			seed: slices.Concat(lives(partyA), [][]string{{"SET", "x", "precious"}}), call: arriveAt{id: partyA},
			fails: "WRONGTYPE", after: state{"x": token("precious")}, due: due(partyA),
		},
	})
}
