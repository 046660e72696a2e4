package interop_test

import (
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/tests/interop"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// The states that a latch goes through in Redis are those of Redisson, byte for byte, and so are the messages,
// whichever languages use it; both count alike in every one of them.
func TestLatchGoldenStates(t *testing.T) {
	t.Parallel()
	requireStates(t, alone(t), latches, latchSteps)
}

func latchSteps(t *testing.T, f *fleet, name string, first, second language) steps {
	f.proves(t, exclusion, latchRow, first)
	a, b := first.gate(t, f, name), second.gate(t, f, name)
	return steps{
		channel: "redisson_countdownlatch__channel__{" + name + "}",
		count: func(t *testing.T, n int, what string) {
			for _, g := range []gate{a, b} {
				require.Equal(t, n, g.count(t), what)
			}
		},
		all: []step{
			{"nobody has set it", func() bool { return a.awaitFor(t, promptly) && b.awaitFor(t, promptly) }, gone, ""},
			{"count down an open one", func() bool { a.countDown(t); return true }, gone, ""},
			{"delete an open one", func() bool { return !b.remove(t) }, gone, ""},
			{"set", func() bool { return a.trySet(t, 2) }, "2", "1"},
			{"set again", func() bool { return !b.trySet(t, 3) }, "2", ""},
			{
				"await", func() bool { return !a.awaitFor(t, 20*time.Millisecond) && !b.awaitFor(t, 20*time.Millisecond) }, "2", "",
			},
			{"count down", func() bool { b.countDown(t); return true }, "1", ""},
			{"count down to zero", func() bool { a.countDown(t); return true }, gone, "0"},
			{"await an open one", func() bool { return a.awaitFor(t, promptly) && b.awaitFor(t, promptly) }, gone, ""},
			{"count down once more", func() bool { b.countDown(t); return true }, gone, ""},
			{"set after zero", func() bool { return b.trySet(t, 1) }, "1", "1"},
			{"count down that", func() bool { b.countDown(t); return true }, gone, "0"},
			{"set for deletion", func() bool { return a.trySet(t, 2) }, "2", "1"},
			{"delete", func() bool { return b.remove(t) }, gone, "1"},
			{"await a deleted one", func() bool { return a.awaitFor(t, promptly) && b.awaitFor(t, promptly) }, gone, ""},
		},
	}
}

// The last one who counts down wakes those who wait on the other side, and those on its own, by its message.
func TestLatchOpensForTheOtherSide(t *testing.T) { requireLatchOpens(t, alone(t)) }

func requireLatchOpens(t *testing.T, s *site) {
	t.Helper()
	for _, last := range languages {
		t.Run(last.name, func(t *testing.T) {
			f := s.fleet(fleetOptions{})
			f.proves(t, wakeUp, latchRow, last)
			requireAtOnce(t, func(name string) time.Duration {
				a, b := last.gate(t, f, name), last.other().gate(t, f, name)
				require.True(t, b.trySet(t, 3))
				waits := []*attempt{
					f.waitAt(t, name, last.other().gate(t, f, name)),
					f.waitAt(t, name, last.gate(t, f, name)),
				}
				b.countDown(t)
				a.countDown(t)
				require.Equal(t, 1, a.count(t))
				require.Equal(t, 1, b.count(t))
				for _, w := range waits {
					requireWaiting(t, w)
				}
				took := timed(t, func() { a.countDown(t) }, waits[0])
				waits[1].await(t, promptly)
				return took
			})
		})
	}
}

// Each count of a crowd of both sides counts once: the last one opens the latch, and nobody else.
func TestLatchCrowd(t *testing.T) {
	t.Parallel()
	const (
		each   = 4 // of each language
		rounds = 25
	)
	f := newFleet(t, fleetOptions{})
	messages := f.server().Messages(t, "*")
	g := java.gate(t, f, "l")
	require.True(t, g.trySet(t, 2*each*rounds+1))
	waits := []*attempt{f.waitAt(t, "l", golang.gate(t, f, "l")), f.waitAt(t, "l", java.gate(t, f, "l"))}
	var workers sync.WaitGroup
	for range each {
		for _, l := range languages {
			u := l.gate(t, f, "l")
			workers.Go(func() {
				for range rounds {
					u.countDown(t)
				}
			})
		}
	}
	workers.Wait()
	for _, l := range languages {
		require.Equal(t, 1, l.gate(t, f, "l").count(t))
	}
	require.Equal(t, []redistest.Message{{Channel: latchChannel("l"), Payload: "1"}}, messages.Drain(t))
	for _, a := range waits {
		requireWaiting(t, a)
	}
	g.countDown(t)
	for _, a := range waits {
		a.await(t, promptly)
	}
	require.Equal(t, []redistest.Message{{Channel: latchChannel("l"), Payload: "0"}}, messages.Drain(t))
	require.Empty(t, state(t, f.server()))
}

// A latch is set again after zero, by either side, and those who wait for it are of both, the same ones each time.
func TestLatchIsSetAgain(t *testing.T) {
	t.Parallel()
	for _, first := range languages {
		t.Run(first.name+" first", func(t *testing.T) {
			f := newFleet(t, fleetOptions{})
			waiters := []gate{golang.gate(t, f, "l"), java.gate(t, f, "l")}
			users := []gate{first.gate(t, f, "l"), first.other().gate(t, f, "l")}
			for round := range 6 {
				setter, other := users[round%2], users[1-round%2]
				require.True(t, setter.trySet(t, 2))
				require.False(t, other.trySet(t, 1))
				var waits []*attempt
				for _, w := range waiters {
					waits = append(waits, f.waitAt(t, "l", w))
				}
				other.countDown(t)
				setter.countDown(t)
				for _, w := range waits {
					w.await(t, promptly)
				}
				require.Zero(t, setter.count(t))
				require.Zero(t, other.count(t))
			}
		})
	}
}

// A waiter of Java that has slept through an opening goes back to sleep when Go has set the latch again meanwhile, and
// does not ask Redis for ever.
func TestLatchSetAgainBehindJavasBack(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetOptions{})
	sleepy := ownJava(t)
	thread := connect(t, sleepy, f.server()).Thread(t, "waiter")
	w := &javaGate{javaUser{thread, thread.Object(interop.Latch, "l")}}
	g := golang.gate(t, f, "l")
	require.True(t, g.trySet(t, 1))
	a := f.waitAt(t, "l", w)

	sleepy.Pause()
	g.countDown(t)
	require.True(t, g.trySet(t, 1))
	sleepy.Resume()
	kit.Await(t, "the waiter rests", func() bool {
		before := f.gets(t)
		for range 100 { // far longer than a look takes
			if !thread.Asleep(t) {
				return false
			}
		}
		return f.gets(t) == before
	})
	requireWaiting(t, a)

	g.countDown(t)
	a.await(t, promptly)
}

var getStats = regexp.MustCompile(`cmdstat_get:calls=(\d+)`)

// gets counts the times that the server was asked for a string.
func (f *fleet) gets(t *testing.T) (n int64) {
	t.Helper()
	if match := getStats.FindStringSubmatch(f.server().Str(t, "INFO", "commandstats")); match != nil {
		n, _ = strconv.ParseInt(match[1], 10, 64)
	}
	return n
}

// A latch that is deleted lets those who wait in Go through, whoever deletes it. Those in Java it does not: its message
// tells them to wait for another one, of zero. One who waits for some time finds out when that is over.
func TestLatchIsDeleted(t *testing.T) {
	t.Parallel()
	const some = 2 * time.Second
	for _, l := range languages {
		t.Run("by "+l.name, func(t *testing.T) {
			f := newFleet(t, fleetOptions{})
			setter, deleter := l.other().gate(t, f, "l"), l.gate(t, f, "l")
			require.True(t, setter.trySet(t, 2))
			inGo := f.waitAt(t, "l", golang.gate(t, f, "l"))
			patient, hasty := java.gate(t, f, "l").(*javaGate), java.gate(t, f, "l").(*javaGate)
			inJava := f.waitAt(t, "l", patient)
			timed := hasty.object.Start("await", some)
			kit.Await(t, "the other thread sleeps", func() bool { return hasty.thread.Asleep(t) })

			require.True(t, deleter.remove(t))
			inGo.await(t, promptly)
			answer := timed.OK(t)
			require.True(t, answer.Bool())
			require.Greater(t, answer.Took, some-10*time.Millisecond) // Redisson counts in whole milliseconds
			require.True(t, patient.thread.Asleep(t))
			requireWaiting(t, inJava)
			require.Empty(t, state(t, f.server()))

			require.True(t, setter.trySet(t, 1))
			deleter.countDown(t)
			inJava.await(t, promptly)
		})
	}
}

// Redisson can set a latch to zero, which it then cannot set again. To Go it is open, and can be set.
func TestLatchStuckAtZero(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetOptions{})
	g, j := golang.gate(t, f, "l"), java.gate(t, f, "l")
	messages := f.server().Messages(t, "*")
	require.True(t, j.trySet(t, 0))
	require.Equal(t, map[string]redistest.Value{"l": {Type: "string", Content: "0"}}, state(t, f.server()))
	require.False(t, j.trySet(t, 1))
	require.Zero(t, g.count(t))
	require.Zero(t, j.count(t))
	require.True(t, g.awaitFor(t, promptly))
	require.True(t, j.awaitFor(t, promptly))
	messages.Drain(t)
	require.True(t, g.trySet(t, 1))
	require.Equal(t, []redistest.Message{{Channel: latchChannel("l"), Payload: "1"}}, messages.Drain(t))
	a := f.waitAt(t, "l", j)
	g.countDown(t)
	a.await(t, promptly)

	require.True(t, j.trySet(t, 0))
	messages.Drain(t)
	g.countDown(t)
	require.Empty(t, messages.Drain(t), "it was open")
	require.Empty(t, state(t, f.server()))
	require.True(t, j.trySet(t, 1))
}

// requireSharedLatch wants a latch to be one to both sides, stored under the mapped name.
func requireSharedLatch(t *testing.T, f *fleet, c cell, name string) {
	t.Helper()
	mapped := f.mapped(name)[0]
	a, b := c.first.gate(t, f, name), c.second.gate(t, f, name)
	require.True(t, a.trySet(t, 1))
	require.Equal(t, map[string]redistest.Value{mapped: {Type: "string", Content: "1"}}, f.state(t, mapped))
	w := f.waitAt(t, mapped, a)
	f.requireSharding(t, latchChannel(mapped))
	b.countDown(t)
	w.await(t, promptly)
	require.True(t, b.trySet(t, 1))
	w = f.waitAt(t, mapped, b)
	a.countDown(t)
	w.await(t, promptly)
	require.Empty(t, f.state(t, mapped))
}

// A latch whose name has a hash tag is of no use in a cluster, to neither side.
func requireTaggedLatchRefused(t *testing.T, s *site) {
	t.Helper()
	const name = "{tag}:l" // Redisson's channel of it is in another slot
	f := s.fleet(fleetOptions{})
	var exception *interop.JavaError
	require.ErrorAs(t, newJavaGate(t, f, name).(*javaGate).object.Try(t, "trySetCount", 1).Err, &exception)
	require.Contains(t, exception.Message, "CROSSSLOT")
	_, err := newGoGate(t, f, name).(*goGate).latch.TrySetCount(t.Context(), 1)
	require.ErrorContains(t, err, "cannot be used in a cluster")
}
