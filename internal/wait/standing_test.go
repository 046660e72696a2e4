package wait_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/wait"
)

// stands is how a call stands in a line on the server.
type stands struct {
	channel, mark, kind string
	open                bool
}

func (s stands) Channel() string { return s.channel }
func (s stands) Mark() string    { return s.mark }
func (s stands) Kind() string    { return s.kind }
func (s stands) Open() bool      { return s.open }

// standing is how the calls of the tests stand; others are of another kind.
var (
	standing = stands{channel: "x:me", mark: "x:marked", kind: "10000"}
	others   = stands{channel: "x:me", mark: "x:marked", kind: "10000 fenced"}
)

// An estate counts how often it was given up.
type estate struct{ givenUp int }

func (e *estate) GiveUp() string {
	e.givenUp++
	return ""
}

func TestAPlaceThatStandsListensOnItsSessionsChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		q.confirm = true
		p := q.JoinStanding(x, standing)
		p.Subscribe()
		assert.Equal(t, 1, q.standing("x:me"))
		assert.Zero(t, q.standing("x"))
		assert.Equal(t, time.Second, q.wait(p, time.Second), "that it stands is no news to a call that looks first")

		q.tell("x:me", "session:1 0")
		assert.Zero(t, q.wait(p, time.Second))
		assert.Equal(t, "session:1 0", p.Mail())
		assert.Empty(t, p.Mail(), "once")
		q.tell("x:me", "first")
		assert.Zero(t, q.wait(p, time.Second))
		assert.Empty(t, p.Mail())
		q.tell("x:me", "")
		assert.Zero(t, q.wait(p, time.Second), "something may have been missed")
		p.Leave(0)
		assert.Zero(t, q.standing("x:me"))
		q.tell("x:me", "late")
	})
}

// Without a call before, that the subscription stands is a reason to look.
func TestAPlaceThatStandsLooksWhenItHears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		q.confirm = true
		p := q.JoinStanding(x, standing)
		assert.Zero(t, q.wait(p, time.Second))
		assert.Equal(t, time.Second, q.wait(p, time.Second))
		p.Leave(0)
	})
}

// Who stands in no line on the server is counted by a release, also behind one that stood there and was not.
func TestAPlaceInNoLineIsNotMarkedAsOneThatStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		first, second, third := q.JoinStanding(x, standing), q.Join(x, true, false), q.Join(x, true, false)
		first.Subscribe()
		first.Hear(true, false)
		assert.Equal(t, 1, q.standing("x"))
		assert.Zero(t, q.standing("x:marked"), "it has no place yet")
		first.Hear(false, false)
		first.Hear(true, true)
		assert.Equal(t, 1, q.standing("x"))
		assert.Equal(t, 1, q.standing("x:marked"))
		first.Leave(0)
		assert.Zero(t, q.wait(second, time.Second)) // look
		assert.Equal(t, time.Second, q.wait(second, time.Second))
		assert.Equal(t, 1, q.standing("x"))
		assert.Zero(t, q.standing("x:marked"))
		second.Leave(0)
		assert.Zero(t, q.wait(third, time.Second))
		q.wait(third, time.Second)
		assert.Equal(t, 3, q.begun["x"], "it goes on")
		third.Leave(0)
		assert.Zero(t, q.standing("x"))
	})
}

func TestOnlyTheHeadTakesMail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		first, second := q.JoinStanding(x, standing), q.JoinStanding(x, standing)
		second.Subscribe()
		assert.Zero(t, q.standing("x:me"), "only the head listens, too")
		first.Subscribe()
		q.tell("x:me", "session:1 0")
		assert.Empty(t, second.Mail())
		first.Leave(0)
		assert.Equal(t, "session:1 0", second.Mail())
		second.Leave(0)
	})
}

// A place in the line on the server goes to the next call of the same kind, who need not look then.
func TestAnEstateIsTheNextOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		first, second := q.JoinStanding(x, standing), q.JoinStanding(x, standing)
		first.Subscribe()
		assert.True(t, first.Followed())
		assert.False(t, second.Followed())
		waiting := q.goWait(second, time.Hour)
		e := &estate{}
		first.Bequeath(e)
		assert.Nil(t, second.Inherit(), "not while another one is ahead")
		first.Leave(10 * time.Second)
		synctest.Wait()
		assert.False(t, waiting.done(), "the place is provided for")
		q.tell("x:me", "session:1 0")
		require.NoError(t, waiting.err())
		assert.Same(t, e, second.Inherit())
		assert.Nil(t, second.Inherit(), "once")
		second.Leave(0)
		assert.Zero(t, e.givenUp)
	})
}

func TestAnEstateThatNobodyTakesIsGivenUp(t *testing.T) {
	for what, next := range map[string]func(q *lines) *wait.Place{
		"nobody is next": func(*lines) *wait.Place { return nil },
		"another kind":   func(q *lines) *wait.Place { return q.JoinStanding(x, others) },
		"in no line":     func(q *lines) *wait.Place { return q.Join(x, true, false) },
		"polls":          func(q *lines) *wait.Place { return q.Join(x, false, false) },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newLines(t)
				first := q.JoinStanding(x, standing)
				other := next(q)
				assert.False(t, first.Followed())
				e := &estate{}
				first.Bequeath(e)
				first.Leave(0)
				assert.Equal(t, 1, e.givenUp)
				if other != nil {
					other.Leave(0)
				}
				assert.True(t, q.Empty(x))
			})
		})
	}
}

func TestALaterEstateReplacesAnEarlierOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		p := q.JoinStanding(x, standing)
		first, second := &estate{}, &estate{}
		p.Bequeath(first)
		p.Bequeath(second)
		assert.Equal(t, 1, first.givenUp)
		p.Leave(0)
		assert.Equal(t, 1, second.givenUp)
	})
}

// leaveEstate has a call get the name by a hand-over, and leave its place on the server to whoever comes.
func (q *lines) leaveEstate(t *testing.T) *estate {
	t.Helper()
	p := q.JoinStanding(x, standing)
	p.Accept("the lock")
	p.Subscribe()
	require.True(t, q.HandOver(x, "gift", time.Minute))
	assert.Equal(t, "gift", p.Take())
	e := &estate{}
	p.Bequeath(e)
	p.Leave(time.Minute)
	return e
}

// While the session has what was handed over, an estate waits for whoever comes.
func TestAnEstateWaitsWhileTheSessionHasTheName(t *testing.T) {
	for what, s := range map[string]wait.Standing{"the same kind": standing, "another": others, "nobody comes": nil} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newLines(t)
				e := q.leaveEstate(t)
				assert.Zero(t, e.givenUp)
				assert.Equal(t, 1, q.standing("x:me"), "what it is told is heard")
				if s == nil {
					q.Ended(x)
					assert.Equal(t, 1, e.givenUp)
					assert.Zero(t, q.standing("x:me"))
					return
				}
				second := q.JoinStanding(x, s)
				if s == others {
					assert.Equal(t, 1, e.givenUp)
				} else {
					go func() { _ = second.Wait(t.Context(), time.Hour) }()
					synctest.Wait()
					assert.Same(t, e, second.Inherit())
				}
				second.Leave(0)
				q.Ended(x)
			})
		})
	}
}

// The server forgets a place that nobody looks after. So whoever finds one that was left some time ago looks at once:
// it would hear of no release.
func TestAnEstateThatMayBeForgottenIsLookedAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		e := q.leaveEstate(t)
		time.Sleep(16 * time.Second)
		second := q.JoinStanding(x, standing)
		assert.Zero(t, q.wait(second, time.Hour))
		assert.Same(t, e, second.Inherit())
		second.Leave(0)
		q.Ended(x)
	})
}

// Without the subscription nobody of the session stands on the server, so the release has told nobody of it.
func TestAReleaseWakesWhoCannotStandOnTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		p := q.JoinStanding(x, standing)
		p.Subscribe()
		waiting := q.goWait(p, time.Minute)
		q.Released(x, 0)
		synctest.Wait()
		assert.True(t, waiting.done())
		p.Leave(0)
	})
}

// A release of the session has told whoever is next on the server, so the head has no reason to look.
func TestAReleaseDoesNotWakeWhoStandsOnTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		q.confirm = true
		p := q.JoinStanding(x, standing)
		polls := q.Join(x, false, false)
		p.Subscribe()
		waiting := q.goWait(p, time.Minute)
		q.Releasing(x)
		q.Released(x, 1)
		assert.Zero(t, q.wait(polls, time.Second), "who polls looks")
		synctest.Wait()
		assert.False(t, waiting.done())
		q.tell("x:me", "session:1 0")
		require.NoError(t, waiting.err())

		waiting = q.goWait(p, time.Minute)
		q.mu.Lock()
		q.up["x:me"] = false
		q.mu.Unlock()
		q.Released(x, 1)
		assert.True(t, waiting.done(), "its subscription is interrupted")
		p.Leave(0)
		polls.Leave(0)
	})
}

// Where others may be about at any time, a place hears them from the beginning.
func TestAnOpenPlaceHearsOthersFromTheBeginning(t *testing.T) {
	open := stands{channel: "x:me", mark: "x:marked", kind: "open", open: true}
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		q.confirm = true
		p := q.JoinStanding(x, open)
		p.Subscribe()
		assert.Equal(t, time.Second, q.wait(p, time.Second), "that it hears is no news to a call that looks first")
		p.Hear(false, true)
		for _, channel := range []string{"x", "x:me", "x:marked"} {
			assert.Equal(t, 1, q.standing(channel), channel)
		}
		q.tell("x", "1")
		assert.Zero(t, q.wait(p, time.Second))
		q.tell("x", "")
		assert.Zero(t, q.wait(p, time.Second), "something may have been missed")

		next := q.JoinStanding(x, open)
		p.Leave(0)
		assert.Zero(t, q.wait(next, time.Second))
		q.tell("x", "1")
		assert.Zero(t, q.wait(next, time.Second))
		next.Leave(0)
		for _, channel := range []string{"x", "x:me", "x:marked"} {
			assert.Zero(t, q.standing(channel), channel)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		p := q.JoinStanding(x, open)
		assert.Equal(t, time.Second, q.wait(p, time.Second), "nothing is confirmed")
		q.tell("x", "")
		assert.Equal(t, 50*time.Millisecond, q.wait(p, 50*time.Millisecond), "only one of them stands")
		assert.Equal(t, 50*time.Millisecond, q.wait(p, time.Second), "the other one was refused")
		q.tell("x", "")
		q.tell("x:me", "")
		assert.Zero(t, q.wait(p, time.Second), "both do")
		assert.Equal(t, time.Second, q.wait(p, time.Second), "and that is enough")
		q.tell("x", "")
		assert.Zero(t, q.wait(p, time.Second), "something may have been missed")
		p.Leave(0)
	})
}

// What a session is told though nobody of it waits is nobody's: neither the place that it left there, which an operator
// has freed by force, nor a name that is free.
func TestWhatNobodyOfTheSessionWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		e := q.leaveEstate(t)
		q.tell("x:me", "free")
		q.tell("x:me", "first")
		assert.Zero(t, e.givenUp)
		q.tell("x:me", "session:1 0")
		assert.Equal(t, 1, e.givenUp)
		q.Ended(x)
		q.requireNothing(t)
	})
}

// Places that may share the name look before one that has become the first in the line on the server.
func TestTheFirstOnTheServerLooksBehindThoseBesideTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		p, beside := q.JoinStanding(x, standing), q.Apart(x).Share()
		p.Subscribe()
		waiting := q.goWait(p, time.Hour)
		began := time.Now()
		q.tell("x:me", "first")
		require.NoError(t, waiting.err())
		assert.Equal(t, courtesy, waiting.ended.Sub(began))
		beside.Leave(0)
		p.Leave(0)
	})
}

// A turn ends with the release also for those who stand on the server, and they stand back for nobody: the release has
// told whose turn it is.
func TestATurnOfThoseWhoStandOnTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLines(t)
		q.confirm = true
		p := q.JoinStanding(x, standing)
		p.Subscribe()
		p.Hear(true, true)
		q.wait(p, time.Second) // it hears others by now
		p.Accept("the lock")
		require.True(t, q.HandOver(x, "gift", time.Minute))
		assert.Equal(t, "gift", p.Take())
		q.wait(p, time.Second)
		p.Accept("the lock")
		time.Sleep(turn + 1)
		assert.Nil(t, q.Accepts(x), "the turn is over")
		q.Ended(x)
		q.Releasing(x)
		waiting := q.goWait(p, time.Hour)
		began := time.Now()
		q.publish("x")
		require.NoError(t, waiting.err())
		assert.Equal(t, began, waiting.ended)
		q.Released(x, 3)
		assert.Equal(t, "the lock", q.Accepts(x), "another one may begin")
		p.Leave(0)
		q.requireNothing(t)
	})
}

// While a head begins to hear others it may leave, or do so twice.
func TestAHeadThatLeavesWhileItBeginsToHearOthers(t *testing.T) {
	for what, leaves := range map[string]bool{"it leaves": true, "it is told that the name is free": false} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newLines(t)
				p := q.JoinStanding(x, standing)
				p.Subscribe()
				q.happens(func() {
					if leaves {
						p.Leave(0)
					} else {
						q.tell("x:me", "free")
					}
				})
				p.Hear(true, true)
				if !leaves {
					assert.Equal(t, 1, q.standing("x"))
					p.Leave(0)
				}
				q.requireNothing(t)
				assert.Zero(t, q.standing("x:marked"))
				time.Sleep(courtesy)
			})
		})
	}
}
