package command

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/tests/redistest"
)

func TestLsChooses(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	everything(t, srv)
	srv.Do(t, "SET", "session:9", "anything", "PX", "60000")
	srv.Do(t, "SET", "redisson_lock_token:{ended}", "17")
	srv.Do(t, "RPUSH", "redisson_lock_queue:{fa[ir}", java1)
	keys := func(names map[string]told) []string { return slices.Collect(maps.Keys(names)) }
	assert.ElementsMatch(t, []string{"fair", "fenced", "fa[ir"}, keys(listed(t, srv, "f*")))
	assert.ElementsMatch(t, []string{"fa[ir"}, keys(listed(t, srv, `fa\[*`)))
	assert.ElementsMatch(t, []string{"read", "written"}, keys(listed(t, srv, "--kind", "rwlock")))
	assert.ElementsMatch(t, []string{"semaphore", "latch", "string"}, keys(listed(t, srv, "--kind", "latch,setlock")))
	assert.ElementsMatch(t, []string{"plain", "fenced", "read", "written", "string", "fair"},
		keys(listed(t, srv, "--held")))
	all := listed(t, srv, "--all")
	assert.Equal(t, "setlock|other", all["session:9"].Kind)
	assert.Equal(t, "free", all["ended"].State)
	assert.EqualValues(t, 17, *all["ended"].Token)
	assert.Empty(t, ok(t, srv, "ls", "nobody*"))

	for name, args := range map[string][]string{
		"kind": {"--kind", "mutex"}, "two": {"a", "b"}, "pipe": {"--watch"}, "often": {"--watch=1ms"},
		"json": {"--watch", "--json"},
	} {
		r := run(t, srv, nil, append([]string{"ls"}, args...)...)
		assert.Equal(t, 64, r.code, name)
		assert.Empty(t, r.stdout, name)
	}
}

// Names are chosen by others: none of them may reach a terminal as a control sequence.
func TestLsAndShowHostileNames(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	hostile := []string{
		"\x1b[2J\x1b]0;owned\x07", "line\nbreak\ttab", "bell\x07", "del\x7f", "csi\u009b31m", "bidi\u202eevil",
		"\xff\xfe not utf-8", "ключ 鍵", `"quoted"`, " space ",
	}
	for _, name := range hostile {
		srv.Do(t, "HSET", name, java1, "1")
	}
	srv.Do(t, "SET", "holdfast_session:{"+java1[:36]+"}",
		`{"host":"\u001b[2J","pid":1,"program":"p\u009b","label":"l\nl","started":"2026-01-01T00:00:00Z"}`)
	srv.Do(t, "SET", "token", "\x1b[31m", "PX", "60000")
	outputs := []string{ok(t, srv, "ls"), ok(t, srv, "ls", "--all"), ok(t, srv, "ls", "--json", "--all")}
	for _, name := range hostile {
		outputs = append(outputs, ok(t, srv, "show", name), ok(t, srv, "show", "--json", name),
			ok(t, srv, "unlock", "--yes", name))
		assert.EqualValues(t, 0, srv.Int(t, "EXISTS", name))
		srv.Do(t, "HSET", name, java1, "1")
	}
	for _, text := range outputs {
		for _, r := range text {
			bad := r != '\n' && r != '\t' && (r < ' ' || r == 0x7f || r >= 0x80 && r <= 0x9f || r == 0x202e ||
				r == 0xfffd && !strings.Contains(text, "name_base64"))
			require.False(t, bad, "%U in %q", r, text)
		}
	}
	assert.Contains(t, outputs[0], "ключ 鍵\t")
	assert.Contains(t, outputs[0], `"\xff\xfe not utf-8"`+"\t")
	assert.Equal(t, len(hostile), strings.Count(outputs[0], "\n"))
	names := listed(t, srv)
	for _, name := range hostile {
		if name[0] != 0xff {
			assert.Equal(t, name, names[name].Name)
		}
	}
	assert.Equal(t, "//4gbm90IHV0Zi04", names["\ufffd\ufffd not utf-8"].NameBase64)
}

// If a name has very many holders or waiters, the command reads some of them and counts all.
func TestLsAndShowACrowd(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	const all = 3000
	readers, queue := []string{"HSET", "crowd", "mode", "read"}, []string{"RPUSH", "redisson_lock_queue:{line}"}
	for i := range all {
		owner := fmt.Sprint(java1[:37], i)
		readers, queue = append(readers, owner, "1"), append(queue, owner)
	}
	srv.Do(t, readers...)
	srv.Do(t, queue...)
	for want, names := range map[int]map[string]told{
		10: listed(t, srv), 1000: {"crowd": shown(t, srv, "crowd"), "line": shown(t, srv, "line")},
	} {
		crowd, line := names["crowd"], names["line"]
		assert.Equal(t, "rwlock", crowd.Kind)
		assert.Len(t, crowd.Holders, want)
		assert.EqualValues(t, all, *crowd.HolderCount)
		assert.Len(t, line.Waiters, want)
		assert.EqualValues(t, all, *line.WaiterCount)
		assert.Equal(t, java1[:37]+"1", line.Waiters[1].ID)
	}
	assert.Contains(t, ok(t, srv, "ls", "crowd"), "+2999")
	assert.Contains(t, ok(t, srv, "show", "crowd"), "and 2000 more")
}

// While the server saves, a hash that has shrunk keeps its large table, of which a page may be empty.
func TestLsShowsALockInALargeTable(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	readers, gone := []string{"HSET", "was-crowd", "mode", "read"}, []string{"HDEL", "was-crowd"}
	for i := range 3000 {
		owner := fmt.Sprint(java1[:37], i)
		readers = append(readers, owner, "1")
		if i > 0 {
			gone = append(gone, owner)
		}
	}
	srv.Do(t, readers...)
	srv.Do(t, "CONFIG", "SET", "rdb-key-save-delay", "5000000") // in µs
	srv.Do(t, "BGSAVE")
	srv.Do(t, gone...)
	for _, o := range []told{listed(t, srv)["was-crowd"], shown(t, srv, "was-crowd")} {
		require.Equal(t, "rwlock", o.Kind)
		assert.EqualValues(t, 1, *o.HolderCount)
	}
}

// A writer keeps the others out, and is named first.
func TestLsNamesTheWriterFirst(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	srv.Do(t, "HSET", "both", "mode", "write", java1+":write", "1", java1, "1")
	assert.Contains(t, ok(t, srv, "ls"), "\twrite ? "+java1+" +1\t")
}

// --all also shows strings that may be anybody's, and fenced locks that are free.
func TestLsAll(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	srv.Do(t, "SET", "text", "anybody's", "PX", "600000")
	srv.Do(t, "HSET", "lock", java1, "1")
	ok(t, srv, "run", "--fenced", "free", "--", "true")
	require.Len(t, listed(t, srv), 1)
	for _, flag := range []string{"-a", "--all"} {
		names := listed(t, srv, flag)
		require.Len(t, names, 3)
		require.Equal(t, "setlock|other", names["text"].Kind)
		require.Equal(t, "fenced", names["free"].Kind)
	}
}
