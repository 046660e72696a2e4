package fairqueue_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// TestScriptsDoWhatTheModelDoes runs the real scripts beside the model. After every call of ours it compares the
// whole keyspace, the published messages and the reply.
func TestScriptsDoWhatTheModelDoes(t *testing.T) {
	t.Parallel()
	s := loadScripts(t, redistest.Start(t), asTheyAre)
	seeds := kit.Stressed(16, 40)
	s.besideRuns(seeds)
	s.besideStates(seeds * 200)
	require.Empty(t, s.difference)
	for _, state := range slices.Sorted(maps.Keys(s.states)) {
		t.Logf("%6d %s", s.states[state], state)
	}
	t.Logf("%6d calls compared", s.compared)
	assert.GreaterOrEqual(t, s.compared, seeds*500)
	for _, state := range []string{
		"acquire, granted, nobody waits", "acquire, granted, with a queue", "acquire, re-entry",
		"acquire, nothing to re-enter",
		"acquire, late", "acquire, place 0", "acquire, place 1", "acquire, place 2",
		"acquire, try, free, with a queue", "acquire, try, held",
		"release, reply 0, nobody waits", "release, reply 1, with a queue", "release, reply 2, nobody waits",
		"release, reply 2, with a queue", "leave, reply 0, with a queue", "leave, reply 1, with a queue",
		"leave, reply 2, with a queue", "force, reply 0, nobody waits", "force, reply 1, with a queue",
	} {
		assert.Greater(t, s.states["fairlock_"+state], 5, state)
	}
	assert.Greater(t, s.states[waitersScript], 5)
}

// besideRuns plays scenarios of all regimes until there is a difference. Regimes with long holds mostly repeat the
// same call, so they have fewer runs.
func (s *scripts) besideRuns(seeds int) {
	for seed := range uint64(seeds) {
		for _, name := range slices.Sorted(maps.Keys(regimes)) {
			r := regimes[name]
			if slices.Max(r.holds) > minute && seed%8 > 0 {
				continue
			}
			play(r.scenario(seed), without{}, besides(s))
			if s.difference != "" {
				return
			}
		}
	}
}

// besideStates makes calls on states that runs reach hardly ever or never, until there is a difference.
func (s *scripts) besideStates(n int) {
	for seed := range uint64(n) {
		d := dice{rand.New(rand.NewPCG(seed, 2))}
		before, java := d.state(), pick(d, 300*second, second, 30*minute)
		listening := d.IntN(2) > 0
		hears := func(o owner) bool { return listening != (o == "J1") }
		subscribed := d.IntN(2) > 0
		told := func(o owner) bool { return subscribed != (o == "G1") }
		r := run{now: epoch, java: java, hears: hears, told: told}
		c := d.call(java)
		after := before.clone()
		r.keys = &after
		answer := c.model(&r)
		s.compare(comparison{fmt.Sprintf("state %d", seed), c, epoch, hears, told, before, after, answer, r.published})
		if s.difference != "" {
			return
		}
	}
}

// state is a state in which the server might be after losing arbitrary keys.
func (d dice) state() keys {
	k := newKeys()
	k.oursUntil, k.aliveUntil = epoch+d.upTo(day), epoch+d.upTo(day)
	if !d.oneIn(3) {
		k.grant(pick(d, "G1", "G2", "J1", "J9", "E1"), epoch+pick(d, 1, 5*second, 30*second, 10*minute))
		k.counts[k.holder()] = d.upTo(3)
	}
	everybody := []owner{"G1", "G2", "G3", "G4", "J1", "J2", "J3", "E1", "E2"} // E: ours of an older version
	d.Shuffle(len(everybody), func(i, j int) { everybody[i], everybody[j] = everybody[j], everybody[i] })
	usual := func() bool { return !d.oneIn(8) }
	for _, o := range everybody[:d.IntN(len(everybody)+1)] {
		if usual() {
			k.queue = append(k.queue, o)
		}
		if usual() {
			k.due[o] = epoch + pick(d, -20*second, 0, 1, 5*second, 15*second, 45*second, 330*second)
		}
		if o[0] == 'J' {
			continue
		}
		if usual() {
			k.ours = append(k.ours, o)
		}
		if usual() {
			k.alive[o] = epoch + pick(d, -second, 0, 1, 5*second, 10*second, 15*second)
			k.grants[o] = pick[ms](d, 0, 10, second, 9500, 10230)
			if o[0] == 'E' {
				k.grants[o] = 0
			}
		}
	}
	return k
}

func (d dice) call(java ms) call {
	o := pick(d, "G1", "G2", "G5")
	notAfter := epoch + pick(d, -1, 0, 1, 10*second)
	switch d.IntN(8) {
	case 0:
		return releaseCall(o, d.Int64N(2), java)
	case 1, 2:
		return leaveCall(o, java)
	case 3:
		return forceCall(notAfter, java)
	}
	return acquireCall(demand{
		owner: o, target: pick[int64](d, 1, 1, 1, 2, 3), notAfter: notAfter,
		lease: pick(d, second, 30*second, 10*minute), wait: pick(d, 0, 300, 12*second, 15*second, 40*second),
		grant: pick[ms](d, 0, 10, second, 9500, 10230), again: d.oneIn(2),
	}, java)
}

// TestComparisonSees changes one line of the scripts at a time. A comparison that does not notice would be worth
// nothing.
func TestComparisonSees(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	for name, change := range map[string][2]string{
		"no settle":                   {"if not due or due > limit then", "if not due then"},
		"settle without the lease":    {"math.max(alive, time + left)", "alive"},
		"no count of the missing":     {"at - math.max(before - missing(), 0)", "at - before"},
		"no 30 s":                     {"math.max(wait, left, 30000)", "math.max(wait, left)"},
		"no allowance for Java":       {"30000) + q.java_wait * java", "30000)"},
		"no lease in a first score":   {"or wait + left)", "or wait)"},
		"nobody buried":               {"'LIMIT', '0', '100'", "'LIMIT', '0', '0'"},
		"swept while held":            {"if head and free then", "if head then"},
		"never swept":                 {"if not head or (alive", "if true or not head or (alive"},
		"4 s for Java's head":         {"time + 5000", "time + 4000"},
		"Java's head not asked":       {"if due and redis", "if false and redis"},
		"no not-after":                {"if time > ARGV[2] + 0 then return {-2, time} end\n\n-- The reply", "-- The reply"},
		"a copy that lowers":          {"if count < tonumber(target) then", "if true then"},
		"a shorter lease taken":       {"if pttl < tonumber(lease) then", "if true then"},
		"back in front of the other":  {"'AFTER'", "'BEFORE'"},
		"ours without an expiry":      {"redis.call('PEXPIRE', q.ours, '86400000')", ""},
		"sleeps of 50 ms":             {"math.max(100, math.floor(ms))", "math.max(50, math.floor(ms))"},
		"no message to a head":        {"fair_tell(q, head, grant) -- the", "-- the"},
		"a release without a message": {"redis.call(q.publish, q.channel .. head, '0')\n          if alive", "if alive"},
		"a message to the owner":      {"head then fair_tell(q, head, grant)", "head then fair_tell(q, owner, grant)"},
		"handed to the dead":          {"grant and alive > time and", "grant and"},
		"the dead told":               {"alive and alive <= time", "false"},
		"the deaf not asked for":      {"counts[2] > 0", "true"},
		"the deaf forgotten":          {"deaf = true", "deaf = redis.call('ZREM', q.alive, head)"},
		"the deaf kept":               {"if deaf and not head then", "if false then"},
		"the deaf kept by a taker":    {"elseif not head then", "elseif false then"},
		"the deaf forgotten too soon": {"if deaf and not head then", "if deaf then"},
		"handed on by a copy":         {"redis.call('HDEL', q.lock, owner) == 0", "false"},
		"told by a copy":              {"redis.call('HEXISTS', q.lock, owner) == 0 then return 0", "false then return 0"},
		"a grant of no time":          {"units * 10", "units"},
		"kept in ours after a grant":  {"redis.pcall('LREM', q.ours, '1', head)", ""},
		"another place":               {"if again and not known and not living", "if false"},
		"nobody listens to Java":      {"listen and 1 or 0", "0"},
		"nobody listens to the head":  {"local next = holder or head", "local next = holder"},
		"nobody warned":               {"then fair_warn(q) end", "then end"},
		"left in ours":                {"redis.call('LREM', q.ours, count, owner)\nend", "\nend"},
		"left in due":                 {"redis.call('ZREM', q.due, owner)", ""},
		"waiters by their scores":     {"for k = 2, #KEYS do", "for k = #KEYS, 2, -1 do"},
	} {
		t.Run(name, func(t *testing.T) {
			changed := 0
			s := loadScripts(t, srv, func(_, source string) string {
				changed += strings.Count(source, change[0])
				return strings.Replace(source, change[0], change[1], 1)
			})
			require.Positive(t, changed, "no script has %q", change[0])
			s.besideStates(20_000)
			if s.difference == "" {
				s.besideRuns(20)
			}
			assert.NotEmpty(t, s.difference, "not noticed in %d calls", s.compared)
			t.Logf("noticed after %d calls", s.compared)
		})
	}
}
