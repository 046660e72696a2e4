package fairqueue_test

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

//go:embed beside.lua
var besideText string

// scripts are the real ones, on a real server, each wrapped in beside.lua.
type scripts struct {
	conn   *redistest.Conn
	digest map[string]string

	compared   int
	states     map[string]int // by state, how often it was compared
	difference string         // the first one
}

// A mutation changes the text of a script.
type mutation func(script, source string) string

func asTheyAre(_, source string) string { return source }

func loadScripts(t *testing.T, srv *redistest.Server, mutate mutation) *scripts {
	t.Helper()
	conn, err := redistest.Dial(srv.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	s := &scripts{conn: conn, digest: map[string]string{}, states: map[string]int{}}
	const place = "-- the script\n"
	require.Equal(t, 1, strings.Count(besideText, place))
	for _, name := range []string{acquireScript, releaseScript, leaveScript, forceScript, waitersScript} {
		source := mutate(name, lua.Source(name))
		reply, err := conn.Do("SCRIPT", "LOAD", strings.Replace(besideText, place, source, 1))
		require.NoError(t, err, name)
		s.digest[name] = reply.(string)
	}
	return s
}

// A stage is what beside.lua sets up.
type stage struct {
	Time   [2]string      `json:"time"` // as TIME replies it
	Stored []stored       `json:"stored"`
	Heard  map[string]int `json:"heard"` // channels with a subscriber
}

type stored struct {
	Name   string   `json:"name"`
	With   string   `json:"with"`   // the command
	Values []string `json:"values"` // its arguments after the key
	Left   ms       `json:"left"`   // of its lease; -1: none
}

// store is how the server stores the keys.
func (k *keys) store(now ms) []stored {
	scores := func(of, grants map[owner]ms) (values []string) {
		score := func(o owner) float64 { return float64(of[o]) + float64(grants[o])/10/1024 }
		for _, o := range inOrder(of, score) {
			values = append(values, strconv.FormatFloat(score(o), 'g', 17, 64), o)
		}
		return values
	}
	left := func(until ms) ms {
		if until >= never {
			return -1
		}
		return until - now
	}
	var hash []string
	for o, count := range k.counts {
		hash = append(hash, o, text(count))
	}
	return slices.DeleteFunc([]stored{
		{lockKey, "HSET", hash, k.until - now},
		{queueKey, "RPUSH", k.queue, -1},
		{dueKey, "ZADD", scores(k.due, nil), -1},
		{oursKey, "RPUSH", k.ours, left(k.oursUntil)},
		{aliveKey, "ZADD", scores(k.alive, k.grants), left(k.aliveUntil)},
	}, func(key stored) bool { return len(key.Values) == 0 })
}

// inOrder returns the members of a sorted set in order.
func inOrder(set map[owner]ms, score func(owner) float64) []owner {
	return slices.SortedFunc(maps.Keys(set), func(a, b owner) int {
		return cmp.Or(cmp.Compare(score(a), score(b)), cmp.Compare(a, b))
	})
}

// shown formats the keys as an outcome does.
func (k *keys) shown(now ms) string {
	kinds := map[string]string{"HSET": "hash", "RPUSH": "list", "ZADD": "zset"}
	var lines []string
	for _, key := range k.store(now) {
		if key.With == "ZADD" { // in replies the member comes first
			for i := 0; i < len(key.Values); i += 2 {
				key.Values[i], key.Values[i+1] = key.Values[i+1], key.Values[i]
			}
		}
		lines = append(lines, fmt.Sprintln(key.Name, kinds[key.With], key.Left, key.Values))
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// sessionOf is that of an owner.
func sessionOf(o owner) string {
	text, _, _ := strings.Cut(o, ":")
	return text
}

// The ids of our sessions have a version, which the model's show by their first letter.
var (
	shortID = regexp.MustCompile(`\bG\d+\b`)
	longID  = regexp.MustCompile(`_+8`)
)

func withVersion(text string) string {
	return shortID.ReplaceAllStringFunc(text, func(id string) string {
		return id + strings.Repeat("_", 14-len(id)) + "8"
	})
}

func withoutVersion(text string) string { return longID.ReplaceAllString(text, "") }

// An outcome is everything visible that a script does. The commands inside are not compared.
type outcome struct {
	reply, published, keyspace string
}

func (o outcome) String() string {
	return fmt.Sprintf("reply %s, published %s\n%s", o.reply, o.published, o.keyspace)
}

// run runs a real script.
func (s *scripts) run(
	c call, before keys, now ms, hears, told func(owner) bool,
) (o outcome, commands map[string]int, err error) {
	st := stage{
		Time:   [2]string{text(now / 1000), text(now%1000*1000 + 999)},
		Stored: before.store(now), Heard: map[string]int{},
	}
	for _, o := range before.queue {
		if hears(o) {
			st.Heard[channels+o] = 1
		}
		if told(o) {
			st.Heard[sessions+sessionOf(o)] = 1
		}
	}
	setup, err := json.Marshal(st)
	if err != nil {
		return o, nil, err
	}
	command := append([]string{"EVALSHA", s.digest[c.script], strconv.Itoa(len(c.keys))}, c.keys...)
	command = append(append(command, c.args...), string(setup))
	for i := range command {
		command[i] = withVersion(command[i])
	}
	reply, err := s.conn.Do(command...)
	if err != nil {
		return o, nil, err
	}
	parts := reply.([]any)
	o = outcome{fmt.Sprint(parts[0]), fmt.Sprint(parts[1]), ""}
	for _, key := range parts[2].([]any) {
		o.keyspace += fmt.Sprintln(key.([]any)...)
	}
	o.reply, o.published, o.keyspace = withoutVersion(o.reply), withoutVersion(o.published), withoutVersion(o.keyspace)
	commands = map[string]int{}
	for pair := range slices.Chunk(parts[3].([]any), 2) {
		commands[pair[0].(string)] = int(pair[1].(int64))
	}
	return o, commands, nil
}

// A comparison is one call and its outcome in the model.
type comparison struct {
	where     string // where it happened, to find it again
	call      call
	now       ms
	hears     func(owner) bool
	told      func(owner) bool
	before    keys
	after     keys
	answer    reply
	published []message
}

// compare runs the real script on the state that the model's script found, and compares the outcomes.
func (s *scripts) compare(c comparison) {
	s.compared++
	s.states[c.call.script+", "+c.call.state(c.before, c.answer)]++
	want := outcome{fmt.Sprint([]int64(c.answer)), "", c.after.shown(c.now)}
	switch {
	case c.call.single:
		want.reply = fmt.Sprint(c.answer[0])
	case c.answer[0] == 1: // granted: just the time
		want.reply = fmt.Sprint(c.answer[1])
	}
	var messages []string
	for _, o := range c.published {
		switch {
		case o.granted:
			messages = append(messages, sessions+sessionOf(o.to)+" "+o.to+" 0")
		case o.session:
			messages = append(messages, sessions+sessionOf(o.to)+" "+o.to)
		default:
			messages = append(messages, channels+o.to+" 0")
		}
	}
	want.published = fmt.Sprint(messages)
	got, commands, err := s.run(c.call, c.before, c.now, c.hears, c.told)
	if err == nil {
		err = c.call.clock(c.before, c.answer, commands)
	}
	s.differ(c, want, got, err)
	if s.compared%16 == 0 {
		s.compareWaiters(c)
	}
}

// compareWaiters does the same with the script that only reads.
func (s *scripts) compareWaiters(c comparison) {
	s.compared++
	s.states[waitersScript]++
	r := run{keys: &c.after, now: c.now}
	c.before = c.after
	c.call = call{script: waitersScript, keys: []string{queueKey, dueKey, aliveKey}}
	got, _, err := s.run(c.call, c.before, c.now, c.hears, c.told)
	s.differ(c, outcome{fmt.Sprint(r.waiters()), "[]", c.after.shown(c.now)}, got, err)
}

// differ notes the first difference.
func (s *scripts) differ(c comparison, want, got outcome, err error) {
	if s.difference == "" && (err != nil || got != want) {
		s.difference = fmt.Sprintf("%s, %s %v\nat %d, on\n%sthe model: %v\nthe script: %v\n%v",
			c.where, c.call.script, c.call.args, c.now, c.before.shown(c.now), want, got, err)
	}
}

// state describes the state that a call has found.
func (c call) state(before keys, r reply) string {
	waits := "nobody waits"
	if before.head() != nobody {
		waits = "with a queue"
	}
	switch c.script {
	case acquireScript:
		_, held := before.counts[c.args[0]]
		switch {
		case r[0] == 1 && held:
			return "re-entry"
		case r[0] == 1:
			return "granted, " + waits
		case r[0] == -1 && r[1] > 0:
			return "gone"
		case r[0] == -1:
			return "nothing to re-enter"
		case r[0] == -2:
			return "late"
		case len(r) == 3 && before.free():
			return "try, free, " + waits
		case len(r) == 3:
			return "try, held"
		}
		return "place " + text(r[3])
	case releaseScript, leaveScript, forceScript:
		return "reply " + text(r[0]) + ", " + waits
	}
	return ""
}

// clock checks how often the script has read the clock and the lease: only then do both have the same time.
func (c call) clock(before keys, r reply, commands map[string]int) error {
	queue := min(1, len(before.queue))
	var times, leases int
	switch c.script {
	case acquireScript:
		times, leases = 1, 1
		if r[0] == -1 && r[1] == 0 {
			times = 0
		}
	case releaseScript:
		if c.args[4] == "0" { // the count to leave
			times = queue
		}
	case forceScript:
		times, leases = 1, 0
		if r[0] == 1 {
			leases = 1
		}
	case leaveScript:
		times, leases = 1, commands["PTTL"] // once if it was head, after our dead waiters are removed
		if leases > 1 || r[0] == 2 && leases > 0 {
			leases = 0
		}
	}
	if commands["TIME"] != times || commands["PTTL"] != leases {
		return fmt.Errorf("%d × TIME, %d × PTTL; expected %d and %d", commands["TIME"], commands["PTTL"], times, leases)
	}
	return nil
}
