package owner

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

type (
	claim = Claim[string, string]
	grant = Grant[string, string]
	hold  = Hold[string]
)

const (
	s      = time.Second
	length = 30 * s // of leases
	trust  = length - length/100 - 50*time.Millisecond
)

// take makes a grant with a hold whose call was sent and answered at now.
func (c *testClaim) take(half Half, wire string, now time.Duration) *grant {
	g := new(grant)
	g.Begin(wire, half, wire, 0, 0)
	c.nest(g, now)
	return g
}

type testClaim struct{ claim }

// nest adds a renewed hold to g.
func (c *testClaim) nest(g *grant, now time.Duration) *hold {
	h := new(hold)
	h.Begin(g.Wire, now, now+trust)
	c.Add(g, h, now+length, true)
	return h
}

// end ends the newest hold of g.
func (c *testClaim) end(g *grant, now time.Duration) {
	c.Drop(g, g.live, true, false, now)
}

func TestTheNextAttempt(t *testing.T) {
	for name, tt := range map[string]struct {
		has     []Half // what the owner has, under the wire owner "w"
		request Request
		half    Half
		simple  bool // the lock is not reentrant
		way     Way
		giveUp  bool
	}{
		"nothing is held":                       {half: Exclusive, way: Enter},
		"nothing is held, nor to be re-entered": {half: Exclusive, simple: true, way: Enter},
		"nothing is held any more": {
			request: Request{Wire: "w", Number: 2}, half: Shared, way: Enter, giveUp: true,
		},
		"held":                       {has: []Half{Exclusive}, half: Exclusive, way: Reenter, giveUp: true},
		"held, not to be re-entered": {has: []Half{Exclusive}, half: Exclusive, simple: true, way: Blocked},
		"writing under a read hold":  {has: []Half{Shared}, half: Exclusive, way: Blocked},
		"reading under a write hold": {has: []Half{Exclusive}, half: Shared, way: Beside, giveUp: true},
		"reading under a write hold, again": {
			has: []Half{Exclusive}, request: Request{Wire: "w"}, half: Shared, way: Beside,
		},
		"reading under both": {has: []Half{Exclusive, Shared}, half: Shared, way: Reenter, giveUp: true},
		"writing under both": {has: []Half{Exclusive, Shared}, half: Exclusive, way: Reenter, giveUp: true},
		"reading under both after the attempt": {
			has: []Half{Shared}, request: Request{Wire: "w", Number: 1}, half: Shared, way: Reenter, giveUp: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var c testClaim
			for _, half := range tt.has {
				c.take(half, "w", 0)
			}
			way, g, giveUp := c.Next(&tt.request, tt.half, !tt.simple)
			assert.Equal(t, tt.way, way)
			assert.Equal(t, tt.giveUp, giveUp)
			assert.Equal(t, way == Enter, g == nil)
		})
	}
}

func TestWhatAReleaseLeaves(t *testing.T) {
	var c testClaim
	g := c.take(Exclusive, "w", 0)
	c.nest(g, s)
	assert.Equal(t, Remaining{Owner: "w", Count: 2}, c.Remaining(g, s))
	c.end(g, 2*s)
	assert.Equal(t, Remaining{Owner: "w", Count: 1}, c.Remaining(g, 2*s))
	c.end(g, 3*s)
	assert.Equal(t, Remaining{Owner: "w"}, c.Remaining(g, 3*s))
	assert.False(t, c.Holds())
}

func TestADetachedHoldCountsUntilTheServerHasForgottenIt(t *testing.T) {
	var c testClaim
	g := c.take(Exclusive, "w", 0)
	for range 2 {
		c.Drop(g, c.nest(g, 0), false, true, 0)
	}
	over := trust + trust/50 + 100*time.Millisecond
	assert.Equal(t, 3, c.Remaining(g, over).Count)
	assert.Equal(t, 1, c.Remaining(g, over+1).Count)
	assert.Zero(t, c.Remaining(g, s).Detached, "there is another one")
	c.end(g, s)
	assert.Equal(t, Remaining{Owner: "w", Count: 2, Detached: over - s}, c.Remaining(g, s))
	g.Lasts(3 * length)
	assert.Equal(t, []string{"w"}, c.Slack(g, 0, s), "once")

	later, h := new(grant), new(hold)
	later.Begin("v", Exclusive, "v", 0, 0)
	h.Begin("v", 0, 5*s)
	c.Add(later, h, 5*s, true)
	c.Drop(later, h, true, true, 0)
	assert.Equal(t, 5*s+200*time.Millisecond, c.Remaining(later, 0).Detached, "those of another wire owner do not count")
}

// What is kept for the sake of a detached hold goes with the last live one of the other half.
func TestAHalfIsKeptNoLongerThanTheOther(t *testing.T) {
	var c testClaim
	write, read := c.take(Exclusive, "w", 0), c.take(Shared, "w", 0)
	c.Drop(read, c.nest(read, 0), true, true, 0)
	c.end(read, s)
	own, other := c.Held(Shared)
	assert.Same(t, read, own)
	assert.Same(t, write, other)
	c.end(write, s)
	assert.False(t, c.Holds())

	c.take(Exclusive, "v", 0)
	read = c.take(Shared, "v", 0)
	write, _ = c.Held(Exclusive)
	c.end(write, s)
	own, other = c.Held(Exclusive)
	assert.Nil(t, own)
	assert.Same(t, read, other)
}

// A hold that is not renewed needs another look at its lease when the last renewed one has gone.
func TestWhatReplicasHaveIsNoLongerRenewed(t *testing.T) {
	var c testClaim
	g, h := c.take(Exclusive, "w", 0), new(hold)
	h.Begin("w", 0, 5*s)
	c.Add(g, h, 5*s, false)
	*g.Acked() = Acked{Until: trust, Renewed: true}
	assert.Equal(t, 5*s, g.Rests(), "until all of them are trusted")
	c.Drop(g, h, false, false, 0)
	assert.True(t, g.Acked().Renewed)
	c.Add(g, h, 5*s, false)
	c.Drop(g, h.next, true, false, 0)
	assert.Equal(t, Acked{Until: trust}, *g.Acked())
}

// Detached holds of a grant that lives on are forgotten when their leases are over.
func TestDetachedHoldsDoNotCollect(t *testing.T) {
	var c testClaim
	g, now := c.take(Exclusive, "w", 0), time.Duration(0)
	for range 100 {
		c.Drop(g, c.nest(g, now), true, true, now)
		now += time.Minute
	}
	n := 0
	for h := g.besides().detached; h != nil; h = h.next {
		n++
	}
	assert.Equal(t, 1, n)
}

// A half of which a release has left nothing is not the owner's any more, though it was kept for a detached hold.
func TestAHalfThatWasGivenBackIsNotReentered(t *testing.T) {
	for half, way := range map[Half]Way{Exclusive: Blocked, Shared: Beside} {
		var c testClaim
		c.take(1-half, "w", 0)
		g := c.take(half, "w", 0)
		c.Drop(g, c.nest(g, 0), true, true, 0)
		over := 2 * length
		c.end(g, over)
		left := c.Remaining(g, over)
		assert.Zero(t, left.Count)
		c.Replied(g, left, over, over, Released{Outcome: Freed}, length)
		next, _, _ := c.Next(new(Request), half, true)
		assert.Equal(t, way, next)
	}
}

// A wire owner that lives on gets numbers above those that a release knows which may still be executed.
func TestNumbers(t *testing.T) {
	var c testClaim
	write := c.take(Exclusive, "w", 0)
	assert.Equal(t, 1, c.Number(write, Shared, length, 0))
	read := c.take(Shared, "w", 0)
	assert.Equal(t, 2, c.Number(read, Shared, length, 0))
	c.nest(read, 0)
	c.end(read, s)

	remaining := c.Remaining(read, s)
	assert.Equal(t, Remaining{Owner: "w", Count: 1, Ceiling: 2, Lease: 28_989_898_991}, remaining)
	c.InDoubt(read, remaining)
	assert.Equal(t, 3, c.Number(read, Shared, length, s))
	assert.Equal(t, 3, c.Remaining(read, s).Count, "not where the release in doubt would take it")
	assert.Equal(t, 3, c.Remaining(read, s).Ceiling)

	c.end(read, s)
	assert.Equal(t, Remaining{Owner: "w", Ceiling: 3}, c.Remaining(read, s))
	c.end(write, s)
	assert.Equal(t, Remaining{Owner: "w"}, c.Remaining(read, s), "nothing newer can come")

	c.Granted(&Request{Wire: "v"})
	assert.Equal(t, 1, c.Number(c.take(Exclusive, "v", s), Shared, length, s))
}

// A release leaves what a later grant under the same wire owner has, and also gives back what is owed for the earlier
// one.
func TestARestIsThatOfTheWireOwner(t *testing.T) {
	var c testClaim
	c.take(Exclusive, "w", 0)
	first := c.take(Shared, "w", 0)
	first.setCopies(10 * s)
	c.Drop(first, first.live, true, false, 0)
	second := c.take(Shared, "w", s)
	assert.Equal(t, 1, c.Remaining(first, s).Count)
	assert.Equal(t, 10*s, second.besides().copies)
}

func TestAReleaseThatFindsNothing(t *testing.T) {
	for name, tt := range map[string]struct {
		before func(c *testClaim, g *grant)
		means  Outcome
	}{
		"is a loss": {func(*testClaim, *grant) {}, Absent},
		"is none after a copy of it": {func(c *testClaim, g *grant) {
			c.InDoubt(g, Remaining{Owner: "w"})
		}, Freed},
		"is one after a copy of a nested one": {func(c *testClaim, g *grant) {
			c.InDoubt(g, Remaining{Owner: "w", Count: 1})
		}, Absent},
		"is none after what took it along": {func(c *testClaim, _ *grant) {
			r := Request{Wire: "w", Number: 2, Copies: s}
			c.GiveUp(&r, 0, length)
		}, Freed},
		"is one if something was granted since": {func(c *testClaim, _ *grant) {
			r := Request{Wire: "w", Number: 2, Copies: s}
			c.GiveUp(&r, 0, length)
			c.Granted(&Request{Wire: "w", Number: 3})
		}, Absent},
	} {
		t.Run(name, func(t *testing.T) {
			var c testClaim
			w := c.take(Exclusive, "w", 0)
			c.Number(w, Shared, length, 0)
			g := c.take(Shared, "w", 0)
			tt.before(&c, g)
			c.end(g, s)
			means, again := c.Replied(g, Remaining{Owner: "w"}, s, s, ReadReleased(0), length)
			assert.Equal(t, tt.means, means)
			assert.Empty(t, again)
			assert.True(t, g.Returned())
		})
	}
	var c testClaim
	g := c.take(Exclusive, "w", 0)
	means, _ := c.Replied(g, Remaining{Owner: "w", Count: 1}, s, s, ReadReleased(0), length)
	assert.Equal(t, Absent, means)
	assert.True(t, g.Returned(), "nor has the server the others")
}

// A copy of an acquisition that is executed after the release would find the lock free.
func TestACopyIsWaitedFor(t *testing.T) {
	for name, tt := range map[string]struct {
		copies, sent, now time.Duration
		due               time.Duration // 0: nothing is owed
	}{
		"there is none":                              {0, s, s, 0},
		"it is over when the release is sent":        {s, s, s, 0},
		"it may come after that":                     {10 * s, s, 2 * s, 10 * s},
		"it may have come between sending and reply": {2 * s, s, 3 * s, 3 * s},
	} {
		t.Run(name, func(t *testing.T) {
			var c testClaim
			g := c.take(Exclusive, "w", 0)
			g.setCopies(tt.copies)
			c.end(g, s)
			_, debt := c.Replied(g, Remaining{Owner: "w"}, tt.sent, tt.now, ReadReleased(4), length)
			assert.Equal(t, tt.due, debt.Due())
			assert.Equal(t, tt.due > 0, debt.Wire == "w")
			assert.Equal(t, 2, g.Heard())
		})
	}
}

func TestGivingUp(t *testing.T) {
	for name, tt := range map[string]struct {
		request Request
		want    Debt
	}{
		"nothing was sent": {Request{Wire: "w"}, Debt{}},
		"refused":          {Request{Wire: "w", Number: 2}, Debt{}},
		"no reply":         {Request{Wire: "w", Copies: 9 * s}, Debt{Wire: "w", due: s, again: 9 * s, until: 9*s + length}},
		"no reply, numbered": {
			Request{Wire: "w", Number: 2, Copies: 9 * s},
			Debt{Wire: "w", Ceiling: 2, due: s, again: 9 * s, until: 9*s + length},
		},
		"known as a waiter": {Request{Wire: "w", Stands: true}, Debt{Wire: "w", due: s, until: s + length}},
	} {
		t.Run(name, func(t *testing.T) {
			var c testClaim
			if tt.want.Wire != "" {
				tt.want.delay = firstDelay
			}
			assert.Equal(t, tt.want, c.GiveUp(&tt.request, s, length))
			assert.Empty(t, tt.request)
		})
	}
}

func TestBusySaysWhatBecameOfEarlierAttempts(t *testing.T) {
	r := Request{Copies: 10 * s}
	r.Busy(10*s - 1)
	assert.Equal(t, 10*s, r.Copies, "a copy may have been executed after that")
	r.Busy(10 * s)
	assert.Zero(t, r.Copies)
}

func TestWhatAReleaseInDoubtOwes(t *testing.T) {
	var c testClaim
	g := c.take(Exclusive, "w", 0)
	assert.Equal(t, Duty{Correct: true}, c.Owe(g, Remaining{Owner: "w", Count: 1}, s, length))
	assert.Equal(t, Duty{Debt: Debt{Wire: "w", due: s, delay: firstDelay, until: length}},
		c.Owe(g, Remaining{Owner: "w"}, s, length))
	g.setCopies(10 * s)
	g.Gone()
	assert.Equal(t, Duty{Debt: Debt{Wire: "w", due: s, delay: firstDelay, again: 10 * s, until: 10*s + length}},
		c.Owe(g, Remaining{Owner: "w"}, s, length), "a copy may come yet")
}

// A renewal that has found nothing of a grant says nothing of a hold that was granted since under its wire owner.
func TestAMissedGrantTakesNoLaterHold(t *testing.T) {
	var c testClaim
	c.take(Exclusive, "w", 0)
	g := c.take(Shared, "w", 0)
	g.setCopies(10 * s)
	assert.Equal(t, Duty{Correct: true, Then: 10 * s}, c.Missed(g, s, s, length), "in turn, it leaves what there is")
	assert.Empty(t, c.Missed(g, 10*s, 10*s, length), "no copy can come any more")
	var other testClaim
	alone := other.take(Exclusive, "x", 0)
	alone.setCopies(10 * s)
	assert.Equal(t, Duty{Debt: expect("x", 0, 10*s, s, length)}, other.Missed(alone, s, s, length))
}

func TestSweepingWhatALostGrantLeaves(t *testing.T) {
	for name, tt := range map[string]struct {
		now    time.Duration
		half   Half
		beside Half // under the same wire owner, if that is the other half
		others bool
		want   Duty
	}{
		"its lease is over soon": {now: length - s},
		"it is not": {
			now:  length - s - 1,
			want: Duty{Debt: Debt{Wire: "w", due: length - s - 1, delay: firstDelay, until: length}},
		},
		"others may re-enter":                 {now: 0, others: true, want: Duty{Correct: true}},
		"the other half keeps the write half": {now: length - s, beside: Shared, others: true, want: Duty{Correct: true}},
		"but not the read half":               {now: length - s, half: Shared, beside: Exclusive, others: true},
	} {
		t.Run(name, func(t *testing.T) {
			var c testClaim
			g := c.take(tt.half, "w", 0)
			if tt.beside != tt.half {
				c.take(tt.beside, "w", 0)
			}
			assert.Empty(t, c.Sweep(g, tt.now, tt.others), "it is not lost")
			g.Lose()
			assert.Empty(t, c.Sweep(g, tt.now, tt.others), "a hold is left")
			c.end(g, tt.now)
			assert.Equal(t, tt.want, c.Sweep(g, tt.now, tt.others))
			assert.Equal(t, tt.want.Debt.Wire != "", g.Returned(), "a release on its way will find nothing")
			assert.Empty(t, c.Sweep(g, tt.now, tt.others), "once is enough")
		})
	}
}

// A lease that nobody renews is not given back when it is not trusted any more, a hundredth before its end.
func TestAFixedLeaseLastsToItsEnd(t *testing.T) {
	const lasts, trusted = time.Hour, time.Hour - 36*s
	for name, tt := range map[string]struct {
		renewed bool
		until   time.Duration // on the server
		sweeps  bool
	}{
		"fixed":                      {until: lasts},
		"fixed, beside a longer one": {until: 2 * lasts, sweeps: true},
		"renewed":                    {renewed: true, until: lasts, sweeps: true},
	} {
		t.Run(name, func(t *testing.T) {
			var c testClaim
			g, h := new(grant), new(hold)
			g.Begin("w", Exclusive, "w", 0, 0)
			h.Begin("w", 0, trusted)
			c.Add(g, h, tt.until, tt.renewed)
			c.Drop(g, h, tt.renewed, false, trusted)
			assert.Equal(t, tt.sweeps, c.Lost(g, h, tt.renewed, trusted, false) != Duty{})
		})
	}
}

// If a last release is in flight when the grant is swept, and gets no reply, it is owed all the same: the correction
// counts it as done.
func TestASweptGrantIsOwedStill(t *testing.T) {
	var c testClaim
	g := c.take(Exclusive, "w", 0)
	g.Lose()
	c.end(g, s)
	assert.Equal(t, Duty{Correct: true}, c.Sweep(g, s, true))
	c.InDoubt(g, Remaining{Owner: "w"})
	assert.True(t, g.Returned())
	assert.Equal(t, Debt{Wire: "w", due: s, delay: firstDelay, until: length},
		c.Owe(g, Remaining{Owner: "w"}, s, length).Debt)
}

// What is granted or renewed after a sweep is swept again when it is lost.
func TestASweepIsRepeated(t *testing.T) {
	for name, again := range map[string]func(c *testClaim, g *grant){
		"after a longer lease": func(_ *testClaim, g *grant) { g.Lasts(length + s) },
		"after another hold": func(c *testClaim, g *grant) {
			c.nest(g, 0)
			c.end(g, s)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var c testClaim
			g := c.take(Exclusive, "w", 0)
			g.Lose()
			c.end(g, s)
			assert.True(t, c.Sweep(g, s, true).Correct)
			assert.Empty(t, c.Sweep(g, s, true))
			again(&c, g)
			assert.True(t, c.Sweep(g, s, true).Correct)
		})
	}
}

// What a server has forgotten is believed no longer, unless a call has made it longer again since the server was asked.
func TestALeaseThatIsShorterThanBelieved(t *testing.T) {
	var c testClaim
	g := c.take(Exclusive, "w", 0)
	short, long, again := g.live, c.nest(g, 0), c.nest(g, 0)
	for _, h := range []*hold{long, again} {
		h.Believe(0, 0, 3*length)
	}
	*g.Acked() = Acked{Until: 3 * length}
	believed := g.Believed()
	again.Believe(0, 0, 4*length)
	assert.True(t, g.Forgot(believed, 2*length, 2*trust))
	for h, trusted := range map[*hold]time.Duration{short: trust, long: 2 * trust, again: 4 * length} {
		assert.Equal(t, trusted, h.Trust())
	}
	assert.Equal(t, 2*trust, g.Acked().Until)
	assert.False(t, g.Forgot(g.Believed(), 5*length, 5*trust))
	assert.False(t, g.Forgot(nil, 0, 0), "it was not there when the server was asked")
}

func TestDebts(t *testing.T) {
	d := Undo("w", 0, 0, 10*s, length)
	assert.Zero(t, d.Due())
	d.Failed(s)
	assert.Equal(t, s+5*time.Millisecond, d.Due())
	d.Failed(2 * s)
	assert.Equal(t, 2*s+10*time.Millisecond, d.Due())
	for range 10 {
		d.Failed(2 * s)
	}
	assert.Equal(t, 2*s+500*time.Millisecond, d.Due())
	d.Paid()
	assert.Equal(t, 10*s, d.Due(), "a copy may come until then")
	assert.False(t, d.Over(10*s))
	assert.True(t, d.Refused(10*s))
	assert.False(t, d.Refused(10*s))
	assert.Equal(t, 10*s+10*time.Millisecond, d.Due())
	d.Paid()
	assert.True(t, d.Over(10*s))

	d = Undo("w", 0, 0, 10*s, length)
	assert.False(t, d.Over(40*s-1))
	assert.True(t, d.Over(40*s), "the server has forgotten it")

	d = Endless("w", 0)
	assert.False(t, d.MayReturn(0))
	d.Failed(0)
	assert.True(t, d.MayReturn(0), "a try is under way, perhaps")
	d.Refused(0)
	assert.False(t, d.MayReturn(0))
	d = Debt{Wire: "w", again: 10 * s, until: forever}
	assert.True(t, d.MayReturn(10*s-1), "a copy may come")
	assert.False(t, d.MayReturn(10*s))
}

// Beside the other half, a copy of a re-entry would begin anew.
func TestACopyOfAReentryIsWaitedForBesideTheOtherHalf(t *testing.T) {
	for half, copies := range map[Half]time.Duration{Exclusive: 0, Shared: 10 * s} {
		var c testClaim
		g := c.take(half, "w", 0)
		g.ReentryInDoubt(2*length, 10*s)
		assert.Equal(t, copies, g.Copies())
		assert.Equal(t, 2*length, g.until)
	}
}

// What limits a hold may have been over when the reply came, after a process stood still. The hold is not trusted then,
// and has not lasted for a negative time.
func TestALimitThatWasOverEndsAHoldAtItsBeginning(t *testing.T) {
	const acquired = time.Minute
	for until, want := range map[time.Duration]time.Duration{
		acquired - time.Second: acquired,
		acquired + time.Second: acquired + time.Second,
		acquired + time.Hour:   acquired + trust,
	} {
		var h Hold[int]
		h.Begin(1, acquired, acquired+trust)
		h.Limit(until)
		assert.Equal(t, want, h.Trust(), until)
		assert.Equal(t, want > acquired, h.Trusted(acquired), until)
	}
}
