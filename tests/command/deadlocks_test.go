package command

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// knownAs opens a session of a process that tells which one it is.
func knownAs(t testing.TB, srv *redistest.Server, label string) *holdfast.Session {
	t.Helper()
	return kit.OpenKnown(t, rueidis.ClientOption{InitAddress: []string{srv.Addr()}},
		&holdfast.Options{Lease: 20 * time.Second, Label: label})
}

func TestDeadlocksNamesThoseWhoWaitForEachOther(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	require.Equal(t, "no calls wait for each other\n", ok(t, srv, "deadlocks"))

	ctx, cancel := context.WithCancel(t.Context())
	labels, names := []string{"billing", "stock", "mail"}, []string{"lock a", "lock b", "lock c"}
	var holds []*holdfast.Hold
	var waits []<-chan kit.Result
	var sessions []*holdfast.Session
	for i, label := range labels {
		sessions = append(sessions, knownAs(t, srv, label))
		holds = append(holds, take(t, rlock.New(sessions[i], names[i], nil)))
	}
	wait := func(i int) {
		waits = append(waits, kit.GoLock(holds[i].Context(ctx), rlock.New(sessions[i], names[(i+1)%3], nil).Lock))
	}
	wait(0)
	wait(1)
	kit.Await(t, "a wait that is told of",
		func() bool { return strings.Contains(ok(t, srv, "show", "lock b"), "waits for lock c") })
	require.Equal(t, "no calls wait for each other\n", ok(t, srv, "deadlocks"), "a chain is no cycle")

	wait(2)
	var r result
	kit.Await(t, "a deadlock", func() bool {
		r = run(t, srv, nil, "deadlocks")
		return r.code != 0
	})
	require.Equal(t, 1, r.code, r.stderr)
	require.Regexp(t, `^deadlock since \d{4}-\S+ \S+:\n`, r.stdout)
	for i, label := range labels {
		next := (i + 1) % 3
		assert.Regexp(t,
			`\(`+label+`\) waits for rlock `+names[next]+`, which \S+ \(`+labels[next]+`\) has, as `+holds[next].ID(), r.stdout)
	}
	var d struct {
		Since time.Time
		Waits []struct {
			Process     struct{ Label string }
			Kind, Owner string
			Name        string
		}
	}
	require.NoError(t, json.Unmarshal([]byte(run(t, srv, nil, "deadlocks", "--json").stdout), &d))
	require.Len(t, d.Waits, 3)
	assert.WithinDuration(t, time.Now(), d.Since, time.Minute)

	cancel()
	for _, w := range waits {
		require.ErrorIs(t, kit.Within(t, 10*time.Second, w, "its end").Err, context.Canceled)
	}
	kit.Await(t, "its end", func() bool { return run(t, srv, nil, "deadlocks").code == 0 })
}

func TestShowAndDeadlocksTellOfASessionThatWaitsForItself(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := knownAs(t, srv, "nested")
	h, err := rlock.New(s, "orders", nil).Lock(holdfast.WithNote(t.Context(), "request 42"))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	waits := kit.GoLock(ctx, rlock.New(s, "orders", nil).Lock) // not the hold's context
	kit.Await(t, "a line", func() bool { return strings.Contains(ok(t, srv, "show", "orders"), "waits for itself") })
	assert.Contains(t, ok(t, srv, "show", "orders"), ", note: request 42,")
	assert.Contains(t, ok(t, srv, "ls"), "(nested): request 42")
	assert.Regexp(t, `^perhaps: \S+ \(nested\) waits for orders, which it holds itself`, ok(t, srv, "deadlocks"))
	cancel()
	require.ErrorIs(t, kit.Within(t, 10*time.Second, waits, "its end").Err, context.Canceled)
	kit.Await(t, "no such line",
		func() bool { return !strings.Contains(ok(t, srv, "show", "orders"), "waits for itself") })
	require.NoError(t, h.Release())
}

// A report is JSON, which has no bytes that are not UTF-8.
func TestShowTellsOfASessionThatWaitsForItselfUnderAnyName(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := knownAs(t, srv, "nested")
	const name = "\xff\xfeorders"
	h, err := rlock.New(s, name, nil).Lock(t.Context())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	waits := kit.GoLock(ctx, rlock.New(s, name, nil).Lock)
	kit.Await(t, "a report", func() bool { return strings.HasPrefix(ok(t, srv, "deadlocks"), "perhaps: ") })
	assert.Contains(t, ok(t, srv, "show", name), "waits for itself")
	cancel()
	require.ErrorIs(t, kit.Within(t, 10*time.Second, waits, "its end").Err, context.Canceled)
	require.NoError(t, h.Release())
}
