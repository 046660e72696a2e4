package watch

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wait"
)

const (
	ms = time.Millisecond
	s  = time.Second
)

func TestWhatIsOverKeepsNobodyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t)
		g.open = true
		c := g.join()
		assert.Zero(t, g.done(c))
		require.NoError(t, c.Err())
		assert.False(t, closed(c.Waits()))
		assert.Equal(t, []time.Duration{0}, g.looks)
		assert.Zero(t, g.begun, "there is nothing to listen for")
		g.requireEnded("before the caller has left")
		c.Leave()
	})
}

func TestAMessageEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t)
		c := g.join()
		g.pass(0)
		assert.True(t, closed(c.Waits()))
		assert.Equal(t, []time.Duration{0, 0}, g.looks, "at first, and when the subscription stands")
		g.in(1*s, g.publish) // of something else
		g.in(2*s, g.opens)
		assert.Equal(t, 2*s, g.done(c))
		assert.Equal(t, []time.Duration{0, 0, 1 * s, 2 * s}, g.looks)
		assert.Equal(t, []wait.Cause{wait.Hint, wait.Hint, wait.Hint}, g.woken)
		c.Leave()
	})
}

// The hub wakes its listeners when a subscription stands, for the first time or again.
func TestWhatHappensWithoutASubscriptionIsSeenWhenItStands(t *testing.T) {
	for name, stood := range map[string]bool{"for the first time": false, "again after an outage": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGate(t)
				if stood {
					g.in(1*s, g.publish)
				} else {
					g.confirms = 1 * s
				}
				c := g.join()
				g.in(100*ms, func() { g.open = true }) // no message can come
				assert.Equal(t, 1*s, g.done(c))
				assert.Equal(t, 1, g.begun)
				c.Leave()
			})
		})
	}
}

func TestALostMessageCostsOneSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t)
		c := g.join()
		g.in(1*s, func() { g.open = true })
		took := g.done(c)
		assert.InDelta(t, 5*s, took, float64(1*s), "5 s ± 20 %")
		assert.Equal(t, []time.Duration{0, 0, took}, g.looks)
		assert.Equal(t, []wait.Cause{wait.Hint, wait.Timer}, g.woken)
		c.Leave()
	})
}

func TestAllWaitTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t)
		var callers []*Caller
		for i := range 1000 {
			g.in(time.Duration(i)*ms, func() { callers = append(callers, g.join()) })
		}
		g.in(2*s, g.opens)
		g.pass(1 * s)
		assert.Equal(t, []time.Duration{0, 0}, g.looks, "nothing has been heard since the last one")
		for _, c := range callers {
			assert.True(t, closed(c.Waits()), "so the last one tells those who come later that they wait")
		}
		assert.EqualValues(t, 1, g.running.Load())
		for _, c := range callers {
			assert.Equal(t, 2*s, g.done(c))
			c.Leave()
		}
		assert.Equal(t, []time.Duration{0, 0, 2 * s}, g.looks)
		assert.Equal(t, 1, g.begun)
	})
}

func TestWhatIsOverForOneKeyIsNotForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t)
		other := g.subject()
		other.Key, other.Look = "another", func(context.Context) (bool, error) { return false, nil }
		c, stranger := g.join(), g.watches.Join(other)
		g.in(1*s, g.opens)
		assert.Equal(t, 1*s, g.done(c))
		c.Leave()
		g.pass(1 * s)
		assert.False(t, closed(stranger.Done()))
		assert.Len(t, g.wakes, 1)
		stranger.Leave()
	})
}

// Without a subscription there are no messages that would make the others look.
func TestAnotherCallerLooksWhileNothingCanBeHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t)
		g.confirms = never
		var callers []*Caller
		for range 3 { // however many have looked in vain
			callers = append(callers, g.join())
			g.pass(0)
		}
		g.in(1*s, func() {
			g.open = true
			callers = append(callers, g.join())
		})
		g.pass(1 * s)
		for _, c := range callers {
			assert.Equal(t, 1*s, g.done(c))
			c.Leave()
		}
		assert.Equal(t, []time.Duration{0, 0, 0, 1 * s}, g.looks)
	})
}

// What a look has seen may have been so only before the caller came.
func TestALookTellsNothingToThoseWhoComeLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t)
		g.open, g.takes, g.confirms = true, 1*s, never
		first := g.join()
		var second *Caller
		g.in(100*ms, func() {
			g.open = false
			second = g.join()
		})
		assert.Equal(t, 1*s, g.done(first))
		first.Leave()
		assert.False(t, closed(second.Done()))
		assert.False(t, closed(second.Waits()))
		g.pass(1 * s)
		assert.False(t, closed(second.Done()))
		assert.True(t, closed(second.Waits()), "so says the look that was sent after it had come")
		g.in(500*ms, g.opens)
		assert.Equal(t, 3500*ms, g.done(second))
		assert.Equal(t, []time.Duration{0, 1 * s, 2500 * ms}, g.looks)
		second.Leave()
	})
}

// So it is with a look that nobody has caused, though nothing was heard.
func TestALookOfATimerTellsNothingToThoseWhoComeLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t)
		first := g.join()
		g.pass(0)
		g.open, g.takes = true, 1*s
		for len(g.looks) < 3 {
			g.pass(10 * ms)
		}
		sent := g.looks[2]
		second := g.join()
		assert.Equal(t, sent+1*s, g.done(first))
		assert.False(t, closed(second.Done()))
		assert.Equal(t, sent+2*s, g.done(second))
		first.Leave()
		second.Leave()
	})
}

// What has been heard may be news to a caller who comes while a look is under way because of that.
func TestACallerDuringALookCausesAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t)
		first := g.join()
		var second *Caller
		g.in(1*s, func() {
			g.takes = 1 * s
			g.publish()
		})
		g.in(1500*ms, func() { second = g.join() })
		g.pass(3500 * ms)
		assert.Equal(t, []time.Duration{0, 0, 1 * s, 2 * s}, g.looks)
		assert.True(t, closed(second.Waits()))
		first.Leave()
		second.Leave()
	})
}

// A message that is heard during a look may be of what the look has not seen.
func TestAMessageDuringALookCausesAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t)
		first := g.join()
		var second *Caller
		g.in(1*s, func() {
			g.takes = 1 * s
			g.publish()
		})
		g.in(1500*ms, g.opens)
		g.in(2500*ms, func() { second = g.join() })
		assert.Equal(t, 3*s, g.done(first))
		assert.Equal(t, 4*s, g.done(second))
		assert.Equal(t, []time.Duration{0, 0, 1 * s, 2 * s, 3 * s}, g.looks)
		first.Leave()
		second.Leave()
	})
}

func TestWhatMayPassIsWaitedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t)
		g.confirms, g.err = never, &script.Failure{Temporary: true}
		c := g.join()
		g.pass(1300 * ms)
		assert.Equal(t, []time.Duration{
			0, 5 * ms, 15 * ms, 35 * ms, 75 * ms, 155 * ms, 315 * ms, 635 * ms, 1135 * ms,
		}, g.looks)
		assert.Len(t, g.trouble, len(g.looks))
		assert.False(t, closed(c.Waits()), "nothing is known")
		assert.Zero(t, g.begun)
		g.err = nil
		g.pass(400 * ms)
		assert.True(t, closed(c.Waits()))

		g.looks, g.err = nil, &script.Failure{Temporary: true}
		g.in(0, g.publish)
		g.pass(20 * ms)
		assert.Equal(t, []time.Duration{1700 * ms, 1705 * ms, 1715 * ms}, g.looks, "delays begin anew after an answer")
		g.err, g.open = nil, true
		assert.Equal(t, 1735*ms, g.done(c))
		c.Leave()
	})
}

func TestARefusalIsForAllWhoHadCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t)
		first, second := g.join(), g.join()
		refused := &script.Failure{Class: script.Refused, Err: errors.New("no latch")}
		g.in(1*s, func() {
			g.err = refused
			g.publish()
		})
		assert.Equal(t, 1*s, g.done(first))
		assert.Equal(t, 1*s, g.done(second))
		assert.Equal(t, refused, first.Err())
		assert.Equal(t, refused, second.Err())
		assert.Empty(t, g.trouble)
		g.requireEnded("nobody waits any more")

		g.err = nil
		third := g.join()
		g.pass(0)
		first.Leave()
		second.Leave()
		fourth := g.join()
		g.in(1*s, g.opens)
		for _, c := range []*Caller{third, fourth} {
			assert.Equal(t, 2*s, g.done(c))
			require.NoError(t, c.Err())
			c.Leave()
		}
		assert.Equal(t, 2, g.begun, "those who come later wait together")
	})
}

func TestTheLastCallerEndsTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t)
		first := g.join()
		g.pass(1 * s)
		second := g.join()
		first.Leave()
		g.pass(0)
		assert.Len(t, g.wakes, 1, "the second one waits")
		late := g.wakes[0]
		second.Leave()
		g.requireEnded("all have left")
		late() // it was on its way
		g.pass(1 * s)
		assert.Equal(t, []time.Duration{0, 0}, g.looks)

		third := g.join()
		g.in(1*s, g.opens)
		assert.Equal(t, 3*s, g.done(third))
		assert.Equal(t, 2, g.begun, "it has a subscription of its own")
		third.Leave()
	})
}

// While one waits for days, as for a latch that opens on Monday, others come and go, as requests do.
func TestThoseWhoHaveLeftAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t)
		stays := g.join()
		g.pass(0)
		for range 1000 {
			c := g.join()
			g.publish()
			g.pass(0)
			assert.True(t, closed(c.Waits()))
			c.Leave()
		}
		assert.LessOrEqual(t, len(stays.watch.waiting), 2, "the one that stays, and the last one that has left")
		late := g.join()
		g.in(1*s, g.opens)
		for _, c := range []*Caller{stays, late} {
			assert.Equal(t, 1*s, g.done(c))
			c.Leave()
		}
	})
}

func TestALookThatNobodyWaitsForIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t)
		g.takes = time.Hour
		c := g.join()
		g.pass(1 * s)
		c.Leave()
		g.requireEnded("the caller has left")
		assert.False(t, closed(c.Done()))
		assert.Zero(t, g.begun)
		assert.Empty(t, g.trouble)
		assert.Equal(t, 1*s, time.Since(g.began))
	})
}

func TestAWatchEndsWithItsSession(t *testing.T) {
	for name, end := range map[string]func(g *gate){
		"which closes":        (*gate).close,
		"whose ctx has ended": func(g *gate) { g.cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGate(t)
				c := g.join()
				g.pass(1 * s)
				end(g)
				g.pass(0)
				assert.Zero(t, g.running.Load())
				assert.Empty(t, g.wakes)
				assert.False(t, closed(c.Done()), "the session tells the caller")
				assert.Equal(t, []time.Duration{0, 0}, g.looks)
				c.Leave()
			})
		})
	}
}

func TestAClosedSessionLooksAtNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t)
		g.close()
		c := g.join()
		g.pass(time.Minute)
		assert.Empty(t, g.looks)
		c.Leave()
	})
}

// The user's code may end the goroutine that calls it. That one is not the callers'.
func TestUserCodeThatEndsItsGoroutineEndsNoWait(t *testing.T) {
	for name, sabotage := range map[string]func(g *gate, of *Subject){
		"told of a wake-up": func(g *gate, of *Subject) {
			g.in(1*s, g.publish)
			of.Woken = func(wait.Cause) { runtime.Goexit() }
		},
		"told of trouble": func(g *gate, of *Subject) {
			g.err = &script.Failure{Temporary: true}
			g.in(1*s, func() { g.err = nil })
			of.Trouble = func(error) {
				time.Sleep(1 * s)
				runtime.Goexit()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGate(t)
				subject := g.subject()
				sabotage(g, &subject)
				first := g.watches.Join(subject)
				g.pass(1500 * ms)
				assert.True(t, closed(first.Waits()))
				assert.Len(t, g.wakes, 1)
				second := g.watches.Join(subject)
				g.in(1*s, g.opens)
				assert.Equal(t, 2500*ms, g.done(first))
				assert.Equal(t, 2500*ms, g.done(second))
				first.Leave()
				second.Leave()
			})
		})
	}
}
