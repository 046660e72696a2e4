package model_test

import "testing"

// In all of them the first owner has the lock, and the other one waits for it.
var (
	passing = bounds{held: true, other: 1, faults: 1, strays: 1, force: true}               // something gets lost
	crowded = bounds{held: true, other: 1, locks: [2]int8{0, 1}, strays: 1, alone: true}    // the first owner nests
	between = bounds{held: true, other: 1, locks: [2]int8{1, 0}, strays: 1, alone: true}    // it wants the lock again
	leaving = bounds{held: true, other: 1, locks: [2]int8{0, 1}, detach: true, alone: true} // it detaches holds
	several = bounds{held: true, other: 1, locks: [2]int8{1, 1}, alone: true}               // several calls of it wait
)

// TestHandOver finds no violation where owners hand the lock over to each other.
func TestHandOver(t *testing.T) {
	for name, b := range map[string]bounds{
		"something gets lost": passing, "nested": crowded, "to and fro": between, "detached": leaving,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			explore(allRules(), b).wantNone(t)
		})
	}
}

// TestEveryConditionIsNeeded drops what a hand-over asks for, and finds what comes of that.
func TestEveryConditionIsNeeded(t *testing.T) {
	for name, tt := range map[string]struct {
		without func(*rules)
		in      bounds
		want    violation
	}{
		// The nested hold of the other goroutine stays on the server, and nobody knows of it. A live hold is a use of
		// its claim, too: so this one is found only without both.
		"not the last hold": {
			without: func(r *rules) { r.passLast, r.passAlone = false, false },
			in:      crowded, want: wrongCount,
		},
		// A call that waits knows the claim, and re-enters what is another owner's by then.
		"another call of the owner": {
			without: func(r *rules) { r.passAlone = false },
			in:      crowded, want: twoOwners,
		},
		// Whoever was given the id of the detached hold has the lock.
		"a detached hold": {
			without: func(r *rules) { r.passUndetached = false },
			in:      leaving, want: twoOwners,
		},
		"a hold that is not trusted": {
			without: func(r *rules) { r.passTrusted = false },
			in:      passing, want: hiddenLoss,
		},
		// A copy of the first acquisition comes after the last release.
		"copies forgotten": {
			without: func(r *rules) { r.passCopies = false },
			in:      passing, want: ghost,
		},
		// The heir has asked for the lock under its own wire owner, and that is granted after all.
		"the heir's attempts forgotten": {
			without: func(r *rules) { r.heirUndoes = false },
			in:      passing, want: ghost,
		},
		// Two calls of an owner wait with one claim. If one of them gets another claim, they do not nest.
		"the heir's owner has another call": {
			without: func(r *rules) { r.heirAlone = false },
			in:      several, want: crossed,
		},
		// Freed by force after it was handed over, and then the heir's own attempt is granted.
		"handed over and granted": {
			without: func(r *rules) { r.heirRefuses = false },
			in:      passing, want: ghost,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := allRules()
			tt.without(&r)
			explore(r, tt.in, tt.want).want(t, tt.want)
		})
	}
}

// TestConditionsOfCaution: some conditions are no matter of safety. A release that is under way for the claim, or that
// was lost, leaves the heir's hold alone, and so does what follows from the loss of an earlier one. They are kept by
// choice; the package comment says why.
func TestConditionsOfCaution(t *testing.T) {
	for name, b := range map[string]bounds{"something gets lost": passing, "nested": crowded} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := allRules()
			r.passUnlost, r.passUnreturned, r.passThere, r.passIdle, r.heirIdle = false, false, false, false, false
			explore(r, b).wantNone(t)
		})
	}
}
