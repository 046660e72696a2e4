package scripts

import (
	"testing"

	"github.com/holdfast-go/holdfast/tests/redistest"
)

const leaderKey = "holdfast_leader:{x}"

// tellLeader has a:1 recorded, whose term is 7.
type tellLeader struct{ since string }

func (l tellLeader) call() call {
	return call{"leader_tell", []string{lockKey, leaderKey}, []string{
		me, "7", l.since, "{}", "60000", publishes, leaderKey,
	}}
}

type currentLeader struct{}

func (currentLeader) call() call { return call{"leader_current", []string{lockKey, leaderKey}, nil} }

// leads stores a leader.
func leads(owner string) [][]string {
	return [][]string{
		{"HSET", leaderKey, "owner", owner, "term", "7", "since", "5", "process", "{}"},
		{"PEXPIRE", leaderKey, "10000"},
	}
}

func TestLeaderScripts(t *testing.T) {
	t.Parallel()
	record := func(owner, since string) redistest.Value {
		return hash("owner", owner, "term", "7", "since", since, "process", "{}")
	}
	said := func(payload string) []redistest.Message { return tells(leaderKey, payload) }
	lock := hash(me, "1")
	runSteps(t, map[string]step{
		"is recorded in place of the one before": {
			seed: with(seed(me, "1"), leads("b:1")), call: tellLeader{since: "6"}, reply: int64(6),
			after: map[string]redistest.Value{lockKey: lock, leaderKey: record(me, "6")}, ttls: map[string]int{leaderKey: 60},
			messages: said("1"),
		},
		"is the first to be recorded": {
			seed: seed(me, "1"), call: tellLeader{since: "6"}, reply: int64(6),
			after: map[string]redistest.Value{lockKey: lock, leaderKey: record(me, "6")}, ttls: map[string]int{leaderKey: 60},
			messages: said("1"),
		},
		"again": {
			seed: with(seed(me, "1"), leads(me)), call: tellLeader{since: "6"}, reply: int64(5),
			after: map[string]redistest.Value{lockKey: lock, leaderKey: record(me, "5")}, ttls: map[string]int{leaderKey: 60},
		},
		"is over": {
			seed: leads(me), call: tellLeader{since: "0"}, reply: int64(0), after: map[string]redistest.Value{},
			messages: said("0"),
		},
		"is over, and another leads": {
			seed: with(seed("b:1", "1"), leads("b:1")), call: tellLeader{since: "0"}, reply: int64(0),
			after: map[string]redistest.Value{lockKey: hash("b:1", "1"), leaderKey: record("b:1", "5")},
		},
		"of another type": {
			seed: with(seed(me, "1"), [][]string{{"SET", leaderKey, "precious"}}), call: tellLeader{since: "0"},
			fails: "WRONGTYPE",
			after: map[string]redistest.Value{lockKey: lock, leaderKey: token("precious")},
		},
	})
	runSteps(t, map[string]step{
		"nobody": {call: currentLeader{}, reply: []any{int64(-2)}, after: map[string]redistest.Value{}},
		"of an earlier term": {
			seed: with(seed("b:1", "1"), leads(me)), call: currentLeader{}, reply: []any{lastsFor(10000)},
			after: map[string]redistest.Value{lockKey: hash("b:1", "1"), leaderKey: record(me, "5")},
		},
		"leads": {
			seed: with(seed(me, "1"), leads(me)), call: currentLeader{}, reply: []any{lastsFor(10000), me, "7", "5", "{}"},
			after: map[string]redistest.Value{lockKey: lock, leaderKey: record(me, "5")},
		},
	})
}
