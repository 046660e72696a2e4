package command

import (
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A signal ends a call as it ends any command. The call reports it if something may have changed.
func TestLatchAndSemaphoreInterrupted(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	srv.Do(t, "MSET", "gate", "9", "pool", "3")
	for line, unknown := range map[string]bool{
		"latch count gate": false, "latch set other 2": true, "semaphore count pool": false, "semaphore set other 1": true,
	} {
		for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
			p := proxy.Start(t, srv.Addr())
			var rules []*proxy.Rule
			for _, name := range []string{"GET", "EVAL", "EVALSHA"} {
				rules = append(rules, p.On(proxy.Command(name), proxy.DropReplySilently, proxy.EveryTime))
			}
			r := start(t, nil, append(strings.Fields(line), "--timeout", "30s", "--redis", "redis://"+p.Addr())...)
			kit.Await(t, "it has asked", func() bool { return rules[0].Count()+rules[1].Count()+rules[2].Count() > 0 })
			require.NoError(t, r.cmd.Process.Signal(sig))
			require.Equal(t, 128+int(sig), r.end(t), "%s: %s", line, &r.stderr)
			require.Equal(t, unknown, r.stderr.Len() > 0, "%s: %s", line, &r.stderr)
			require.Empty(t, r.stdout.String())
		}
	}
}

// An interrupted count down reports how far it came.
func TestLatchDownIsInterruptedByASignal(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	srv.Do(t, "SET", "gate", "100000000")
	r := start(t, srv, "latch", "down", "gate", "-n", "100000000", "--timeout", "50s")
	kit.Await(t, "it counts", func() bool { return srv.Str(t, "GET", "gate") != "100000000" })
	require.NoError(t, r.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 143, r.end(t), "%s", &r.stderr)
	require.Regexp(t, `after \d+ of 100000000 times: `, r.stderr.String())
}

// A doctor that a signal interrupts ends by that signal.
func TestDoctorInterruptedBySignals(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		p := proxy.Start(t, srv.Addr())
		scans := p.On(proxy.Command("SCAN"), proxy.DropReplySilently, proxy.EveryTime)
		r := start(t, nil, "doctor", "--timeout", "60", "--redis", "redis://"+p.Addr())
		kit.Await(t, "it looks at the keys", func() bool { return scans.Count() > 0 })
		require.NoError(t, r.cmd.Process.Signal(sig))
		require.Equal(t, 128+int(sig), r.end(t), "%s", &r.stderr)
	}
}

// A demo that a signal interrupts ends by that signal.
func TestDemoInterruptedBySignals(t *testing.T) {
	t.Parallel()
	for sig, said := range map[syscall.Signal]string{
		syscall.SIGINT: "interrupted", syscall.SIGTERM: "terminated",
		syscall.SIGHUP: "hangup",
	} {
		cmd := command(t, nil, nil, "demo", "lock")
		var out, stderr log
		cmd.Stdout, cmd.Stderr = &out, &stderr
		require.NoError(t, cmd.Start())
		kit.Await(t, "it plays", func() bool { return strings.Contains(out.String(), "the lease is") })
		require.NoError(t, cmd.Process.Signal(sig))
		require.Error(t, cmd.Wait())
		require.Equal(t, 128+int(sig), cmd.ProcessState.ExitCode())
		require.Equal(t, "holdfast: demo: "+said+"\n", stderr.String())
	}
}
