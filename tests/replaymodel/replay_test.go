package replaymodel_test

import (
	"flag"
	"testing"
)

var deep = flag.Bool("deep", false, "search larger worlds, too: some millions of states, a minute or more")

var (
	nested    = bounds{locks: [2]int8{1, 1}, strays: 1} // two goroutines under one owner
	alternate = bounds{locks: [2]int8{3, 0}, strays: 2} // one goroutine, one acquisition after the other
)

// TestAllRules finds no violation while every rule is kept.
func TestAllRules(t *testing.T) {
	worlds := map[string]bounds{
		"two goroutines": nested,
		"one goroutine":  alternate,
	}
	if *deep {
		worlds["two goroutines, three acquisitions"] = bounds{locks: [2]int8{2, 1}, strays: 1}
		worlds["two goroutines, two strays"] = bounds{locks: [2]int8{1, 1}, strays: 2}
	}
	for name, b := range worlds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			explore(allRules(), b).WantNone(t)
		})
	}
}

// TestEveryRuleIsNeeded takes the rules out one by one and finds what each of them prevents.
func TestEveryRuleIsNeeded(t *testing.T) {
	nobodyElse := nested
	nobodyElse.alone = true

	tests := map[string]struct {
		without func(*rules)
		in      bounds
		want    []violation
	}{
		// The known failure of a first draft: a late copy of an unlock, or of an undo, deletes the same owner's next hold.
		"counts compared, wire owner used again": {
			without: func(r *rules) { r.freshOwner, r.targetCounts = false, false },
			in:      alternate, want: []violation{beliefWithoutHold, twoOwners},
		},
		"wire owner used again": {
			without: func(r *rules) { r.freshOwner = false },
			in:      alternate, want: []violation{beliefWithoutHold, twoOwners, wrongErrLost},
		},
		"wire owner used again, two goroutines": {
			without: func(r *rules) { r.freshOwner = false },
			in:      bounds{locks: [2]int8{2, 1}, strays: 1, alone: true}, want: []violation{earlyLoss},
		},
		// A stray re-entry raises the count; the last release does not find the count that it starts from, and frees nothing.
		"counts compared": {
			without: func(r *rules) { r.targetCounts = false },
			in:      nobodyElse, want: []violation{ghost},
		},
		// One goroutine's undo or release overtakes the acquire of the other.
		"not serialised": {
			without: func(r *rules) { r.serialised = false },
			in:      nested, want: []violation{beliefWithoutHold, twoOwners, wrongCount, wrongErrLost, ghost},
		},
		// Even one goroutine needs it: a sweep overtakes the release, which finds nothing and calls that a loss.
		"not serialised, one goroutine": {
			without: func(r *rules) { r.serialised = false },
			in:      alternate, want: []violation{wrongErrLost},
		},
		// The lock was freed by force, X may have had it, and the outer hold never hears of it; or nobody is left to release it.
		"a re-entry may create": {
			without: func(r *rules) { r.neverRecreate = false },
			in:      nested, want: []violation{hiddenLoss, ghost},
		},
		// Undone twice, and then the acquire arrives.
		"no not-after": {
			without: func(r *rules) { r.notAfter = false },
			in:      alternate, want: []violation{ghost},
		},
		// A stray re-entry gives the remains of a hold that nobody keeps up any more another lease.
		"no not-after for re-entries": {
			without: func(r *rules) { r.notAfterToo = false },
			in:      nobodyElse, want: []violation{ghost},
		},
		// The acquire arrives after the undo, but before its not-after.
		"undone once": {
			without: func(r *rules) { r.undoAgain = false },
			in:      alternate, want: []violation{ghost},
		},
		// Granted on the second attempt, released at once, and then the first attempt arrives, still before its not-after.
		"granted on a repeat, not swept": {
			without: func(r *rules) { r.sweepRepeats = false },
			in:      alternate, want: []violation{ghost},
		},
		// The first attempt was granted and its reply lost; the second is refused as late. (Or: the second finds
		// the lock busy, X releases it, and then the first arrives.)
		"a refused repeat taken for the outcome": {
			without: func(r *rules) { r.doubtRefusal = false },
			in:      alternate, want: []violation{ghost},
		},
		"trust counted from the reply": {
			without: func(r *rules) { r.trustFromSend = false },
			in:      alternate, want: []violation{beliefWithoutHold, twoOwners},
		},
		"no margin": {
			without: func(r *rules) { r.margin = false },
			in:      alternate, want: []violation{beliefWithoutHold, twoOwners},
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
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := allRules()
			tt.without(&r)
			explore(r, tt.in, tt.want...).Want(t, tt.want...)
		})
	}
}

// TestUndoAtOnce: the first of the two undos is no matter of safety. It frees the lock without waiting for the not-after.
func TestUndoAtOnce(t *testing.T) {
	t.Parallel()
	r := allRules()
	r.undoAtOnce = false
	explore(r, alternate).WantNone(t)
}

// TestNotPromised shows what can be seen although every rule is kept, so that nobody relies on the contrary.
func TestNotPromised(t *testing.T) {
	tests := map[string]struct {
		in   bounds
		want violation
	}{
		// A release that was executed after a force unlock, whose reply was lost, looks like one that was executed twice.
		"a lost reply can hide a force unlock": {in: alternate, want: hiddenLoss},
		// A stray, or a nested hold that ended by the clock, leaves another count on the server until the next release sets it.
		"the server's count can drift": {in: nested, want: wrongCount},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.in.strict = true
			explore(allRules(), tt.in, tt.want).Want(t, tt.want)
		})
	}
}
