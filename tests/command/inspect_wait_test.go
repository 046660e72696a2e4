package command

import (
	"bytes"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/setlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A running is a run of the command in the background.
type running struct {
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer
}

func start(t testing.TB, srv *redistest.Server, args ...string) *running {
	t.Helper()
	r := &running{cmd: command(t, srv, nil, args...)}
	r.cmd.Stdout, r.cmd.Stderr = &r.stdout, &r.stderr
	require.NoError(t, r.cmd.Start())
	return r
}

// end waits for its end and returns its code; −1 means that a signal ended it.
func (r *running) end(t testing.TB) int {
	t.Helper()
	_ = r.cmd.Wait()
	if code := r.cmd.ProcessState.ExitCode(); code >= 0 {
		return code
	}
	require.Fail(t, "killed", "%v: %s", r.cmd.ProcessState, &r.stderr)
	return -1
}

// listens waits until somebody listens on the channel.
func listens(t testing.TB, srv *redistest.Server, channel string) {
	t.Helper()
	kit.Await(t, "somebody listens on "+channel, func() bool {
		reply, _ := srv.Do(t, "PUBSUB", "NUMSUB", channel).([]any)
		return len(reply) == 2 && reply[1] != int64(0)
	})
}

func TestWaitForEveryKind(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := open(t, srv, nil)
	ctx := t.Context()
	locks := map[string]func() error{}
	locks["plain"] = take(t, rlock.New(s, "plain", nil)).Release
	locks["fair"] = take(t, fairlock.New(s, "fair", nil)).Release
	locks["read"] = take(t, rwlock.New(s, "read", nil).Read()).Release
	locks["written"] = take(t, rwlock.New(s, "written", nil).Write()).Release
	locks["string"] = take(t, setlock.New(s, "string", nil)).Release
	channels := map[string]string{
		"plain": "redisson_lock__channel:{plain}", "fair": "redisson_lock__channel:{fair}", "read": "redisson_rwlock:{read}",
		"written": "redisson_rwlock:{written}", "string": "holdfast_setlock:{string}",
	}
	l := latch.New(s, "latch")
	_, err := l.TrySetCount(ctx, 1)
	require.NoError(t, err)
	locks["latch"] = func() error { return l.CountDown(ctx) }
	channels["latch"] = "redisson_countdownlatch__channel__{latch}"
	p := semaphore.New(s, "permits")
	_, err = p.TrySetPermits(ctx, 1)
	require.NoError(t, err)
	require.NoError(t, p.Acquire(ctx, 1))
	locks["permits"] = func() error { return p.Release(ctx, 1) }
	channels["permits"] = "redisson_sc:{permits}"

	for name, free := range locks {
		t.Run(name, func(t *testing.T) {
			args := []string{"wait", name, "-w", "30"}
			if name == "permits" {
				args = append(args, "--kind", "semaphore")
			}
			now := run(t, srv, nil, append(args[:2:2], append(args[4:], "-w", "0", "-E", "9")...)...)
			assert.Equal(t, 9, now.code, now.stderr)
			r := start(t, srv, args...)
			listens(t, srv, channels[name])
			took := kit.Stopwatch()
			require.NoError(t, free())
			assert.Equal(t, 0, r.end(t), "%s", &r.stderr)
			woken := took()
			t.Logf("woken and gone after %v", woken)
			assert.Less(t, woken, 2*time.Second)
			assert.Empty(t, r.stdout.String()+r.stderr.String())
			assert.Equal(t, 0, run(t, srv, nil, append(args[:2:2], append(args[4:], "-w", "0")...)...).code)
		})
	}
}

func TestWaitEnds(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	take(t, rlock.New(open(t, srv, nil), "x", nil))
	r := run(t, srv, nil, "wait", "x", "-w", "4.5") // a busy machine takes a second for its first look
	assert.Equal(t, 1, r.code, r.stderr)
	r = run(t, srv, nil, "wait", "x", "--wait", "4500ms", "-E", "7", "--json")
	assert.Equal(t, 7, r.code, r.stderr)
	assert.Regexp(t, `^\{"name":"x","free":false,"waited_ms":\d+\}\n$`, r.stdout)
	assert.Equal(t, 0, run(t, srv, nil, "wait", "nobody").code)
	assert.Contains(t, run(t, srv, nil, "wait").stderr, "\nUsage: holdfast wait NAME ")
	exports := semaphore.NewExpirable(open(t, srv, nil), "exports", nil)
	require.NoError(t, kit.ErrorOf(exports.TrySetPermits(t.Context(), 1)))
	require.NoError(t, kit.ErrorOf(exports.Acquire(t.Context())))
	for name, args := range map[string][]string{
		"kind": {"x", "--kind", "latch"}, "no kind": {"x", "--kind", "y"}, "code": {"x", "-E", "256"},
		"permits": {"exports", "-w", "0", "--kind", "latch"}, "time": {"x", "-w", "soon"}, "no name": {}, "empty": {""},
	} {
		r := run(t, srv, nil, append([]string{"wait"}, args...)...)
		assert.Equal(t, 64, r.code, "%s: %s", name, r.stderr)
	}
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		r := start(t, srv, "wait", "x")
		listens(t, srv, "redisson_lock__channel:{x}")
		require.NoError(t, r.cmd.Process.Signal(sig))
		assert.Equal(t, 128+int(sig), r.end(t))
		assert.Empty(t, r.stderr.String())
		kit.Await(t, "nobody listens", func() bool {
			reply, _ := srv.Do(t, "PUBSUB", "NUMSUB", "redisson_lock__channel:{x}").([]any)
			return reply[1] == int64(0)
		})
	}
}

// As with nohup, and in the background of a script, an ignored signal stays ignored.
func TestWaitIgnoresWhatWasIgnored(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	srv.Do(t, "HSET", "x", java1, "1")
	cmd := command(t, srv, nil, "wait", "x", "-w", "50")
	r := &running{cmd: command(t, srv, nil)}
	r.cmd.Path, r.cmd.Args = "/bin/sh", append([]string{"sh", "-c", `trap "" HUP INT; exec "$@"`, "sh"}, cmd.Args...)
	r.cmd.Stdout, r.cmd.Stderr = &r.stdout, &r.stderr
	require.NoError(t, r.cmd.Start())
	listens(t, srv, "redisson_lock__channel:{x}")
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT} {
		require.NoError(t, r.cmd.Process.Signal(sig))
	}
	time.Sleep(200 * time.Millisecond) // a signal would have ended it
	srv.Do(t, "DEL", "x")
	assert.Equal(t, 0, r.end(t), "%s", &r.stderr)
}

// A lock that nobody releases is free when its lease ends, and no message tells of that.
func TestWaitForTheEndOfALease(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	srv.Do(t, "HSET", "x", java1, "1")
	srv.Do(t, "PEXPIRE", "x", "1500")
	r := run(t, srv, nil, "wait", "x", "-w", "20")
	assert.Equal(t, 0, r.code, r.stderr)
}

// While the server is down the command goes on waiting.
func TestWaitOutlivesTheServer(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	srv.Do(t, "HSET", "x", java1, "1")
	r := start(t, srv, "wait", "x", "-w", "30")
	listens(t, srv, "redisson_lock__channel:{x}")
	srv.Restart() // and forgets everything
	assert.Equal(t, 0, r.end(t), "%s", &r.stderr)
}

// A server that has just started and reads its data, or that is busy with a script, will soon be well.
func TestWaitOutlivesARefusalThatPasses(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	for code, text := range map[string]string{
		"LOADING": "Redis is loading the dataset in memory",
		"BUSY":    "Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
	} {
		srv.Do(t, "HSET", code, java1, "1")
		srv.Do(t, "SET", "gate"+code, "1")
		for name, command := range map[string]string{code: "PTTL", "gate" + code: "TYPE"} {
			p := proxy.Start(t, srv.Addr())
			r := start(t, nil, "wait", name, "-w", "30", "--redis", "redis://"+p.Addr())
			kit.Await(t, "it waits", func() bool {
				reply, _ := srv.Do(t, "PUBSUB", "CHANNELS", "*{"+name+"}").([]any)
				return len(reply) > 0
			})
			refusal := p.On(proxy.Command(command), proxy.Answer("-"+code+" "+text), proxy.EveryTime)
			refusal.Wait(t, 2)
			refusal.Remove()
			srv.Do(t, "DEL", name)
			assert.Equal(t, 0, r.end(t), "%s: %s", name, &r.stderr)
		}
	}
}

// If the server is silent from the beginning, the command ends when its time is over.
func TestWaitDoesNotWaitForASilentServer(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := proxy.Start(t, srv.Addr())
	p.On(proxy.Command("TYPE"), proxy.DropReplySilently, proxy.EveryTime)
	took := kit.Stopwatch()
	r := run(t, nil, []string{"HOLDFAST_REDIS=redis://" + p.Addr()}, "wait", "x", "-w", "0.5")
	assert.Equal(t, 69, r.code, r.stderr)
	assert.Contains(t, r.stderr, "no answer within 500ms")
	assert.Less(t, took(), 3*time.Second)
}
