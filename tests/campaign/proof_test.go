package campaign

import (
	"bufio"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/tests/child"
)

var proof = flag.String("proof", "", "seed these bugs, by their numbers or \"all\", and show that each is caught")

// A seeded bug is a change of the toolkit that breaks an invariant, for a campaign that is compiled with it.
type bug struct {
	what    string
	edits   []edit
	kinds   string // that are played, so that it is met soon
	catches int    // the invariant
}

// An edit replaces a text in a file of the toolkit, where it stands once.
type edit struct{ file, old, now string }

// bugs has at least one for each invariant.
var bugs = []bug{
	{
		what:  "holders trust three leases",
		edits: []edit{{"internal/lease/lease.go", "return Add(sent, lease-Margin(lease))", "return Add(sent, 3*lease)"}},
		kinds: "rlock,setlock", catches: 1,
	},
	{
		what: "an owner takes the lock of another",
		edits: []edit{{
			"lua/setlock_acquire.lua", "if holder and not ours then", "if false then",
		}},
		kinds: "setlock", catches: 1,
	},
	{
		what: "readers do not look for a writer",
		edits: []edit{{
			"lua/rwlock_acquire_read.lua", "if not ours and not free and mode ~= 'read' then return {0, time, pttl} end", "",
		}},
		kinds: "rwlock", catches: 2,
	},
	{
		what: "permits are taken and not counted",
		edits: []edit{{
			"lua/semaphore_acquire_expirable.lua", "redis.pcall('DECRBY', semaphore, taken)",
			"redis.pcall('DECRBY', semaphore, 0)",
		}},
		kinds: "permits", catches: 3,
	},
	{
		what: "counts are taken and not counted",
		edits: []edit{{
			"lua/semaphore_acquire.lua", "redis.call('DECRBY', semaphore, ARGV[1])", "redis.call('GET', semaphore)",
		}},
		kinds: "semaphore", catches: 4,
	},
	{
		what: "a renewal finds every lock, whether it is there or not",
		edits: []edit{{
			"lua/lock_renew.lua", "return type(held) == 'table' and held or held == 1",
			"return type(held) == 'table' and held or true",
		}},
		kinds: "rlock", catches: 5,
	},
	{
		what: "tokens are issued twice",
		edits: []edit{{
			"lua/include/token_next.lua", "return redis.call('INCR', key)", "return redis.call('INCRBY', key, 0)",
		}},
		kinds: "rlock fenced,leader", catches: 6,
	},
	{
		what: "a latch opens with half of its count left",
		edits: []edit{{
			"lua/latch_count_down.lua", "if left and left > 1 then", "if left and left > 6 then",
		}},
		kinds: "latch", catches: 7,
	},
	{
		what: "a latch tells nobody, and nobody looks",
		edits: []edit{
			{"lua/latch_count_down.lua", "if left == 1 then redis.call(ARGV[1], ARGV[2], '0') end", ""},
			{"internal/wait/waiter.go", "const longest = 5 * time.Second", "const longest = 5 * time.Minute"},
		},
		kinds: "latch", catches: 8,
	},
	{
		what: "who asks for a fair lock comes first",
		edits: []edit{{
			"lua/fairlock_acquire.lua", "redis.call('RPUSH', q.queue, owner)", "redis.call('LPUSH', q.queue, owner)",
		}},
		kinds: "fairlock", catches: 9,
	},
	{
		what: "who waits for a permit is told nothing, and does not look",
		edits: []edit{
			{"lua/include/line_tell.lua", "return hears(l, channel)", "return false"},
			{"internal/wait/waiter.go", "const longest = 5 * time.Second", "const longest = 5 * time.Minute"},
		},
		kinds: "permits", catches: 10,
	},
	{
		what:  "a lock has no time to live",
		edits: []edit{{"lua/rlock_acquire.lua", "redis.pcall('PEXPIRE', lock, lease)", "redis.pcall('EXISTS', lock)"}},
		kinds: "rlock", catches: 11,
	},
	{
		what:  "a session leaves a goroutine",
		edits: []edit{{"session.go", "	patience := atMost(", "	go func() { select {} }()\n	patience := atMost("}},
		kinds: "rlock", catches: 12,
	},
	{
		what: "a lost reply is no outcome",
		edits: []edit{{
			"internal/session/errors.go", `fmt.Errorf("%w: %w", ErrUnknown, why)`, `fmt.Errorf("%s: %v", "failed", "somehow")`,
		}},
		kinds: "rlock", catches: 13,
	},
	{
		what: "a lock that is free is said to be busy, in one second of four",
		edits: []edit{{
			"lua/setlock_acquire.lua", "if not ours then\n  call('SET'",
			"if not ours and clock[1] % 4 == 0 then return {0, 0, 100} end\nif not ours then\n  call('SET'",
		}},
		kinds: "setlock,rwlock,several,semaphore", catches: 14,
	},
}

// Each bug is caught by its invariant: the campaign with the bug ends with a finding. This takes half an hour.
func TestEachSeededBugIsCaught(t *testing.T) {
	if *proof == "" {
		t.Log("with -proof only")
		return
	}
	numbers := strings.Split(*proof, ",")
	if *proof == "all" {
		numbers = nil
		for i := range bugs {
			numbers = append(numbers, strconv.Itoa(i+1))
		}
	}
	for _, number := range numbers {
		i, err := strconv.Atoi(number)
		require.True(t, err == nil && i > 0 && i <= len(bugs), "-proof: %q is not a number from 1 to %d", number, len(bugs))
		t.Run(number+" "+bugs[i-1].what, bugs[i-1].prove)
	}
}

// prove runs a campaign with the bug until a finding of its invariant is said.
func (b *bug) prove(t *testing.T) {
	t.Helper()
	const limit = 6 // minutes
	binary := filepath.Join(t.TempDir(), "campaign")
	build := exec.Command("go", "test", "-race", "-vet=off", "-c", "-o", binary, "-overlay", b.overlay(t), "./campaign")
	build.Dir = filepath.Join(root(), "tests")
	said, err := build.CombinedOutput()
	require.NoError(t, err, string(said))
	cmd := exec.Command(binary, "-test.v", "-test.timeout", "20m", "-test.run", "TestCampaign",
		"-minutes", strconv.Itoa(limit), "-seed", strconv.FormatUint(*seed, 10), "-kinds", b.kinds)
	cmd.Dir = filepath.Join(root(), "tests", "campaign")
	cmd.SysProcAttr = child.Attributes()
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir()) // what is killed leaves its folders there
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = cmd.Stdout
	began := time.Now()
	require.NoError(t, cmd.Start())
	var lines []string
	found := false
	want := "invariant " + strconv.Itoa(b.catches) + " "
	scanner := bufio.NewScanner(out)
	scanner.Buffer(nil, 4<<20)
	for !found && scanner.Scan() {
		lines = append(lines, scanner.Text())
		found = strings.Contains(scanner.Text(), want)
	}
	took := time.Since(began).Round(time.Second)
	_ = cmd.Process.Kill() // and with it all that it has started
	_ = cmd.Wait()
	require.True(t, found, "not caught by invariant %d within %d min:\n%s", b.catches, limit, strings.Join(lines, "\n"))
	t.Logf("caught by invariant %d (%s) after %v: %s", b.catches, invariants[b.catches-1].what, took, lines[len(lines)-1])
}

// overlay writes the files with the bug, and returns what tells the compiler to take them.
func (b *bug) overlay(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	replaced := map[string]string{}
	for i, e := range b.edits {
		path := filepath.Join(root(), e.file)
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, 1, strings.Count(string(text), e.old), "%s: %s", e.file, e.old)
		with := filepath.Join(dir, strconv.Itoa(i)+filepath.Ext(path))
		require.NoError(t, os.WriteFile(with, []byte(strings.Replace(string(text), e.old, e.now, 1)), 0o600))
		replaced[path] = with
	}
	overlay := filepath.Join(dir, "overlay.json")
	text, err := json.Marshal(map[string]any{"Replace": replaced})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(overlay, text, 0o600))
	return overlay
}

// root is the folder of the toolkit.
func root() string {
	_, self, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(filepath.Dir(self)))
}

// The bugs can be seeded into the toolkit as it is.
func TestTheBugsCanBeSeeded(t *testing.T) {
	t.Parallel()
	for _, b := range bugs {
		b.overlay(t)
	}
}
