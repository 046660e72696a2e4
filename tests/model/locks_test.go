package model_test

import "testing"

var (
	nested    = bounds{locks: [2]int8{1, 1}, faults: 1, strays: 1} // two goroutines under one owner
	alternate = bounds{locks: [2]int8{3, 0}, faults: 2, strays: 2} // one goroutine, several acquisitions in turn

	both  = bounds{kind: beside, locks: [2]int8{2, 1}, faults: 1, strays: 1} // two goroutines read beside the writer
	one   = bounds{kind: beside, locks: [2]int8{3, 0}, faults: 2, strays: 2} // one goroutine reads, several times
	reads = bounds{kind: shared, locks: [2]int8{1, 1}, faults: 2, strays: 1} // nobody writes
	twice = bounds{kind: beside, locks: [2]int8{1, 1}, faults: 2, strays: 1} // two goroutines read, once each

	// One goroutine reads, twice or once. What it has is renewed, and an operator may take it.
	missed = bounds{kind: beside, locks: [2]int8{2, 0}, faults: 1, strays: 1, force: true, renew: 1}
	again  = bounds{kind: beside, locks: [2]int8{1, 0}, faults: 2, strays: 1, force: true, renew: 1}
)

var ( // of leases: see below
	outerWatched = bounds{
		length: [2]int8{leaseTicks, longTicks}, watched: [2]bool{true, false}, locks: [2]int8{0, 1},
	}
	innerWatched = bounds{
		length: [2]int8{longTicks, leaseTicks}, watched: [2]bool{false, true}, locks: [2]int8{0, 1},
	}
	noneWatched = bounds{length: [2]int8{leaseTicks, longTicks}, locks: [2]int8{0, 1}}
	lonely      = bounds{length: [2]int8{leaseTicks}, watched: [2]bool{true}} // there is no inner hold
)

// ofLeases is b with so many calls of Extend and a clock that is set back by so much.
func (b bounds) ofLeases(extends, setBack int8) bounds {
	b.kind, b.faults, b.strays, b.alone, b.extends, b.setBack = leases, unlimited, 1, true, extends, setBack
	return b
}

// known is b whose leases the session must know to be too long.
func (b bounds) known() bounds {
	b.slack = true
	return b
}

// TestAllRules finds no violation while every rule is kept.
func TestAllRules(t *testing.T) {
	worlds := map[string]bounds{
		"two goroutines": nested, "one goroutine": alternate,
		"two readers": both, "one reader": one, "no writer": reads, "one reader, renewed": missed, "one hold, renewed": again,
	}
	for name, b := range worlds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			explore(allRules(), b).wantNone(t)
		})
	}
}

// TestTrimsCutNobodyOff finds no hold whose lease ends before its trust, and no lease that nobody knows to be too long,
// while every rule is kept.
func TestTrimsCutNobodyOff(t *testing.T) {
	for name, b := range map[string]bounds{
		"the outer hold is renewed, and extended":   outerWatched.ofLeases(1, 0),
		"the outer hold is renewed, clock set back": outerWatched.ofLeases(0, 1),
		"the inner hold is renewed, and extended":   innerWatched.ofLeases(1, 0).known(),
		"the inner hold is renewed, clock set back": innerWatched.ofLeases(0, 1),
		"nothing is renewed":                        noneWatched.ofLeases(2, 1),
		"nothing is renewed, a steady clock":        noneWatched.ofLeases(1, 0).known(),
		"one hold, clock set back":                  lonely.ofLeases(1, 1),
		"one hold, clock set back far":              lonely.ofLeases(1, always),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			explore(allRules(), b).wantNone(t)
		})
	}
}

// TestEveryRuleIsNeeded drops the rules one by one and finds what each of them prevents.
func TestEveryRuleIsNeeded(t *testing.T) {
	nobodyElse, twofold := nested, nested
	nobodyElse.alone, twofold.faults, twofold.force = true, 2, true
	harm := []violation{beliefWithoutHold, twoOwners} // the hold is gone, and soon X has the lock
	cut := []violation{cutOff}

	tests := map[string]struct {
		without func(*rules)
		in      bounds
		want    []violation
	}{
		// A late copy of an unlock, or of an undo, deletes the same owner's next hold.
		"counts compared, wire owner used again": {
			without: func(r *rules) { r.freshOwner, r.targetCounts = false, false },
			in:      alternate, want: harm,
		},
		"wire owner used again": {
			without: func(r *rules) { r.freshOwner = false },
			in:      alternate, want: append(harm, wrongErrLost),
		},
		// A stray re-entry raises the count; the last release does not find the count that it expects, and frees
		// nothing.
		"counts compared": {
			without: func(r *rules) { r.targetCounts = false },
			in:      nobodyElse, want: []violation{ghost},
		},
		// One goroutine's release overtakes the other's acquisition.
		"not serialised": {
			without: func(r *rules) { r.serialised = false },
			in:      nested, want: append(harm, wrongErrLost),
		},
		"not serialised, readers": {
			without: func(r *rules) { r.serialised = false },
			in:      one, want: append(harm, wrongErrLost),
		},
		// The lock was freed by force, X may have had it, and the outer hold never learns of it.
		"a re-entry may create": {
			without: func(r *rules) { r.neverRecreate = false },
			in:      nested, want: []violation{hiddenLoss},
		},
		// It is undone twice, and then the acquisition arrives.
		"no not-after": {
			without: func(r *rules) { r.notAfter = false },
			in:      alternate, want: []violation{ghost},
		},
		"no not-after, readers": {
			without: func(r *rules) { r.notAfter = false },
			in:      one, want: []violation{ghost},
		},
		// The acquisition arrives after the undo, but before its not-after.
		"undone once": {
			without: func(r *rules) { r.undoAgain = false },
			in:      alternate, want: []violation{ghost},
		},
		"undone once, readers": {
			without: func(r *rules) { r.undoAgain = false },
			in:      one, want: []violation{ghost},
		},
		// It is granted on the second attempt and released at once; then the first attempt arrives, still before its
		// not-after.
		"granted on a repeat, not swept": {
			without: func(r *rules) { r.sweepRepeats = false },
			in:      alternate, want: []violation{ghost},
		},
		"granted on a repeat, not swept, readers": {
			without: func(r *rules) { r.sweepRepeats = false },
			in:      one, want: []violation{ghost},
		},
		// The first attempt was granted and its reply lost; the second is refused as late, or finds the lock taken by
		// X.
		"a refused repeat taken for the outcome": {
			without: func(r *rules) { r.doubtRefusal = false },
			in:      alternate, want: []violation{ghost},
		},
		"trust counted from the reply": {
			without: func(r *rules) { r.trustFromSend = false },
			in:      alternate, want: harm,
		},
		"no margin": {
			without: func(r *rules) { r.margin = false },
			in:      alternate, want: harm,
		},
		"a grant that comes too late is kept": {
			without: func(r *rules) { r.returnLateGrant = false },
			in:      alternate, want: []violation{ghost},
		},
		"a first release that finds nothing is a success": {
			without: func(r *rules) { r.firstMissIsLoss = false },
			in:      alternate, want: []violation{hiddenLoss},
		},
		"a repeated release that finds nothing is a loss": {
			without: func(r *rules) { r.nextMissIsDone = false },
			in:      alternate, want: []violation{wrongErrLost},
		},
		// The lock was freed by force, a copy of its acquisition brings it back, and the release that is owed for the
		// copy takes a new hold.
		"a correction that finds nothing ends no holds": {
			without: func(r *rules) { r.correctLoss = false },
			in:      twofold, want: []violation{beliefWithoutHold},
		},
		// A late copy of a release gives back the next hold.
		"no ceilings": {
			without: func(r *rules) { r.ceilings = false },
			in:      one, want: harm,
		},
		// A late copy does so, too, if the next hold has the number that the release knows.
		"numbers used again": {
			without: func(r *rules) { r.skipNumbers = false },
			in:      one, want: harm,
		},
		// The attempt had no reply; then another goroutine's hold was released, without a reply either.
		"an attempt keeps its number": {
			without: func(r *rules) { r.freshNumbers = false },
			in:      twice, want: harm[:1],
		},
		// The numbers are 2 and 3, as a release of 1 is in doubt; the nested hold is released, and the remaining one
		// becomes 1.
		"holds are numbered anew": {
			without: func(r *rules) { r.keepNumbers = false },
			in:      one, want: harm,
		},
		// A hold has ended, and another one begins before the first one's release gets its turn. That release leaves
		// nothing.
		"a release leaves what its grant has": {
			without: func(r *rules) { r.restOfOwner = false },
			in:      both, want: harm,
		},
		// The release leaves what there is: nothing, if the other hold has ended, too. Then the other release finds
		// nothing.
		"a release forestalls none of another grant": {
			without: func(r *rules) { r.oneRelease = false },
			in:      both, want: []violation{wrongErrLost},
		},
		// Beside a re-entry that takes long, a release that waited too long releases everything.
		"a release without a turn is made out of turn": {
			without: func(r *rules) { r.awaitTurn = false },
			in:      reads, want: harm,
		},
		// The next hold has the number that the release knows, which was refused and is repeated.
		"a refused release is not reckoned with": {
			without: func(r *rules) { r.doubtRefused = false },
			in:      one, want: harm,
		},
		// The first hold was granted on a repeat, and a renewal was executed after its release. The debt for the first
		// attempt has the number of the next hold, which was asked for before that renewal had its reply.
		"what is lost is given back out of turn": {
			without: func(r *rules) { r.missInTurn = false },
			in:      missed, want: harm[:1],
		},
		// Its reply was lost. Then a renewal found nothing, and a copy of the acquisition came.
		"a release is owed only to what is there": {
			without: func(r *rules) { r.oweCopies = false },
			in:      again, want: []violation{ghost},
		},
		// By then the next hold has been asked for, and the repeated release gets its number as its ceiling.
		"owed after the turn": {
			without: func(r *rules) { r.oweInTurn = false },
			in:      both, want: harm,
		},
		// An undo releases what was asked for later.
		"an undo has the highest ceiling": {
			without: func(r *rules) { r.undoOwn = false },
			in:      both, want: harm,
		},
		// The undo of one goroutine's attempt also releases the other's hold, which has ended, before that one's
		// release.
		"an undo takes nothing along": {
			without: func(r *rules) { r.undoReturns = false },
			in:      both, want: []violation{wrongErrLost},
		},
		// A copy of a re-entry finds the write hold and is nested in it.
		"a re-entry is not swept": {
			without: func(r *rules) { r.sweepReentries = false },
			in:      both, want: []violation{ghost},
		},
		// The release was executed, then the copy; the reply comes after the not-after.
		"swept by the time of the reply": {
			without: func(r *rules) { r.sweepFromSend = false },
			in:      one, want: []violation{ghost},
		},
		// A trim that knows nothing of a re-entry is executed between that and its reply.
		"not serialised, trims": {
			without: func(r *rules) { r.serialised = false },
			in:      outerWatched.ofLeases(0, 0), want: cut,
		},
		// Likewise of Extend.
		"a trim knows nothing of Extend": {
			without: func(r *rules) { r.asked = false },
			in:      lonely.ofLeases(1, 0), want: cut,
		},
		// A trim has no reply, a longer lease is granted, and then the trim is executed.
		"longer leases than a trim leaves": {
			without: func(r *rules) { r.refuseLonger = false },
			in:      lonely.ofLeases(1, 0), want: cut,
		},
		// The same after another trim that had its reply.
		"the doubt of an earlier trim is forgotten": {
			without: func(r *rules) { r.keepDoubt = false },
			in:      lonely.ofLeases(1, 0), want: cut,
		},
		// The trim leaves what the hold needed before it heard of a renewal that had been executed already.
		"a trim leaves less than a renewal asks for": {
			without: func(r *rules) { r.wholeLease = false },
			in:      lonely.ofLeases(1, 0), want: cut,
		},
		// A trim is executed long after it was given up.
		"no not-after, trims": {
			without: func(r *rules) { r.notAfter = false },
			in:      lonely.ofLeases(1, 0), want: cut,
		},
		// The same, as the clock was set back and the not-after is far away again.
		"no not-before": {
			without: func(r *rules) { r.notBefore = false },
			in:      lonely.ofLeases(1, always), want: cut,
		},
		// The session's clock has come to a trim's not-after, the server's has not: it runs more slowly, or was set
		// back.
		"no time to spare": {
			without: func(r *rules) { r.waitLonger = false },
			in:      lonely.ofLeases(1, 1), want: cut,
		},
		"no time to spare, the clock is not set back": {
			without: func(r *rules) { r.waitLonger = false },
			in:      lonely.ofLeases(1, 0), want: cut,
		},
		// Extend had no reply, and the lease is longer than the hold needs it until it ends.
		"a call without a reply changed nothing": {
			without: func(r *rules) { r.lengthInDoubt = false },
			in:      noneWatched.ofLeases(1, 0).known(), want: []violation{tooLong},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := allRules()
			tt.without(&r)
			explore(r, tt.in, tt.want...).want(t, tt.want...)
		})
	}
}

// TestUndoAtOnce checks that the first of the two undos is not needed for safety. It frees the lock without waiting
// for the not-after.
func TestUndoAtOnce(t *testing.T) {
	t.Parallel()
	r := allRules()
	r.undoAtOnce = false
	for name, b := range map[string]bounds{"one goroutine": alternate, "one reader": one} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			explore(r, b).wantNone(t)
		})
	}
}

// TestTrimsAsLateAsTheClock shows what is not promised: if the server's clock is set back by more than a trim's window,
// and a trim without a reply is on its way for at least as long, and longer than it is reckoned with, then its time
// comes once more.
func TestTrimsAsLateAsTheClock(t *testing.T) {
	t.Parallel()
	explore(allRules(), lonely.ofLeases(1, trimFor+1), cutOff).want(t, cutOff)
}

// TestNotPromised shows what can happen although every rule is kept, so that nobody relies on the contrary.
func TestNotPromised(t *testing.T) {
	for name, tt := range map[string]struct {
		in   bounds
		want violation
	}{
		// A release that is executed after a force unlock, and whose reply is lost, looks like one that was executed
		// twice.
		"a lost reply can hide a force unlock": {in: alternate, want: hiddenLoss},
		// A nested release was executed, its reply was lost, and its repeat is executed after a force unlock.
		"a lost reply can make a nested release a loss": {in: nested, want: wrongErrLost},
		// A stray, or a nested hold that ended by the clock, leaves another count on the server until the next
		// release.
		"the server's count can drift": {in: nested, want: wrongCount},
		// A release that hands the lock over asks nobody whether it is still there.
		"a hand-over can hide a force unlock": {in: passing, want: hiddenLoss},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.in.strict = true
			explore(allRules(), tt.in, tt.want).want(t, tt.want)
		})
	}
}
