package command

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// fill makes n locks, whose names begin alike, and n keys of another program.
func fill(t testing.TB, srv *redistest.Server, n int) {
	t.Helper()
	const portion = 5_000 // per command: a busy machine takes its time
	for done := 0; done < n; done += portion {
		srv.Do(t, "EVAL", `for i = ARGV[1] + 1, ARGV[2] do
			redis.call('HSET', 'job:' .. i, ARGV[3], 1) redis.call('PEXPIRE', 'job:' .. i, 600000)
			redis.call('SET', 'page:' .. i, 'text')
		end`, "0", fmt.Sprint(done), fmt.Sprint(min(done+portion, n)), java1)
	}
}

// measured lists all names and returns the number of lines, the time, and the highest memory that was seen. The
// rusage of a child would not do: it includes that of its parent.
func measured(t testing.TB, srv *redistest.Server, args ...string) (lines int, took time.Duration, kilobytes int) {
	t.Helper()
	cmd := command(t, srv, nil, append([]string{"ls"}, args...)...)
	cmd.Path = plain // the race detector needs several times the memory
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	began := time.Now()
	require.NoError(t, cmd.Start())
	var chunk [32 << 10]byte
	for {
		n, err := stdout.Read(chunk[:])
		lines += bytes.Count(chunk[:n], []byte("\n"))
		kilobytes = max(kilobytes, highWater(cmd.Process.Pid))
		if err != nil {
			break
		}
	}
	require.NoError(t, cmd.Wait())
	return lines, time.Since(began), kilobytes
}

// highWater returns the most memory that a process has had; 0 if it is gone.
func highWater(pid int) (kilobytes int) {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	_, _ = fmt.Sscan(rest, &kilobytes)
	return kilobytes
}

// The memory that ls takes does not grow with the names: to collect 30,000 of them would take twice what is allowed.
func TestLsManyNamesInBoundedMemory(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux reports the peak memory in /proc")
	}
	names := kit.Stressed(30_000, 100_000)
	few, many := redistest.Start(t), redistest.Start(t)
	fill(t, few, names/10)
	fill(t, many, names)
	many.ResetStats(t)
	for _, args := range [][]string{nil, {"--json"}} {
		n, _, less := measured(t, few, args...)
		require.Equal(t, names/10, n)
		n, took, more := measured(t, many, args...)
		require.Equal(t, names, n)
		t.Logf("ls %v: %d names %d KiB in %v; a tenth of them %d KiB", args, names, more, took, less)
		assert.Less(t, more, 60<<10, "KiB")
		assert.Positive(t, less)
		assert.Less(t, more, 2*less, "ten times the names took too much memory")
	}
	n, _, _ := measured(t, many, fmt.Sprintf("job:%d*", names/10-1))
	require.Equal(t, 11, n)
	stats := many.CommandStats(t)
	assert.Positive(t, stats["scan"])
	for _, whole := range []string{"keys", "hgetall", "eval", "evalsha"} {
		assert.Zero(t, stats[whole], whole)
	}
}

func TestLsAndShowACluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3)
	s, err := holdfast.Open(rueidis.ClientOption{InitAddress: c.Addrs()}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	redistest.Limit(t, func() { _ = s.Close() })
	for i := range 60 {
		take(t, rlock.New(s, fmt.Sprint("job:", i), nil))
	}
	take(t, fairlock.New(s, "fair", nil))
	node := c.NodeOf(t, "fair")
	queue(t, node, s, "fair", 1)
	asked := c.Nodes[0]
	names := listed(t, asked)
	require.Len(t, names, 61)
	assert.Equal(t, "fairlock", names["fair"].Kind)
	assert.Len(t, listed(t, asked, "job:1*"), 11)
	fair := shown(t, asked, "fair")
	assert.Len(t, fair.Waiters, 1)
	kit.Await(t, "the session tells who it is", func() bool { return shown(t, asked, "job:3").Holders[0].Process != nil })

	waiting := start(t, asked, "wait", "job:7", "-w", "30")
	channel := "redisson_lock__channel:{job:7}"
	kit.Await(t, "wait listens", func() bool { return shown(t, asked, "job:7").Listening[channel] > 0 })
	ok(t, asked, "unlock", "--yes", "job:7")
	require.Equal(t, 0, waiting.end(t))
}

func TestLsAndShowBehindSentinel(t *testing.T) {
	t.Parallel()
	set := redistest.StartSentinels(t)
	set.Master().Do(t, "HSET", "x", java1, "1")
	url := "redis://" + set.SentinelAddrs()[0] + "?master_set=" + set.MasterName
	r := run(t, nil, nil, "ls", "--redis", url)
	require.Equal(t, 0, r.code, r.stderr)
	assert.Regexp(t, "^x\t.*\n$", r.stdout)
	for _, args := range [][]string{{"show", "x"}, {"unlock", "--yes", "x"}, {"wait", "x"}} {
		r := run(t, nil, []string{"HOLDFAST_REDIS=" + url}, args...)
		assert.Equal(t, 0, r.code, "%v: %s", args, r.stderr)
	}
}

// A user of Redis who lacks rights is told which.
func TestLsAndShowWithoutRights(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	srv.Do(t, "HSET", "app:1", java1, "1")
	srv.Do(t, "HSET", "other:1", java1, "1")
	users := map[string][]string{
		"some": grant(t, srv, "some", []string{"~app:*", "+@all"}),
		"few":  grant(t, srv, "few", []string{"~*", "+@all", "-scan", "-hlen"}),
	}
	as := func(user string, args ...string) result { return run(t, srv, users[user], args...) }
	r := as("some", "ls")
	assert.Equal(t, 0, r.code, r.stderr)
	assert.Equal(t, 1, strings.Count(r.stdout, "\n"), r.stdout)
	assert.Contains(t, r.stdout, "app:1\t")
	assert.Contains(t, r.stderr, "1 more key may not be read")
	r = as("some", "show", "app:1")
	assert.Equal(t, 0, r.code, r.stderr)
	for _, args := range [][]string{
		{"show", "other:1"},
		{"unlock", "--yes", "other:1"},
		{"wait", "other:1", "-w", "0"},
	} {
		r := as("some", args...)
		assert.Equal(t, 69, r.code, args)
		assert.Contains(t, r.stderr, "NOPERM")
	}
	for _, args := range [][]string{{"ls"}, {"show", "app:1"}} {
		r := as("few", args...)
		assert.Equal(t, 69, r.code, args)
		assert.Contains(t, r.stderr, "NOPERM")
		assert.Contains(t, r.stderr, "+scan")
		assert.Empty(t, r.stdout)
	}
}

// The rights that the guide lists are enough; without +pubsub only the listeners are missing.
func TestTheRightsOfTheGuideAreEnough(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	everything(t, srv)
	rights := strings.Fields("+scan +type +exists +pttl +get +getrange +hlen +hscan +hstrlen " +
		"+llen +lrange +zcard +zcount +zrange +zscore +time")
	env := grant(t, srv, "guard", append(rights, "~*"))
	r := run(t, srv, env, "ls", "--all")
	require.Equal(t, 0, r.code, r.stderr)
	assert.Empty(t, r.stderr)
	assert.Equal(t, 9, strings.Count(r.stdout, "\n"), r.stdout)
	for name := range listed(t, srv) {
		r := run(t, srv, env, "show", "--json", name)
		require.Equal(t, 0, r.code, r.stderr)
		assert.Equal(t, listed(t, srv)[name].Kind, parsed(t, r.stdout).Kind)
		assert.Nil(t, parsed(t, r.stdout).Listening)
	}
	r = run(t, srv, env, "wait", "plain", "-w", "5") // a busy machine takes a second for its first look
	assert.Equal(t, 1, r.code, r.stderr)
	r = run(t, srv, env, "unlock", "--yes", "plain")
	assert.Equal(t, 69, r.code, r.stderr)
	assert.Contains(t, r.stderr, "NOPERM")
	assert.EqualValues(t, 1, srv.Int(t, "EXISTS", "plain"))
}

func TestLsAndShowWithoutAServer(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	srv.Stop()
	for _, args := range [][]string{{"ls"}, {"show", "x"}, {"wait", "x"}, {"unlock", "--yes", "x"}} {
		r := run(t, srv, nil, args...)
		assert.Equal(t, 69, r.code, args)
		assert.Contains(t, r.stderr, srv.Addr())
	}
	assert.Equal(t, 0, run(t, nil, []string{"PATH=" + os.Getenv("PATH")}, "completion", "bash").code)
}
