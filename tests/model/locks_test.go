package model_test

import "testing"

var (
	nested    = bounds{locks: [2]int8{1, 1}, faults: 1, strays: 1} // two goroutines under one owner
	alternate = bounds{locks: [2]int8{3, 0}, faults: 2, strays: 2} // one goroutine, several acquisitions in turn

	both  = bounds{kind: beside, locks: [2]int8{2, 1}, faults: 1, strays: 1} // two goroutines read beside the writer
	one   = bounds{kind: beside, locks: [2]int8{3, 0}, faults: 2, strays: 2} // one goroutine reads, several times
	reads = bounds{kind: shared, locks: [2]int8{1, 1}, faults: 2, strays: 1} // nobody writes
	twice = bounds{kind: beside, locks: [2]int8{1, 1}, faults: 2, strays: 1} // two goroutines read, once each
)

// TestAllRules finds no violation while every rule is kept.
func TestAllRules(t *testing.T) {
	worlds := map[string]bounds{
		"two goroutines": nested, "one goroutine": alternate,
		"two readers": both, "one reader": one, "no writer": reads,
	}
	for name, b := range worlds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			explore(allRules(), b).wantNone(t)
		})
	}
}

// TestEveryRuleIsNeeded drops the rules one by one and finds what each of them prevents.
func TestEveryRuleIsNeeded(t *testing.T) {
	nobodyElse, twofold := nested, nested
	nobodyElse.alone, twofold.faults = true, 2
	harm := []violation{beliefWithoutHold, twoOwners} // the hold is gone, and soon X has the lock

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
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.in.strict = true
			explore(allRules(), tt.in, tt.want).want(t, tt.want)
		})
	}
}
