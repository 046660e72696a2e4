package command

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/setlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

func TestAskTellsTheHolder(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := open(t, srv, nil)
	asked := func(name string, l holdfast.Locker) <-chan struct{} {
		told := take(t, l).Asked()
		kit.Await(t, "somebody listens", func() bool {
			return len(srv.Strs(t, "PUBSUB", "CHANNELS", "holdfast_asked:{"+name+"}")) == 1
		})
		return told
	}
	for name, l := range map[string]holdfast.Locker{
		"plain":   rlock.New(s, "plain", nil),
		"written": rwlock.New(s, "written", nil).Write(),
		"string":  setlock.New(s, "string", nil),
	} {
		hold := asked(name, l)
		assert.Equal(t, name+": asked 1 holder; clients that listen for that: 1\n", ok(t, srv, "ask", name))
		select {
		case <-hold:
		case <-time.After(20 * time.Second):
			require.Fail(t, "the holder is not told", name)
		}
	}
	for name, open := range unwritable {
		t.Run(name, func(t *testing.T) {
			asked(name, rlock.New(s, name, nil)) // who has been told listens no more
			cmd := command(t, srv, nil, "ask", name)
			cmd.Stdout = open(t)
			require.Error(t, cmd.Run())
			require.Equal(t, 75, cmd.ProcessState.ExitCode())
		})
	}
}

func TestAskSaysThatNobodyHears(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	for name, said := range map[string]string{
		"free": "holdfast: free: nobody holds it\n",
		"java": "holdfast: java: asked 1 holder, but nobody listens for that\n",
		"rw":   "holdfast: rw: asked 2 holders, but nobody listens for that\n",
	} {
		srv.Do(t, "HSET", "java", java1, "1")
		srv.Do(t, "HSET", "rw", "mode", "read", java1, "1", java2, "1")
		r := run(t, srv, nil, "ask", name)
		assert.Equal(t, result{stderr: said, code: 1}, r)
	}
	srv.Do(t, "SET", "latch", "3")
	r := run(t, srv, nil, "ask", "latch")
	assert.Equal(t, 64, r.code, r.stderr)
	assert.Empty(t, r.stdout)
	assert.Equal(t, 64, run(t, srv, nil, "ask", "").code)
}

func TestAskAndUnlockGiveAServerUpThatFallsSilent(t *testing.T) {
	t.Parallel()
	for line, script := range map[string]string{
		"ask orders": "lock_ask", "unlock orders -y": "rlock_force", "unlock orders -y --kind fairlock": "fairlock_force",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			srv, p := kit.StartProxied(t)
			srv.Do(t, "HSET", "orders", java1, "1")
			p.On(kit.ScriptNamed(script), proxy.DropReplySilently, proxy.EveryTime)
			took := kit.Stopwatch()
			r := run(t, nil, nil, append(strings.Fields(line), "--redis", "redis://"+p.Addr())...)
			require.Equal(t, 75, r.code, r.stderr)
			require.Less(t, took(), 15*time.Second, r.stderr)
		})
	}
}
