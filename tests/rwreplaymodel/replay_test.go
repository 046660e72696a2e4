package rwreplaymodel_test

import (
	"flag"
	"testing"
)

var deep = flag.Bool("deep", false, "search larger worlds, too: some millions of states, a minute or more")

var (
	both  = bounds{locks: [2]int8{2, 1}, faults: 1, strays: 1}              // two goroutines read, besides the writer
	one   = bounds{locks: [2]int8{3, 0}, faults: 2, strays: 2}              // one goroutine does, time and again
	reads = bounds{locks: [2]int8{1, 1}, faults: 2, strays: 1, reads: true} // nobody writes
	twice = bounds{locks: [2]int8{1, 1}, faults: 2, strays: 1}              // two goroutines read, once each
)

// TestAllRules finds no violation while every rule is kept.
func TestAllRules(t *testing.T) {
	worlds := map[string]bounds{"two goroutines": both, "one goroutine": one, "no writer": reads}
	if *deep {
		worlds["two goroutines, two faults"] = twice
		worlds["two goroutines, four holds"] = bounds{locks: [2]int8{2, 2}, faults: 1, strays: 1}
		worlds["two goroutines, three holds, two faults"] = bounds{locks: [2]int8{2, 1}, faults: 2, strays: 1}
		worlds["one goroutine, three faults"] = bounds{locks: [2]int8{2, 0}, faults: 3, strays: 2}
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
	harm := []violation{beliefWithoutHold, besideX} // the hold is gone, and soon X writes

	tests := map[string]struct {
		without func(*rules)
		in      bounds
		want    []violation
	}{
		// A late copy of a release gives back the next hold.
		"no ceilings": {
			without: func(r *rules) { r.ceilings = false },
			in:      one, want: harm,
		},
		// So it does if the next hold has the number that the release knows of.
		"numbers used again": {
			without: func(r *rules) { r.skipNumbers = false },
			in:      one, want: harm,
		},
		// The attempt was without a reply, then came the release of another goroutine's hold, without one either.
		"an attempt keeps its number": {
			without: func(r *rules) { r.freshNumbers = false },
			in:      twice, want: harm[:1],
		},
		// Numbers 2 and 3, as a release of 1 is in doubt; the nested one is given back, and what is left is called 1.
		"holds are numbered anew": {
			without: func(r *rules) { r.keepNumbers = false },
			in:      one, want: harm,
		},
		"not serialised": {
			without: func(r *rules) { r.serialised = false },
			in:      one, want: append(harm, wrongErrLost),
		},
		// A hold has ended, another one begins before the turn of the first one's release has come, which leaves nothing.
		"a release leaves what its tenure has": {
			without: func(r *rules) { r.oneTenure, r.restOfOwner = false, false },
			in:      both, want: harm,
		},
		// It leaves what there is: nothing, if the other hold has ended, too. Then the other release finds nothing.
		"each first hold begins a tenure": {
			without: func(r *rules) { r.oneTenure = false },
			in:      both, want: []violation{wrongErrLost},
		},
		// Beside a re-entry that takes long, a release that waited too long gives all back.
		"a release without a turn is made out of turn": {
			without: func(r *rules) { r.awaitTurn = false },
			in:      reads, want: harm,
		},
		// The next hold has been asked for by then, and the ceiling that the repeated release gets is its number.
		"owed after the turn": {
			without: func(r *rules) { r.oweInTurn = false },
			in:      both, want: append(harm, earlyLoss),
		},
		// Undone twice, and then the acquisition is executed.
		"no not-after": {
			without: func(r *rules) { r.notAfter = false },
			in:      one, want: []violation{ghost},
		},
		// The acquisition is executed after the undo, but before its not-after, and outlives the write hold.
		"undone once": {
			without: func(r *rules) { r.undoAgain = false },
			in:      one, want: []violation{ghost},
		},
		// An undo gives back what was asked for later.
		"an undo has the highest ceiling": {
			without: func(r *rules) { r.undoOwn = false },
			in:      both, want: harm,
		},
		// The undo of one goroutine's attempt takes along the other's hold, which has ended, before that one's release.
		"an undo takes nothing along": {
			without: func(r *rules) { r.undoReturns = false },
			in:      both, want: []violation{wrongErrLost},
		},
		// Granted on the second attempt, released at once, and then the first attempt is executed, before its not-after.
		"granted on a repeat, not swept": {
			without: func(r *rules) { r.sweepRepeats = false },
			in:      one, want: []violation{ghost},
		},
		// The same of a re-entry. While there is a write hold it finds something to be nested in.
		"a re-entry is not swept": {
			without: func(r *rules) { r.sweepReentries = false },
			in:      both, want: []violation{ghost},
		},
		// The release was executed, then the copy; the reply comes when the not-after has passed.
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
			explore(r, tt.in, tt.want...).Want(t, tt.want...)
		})
	}
}

// TestUndoAtOnce: the first of the two undos is no matter of safety. It frees the lock without waiting for the not-after.
func TestUndoAtOnce(t *testing.T) {
	t.Parallel()
	r := allRules()
	r.undoAtOnce = false
	explore(r, one).WantNone(t)
}
