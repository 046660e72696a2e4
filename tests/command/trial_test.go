package command

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/drill"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A trial is a run of the command that is under way.
type trial struct {
	*exec.Cmd
	stdout bytes.Buffer
	notes  *bufio.Reader
	told   strings.Builder
}

// startTrial starts a trial with a report as JSON, and returns when it asks for the failover.
func startTrial(t *testing.T, url string, args ...string) *trial {
	t.Helper()
	args = append([]string{"trial", "--yes", "--json", "--for", "50s"}, args...)
	tr := &trial{Cmd: command(t, nil, []string{"HOLDFAST_REDIS=" + url}, args...)}
	tr.Stdout = &tr.stdout
	stderr, err := tr.StderrPipe()
	require.NoError(t, err)
	tr.notes = bufio.NewReader(stderr)
	require.NoError(t, tr.Start())
	tr.until(t, "Now fail over")
	return tr
}

// until reads what the trial says until a line has the text.
func (tr *trial) until(t *testing.T, text string) {
	t.Helper()
	for {
		line, err := tr.notes.ReadString('\n')
		tr.told.WriteString(line)
		if err != nil {
			_ = tr.Wait() // all of the report
		}
		require.NoError(t, err, "no line with %q: %s%s", text, &tr.told, &tr.stdout)
		if strings.Contains(line, text) {
			return
		}
	}
}

// interrupt ends the trial as Ctrl-C does, and returns its report and what it said last.
func (tr *trial) interrupt(t *testing.T) (r drill.Report, said string) {
	t.Helper()
	require.NoError(t, syscall.Kill(-tr.Process.Pid, syscall.SIGINT))
	rest, err := io.ReadAll(tr.notes)
	require.NoError(t, err)
	_ = tr.Wait() // the status follows
	t.Logf("%s%s%s", &tr.told, rest, &tr.stdout)
	require.NoError(t, json.Unmarshal(tr.stdout.Bytes(), &r))
	require.Positive(t, r.Taken)
	return r, string(rest)
}

// end interrupts the trial and returns its report. Its exit status is right.
func (tr *trial) end(t *testing.T) drill.Report {
	t.Helper()
	r, _ := tr.interrupt(t)
	if r.Untold+len(r.Returns) > 0 {
		require.Equal(t, 1, tr.ProcessState.ExitCode())
	} else {
		require.Equal(t, 0, tr.ProcessState.ExitCode())
	}
	return r
}

// taken is the name of the trial's lock with that label; "" while nobody has it.
func taken(t *testing.T, srv *redistest.Server, label string) string {
	t.Helper()
	for key := range srv.Keyspace(t) {
		if strings.HasPrefix(key, "holdfast_trial:") && strings.HasSuffix(key, ":"+label) {
			return key
		}
	}
	return ""
}

// unavailable are the locks that nobody could take for some time.
func unavailable(r *drill.Report) (locks []string) {
	for _, o := range r.Outages {
		locks = append(locks, o.Locks...)
	}
	return locks
}

func TestTrialFindsNothing(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	text := ok(t, srv, "trial", "--yes", "--for", "2s", "--lease", "10", "--processes", "3")
	require.Contains(t, text, "holdfast trial on redis://"+srv.Addr()+": 3 processes")
	require.Contains(t, text, "keys of names that begin with holdfast_trial:")
	require.Contains(t, text, "Now fail over")
	require.Regexp(t, `\nLocks were taken \d+ times, with a lease of 10s and --acks 0\.\n`, text)
	for _, nothing := range []string{"Errors", "Lost holds", "Second holders", "Fencing tokens"} {
		require.Regexp(t, `\n`+nothing+`.*: 0\n`, text)
	}
	require.Contains(t, text, "\nNo lock was given to a second holder, and no token went back.\n")
	require.Empty(t, srv.Keyspace(t))
}

// A trial of which nobody reads any more ends, and leaves nothing.
func TestTrialEndsWithItsReader(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	said, out, err := os.Pipe()
	require.NoError(t, err)
	cmd := command(t, srv, nil, "trial", "--yes", "--for", "5m", "--processes", "2")
	cmd.Stdout = out
	require.NoError(t, cmd.Start())
	require.NoError(t, out.Close())
	lines := bufio.NewScanner(said)
	for lines.Scan() && !strings.Contains(lines.Text(), "Now fail over") {
	}
	require.NoError(t, said.Close())
	srv.Pause() // of which the trial has something to say
	kit.SleepUntil(time.Now().Add(3 * time.Second))
	srv.Resume()
	_ = cmd.Wait()
	require.Equal(t, 1, cmd.ProcessState.ExitCode())
	for key := range srv.Keyspace(t) {
		require.NotContains(t, key, "holdfast_trial:")
	}
}

// What processes that have ended had under way at a silent server, this executes along with the first command that it
// answers.
func TestATrialRemovesWhatItsProcessesHadUnderWay(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	client := kit.NewClient(t, srv.Addr())
	locks, err := drill.Locks(t.Context(), client, "holdfast_trial:")
	require.NoError(t, err)
	late, err := net.Dial("tcp", srv.Addr())
	require.NoError(t, err)
	defer late.Close()
	srv.Pause()
	removed := make(chan error, 1)
	go func() { removed <- drill.Remove(t.Context(), client, locks) }()
	<-time.After(100 * time.Millisecond) // the server sees the first removal first, or else the test finds nothing wrong
	_, err = fmt.Fprintf(late, "HSET %s owner 1\r\n", locks[0].Name)
	require.NoError(t, err)
	srv.Resume()
	require.NoError(t, kit.Within(t, kit.LongestWait, removed, "the removal"))
	kit.Await(t, "the late command", func() bool { return srv.CommandStats(t)["hset"] == 1 })
	require.Empty(t, srv.Keyspace(t))
}

// In a cluster there are locks on each master.
func TestTrialOfACluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3)
	tr := startTrial(t, "redis://"+c.Addrs()[0]+"?addr="+c.Addrs()[1], "--lease", "10")
	away := c.NodeOf(t, "x")
	away.Pause()
	paused := time.Now()
	tr.until(t, " of 15 locks")
	kit.Await(t, "an outage of two seconds", func() bool { return time.Since(paused) > 2*time.Second })
	away.Resume()
	tr.until(t, "all locks can be taken again")
	r := tr.end(t)
	require.Contains(t, strings.Join(unavailable(&r), "\n")+"\n", "@"+away.Addr()+"\n")
	require.Empty(t, c.Keyspace(t))
}

// A replica of a cluster takes over: its master's locks are named as before.
func TestTrialOfAClusterThatFailsOver(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3)
	dies := c.Nodes[0]
	replica := c.AddReplica(t, dies)
	tr := startTrial(t, "redis://"+c.Addrs()[1]+"?addr="+c.Addrs()[2], "--lease", "10", "--processes", "2")
	dies.Stop()
	tr.until(t, " of 15 locks")
	for promoted := false; !promoted; { // on a busy machine nobody takes one of the locks for a second before that
		tr.until(t, "all locks can be taken again")
		promoted = replica.Do(t, "ROLE").([]any)[0] == "master"
	}
	r := tr.end(t)
	for _, kind := range []string{"lock", "fair", "write", "fenced", "permits"} { // and others while the cluster is down
		require.Contains(t, unavailable(&r), kind+"@"+dies.Addr())
	}
	for _, srv := range append(c.Nodes[1:], replica) {
		require.Empty(t, srv.Keyspace(t))
	}
}

// Behind Sentinel a master is killed: for as long as the others need to agree on that, nobody can take a lock.
func TestTrialOfAFailover(t *testing.T) {
	t.Parallel()
	set := redistest.StartSentinels(t)
	url := fmt.Sprintf("redis://%s?master_set=%s&addr=%s", set.SentinelAddrs()[0], set.MasterName, set.SentinelAddrs()[1])
	tr := startTrial(t, url, "--lease", "10", "--processes", "2")
	before := time.Now()
	set.Failover(t)
	tr.until(t, " of 5 locks")
	tr.until(t, "all locks can be taken again")
	took := time.Since(before)
	r := tr.end(t)
	require.Subset(t, unavailable(&r), []string{"lock", "fair", "write", "fenced", "permits"})
	require.GreaterOrEqual(t, r.LongestMS, time.Second.Milliseconds())
	require.LessOrEqual(t, r.LongestMS, (took + time.Second).Milliseconds()) // the last hold before it may have been long
	// A machine that stood still before the failover has made one, too.
	require.True(t, slices.ContainsFunc(r.Outages, func(o drill.Outage) bool {
		return o.From.After(before.Add(-time.Second)) && o.From.Before(before.Add(took))
	}), "%+v", r.Outages)
	require.Empty(t, set.Master().Keyspace(t))
}

// A server forgets a lock while its holder is stopped: the others get it, and when the holder goes on it is told.
func TestTrialOfAServerThatForgets(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	tr := startTrial(t, "redis://"+srv.Addr(), "--lease", "6")
	session := open(t, srv, nil)
	var name string
	kit.Await(t, "the long lock", func() bool {
		name = taken(t, srv, "lock-long")
		return name != ""
	})
	fenced := func() bool { return taken(t, srv, "fenced") != "" }
	kit.Await(t, "a fencing token", fenced)
	holder := func() (h holdfast.Holder) {
		all, err := rlock.New(session, name, nil).Holders(t.Context())
		require.NoError(t, err)
		if len(all) > 0 {
			h = all[0]
		}
		return h
	}
	var first holdfast.Holder
	kit.Await(t, "a holder that is stopped", func() bool {
		if first = holder(); first.PID == 0 {
			return false
		}
		require.NoError(t, syscall.Kill(first.PID, syscall.SIGSTOP))
		if holder().ID == first.ID {
			return true
		}
		require.NoError(t, syscall.Kill(first.PID, syscall.SIGCONT)) // it has released the lock meanwhile
		return false
	})
	srv.Do(t, "FLUSHALL")
	kit.Await(t, "a second holder", func() bool { h := holder(); return h.ID != "" && h.ID != first.ID })
	kit.Await(t, "a fencing token again", fenced) // those who waited for the stopped process have to look for themselves
	require.NoError(t, syscall.Kill(first.PID, syscall.SIGCONT))
	tr.until(t, "was told that it has lost lock-long")
	r := tr.end(t)
	var seconds, returns, lost bool
	for _, s := range r.Seconds {
		require.NotEqual(t, s.First, s.Process)
		seconds = seconds || s.Lock == "lock-long" && s.ToldMS != nil
	}
	for _, back := range r.Returns {
		returns = returns || back.Lock == "fenced" && back.Token <= back.Before
	}
	for _, l := range r.Lost {
		lost = lost || l.Lock == "lock-long"
	}
	require.True(t, seconds, "the second holder, and that the first was told")
	require.True(t, returns, "tokens begin anew")
	require.True(t, lost)
	require.NoError(t, session.Close()) // it says which process it is when its looks take long
	require.Empty(t, srv.Keyspace(t))
}

// A process that dies is told of, but does not cost the report.
func TestTrialWithoutOneOfItsProcesses(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	tr := startTrial(t, "redis://"+srv.Addr(), "--lease", "2")
	session := open(t, srv, nil)
	kit.Await(t, "a process that can be killed", func() bool {
		name := taken(t, srv, "lock-long")
		return name != "" && signalHolder(t, session, name, syscall.SIGKILL)
	})
	tr.until(t, "signal: killed")
	_, said := tr.interrupt(t)
	require.Equal(t, 69, tr.ProcessState.ExitCode())
	require.Contains(t, said, "signal: killed", "the trial itself ends with it")
}

// A signal to all processes of the trial, as timeout(1), a service manager or a terminal sends it, ends it as one to
// the first alone does: with the report.
func TestTrialEndsThoughItsProcessesGetTheSignal(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		tr := startTrial(t, "redis://"+srv.Addr(), "--lease", "10", "--processes", "2")
		require.NoError(t, syscall.Kill(-tr.Process.Pid, sig))
		said, err := io.ReadAll(tr.notes)
		require.NoError(t, err)
		_ = tr.Wait()
		require.Equal(t, 0, tr.ProcessState.ExitCode(), "%v: %.1000s", sig, said)
		require.NotContains(t, string(said), "signal", sig)
	}
}

// A signal that comes before the trial begins ends it as it ends any command.
func TestTrialIsInterruptedBeforeItBegins(t *testing.T) {
	t.Parallel()
	p := proxy.Start(t, redistest.Start(t).Addr())
	lost := p.On(proxy.Command("EVAL", "EVALSHA"), proxy.DropReply, proxy.EveryTime)
	r := start(t, nil, "trial", "--yes", "--redis", "redis://"+p.Addr())
	kit.Await(t, "it makes its semaphores", func() bool { return lost.Count() > 0 })
	require.NoError(t, r.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 143, r.end(t), "%s", &r.stderr)
}

// No time is a value, too, and the processes of the trial take it as well.
func TestTrialPassesNoTimeOn(t *testing.T) {
	t.Parallel()
	ok(t, redistest.Start(t), "trial", "--yes", "--for", "1s", "--lease", "10", "--processes", "2",
		"--connect-timeout", "0")
}

// On a replica nothing can be removed either, of which a line is enough.
func TestTrialOnAReplica(t *testing.T) {
	t.Parallel()
	srv := redistest.StartReplica(t, redistest.Start(t))
	r := run(t, srv, nil, "trial", "--yes", "--json")
	require.Equal(t, 69, r.code)
	require.Equal(t, 2, strings.Count(r.stderr, "READONLY"), r.stderr)
	require.NotContains(t, r.stderr, "deadline")
}

// A user without rights learns that soon, since no failover would give them.
func TestTrialWithoutRights(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	srv.Grant(t, "nobody", "+@connection")
	took := kit.Stopwatch()
	user := []string{"HOLDFAST_REDIS_USER=nobody", "HOLDFAST_REDIS_PASSWORD=" + redistest.Password}
	r := run(t, srv, user, "trial", "--yes")
	require.Equal(t, 69, r.code)
	require.Contains(t, r.stderr, "NOPERM")
	require.Contains(t, r.stdout, "may be left")
	require.Less(t, took(), 8*time.Second)
}

// At its question one Ctrl-C is enough.
func TestTrialIsInterruptedAtItsQuestion(t *testing.T) {
	t.Parallel()
	u := sitDown(t, redistest.Start(t))
	u.types("sh -c 'trap : INT; $HF trial; echo code=$?'\n")
	u.sees("[y/N]")
	u.types(ctrlC)
	u.sees("code=130")
}

func TestTrialRefuses(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"nobody to ask": {}, "no time": {"--yes", "--for", "0.5"}, "one process": {"--yes", "--processes", "1"},
		"too many": {"--yes", "--processes", "65"}, "a lease that is too short": {"--yes", "--lease", "0.5"},
		"no number of replicas": {"--yes", "--acks", "some"}, "fewer than none": {"--yes", "--acks", "-1"},
		"an argument": {"--yes", "x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := run(t, nil, nil, append([]string{"trial"}, args...)...)
			require.Equal(t, 64, r.code)
			require.Contains(t, r.stderr, "holdfast: ")
			require.Empty(t, r.stdout)
		})
	}
	require.Contains(t, run(t, nil, []string{"HOLDFAST_REDIS=redis://prod:6379"}, "trial").stderr, "redis://prod:6379")
	require.Equal(t, 69, run(t, nil, nil, "trial", "--yes", "--redis", "redis://127.0.0.1:1").code)
}
