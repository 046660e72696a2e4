package interop_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// await polls until something that Redis can be asked about is so.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not after 30 s: %s", what)
		}
	}
}

// scripts counts the scripts that the fleet's servers have run.
func (f *fleet) scripts(t *testing.T) int64 {
	t.Helper()
	var n int64
	for _, node := range f.nodes {
		stats := node.CommandStats(t)
		n += stats["evalsha"] + stats["eval"]
	}
	return n
}

// listeners counts the subscribers of a channel: sharded ones, and plain ones.
func (f *fleet) listeners(t *testing.T, channel string) (sharded, plain int64) {
	t.Helper()
	count := func(reply any) int64 { return reply.([]any)[1].(int64) }
	for _, node := range f.nodes {
		plain += count(node.Do(t, "PUBSUB", "NUMSUB", channel))
		if reply, err := node.Try("PUBSUB", "SHARDNUMSUB", channel); err == nil { // since Redis 7.0
			sharded += count(reply)
		}
	}
	return sharded, plain
}

// wait begins a wait for a lock that is held, and returns once the waiter can do nothing but sleep until a message
// or a timer wakes it: it has tried, listens, and has tried again. No other owner may be busy.
func (f *fleet) wait(t *testing.T, waiter owner, mapped string) *attempt {
	t.Helper()
	before := f.scripts(t)
	a := waiter.start()
	await(t, "the waiter sleeps", func() bool {
		sharded, plain := f.listeners(t, lockChannel(mapped))
		return sharded+plain > 0 && f.scripts(t) >= before+2
	})
	requireWaiting(t, a)
	return a
}

// waitPolling begins a wait of a lock that polls, and returns once it has polled a few times.
func (f *fleet) waitPolling(t *testing.T, waiter owner, mapped string) *attempt {
	t.Helper()
	before := f.scripts(t)
	a := waiter.start()
	await(t, "the waiter polls", func() bool { return f.scripts(t) >= before+5 })
	sharded, plain := f.listeners(t, lockChannel(mapped))
	require.Zero(t, sharded+plain, "a lock that polls has subscribed")
	requireWaiting(t, a)
	return a
}

func requireWaiting(t *testing.T, a *attempt) {
	t.Helper()
	select {
	case <-a.done:
		require.NoError(t, a.err)
		t.Fatal("a lock that is held was granted")
	default:
	}
}
