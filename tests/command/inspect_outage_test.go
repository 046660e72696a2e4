package command

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/tests/redistest"
)

// on finds a text of that form whose slot is on the node.
func on(t testing.TB, c *redistest.Cluster, node *redistest.Server, key, form string) string {
	t.Helper()
	for n := range 1000 {
		text := fmt.Sprintf(form, n)
		if c.NodeOf(t, fmt.Sprintf(key, text)) == node {
			return text
		}
	}
	require.Fail(t, "none of a thousand texts is on the node")
	return ""
}

// When a master of a cluster is down, nothing is missing from the others' locks but who the holders are.
func TestInspectBesideADeadMaster(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]func(*redistest.Server){
		"stopped": (*redistest.Server).Stop,
		"silent":  (*redistest.Server).Pause,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := redistest.StartCluster(t, 3, "--cluster-require-full-coverage", "no")
			asked, dead := c.Nodes[0], c.Nodes[2]
			// Its holder would publish who it is on the node that is down.
			session := on(t, c, dead, "holdfast_session:{%s}", "0f8fad5b-d9cb-469f-a165-%012d")
			lock := on(t, c, asked, "%s", "lock:%d")
			lost := on(t, c, dead, "%s", "lock:%d")
			for _, name := range []string{lock, lost, on(t, c, c.Nodes[1], "%s", "other:%d")} {
				node := c.NodeOf(t, name)
				node.Do(t, "HSET", name, session+":1", "1")
				node.Do(t, "PEXPIRE", name, "600000")
				node.Do(t, "RPUSH", "redisson_lock_queue:{"+name+"}", session+":2")
			}
			env := []string{"HOLDFAST_REDIS=redis://" + asked.Addr() + "?addr=" + c.Nodes[1].Addr()}
			away(dead)
			t.Cleanup(dead.Resume)

			began := time.Now()
			r := run(t, nil, env, "show", lock)
			assert.Equal(t, 0, r.code, r.stderr)
			assert.Contains(t, r.stdout, "? "+session+":1")
			assert.Less(t, time.Since(began), 20*time.Second)
			r = run(t, nil, env, "wait", lock, "-w", "5") // a busy machine takes a second for its first look
			assert.Equal(t, 1, r.code, r.stderr)
			r = run(t, nil, env, "ls")
			assert.Equal(t, 69, r.code, r.stderr)
			assert.Equal(t, 2, strings.Count(r.stdout, "\n"), r.stdout)
			assert.Contains(t, r.stdout, lock+"\t")
			assert.Contains(t, r.stderr, dead.Addr())
			r = run(t, nil, env, "unlock", "--yes", lock)
			assert.Equal(t, 0, r.code, r.stderr)
			r = run(t, nil, env, "wait", lock, "-w", "20")
			assert.Equal(t, 0, r.code, r.stderr)
			assert.NotEqual(t, 0, run(t, nil, env, "wait", lost, "-w", "1").code, "nobody can know")
		})
	}
}
