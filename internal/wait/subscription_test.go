package wait_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/wait"
)

func TestALineSubscribesOnceAndUntilTheLastLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		first, second, third := q.Join(x, true, false), q.Join(x, true, false), q.Join(x, true, false)
		waiting := q.goWait(third, time.Hour)
		assert.Zero(t, q.begun["x"], "nobody has waited as the first")

		q.wait(first, time.Second)
		q.wait(first, time.Second)
		assert.Equal(t, 1, q.begun["x"])
		first.Leave(0)
		assert.Zero(t, q.wait(second, time.Second)) // look
		q.wait(second, time.Second)
		second.Leave(0)
		require.NoError(t, waiting.err())
		q.wait(third, time.Second)
		assert.Equal(t, 1, q.begun["x"])
		assert.Equal(t, 1, q.standing("x"))
		third.Leave(0)
		assert.Zero(t, q.standing("x"))

		again := q.Join(x, true, false)
		q.wait(again, time.Second)
		assert.Equal(t, 2, q.begun["x"])
		again.Leave(0)
		assert.Zero(t, q.standing("x"))
	})
}

func TestAPollingWaiterDoesNotSubscribe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		polls, listens := q.Join(x, false, false), q.Join(x, true, false)
		q.wait(polls, time.Second)
		assert.Zero(t, q.begun["x"])
		q.wait(listens, time.Second)
		assert.Equal(t, 1, q.begun["x"])

		listens.Leave(0)
		q.wait(polls, time.Second)
		assert.Zero(t, q.standing("x"), "the subscription is that of those who listen")
		polls.Leave(0)
		assert.True(t, q.Empty(x))
	})
}

// Waiters that poll may take as long as they like; waiters that listen do not have to.
func TestListenersAreNotBehindPollers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		first, second := q.Join(x, false, false), q.Join(x, false, false)
		polling, next := q.goWait(first, time.Hour), q.goWait(second, time.Hour)
		listens := q.Join(x, true, false)
		assert.True(t, listens.Head())
		assert.Equal(t, time.Minute, q.wait(listens, time.Minute), "it has a timer of its own")

		waiting := q.goWait(listens, time.Hour)
		q.publish("x")
		require.NoError(t, waiting.err())
		assert.False(t, polling.done(), "messages are for those who listen")

		waiting = q.goWait(listens, time.Hour)
		q.Released(x, 1)
		require.NoError(t, waiting.err())
		require.NoError(t, polling.err(), "what its own session does is for all")
		assert.False(t, next.done(), "of those who poll one looks")
		first.Leave(0)
		require.NoError(t, next.err())
		second.Leave(0)
		listens.Leave(0)
		assert.True(t, q.Empty(x))
	})
}

// Redisson's braces give the keys x and {x} one channel.
func TestTwoNamesMayShareAChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		braced := wait.Name{Channel: x.Channel, Key: "{x}"}
		one := q.Join(x, true, false)
		assert.True(t, q.Empty(braced))
		other := q.Join(braced, true, false)
		assert.True(t, other.Head(), "nobody waits for the same")
		waits := []*waiting{q.goWait(one, time.Hour), q.goWait(other, time.Hour)}
		q.Wake(x)
		require.NoError(t, waits[0].err())
		assert.False(t, waits[1].done())
		q.publish("x")
		require.NoError(t, waits[1].err(), "a message may be about either")
		one.Leave(0)
		other.Leave(0)
		assert.Zero(t, q.standing("x"))
	})
}

func TestALineThatNeverListenedHasNothingToStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		p := q.Join(x, true, false)
		p.Leave(0)
		assert.Zero(t, q.begun["x"])
		assert.True(t, q.Empty(x))
	})
}

func TestTheConfirmationHasTheFirstLookAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		q.confirm = true
		p := q.Join(x, true, false)
		assert.Zero(t, q.wait(p, time.Hour))
		assert.Equal(t, time.Hour, q.wait(p, time.Hour))
	})
}

func TestAMessageWakesWhoeverIsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		first, second := q.Join(x, true, false), q.Join(x, true, false)
		waits := []*waiting{q.goWait(first, time.Hour), q.goWait(second, time.Hour)}
		q.publish("x")
		require.NoError(t, waits[0].err())
		assert.False(t, waits[1].done())

		first.Leave(time.Hour)
		time.Sleep(time.Second)
		q.publish("x")
		require.NoError(t, waits[1].err())
		assert.True(t, second.Head())
		assert.Equal(t, time.Second, time.Since(q.began))
	})
}
