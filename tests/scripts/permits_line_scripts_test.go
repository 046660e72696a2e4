package scripts

import (
	"maps"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/redistest"
)

// These are the scripts that tell the sessions in the line of a semaphore of permits.

// Others that stand in the line, for that many permits.
const (
	wantsOne   = "b:1 1"
	wantsTwo   = "c:1 2"
	wantsThree = "d:1 3"
)

// scMark is where those listen who stand in the line and listen on the semaphore's channel as well.
var look1 = func(session string) redistest.Message { return told(session, "first") }

// counted is a semaphore with free permits, with other keys.
func counted(free string, others ...map[string]redistest.Value) map[string]redistest.Value {
	space := map[string]redistest.Value{lockKey: {Type: "string", Content: free}}
	for _, o := range others {
		maps.Copy(space, o)
	}
	return space
}

// lives is how redistest shows who in the line is alive until then, in scores that no time changes.
func lives(scores map[string]float64) map[string]redistest.Value {
	return beside(aliveKey, redistest.Value{Type: "zset", Content: scores, Expires: true})
}

// livesUntil is what the commands say that put those in the line who were told, in ms from now.
func soonDead(ms int, waiters ...string) [][]string {
	until := strconv.FormatInt(time.Now().UnixMilli()+int64(ms), 10)
	return lineOf(until, waiters...)
}

func TestPermitLineScripts(t *testing.T) {
	t.Parallel()
	free := func(n string) [][]string { return [][]string{{"SET", lockKey, n}} }
	type scores = map[string]float64
	runSteps(t, map[string]step{
		"a release tells the first": {
			seed: with(free("0"), inLine(wantsOne, wantsTwo)), call: addPermits{n: "1"}, reply: []any{int64(0)},
			after: counted("1", lists(wantsOne, wantsTwo), lives(scores{wantsTwo: until})),
			due:   map[string]int{wantsOne: 5000}, messages: []redistest.Message{look1("b")},
		},
		"a release tells all for whom there is room": {
			seed: with(free("0"), inLine(wantsOne, wantsTwo, wantsThree)), call: addPermits{n: "5"},
			reply: []any{int64(0)},
			after: counted("5", lists(wantsOne, wantsTwo, wantsThree)),
			messages: []redistest.Message{look1("b"), look1("c")},
		},
	})
}
