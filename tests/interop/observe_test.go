package interop_test

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/tests/kit"
)

// scriptStats are the lines of INFO commandstats that count scripts, and those among them that were not known.
var scriptStats = regexp.MustCompile(`cmdstat_eval(?:sha)?:calls=(\d+),.*failed_calls=(\d+)`)

// scripts counts the scripts that the fleet's servers have run.
func (f *fleet) scripts(t *testing.T) int64 {
	t.Helper()
	var n int64
	for _, node := range f.nodes {
		for _, match := range scriptStats.FindAllStringSubmatch(node.Str(t, "INFO", "commandstats"), -1) {
			calls, _ := strconv.ParseInt(match[1], 10, 64)
			failed, _ := strconv.ParseInt(match[2], 10, 64)
			n += calls - failed
		}
	}
	return n
}

// queue is who waits for a fair lock, the next one first.
func (f *fleet) queue(t *testing.T, mapped string) []string {
	t.Helper()
	for _, node := range f.nodes {
		reply, err := node.Try("LRANGE", prefixed("redisson_lock_queue", mapped), "0", "-1")
		if err != nil && strings.HasPrefix(err.Error(), "MOVED ") {
			continue
		}
		require.NoError(t, err)
		owners := []string{}
		for _, owner := range reply.([]any) {
			owners = append(owners, owner.(string))
		}
		return owners
	}
	t.Fatalf("no node has the queue of %s", mapped)
	return nil
}

// enter begins a wait for a fair lock and returns once the waiter stands in the queue, as the last one, and how it
// is written there.
func (f *fleet) enter(t *testing.T, mapped string, start func() *attempt) (a *attempt, id string) {
	t.Helper()
	before := f.queue(t, mapped) // some of whom may give up meanwhile
	a = start()
	kit.Await(t, "the waiter stands in the queue", func() bool {
		if queue := f.queue(t, mapped); len(queue) > 0 {
			id = queue[len(queue)-1]
		}
		return id != "" && !slices.Contains(before, id)
	})
	return a, id
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
// or a timer wakes it: it has tried, listens, and has tried again; or, if it polls, has done so a few times. No other
// owner may be busy.
func (f *fleet) wait(t *testing.T, w waiter, mapped string) *attempt {
	t.Helper()
	if w.of().polls {
		return f.waitPolling(t, w, mapped)
	}
	var a *attempt
	before, channel := f.scripts(t), w.of().channel(mapped)
	if w.of().fair {
		var id string
		a, id = f.enter(t, mapped, w.start)
		channel += ":" + id
	} else {
		a = w.start()
	}
	kit.Await(t, "the waiter sleeps", func() bool {
		sharded, plain := f.listeners(t, channel)
		return (sharded+plain > 0 || f.stands(t, mapped)) && f.scripts(t) >= before+2 && w.asleep(t)
	})
	requireWaiting(t, a)
	return a
}

// ofGo is an owner of this toolkit: the UUIDs of its sessions are of version 8, those of Redisson of version 4.
var ofGo = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-`)

// stands reports whether a session waits for another one in a lock's line: it hears on a channel of its own that it has
// the lock then, and need not listen to that of all.
func (f *fleet) stands(t *testing.T, mapped string) bool {
	t.Helper()
	holders := f.at(t, mapped).Strs(t, "HKEYS", mapped) // no script: those are counted
	if len(holders) == 0 || !ofGo.MatchString(holders[0]) {
		return false
	}
	own := wire.LineChannel(mapped)
	for _, node := range f.nodes {
		for _, command := range []string{"CHANNELS", "SHARDCHANNELS"} { // sharded ones since Redis 7.0
			if reply, err := node.Try("PUBSUB", command); err == nil && slices.ContainsFunc(reply.([]any), func(c any) bool {
				return strings.HasPrefix(c.(string), own) && c != own+wire.Redisson
			}) {
				return true
			}
		}
	}
	return false
}

func (f *fleet) waitPolling(t *testing.T, w waiter, mapped string) *attempt {
	t.Helper()
	before := f.scripts(t)
	a := w.start()
	kit.Await(t, "the waiter polls", func() bool { return f.scripts(t) >= before+5 })
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
