package doctor

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/survey"
)

// None of the servers at hand would report these.
func TestVersions(t *testing.T) {
	for _, tt := range []struct {
		info   map[string]string
		status status
		found  string
	}{
		{map[string]string{"redis_version": "6.0.16"}, statusFail, "Redis 6.0.16 is too old"},
		{map[string]string{"redis_version": "5.0.14"}, statusFail, "Redis 5.0.14 is too old"},
		{map[string]string{"redis_version": "6.2.0"}, statusOK, "Redis 6.2.0"},
		{map[string]string{"redis_version": "7.0.15"}, statusOK, "Redis 7.0.15"},
		{map[string]string{"redis_version": "10.1"}, statusOK, "Redis 10.1"},
		{
			map[string]string{"redis_version": "7.2.4", "server_name": "valkey", "valkey_version": "8.1.0"},
			statusOK,
			"Valkey 8.1.0",
		},
		{
			map[string]string{"redis_version": "7.2.4", "server_name": "valkey", "valkey_version": "7.1.9"},
			statusFail,
			"Valkey 7.1.9 is too old",
		},
	} {
		f := version(t.Context(), nil, &node{Server: survey.Server{Info: tt.info}})
		assert.Equal(t, tt.status, f.Status, f.Found)
		assert.Equal(t, tt.found, f.Found)
	}
	f := version(t.Context(), nil, &node{Server: survey.Server{InfoErr: errors.New("lost")}})
	assert.Equal(t, statusFail, f.Status)
}

// A server that does not report something is not down.
func TestWhatServersDoNotTell(t *testing.T) {
	n := &node{Server: survey.Server{
		Info:   map[string]string{"maxmemory_policy": "allkeys-lru", "role": "master"},
		Config: map[string]string{},
	}}
	for name, check := range map[string]func(context.Context, *doctor, *node) finding{
		"version": version, "eviction": eviction, "persistence": persistence, "replicas": replicas,
		"connections": connections,
	} {
		f := check(t.Context(), &doctor{q: &question{lease: 30 * time.Second}}, n)
		assert.Equal(t, statusNote, f.Status, name)
		assert.Contains(t, f.Found, "not known: the server does not tell", name)
		assert.NotEmpty(t, f.Fix, name)
	}
}

func TestDisksThatAreFull(t *testing.T) {
	for _, info := range []map[string]string{
		{"aof_enabled": "1", "aof_last_write_status": "err"},
		{"aof_enabled": "0", "rdb_last_bgsave_status": "err"},
	} {
		server := survey.Server{Info: info, Config: map[string]string{"save": "3600 1"}}
		f := persistence(t.Context(), nil, &node{Server: server})
		assert.Equal(t, statusFail, f.Status)
		assert.Contains(t, f.Meaning, "refuses all writes")
	}
	f := persistence(t.Context(), nil, &node{Server: survey.Server{Info: map[string]string{"aof_enabled": "1"}}})
	assert.Equal(t, statusNote, f.Status)
	assert.Contains(t, f.Found, "not known")
}

func TestClocksOfACluster(t *testing.T) {
	d := &doctor{nodes: []*node{
		{addr: "a"},
		{addr: "b", Server: survey.Server{Ahead: 2 * time.Second}},
		{addr: "c", Server: survey.Server{Ahead: time.Second}},
		{addr: "d", err: errors.New("down")},
	}}
	f := clocks(t.Context(), d)
	assert.Equal(t, statusWarn, f.Status)
	assert.Equal(t, "the clock of b is 2s ahead of that of a", f.Found)
	d.nodes[0].Give, d.nodes[1].Give = time.Second, time.Second
	assert.Equal(t, statusOK, clocks(t.Context(), d).Status, "as far as can be told")
	assert.Empty(t, clocks(t.Context(), &doctor{nodes: d.nodes[:1]}).Status)
}

func TestPeopleSeeParagraphs(t *testing.T) {
	var out strings.Builder
	p := newPrinter(&out, false)
	p.Live, p.single = true, true
	p.say(fail("%s", strings.Repeat("word ", 30)).means("It means.").fix("Do it.").of("ttl", "x"))
	p.sum()
	lines := strings.Split(out.String(), "\n")
	require.True(t, strings.HasPrefix(lines[0], "fail ttl: word word"))
	for _, line := range lines {
		require.Less(t, len(line), 100)
	}
	require.Contains(t, out.String(), "\n     It means.\n     Fix: Do it.\n")
	require.Contains(t, out.String(), "0 ok, 0 to note, 0 to mend soon, 1 to mend now")
	require.NotContains(t, out.String(), "\x1b")

	out.Reset()
	p.Colored = true
	p.say(okay("fine"))
	require.Contains(t, out.String(), "\x1b[32mok   \x1b[m")
}

func TestSameOnAllServersIsSaidOnce(t *testing.T) {
	var out strings.Builder
	p := newPrinter(&out, false)
	p.say(okay("old").of("version", "a"), okay("old").of("version", "b"))
	p.say(okay("old").of("version", "a"), okay("new").of("version", "b"))
	require.Equal(t, "ok   version (all 2 servers): old\nok   version (a): old\nok   version (b): new\n", out.String())
	require.Zero(t, p.count[statusWarn])
	p.say(warn("odd").of("version", ""))
	require.Equal(t, 1, p.count[statusWarn])
}

func TestBuffers(t *testing.T) {
	hard, soft := pubsubBuffer("normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60")
	assert.EqualValues(t, 32<<20, hard)
	assert.EqualValues(t, 8<<20, soft)
	hard, soft = pubsubBuffer("")
	assert.Zero(t, hard+soft)
}

// Users choose names; a fix that is copied to a shell must do nothing but name it.
func TestQuotedNamesAreTakenAsTheyAre(t *testing.T) {
	for _, name := range []string{
		"plain", "two  words", `"$(touch x)" ` + "`y`", "it's", "line\nbreak\\",
		"\xff\x1b'", "ключ", "a!b$HOME",
	} {
		out, err := exec.Command("bash", "-c", "printf %s "+quoted(name)).Output()
		require.NoError(t, err)
		require.Equal(t, name, string(out))
		require.NotContains(t, quoted(name), "\x1b")
	}
}

// A command that users copy stays on one line.
func TestCommandsAreNotBroken(t *testing.T) {
	var out strings.Builder
	p := newPrinter(&out, false)
	p.Live, p.single = true, true
	command := "redis-cli LREM 'two  words' 0 '" + strings.Repeat("x", 90) + "' && redis-cli ZREM 'two  words' y"
	p.say(warn("some").fix("Take them out: %s", command).of("waiters", ""))
	require.Contains(t, out.String(), command)
}

// A finding is a sentence without its full stop, even if the server's text had one.
func TestSentencesHaveOneStop(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	newPrinter(&out, false).say(unknown("who is there", "", errors.New("cluster support disabled.")).of("topology", ""))
	require.Contains(t, out.String(), "cluster support disabled. A server")
}

func TestHelpNamesTheChecks(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../cli/help/doctor.txt")
	require.NoError(t, err)
	_, list, _ := strings.Cut(string(text), "Checks: ")
	list, _, _ = strings.Cut(list, ".\n")
	names := []string{"reach"}
	for _, c := range checks {
		names = append(names, c.name)
	}
	require.Equal(t, names, strings.Split(strings.Join(strings.Fields(list), " "), ", "))
}
