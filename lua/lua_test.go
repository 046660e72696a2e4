package lua_test

import (
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lua"
)

var (
	slot      = regexp.MustCompile(`\b(KEYS|ARGV)\[[^\]]+\]`)
	command   = regexp.MustCompile(`\b(?:p?call|here)\('([A-Z]+)'`)
	replyLine = regexp.MustCompile(`(?m)^-- REPLY `)
)

// header returns the leading block of comment lines, body the rest.
func header(text string) (head, body string) {
	lines := strings.SplitAfter(text, "\n")
	n := slices.IndexFunc(lines, func(line string) bool { return !strings.HasPrefix(line, "--") })
	return strings.Join(lines[:n], ""), strings.Join(lines[n:], "")
}

// slots returns the keys and arguments that a text names. 4 * i in code is 4i in a header.
func slots(text string) []string {
	found := slot.FindAllString(strings.ReplaceAll(text, " * i", "i"), -1)
	slices.Sort(found)
	return slices.Compact(found)
}

func TestHeaderDocumentsWhatTheBodyReads(t *testing.T) {
	require.NotEmpty(t, lua.Names())
	for _, name := range lua.Names() {
		text, err := os.ReadFile(name + ".lua")
		require.NoError(t, err)
		head, body := header(string(text))
		// Comments in the body may mention slots, too; only code reads them.
		body = regexp.MustCompile(`--[^\n]*`).ReplaceAllString(body, "")

		assert.True(t, strings.HasPrefix(head, "-- "+name+": "),
			"%s: the first line must be the script's name and a sentence", name)
		documented := slots(regexp.MustCompile(`(?m)^-- REPLY(.*\n(--   .*\n)*)`).ReplaceAllString(head, ""))
		assert.Equal(t, slots(body), documented, "%s: slots read by the body, slots documented in the header", name)
		assert.Regexp(t, replyLine, head, "%s: no REPLY line", name)
	}
}

// Only one place reads the replies of calls with a not-after: there, now is {1, now}.
func TestRepliesOfCallsThatMayBeTooLateHaveOneHead(t *testing.T) {
	replies := regexp.MustCompile(`(?m)^-- REPLY +(.*)$`)
	heads := 0
	for _, name := range lua.Names() {
		text, err := os.ReadFile(name + ".lua")
		require.NoError(t, err)
		head, body := header(string(text))
		if !strings.Contains(head, " not_after ") {
			assert.NotContains(t, body, "{-2", "%s: too late for nothing", name)
			continue
		}
		for _, reply := range replies.FindAllStringSubmatch(head, -1) {
			assert.Regexp(t, `^(now |\{((0|-1|-2|-3), now[,}]|1, now,|(0|-1), 0[,}]))`, reply[1], "%s: its reply", name)
			heads++
		}
		assert.NotRegexp(t, `return \{-?\d(\}|, [^t0]|, time[^,}]|, 0[^,}])`, body,
			"%s: the server's time comes second", name)
		assert.NotContains(t, body, "{1, time}", "%s: just the time", name)
		_, asked, _ := strings.Cut(body, "local time = ")
		assert.NotRegexp(t, `return \{-?\d, 0[,}]`, asked, "%s: asked for the time, it tells it", name)
	}
	assert.NotZero(t, heads)
}

func TestFragmentsAreDocumentedUsedAndDefineOneFunction(t *testing.T) {
	fragments, err := fs.Glob(os.DirFS("."), "include/*.lua")
	require.NoError(t, err)
	var all strings.Builder
	for _, name := range lua.Names() {
		text, err := os.ReadFile(name + ".lua")
		require.NoError(t, err)
		all.Write(text)
		assertUses(t, name, string(text))
	}
	for _, file := range fragments {
		name := strings.TrimSuffix(strings.TrimPrefix(file, "include/"), ".lua")
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		all.Write(text)
		assertUses(t, file, string(text))
		assert.True(t, strings.HasPrefix(string(text), "-- "+name+": "), "%s: first line", file)
		assert.Equal(t, 1, strings.Count(string(text), "local function "+name+"("),
			"%s: defines one function of its name", file)
	}
	for _, file := range fragments {
		name := strings.TrimSuffix(strings.TrimPrefix(file, "include/"), ".lua")
		assert.Regexp(t, `(?m)^ *-- USES .*\b`+name+`\b`, all.String(), "%s: used by no script", file)
	}
}

// assertUses asserts that a file calls the fragments that it names in its USES lines, each behind the first line that
// names it, and no others.
func assertUses(t *testing.T, file, text string) {
	t.Helper()
	where := map[string]int{} // a fragment is named first
	for _, line := range regexp.MustCompile(`(?m)^ *-- USES (.*)$`).FindAllStringSubmatchIndex(text, -1) {
		for name := range strings.FieldsSeq(text[line[2]:line[3]]) {
			if _, known := where[name]; !known {
				where[name] = line[1]
			}
		}
	}
	code := regexp.MustCompile(`(--|local function )[^\n]*`).
		ReplaceAllStringFunc(text, func(other string) string { return strings.Repeat(" ", len(other)) })
	first := map[string]int{} // call of each function
	for _, call := range regexp.MustCompile(`\w+\(`).FindAllStringIndex(code, -1) {
		if name := code[call[0] : call[1]-1]; first[name] == 0 {
			first[name] = call[0]
		}
	}
	fragments, err := fs.Glob(os.DirFS("."), "include/*.lua")
	require.NoError(t, err)
	for _, fragment := range fragments {
		name := strings.TrimSuffix(strings.TrimPrefix(fragment, "include/"), ".lua")
		at, uses := where[name]
		called, calls := first[name]
		if assert.Equal(t, calls, uses, "%s and the fragment %s: called, and in a USES line", file, name) && uses {
			assert.Less(t, at, called, "%s: the fragment %s comes before its call", file, name)
		}
	}
}

// The packages leave the last arguments out that have the values which the scripts take for those that are missing.
func TestPackagesLeaveOutWhatIsTakenForMissing(t *testing.T) {
	compared := 0
	for _, of := range []struct {
		folder, values, script string
		first                  int
	}{
		{"rlock", "usualTake", "rlock_acquire", 3},
		{"rlock", "usualReturn", "rlock_release", 2},
		{"fairlock", "usualTake", "fairlock_acquire", 3},
		{"fairlock", "usualReturn", "fairlock_release", 2},
		{"setlock", "usualTake", "setlock_acquire", 3},
		{"setlock", "usualReturn", "setlock_release", 2},
	} {
		text, err := os.ReadFile("../" + of.folder + "/scripts.go")
		require.NoError(t, err)
		found := regexp.MustCompile(of.values + ` += \[.*\]string\{(.*)\}`).FindSubmatch(text)
		require.NotNil(t, found, "%s: %s", of.folder, of.values)
		for i, value := range regexp.MustCompile(`"(.*?)"`).FindAllSubmatch(found[1], -1) {
			taken := regexp.MustCompile(fmt.Sprintf(`ARGV\[%d\] or '?(\w*)`, of.first+i)).
				FindStringSubmatch(lua.Source(of.script))
			if taken != nil && len(value[1]) > 0 { // or a name that is made of the key
				assert.Equal(t, taken[1], string(value[1]), "%s: ARGV[%d]", of.script, of.first+i)
				compared++
			}
		}
	}
	assert.Equal(t, 15, compared)
}

// Redis 6.2 and Valkey 7.2 must run every script. The commands in use are listed here, so that a new one is looked up
// before it is added. None of them is newer than 6.2.
func TestCommandsAreOldEnough(t *testing.T) {
	known := []string{
		"DECR", "DECRBY", "DEL", "EXISTS", "GET", "GETEX", "HDEL", "HEXISTS", "HGET", "HGETALL", "HKEYS", "HLEN", "HMGET",
		"HSCAN",
		"HSET", "INCR", "INCRBY", "INFO", "LINDEX", "LINSERT", "LLEN", "LPOP", "LPOS", "LPUSH", "LRANGE", "LREM",
		"PERSIST", "PEXPIRE", "PTTL", "PUBSUB", "RPUSH", "SET", "TIME", "ZADD", "ZCARD", "ZCOUNT", "ZRANGE", "ZRANGEBYSCORE",
		"ZREM",
		"ZREMRANGEBYRANK", "ZREMRANGEBYSCORE", "ZSCORE",
	}
	for _, name := range lua.Names() {
		source := lua.Source(name)
		for _, found := range command.FindAllStringSubmatch(source, -1) {
			assert.Contains(t, known, found[1], "%s", name)
		}
		assert.NotRegexp(t, `'PEXPIRE'[^\n]*'(NX|XX|GT|LT)'`, source, "%s: PEXPIRE options came with 7.0", name)
		assert.NotContains(t, source, "replicate_commands", "%s", name)
	}
}

func TestSourcePutsFragmentsWhereTheyAreUsed(t *testing.T) {
	source := lua.Source("rlock_acquire")
	assert.True(t, strings.HasPrefix(source, "-- rlock_acquire: "))
	fragment, use := strings.Index(source, "local function uptime("), strings.Index(source, "-- USES uptime")
	assert.Less(t, strings.Index(source, "'HSET'"), fragment, "behind what need not wait for it")
	assert.Less(t, fragment, use)
	assert.Less(t, strings.Index(lua.Source("lock_renew"), "local function now("),
		strings.Index(lua.Source("lock_renew"), "local function renew_locks("), "behind what it uses itself")
	assert.Equal(t, 1, strings.Count(lua.Source("fairlock_acquire"), "local function fair_look("), "once")
	assert.Panics(t, func() { lua.Source("no_such_script") })
}
