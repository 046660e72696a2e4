package wait_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast/internal/wait"
)

// A waiter that may share the name looks first, and the head of the line looks when those that share have left.
func TestThoseBesideALineLookFirst(t *testing.T) {
	for name, wake := range map[string]func(q *lines){
		"after a message": func(q *lines) { q.publish("x") },
		"after a release": func(q *lines) { q.Released(x, 1) },
		"when woken":      func(q *lines) { q.Wake(x) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newLines(t)
				head := q.Join(x, true, false)
				waits := func() time.Duration {
					waiting := q.goWait(head, time.Hour)
					wake(q)
					began := time.Now()
					assert.NoError(t, waiting.err())
					return waiting.ended.Sub(began)
				}
				assert.Zero(t, waits(), "nobody is beside it")
				first, second := q.Apart(x).Share(), q.Apart(x).Share()
				elsewhere := q.Apart(y).Share()
				assert.Equal(t, courtesy, waits())
				first.Leave(0)
				assert.Equal(t, courtesy, waits())
				second.Leave(0)
				assert.Zero(t, waits(), "nobody is any more")
				elsewhere.Leave(0)
				head.Leave(0)
			})
		})
	}
}

// A wake-up that comes while one waiter takes what it waits for is for the next one only if nothing was taken.
func TestAWakeUpWhileOneTakesIt(t *testing.T) {
	for name, c := range map[string]struct {
		leave func(p *wait.Place)
		waits time.Duration
	}{
		"all":     {func(p *wait.Place) { p.Leave(time.Minute) }, shortest},
		"nothing": {func(p *wait.Place) { p.Leave(0) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newLines(t)
				first, second := q.Join(x, true, false), q.Join(x, true, false)
				q.wait(first, time.Second)
				waiting := q.goWait(second, time.Hour)
				q.publish("x") // while the first one takes something
				began := time.Now()
				c.leave(first)
				assert.NoError(t, waiting.err())
				assert.GreaterOrEqual(t, waiting.ended.Sub(began), c.waits)
				assert.LessOrEqual(t, waiting.ended.Sub(began), c.waits*3/2)
				second.Leave(0)
			})
		})
	}
}

func TestAnEagerPlaceLooksAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		defer q.Apart(x).Share().Leave(0)
		first, second := q.Join(x, true, true), q.Join(x, true, true)
		waiting := q.goWait(first, time.Hour)
		q.publish("x")
		began := time.Now()
		assert.NoError(t, waiting.err())
		assert.Zero(t, waiting.ended.Sub(began), "it does not let those beside it go first")

		waiting = q.goWait(second, time.Hour)
		first.Leave(time.Hour) // taken for an hour
		began = time.Now()
		assert.NoError(t, waiting.err())
		assert.Zero(t, waiting.ended.Sub(began), "it looks as soon as it is the head")
		assert.True(t, second.Head())
		second.Leave(0)
	})
}
