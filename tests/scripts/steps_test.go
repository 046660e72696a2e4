package scripts

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

type step struct {
	seed     [][]string // commands
	call     caller
	reply    any
	fails    string // instead of reply: the error contains this
	after    map[string]redistest.Value
	ttl      [2]time.Duration // of the lock afterwards, at least and at most; zero: not checked
	ttls     map[string]int   // of other keys afterwards, in seconds; one second may have passed
	due      map[string]int   // zset members afterwards that after leaves out: their scores, in ms from the call on
	messages []redistest.Message
}

func runSteps(t *testing.T, steps map[string]step) {
	for name, s := range steps {
		t.Run(s.call.call().script+"/"+name, func(t *testing.T) {
			t.Parallel()
			s.run(t)
		})
	}
}

func (s step) run(t *testing.T) {
	srv := redistest.Start(t)
	s.prepare(t, srv)
	messages := srv.Messages(t, "*")
	srv.ResetStats(t)
	began := time.Now().UnixMilli()
	reply, err := srv.Try(eval(s.call)...)
	inside := srv.CommandStats(t)
	switch {
	case s.fails != "":
		require.ErrorContains(t, err, s.fails)
	default:
		require.NoError(t, err)
		assert.Equal(t, s.reply, withNow(s.withLasts(reply), began))
		s.assertAsked(t, inside["time"])
	}
	after := srv.Keyspace(t)
	for member, ms := range s.due {
		takeDue(t, after, member, began+int64(ms))
	}
	assert.Equal(t, s.after, after)
	assert.Equal(t, s.messages, messages.Drain(t))
	if s.ttl[1] > 0 {
		left := srv.TTLs(t)[lockKey]
		assert.GreaterOrEqual(t, left, s.ttl[0])
		assert.LessOrEqual(t, left, s.ttl[1])
	}
	for key, seconds := range s.ttls {
		most := time.Duration(seconds) * time.Second
		left := srv.TTLs(t)[key]
		assert.GreaterOrEqual(t, left, most-time.Second, key)
		assert.LessOrEqual(t, left, most, key)
	}
	delete(inside, "eval")
	for command := range inside {
		s.runWithout(t, srv, command)
	}
}

// assertAsked asserts that a call with a not-after asks for the time only if it replies the time, and then once.
func (s step) assertAsked(t *testing.T, times int64) {
	if !strings.Contains(lua.Source(s.call.call().script), " not_after ") {
		return
	}
	var told int64
	if slices.Contains(s.reply.([]any), any(now{})) {
		told = 1
	}
	assert.Equal(t, told, times, "TIME")
}

// prepare stores the keyspace that the call finds.
func (s step) prepare(t *testing.T, srv *redistest.Server) {
	for _, command := range s.seed {
		srv.Do(t, command...)
	}
}

// takeDue removes a member from the one zset that has it, and checks that its score is within a second of score.
func takeDue(t *testing.T, space map[string]redistest.Value, member string, score int64) {
	for key, value := range space {
		scores, _ := value.Content.(map[string]float64)
		if got, ok := scores[member]; ok {
			assert.GreaterOrEqual(t, int64(got), score, member)
			assert.LessOrEqual(t, int64(got), score+1000, member)
			if delete(scores, member); len(scores) == 0 {
				delete(space, key)
			}
			return
		}
	}
	assert.Fail(t, "no member", member)
}

// lastsFor in a wanted reply to a renewal is a lease that was longer already, in ms; up to a second may have passed.
type lastsFor int64

// withLasts replaces the remaining time in a reply by the wanted lastsFor, if it fits.
func (s step) withLasts(reply any) any {
	want, _ := s.reply.([]any)
	got, _ := reply.([]any)
	for i := range min(len(want), len(got)) {
		ms, ok := want[i].(lastsFor)
		if n, is := got[i].(int64); ok && is && n <= int64(ms) && n > int64(ms)-1000 {
			got[i] = ms
		}
	}
	return reply
}

// withNow puts now{} where a reply has the server's time.
func withNow(reply any, began int64) any {
	values, ok := reply.([]any)
	if !ok {
		return reply
	}
	for i, v := range values {
		if n, ok := v.(int64); ok && n >= began && n <= time.Now().UnixMilli() {
			values[i] = now{}
		}
	}
	return values
}
