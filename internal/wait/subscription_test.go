package wait_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestALineSubscribesOnceAndUntilTheLastLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		first, second, third := q.Join("x", true, false), q.Join("x", true, false), q.Join("x", true, false)
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

		again := q.Join("x", true, false)
		q.wait(again, time.Second)
		assert.Equal(t, 2, q.begun["x"])
		again.Leave(0)
		assert.Zero(t, q.standing("x"))
	})
}

func TestWhoPollsDoesNotSubscribe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		polls, listens := q.Join("x", false, false), q.Join("x", true, false)
		q.wait(polls, time.Second)
		assert.Zero(t, q.begun["x"])
		polls.Leave(time.Hour)
		assert.LessOrEqual(t, shortest, q.wait(listens, time.Second))
		assert.Equal(t, 1, q.begun["x"])

		last := q.Join("x", false, false)
		listens.Leave(0)
		q.wait(last, time.Second)
		assert.Equal(t, 1, q.standing("x"), "the subscription is the line's")
		last.Leave(0)
		assert.Zero(t, q.standing("x"))
	})
}

func TestALineThatNeverListenedHasNothingToStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		p := q.Join("x", true, false)
		p.Leave(0)
		assert.Zero(t, q.begun["x"])
		assert.True(t, q.Empty("x"))
	})
}

func TestTheConfirmationHasTheFirstLookAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		q.confirm = true
		p := q.Join("x", true, false)
		assert.Zero(t, q.wait(p, time.Hour))
		assert.Equal(t, time.Hour, q.wait(p, time.Hour))
	})
}

func TestAMessageWakesWhoeverIsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		first, second := q.Join("x", true, false), q.Join("x", true, false)
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
