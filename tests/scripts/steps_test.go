package scripts

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

type step struct {
	seed     [][]string // commands
	full     bool       // the server has no memory left
	hears    string     // a pattern: where somebody listens; default: everywhere
	listens  []string   // channels where somebody else listens, whom PUBSUB NUMSUB counts
	dice     string     // decides by chance
	call     caller
	reply    any
	fails    string // instead of reply: the error contains this
	after    map[string]redistest.Value
	ttl      [2]time.Duration // of the lock afterwards, at least and at most; zero: not checked
	ttls     map[string]int   // of other keys afterwards, in seconds; one second may have passed, and what the test took
	due      map[string]int   // zset members afterwards that after leaves out: their scores, in ms from the call on
	messages []redistest.Message
	inside   map[string]int64 // which commands the script calls, and how often; nil: not checked
	twice    bool             // it asks for the time twice
}

// Lua code that decides by chance: t is what TIME replies, in microseconds.
const (
	forPollers = "t = t - t % 256000" // four times a second
	notForThem = "if math.floor(t / 1000) % 256 < 4 then t = t - 4000 end "
	forOthers  = notForThem + "t = t - t % 1000" // if one waits in the line, and one besides
	forTheLine = notForThem + "t = t - t % 1000 + 999"
)

// farthest is how much earlier than it is these make the time, in ms.
const farthest = 256

// command is what makes the call. Without other dice a lock is passed on in its line, if any.
func (s step) command() []string {
	command := eval(s.call)
	if dice := s.dice; dice != "" || s.lined() {
		command[1] = fmt.Sprintf(`local real = redis
			local redis = {pcall = real.pcall, error_reply = real.error_reply, call = function(command, ...)
				local reply = real.call(command, ...)
				if command ~= 'TIME' then return reply end
				local t = reply[1] * 1000000 + reply[2]
				%s
				return {math.floor(t / 1000000), t %% 1000000}
			end}
		`, cmp.Or(dice, forTheLine)) + command[1]
	}
	return command
}

func runSteps(t *testing.T, steps map[string]step) {
	srv := redistest.Start(t) // to start one for each costs more than most do with it
	for name, s := range steps {
		t.Run(s.call.call().script+"/"+name, func(t *testing.T) { s.run(t, srv) })
	}
}

// empty waits until nobody is left from the step before, and removes what it has stored.
func empty(t *testing.T, srv *redistest.Server) {
	kit.Await(t, "the end of the last step's connections", func() bool {
		return srv.Connections(t) == 0 && srv.Int(t, "PUBSUB", "NUMPAT") == 0
	})
	srv.Do(t, "CONFIG", "SET", "maxmemory", "0")
	srv.Do(t, "FLUSHALL")
}

func (s step) run(t *testing.T, srv *redistest.Server) {
	empty(t, srv)
	var early int64 // in ms, of the script's clock
	if s.lined() {
		early = farthest
	}
	seeded := time.Now()
	s.prepare(t, srv)
	messages := hear(t, srv, s.hears)
	for _, name := range s.listens {
		listen(t, srv, name)
	}
	srv.ResetStats(t)
	began := time.Now().UnixMilli() - early
	reply, err := srv.Try(s.command()...)
	took := time.Since(seeded) // a busy machine takes its time
	inside := srv.CommandStats(t)
	switch {
	case s.fails != "":
		require.ErrorContains(t, err, s.fails)
	default:
		require.NoError(t, err)
		assert.Equal(t, s.reply, withNow(s.withLasts(reply, took), began))
		s.assertAsked(t, inside["time"])
	}
	after := srv.Keyspace(t)
	for member, ms := range s.due {
		takeDue(t, after, member, seeded.UnixMilli()-early+int64(ms), began+int64(ms)+1000+took.Milliseconds())
	}
	assert.Equal(t, s.after, after)
	assert.Equal(t, s.messages, messages.Drain(t))
	if s.ttl[1] > 0 {
		left := srv.TTLs(t)[lockKey]
		assert.GreaterOrEqual(t, left, s.ttl[0]-time.Since(seeded))
		assert.LessOrEqual(t, left, s.ttl[1])
	}
	for key, seconds := range s.ttls {
		most := time.Duration(seconds) * time.Second
		left := srv.TTLs(t)[key]
		assert.GreaterOrEqual(t, left, most-time.Second-time.Since(seeded), key)
		assert.LessOrEqual(t, left, most, key)
	}
	delete(inside, "eval")
	if s.inside != nil {
		assert.Equal(t, s.inside, inside)
	}
	for command := range inside {
		s.runWithout(t, srv, command, messages)
	}
}

// listen subscribes to channels until the test ends.
func listen(t *testing.T, srv *redistest.Server, names ...string) {
	conn, err := redistest.Dial(srv.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	for _, name := range names {
		_, err = conn.Do("SUBSCRIBE", name)
		require.NoError(t, err)
	}
}

// hear collects the messages of the channels that match a pattern; all, if it is "". The sessions of waiters listen to
// those among them that are theirs, as the server does not count whom it tells because of a pattern.
func hear(t *testing.T, srv *redistest.Server, pattern string) *redistest.Messages {
	pattern = cmp.Or(pattern, "*")
	for session := range strings.SplitSeq(sessions, "") {
		for _, channel := range []string{lineKey + ":" + session, rwLine + ":" + session, fairTold + session} {
			if matched, err := path.Match(pattern, channel); matched {
				require.NoError(t, err)
				listen(t, srv, channel)
			}
		}
	}
	return srv.Messages(t, pattern)
}

const sessions = "abcde" // of waiters

// assertAsked asserts that a call with a not-after asks for the time only if it replies the time, and then once.
func (s step) assertAsked(t *testing.T, times int64) {
	if !strings.Contains(lua.Source(s.call.call().script), " not_after ") {
		return
	}
	var told int64
	if values, _ := s.reply.([]any); s.reply == (now{}) || slices.Contains(values, any(now{})) {
		told = 1
	}
	if s.twice {
		told = 2
	}
	assert.Equal(t, told, times, "TIME")
}

// prepare stores the keyspace that the call finds.
func (s step) prepare(t *testing.T, srv *redistest.Server) {
	srv.Do(t, "CONFIG", "SET", "maxmemory", "0")
	for _, command := range s.seed {
		srv.Do(t, command...)
	}
	if s.full {
		srv.Do(t, "CONFIG", "SET", "maxmemory", "1")
	}
}

// takeDue removes a member from the one zset that has it, and checks that its score is within these bounds.
func takeDue(t *testing.T, space map[string]redistest.Value, member string, from, to int64) {
	for key, value := range space {
		scores, _ := value.Content.(map[string]float64)
		if got, ok := scores[member]; ok {
			assert.GreaterOrEqual(t, int64(got), from, member)
			assert.LessOrEqual(t, int64(got), to, member)
			if delete(scores, member); len(scores) == 0 {
				delete(space, key)
			}
			return
		}
	}
	assert.Fail(t, "no member", member)
}

// lastsFor in a wanted reply to a renewal is a lease that was longer already, in ms; up to a second may have passed,
// and the time that the test took.
type lastsFor int64

// lastsUntil is the same of a lease that ends then, in server ms.
type lastsUntil int64

// withLasts replaces the remaining time in a reply by the wanted lastsFor or lastsUntil, if it fits.
func (s step) withLasts(reply any, took time.Duration) any {
	want, _ := s.reply.([]any)
	got, _ := reply.([]any)
	for i := range min(len(want), len(got)) {
		ms, ok := want[i].(lastsFor)
		if n, is := got[i].(int64); ok && is && n <= int64(ms) && n > int64(ms)-1000-took.Milliseconds() {
			got[i] = ms
		}
		if end, ok := want[i].(lastsUntil); ok && got[i] == int64(end)-got[0].(int64) {
			got[i] = end
		}
	}
	return reply
}

// withNow puts now{} where a reply has the server's time.
func withNow(reply any, began int64) any {
	switch v := reply.(type) {
	case []any:
		for i := range v {
			v[i] = withNow(v[i], began)
		}
	case int64:
		if v >= began && v <= time.Now().UnixMilli() {
			return now{}
		}
	}
	return reply
}
