package wait_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/wait"
)

// accepting is a line of subscribed places to which the name may be handed over, each with its number.
func (q *lines) accepting(n int) []*wait.Place {
	places := q.inLine(n)
	for i, p := range places {
		p.Accept(i)
	}
	return places
}

// handOver hands the name over with what the head accepts as the gift, and returns to which that was; -1 if to none.
func (q *lines) handOver(taken time.Duration) (to int) {
	to, ok := q.Accepts(x).(int)
	if !ok {
		to = -1
	}
	assert.Equal(q.t, ok, q.HandOver(x, to, taken))
	return to
}

func TestTheNameIsHandedOverFromHeadToHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		places := q.accepting(3)
		for i, p := range places {
			waiting := q.goWait(p, time.Hour)
			require.Equal(t, i, q.handOver(time.Hour))
			require.NoError(t, waiting.err())
			assert.True(t, p.Head())
			assert.Equal(t, i, p.Take())
			assert.Nil(t, p.Take(), "once")
			p.Leave(time.Hour)
		}
		assert.Zero(t, time.Since(q.began)-time.Second, "nobody waited for anything but the first to subscribe")
		assert.Equal(t, -1, q.handOver(time.Hour), "nobody is left")
		q.Ended(x)
		q.requireNothing(t)
	})
}

// take hands the name over to a caller who comes for it, and who has it for that long.
func (q *lines) take(t *testing.T, taken time.Duration) {
	t.Helper()
	p := q.accepting(1)[0]
	require.Zero(t, q.handOver(taken))
	require.Zero(t, p.Take())
	p.Leave(taken)
}

// requireNothing requires that nothing is left of the line.
func (q *lines) requireNothing(t *testing.T) {
	t.Helper()
	require.True(t, q.Empty(x), "a line")
	require.Zero(t, q.standing("x"), "a subscription")
}

func TestTheNameIsHandedOverToNobody(t *testing.T) {
	for name, prepare := range map[string]func(q *lines){
		"no line":      func(*lines) {},
		"another line": func(q *lines) { q.Join(y, true, false).Accept(0) },
		"the head does not accept, whoever is next": func(q *lines) {
			q.Join(x, true, false)
			q.Join(x, true, false).Accept(1)
		},
		"the head polls": func(q *lines) { q.Join(x, false, false).Accept(0) },
		"the head has got a gift that it has not taken": func(q *lines) {
			q.accepting(2)
			require.Zero(q.t, q.handOver(time.Hour))
		},
		"the head has refused": func(q *lines) { assert.Nil(q.t, q.accepting(2)[0].Refuse()) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newLines(t)
				prepare(q)
				assert.Equal(t, -1, q.handOver(time.Hour))
			})
		})
	}
}

// The head may have changed since it was asked what it accepts.
func TestTheNameIsHandedOverToWhoeverIsHeadThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		places := q.accepting(2)
		require.Equal(t, 0, q.Accepts(x))
		require.Equal(t, 0, q.Accepts(x), "as often as that")
		assert.Nil(t, places[0].Refuse())
		assert.Nil(t, q.Accepts(x))
		assert.False(t, q.HandOver(x, "gift", time.Hour), "it has given up, and has not left yet")
		places[0].Leave(0)
		assert.True(t, q.HandOver(x, "gift", time.Hour))
		assert.Equal(t, "gift", places[1].Take())
		places[1].Leave(0)
		assert.False(t, q.HandOver(x, "gift", time.Hour), "nobody is left")
		q.Ended(x)
		q.requireNothing(t)
		assert.False(t, q.HandOver(x, "gift", time.Hour), "nor a line")
		q.requireNothing(t)
	})
}

// Whoever hands over on and on does so for a turn, whether or not others wait: the session does not know.
func TestTheNameIsHandedOverForATurn(t *testing.T) {
	for name, c := range map[string]struct {
		ends func(q *lines)
		next time.Duration
	}{
		"until it is released":       {func(q *lines) { q.Released(x, 1) }, 5 * turn},
		"until it is, and others":    {func(q *lines) { q.Released(x, 3) }, turn},
		"until it is, and no answer": {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newLines(t)
				places := q.accepting(30)
				pass := func(i int) bool {
					if q.handOver(time.Hour) != i {
						return false
					}
					assert.Equal(t, i, places[i].Take())
					places[i].Leave(time.Hour)
					return true
				}
				require.True(t, pass(0))
				time.Sleep(turn / 2)
				require.True(t, pass(1))
				time.Sleep(turn / 2)
				require.True(t, pass(2), "the turn ends only after this moment")
				time.Sleep(time.Nanosecond)
				require.False(t, pass(3), "the turn is over")
				time.Sleep(time.Hour)
				require.False(t, pass(3), "until the server has had it, however long that takes")
				q.Releasing(x)
				q.Ended(x)
				if c.ends == nil {
					require.False(t, pass(3))
					return
				}
				c.ends(q)
				require.True(t, pass(3), "a new turn")
				time.Sleep(c.next)
				require.True(t, pass(4))
				time.Sleep(time.Nanosecond)
				require.False(t, pass(5))
			})
		})
	}
}

// A hold that lasts for longer than a turn ends it: whoever waits on the server must not wait for two.
func TestATurnBeginsWithTheFirstOfTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		places := q.accepting(2)
		places[0].Leave(time.Hour) // granted by the server
		time.Sleep(turn + 1)
		assert.Equal(t, -1, q.handOver(time.Hour))
	})
	synctest.Test(t, func(t *testing.T) { // two callers take turns, and neither finds the other in the line
		q := newLines(t)
		q.take(t, time.Hour)
		time.Sleep(turn + 1)
		q.accepting(1)
		assert.Equal(t, -1, q.handOver(time.Hour))
	})
}

func TestANewcomerWaitsForWhatWasHandedOver(t *testing.T) {
	const taken = 3 * time.Second
	for name, c := range map[string]struct {
		then     func(q *lines)
		from, to time.Duration
	}{
		"until the lease ends": {func(*lines) {}, taken + time.Millisecond, taken + taken/64 + 2*time.Millisecond},
		"until it is released": {func(q *lines) { q.Ended(x); q.Released(x, 1) }, 0, 0},
		"until somebody tells": {func(q *lines) { q.publish("x") }, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newLines(t)
				q.take(t, taken)
				assert.False(t, q.Empty(x), "it must not look")
				newcomer := q.Join(x, true, false)
				assert.False(t, newcomer.Head())
				newcomer.Accept(7)
				waiting := q.goWait(newcomer, 0)
				assert.False(t, waiting.done())
				began := time.Now()
				c.then(q)
				require.NoError(t, waiting.err())
				assert.True(t, newcomer.Head())
				assert.GreaterOrEqual(t, waiting.ended.Sub(began), c.from)
				assert.LessOrEqual(t, waiting.ended.Sub(began), c.to)
				newcomer.Leave(0)
				q.Ended(x)
				q.requireNothing(t)
			})
		})
	}
}

// The newcomer may be handed the name before it has begun to wait, or after it was told that the name is taken.
func TestANewcomerIsHandedTheNameOver(t *testing.T) {
	for name, asleep := range map[string]bool{"asleep": true, "on its way": false} {
		t.Run(name, func(t *testing.T) {
			for range 100 { // which of two messages is read first is chance
				synctest.Test(t, func(t *testing.T) {
					q := newLines(t)
					q.take(t, time.Hour)
					newcomer := q.Join(x, true, false)
					newcomer.Accept(1)
					var waiting *waiting
					if asleep {
						waiting = q.goWait(newcomer, time.Hour)
					}
					require.Equal(t, 1, q.handOver(time.Hour))
					if !asleep {
						waiting = q.goWait(newcomer, time.Hour)
					}
					began := time.Now()
					require.NoError(t, waiting.err())
					assert.Zero(t, waiting.ended.Sub(began))
					assert.True(t, newcomer.Head())
					assert.Equal(t, 1, newcomer.Take())
					newcomer.Leave(0)
					q.Ended(x)
					q.requireNothing(t)
				})
			}
		})
	}
}

// Those behind a newcomer in a line that is taken are told by it, once.
func TestALineOfNewcomersMovesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		q.take(t, time.Hour)
		second, third := q.Join(x, true, false), q.Join(x, true, false)
		waiting := q.goWait(third, time.Hour)
		began := time.Now()
		second.Leave(0) // it gave up, before it was told anything
		require.NoError(t, waiting.err())
		assert.Zero(t, waiting.ended.Sub(began))
		assert.True(t, third.Head())
		third.Leave(0)
		q.Ended(x)
		q.requireNothing(t)
	})
}

// Those who poll look as ever: nothing is handed over to them.
func TestThoseWhoPollLookAtWhatWasHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		q.take(t, time.Hour)
		poll := q.Join(x, false, false)
		assert.True(t, poll.Head())
		assert.Equal(t, time.Second, q.wait(poll, time.Second))
		q.Ended(x)
		assert.Zero(t, q.standing("x"), "nobody listens any more")
		assert.False(t, q.Empty(x))
		listens := q.Join(x, true, false)
		listening := q.goWait(listens, time.Hour)
		assert.Equal(t, 1, q.standing("x"), "until somebody does again")
		q.publish("x")
		require.NoError(t, listening.err())
		listens.Leave(0)
		poll.Leave(0)
		q.requireNothing(t)
	})
}

func TestRefuseReturnsWhatCameAtTheSameMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		places := q.accepting(2)
		require.Zero(t, q.handOver(time.Hour))
		assert.Equal(t, 0, places[0].Refuse())
		assert.Nil(t, places[0].Refuse())
		assert.Nil(t, places[0].Take())
		assert.Equal(t, -1, q.handOver(time.Hour), "it has given up")
		waiting := q.goWait(places[1], time.Hour)
		places[0].Leave(time.Hour) // as the session has the name until that is released
		assert.False(t, waiting.done())
		require.Equal(t, 1, q.handOver(time.Hour))
		require.NoError(t, waiting.err())
		assert.Equal(t, 1, places[1].Take())
		places[1].Leave(0)
		q.Ended(x)
		q.requireNothing(t)
	})
}

// The subscription stands for as long as the session may hand over, or each newcomer would subscribe anew.
func TestTheSubscriptionStandsWhileTheNameIsHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		p := q.accepting(1)[0]
		for range 5 {
			require.GreaterOrEqual(t, q.handOver(time.Hour), 0)
			require.NotNil(t, p.Take())
			p.Leave(time.Hour)
			assert.Equal(t, 1, q.standing("x"))
			p = q.Join(x, true, false)
			p.Accept(1)
			waiting := q.goWait(p, time.Hour)
			assert.False(t, waiting.done())
			p.Wake()
			require.NoError(t, waiting.err())
		}
		assert.Equal(t, 1, q.begun["x"])
		p.Leave(0)
		assert.Equal(t, 1, q.standing("x"), "the session still has the name")
		q.Ended(x)
		q.Ended(x) // and again, as two grants may say so
		q.requireNothing(t)
	})
}

// What has ended is not what a later place waits for.
func TestNobodyWaitsForWhatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		places := q.accepting(2)
		require.Zero(t, q.handOver(time.Hour))
		places[0].Take()
		places[0].Leave(time.Hour)
		q.Ended(x)
		assert.False(t, q.Empty(x), "one is left")
		assert.Equal(t, 1, q.standing("x"))
		places[1].Leave(0)
		q.requireNothing(t)
		q.Ended(x) // a line that is not there

		next := q.Join(x, true, false)
		assert.True(t, next.Head())
		next.Leave(0)
		q.requireNothing(t)
	})
}

// A place apart from the line is handed nothing.
func TestNothingIsHandedOverApartFromTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		p := q.Apart(x)
		p.Accept(1)
		assert.Equal(t, -1, q.handOver(time.Hour))
		assert.Nil(t, p.Take())
		assert.Nil(t, p.Refuse())
		p.Leave(0)
		alone := wait.Alone(q.alarm)
		assert.Nil(t, alone.Take())
		assert.Nil(t, alone.Refuse())
	})
}
