package wait_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/wait"
)

func TestTheFirstInLineContends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		assert.True(t, q.Empty(x))
		first, second := q.Join(x, false, false), q.Join(x, false, false)
		assert.False(t, q.Empty(x))
		assert.True(t, q.Empty(y), "lines are by channel")
		assert.True(t, first.Head())
		assert.False(t, second.Head())

		assert.Equal(t, time.Second, q.wait(first, time.Second), "the first waits by the clock")
		waiting := q.goWait(second, time.Second)
		time.Sleep(time.Hour)
		assert.False(t, waiting.done(), "the others wait for their turn")

		first.Leave(0)
		assert.NoError(t, waiting.err())
		assert.True(t, second.Head())
		second.Leave(0)
		assert.True(t, q.Empty(x))
	})
}

// Kinds of locks have channels of their own, also for one key: each has its line, whichever others come and go.
func TestEachChannelOfAKeyHasALineOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		names := []wait.Name{{Channel: "a", Key: "x"}, {Channel: "b", Key: "x"}, {Channel: "c", Key: "x"}}
		for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
			places := make([]*wait.Place, len(names))
			for i, name := range names {
				assert.True(t, q.Empty(name))
				places[i] = q.Join(name, true, false)
				assert.True(t, places[i].Head())
			}
			for n, i := range order {
				places[i].Leave(0)
				assert.True(t, q.Empty(names[i]))
				for _, left := range order[n+1:] {
					assert.False(t, q.Empty(names[left]))
					q.Wake(names[left])
					assert.Zero(t, q.wait(places[left], time.Second))
				}
			}
		}
	})
}

func TestTheLineMovesInTheOrderOfArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		const n = 100
		places := make([]*wait.Place, n)
		for i := range places {
			places[i] = q.Join(x, true, false)
		}
		order := make(chan int, n)
		for i, p := range places {
			go func() {
				for !p.Head() {
					assert.NoError(t, p.Wait(t.Context(), time.Hour))
				}
				order <- i
				p.Leave(0)
			}()
		}
		synctest.Wait()
		for i := range n {
			assert.Equal(t, i, <-order)
		}
	})
}

func TestWhatTheNextInLineWaitsFor(t *testing.T) {
	const taken = 3 * time.Second
	for name, c := range map[string]struct {
		taken    time.Duration
		wake     bool // after a second
		from, to time.Duration
	}{
		"nothing, if the name was not taken":   {0, false, 0, 0},
		"nothing, if it was taken in the past": {-time.Second, false, 0, 0},
		"the end of the lease": {
			taken, false, taken + time.Millisecond, taken + taken/64 + 2*time.Millisecond,
		},
		"five seconds of a long lease": {time.Hour, false, shortest, longest},
		"a release":                    {taken, true, time.Second, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newLines(t)
				first, second := q.Join(x, false, false), q.Join(x, false, false)
				began := time.Now()
				waiting := q.goWait(second, time.Nanosecond) // its own idea does not count
				first.Leave(c.taken)
				if c.wake {
					time.Sleep(time.Second)
					q.Wake(x)
				}
				require.NoError(t, waiting.err())
				assert.True(t, second.Head())
				assert.GreaterOrEqual(t, waiting.ended.Sub(began), c.from)
				assert.LessOrEqual(t, waiting.ended.Sub(began), c.to)
			})
		})
	}
}

// A waiter that has just become the first must look if the name was released, in whatever order the promotion and the
// wake-up reach it.
func TestAWakeUpDuringPromotionIsNotLost(t *testing.T) {
	for name, order := range map[string]func(q *lines, first *wait.Place){
		"after it": func(q *lines, first *wait.Place) {
			first.Leave(time.Hour)
			q.Wake(x)
		},
		"before it, and the leaver found the name free": func(q *lines, first *wait.Place) {
			q.Wake(x)
			first.Leave(0)
		},
	} {
		for where, asleep := range map[string]bool{"while it waits": true, "before it waits": false} {
			t.Run(name+", "+where, func(t *testing.T) {
				for range 100 { // chance decides which of two messages is read first
					synctest.Test(t, func(t *testing.T) {
						q := newLines(t)
						first, second := q.Join(x, false, false), q.Join(x, false, false)
						began := time.Now()
						look := func() {
							for !second.Head() {
								assert.NoError(t, second.Wait(t.Context(), time.Hour))
							}
							assert.Zero(t, time.Since(began))
						}
						looked := make(chan struct{})
						go func() {
							defer close(looked)
							if !asleep {
								time.Sleep(time.Second)
								began = time.Now()
							}
							look()
						}()
						synctest.Wait()
						order(q, first)
						<-looked
					})
				}
			})
		}
	}
}

func TestAWaiterWokenOutOfTurnIsNotFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		first, second := q.Join(x, false, false), q.Join(x, false, false)
		waiting := q.goWait(second, time.Hour)
		second.Wake() // not for the line, but for the caller itself
		require.NoError(t, waiting.err())
		assert.False(t, second.Head())
		assert.True(t, first.Head())

		waiting = q.goWait(second, time.Hour)
		q.Wake(x) // this is for the first
		assert.False(t, waiting.done())
		assert.Zero(t, q.wait(first, time.Hour))
		first.Leave(0)
		require.NoError(t, waiting.err())
		assert.True(t, second.Head())
	})
}

func TestAWakeUpOfAnotherLineIsNotHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		p := q.Join(x, false, false)
		q.Wake(y)
		assert.Equal(t, time.Minute, q.wait(p, time.Minute))
	})
}

func TestALeaverIsReplacedWhereverItStood(t *testing.T) {
	for name, leaver := range map[string]int{"head": 0, "middle": 1, "last": 2} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newLines(t)
				why := errors.New("why")
				ctx, end := context.WithCancelCause(t.Context())
				defer end(nil)
				var places [3]*wait.Place
				var waits [3]*waiting
				for i := range places {
					places[i] = q.Join(x, true, false)
					waits[i] = q.goWaitCtx(t.Context(), places[i], time.Hour)
					if i == leaver {
						places[i].Wake() // the first wait ends, the second has the context that ends
						require.NoError(t, waits[i].err())
						waits[i] = q.goWaitCtx(ctx, places[i], time.Hour)
					}
				}
				end(why)
				assert.Equal(t, why, waits[leaver].err())
				places[leaver].Leave(0)
				for i, p := range places {
					if i == leaver {
						continue
					}
					q.Wake(x)
					require.NoError(t, waits[i].err())
					assert.True(t, p.Head())
					p.Leave(0)
				}
				assert.True(t, q.Empty(x))
			})
		})
	}
}

// Thousands may give up together, and meanwhile every other name of the session has to wait.
func TestToLeaveCostsTheSameWhereverOneStands(t *testing.T) {
	const n = 50_000
	q := newLines(t)
	var toJoin, toLeave time.Duration
	for range 3 { // the machine may stand still for a while
		began := time.Now()
		places := make([]*wait.Place, n)
		for i := range places {
			places[i] = q.Join(x, true, false)
		}
		joined := time.Now()
		for i := range places { // from the middle outwards
			at := n/2 + (i+1)/2
			if i%2 == 1 {
				at = n/2 - (i+1)/2
			}
			places[at].Leave(0)
		}
		toJoin, toLeave = joined.Sub(began), time.Since(joined)
		t.Logf("%d joined in %v, and left in %v", n, toJoin, toLeave)
		assert.True(t, q.Empty(x))
		if toLeave < 10*toJoin {
			break
		}
	}
	assert.Less(t, toLeave, 10*toJoin)
}

// A promoted waiter may leave before it knows that it is the first.
func TestAWaiterThatLeavesBeforeItIsToldPassesTheTurnOn(t *testing.T) {
	for _, taken := range []time.Duration{0, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			q := newLines(t)
			first, second, third := q.Join(x, false, false), q.Join(x, false, false), q.Join(x, false, false)
			waiting := q.goWait(third, time.Hour)
			first.Leave(taken)
			assert.False(t, second.Head())
			second.Leave(0)
			require.NoError(t, waiting.err())
			assert.True(t, third.Head())
			assert.Zero(t, time.Since(q.began))
		})
	}
}

func TestClosingEndsAllWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		var waits []*waiting
		for range 10 {
			for _, name := range []wait.Name{x, y} {
				waits = append(waits, q.goWait(q.Join(name, true, false), time.Hour))
			}
		}
		q.close()
		for _, w := range waits {
			assert.ErrorIs(t, w.err(), wait.ErrClosed)
		}
		closed := time.Now()
		alone := q.Join(wait.Name{Channel: "z", Key: "z"}, true, false)
		assert.ErrorIs(t, alone.Wait(t.Context(), time.Hour), wait.ErrClosed)
		assert.Zero(t, time.Since(closed))
	})
}
