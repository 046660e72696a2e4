package model_test

import "testing"

var ( // A has the lock, and calls of B wait for it.
	crossing  = lineBounds{calls: [2]int8{0, 1}, draws: [2]int8{1, 2}, java: true, faults: 2, strays: 2}
	returning = lineBounds{calls: [2]int8{0, 2}, draws: [2]int8{1, 2}, java: true, faults: 1, strays: 1}
	living    = lineBounds{calls: [2]int8{0, 1}, draws: [2]int8{1, 1}, java: true, faults: 1, strays: 1, lives: 2}
	freeing   = lineBounds{calls: [2]int8{0, 1}, draws: [2]int8{1, 2}, java: true, faults: 1, force: 1}
	unknown   = lineBounds{calls: [2]int8{0, 1}, draws: [2]int8{1, 2}, java: true, faults: 1, deaf: true}
	evicting  = lineBounds{calls: [2]int8{0, 1}, draws: [2]int8{1, 2}, java: true, wakes: true, evicts: 1}
	hearing   = lineBounds{calls: [2]int8{0, 1}, draws: [2]int8{1, 2}, java: true, wakes: true, faults: 1}
)

var ( // The server fails over.
	failing     = lineBounds{calls: [2]int8{0, 1}, draws: [2]int8{1, 2}, wakes: true, fails: 1}
	failingJava = lineBounds{calls: [2]int8{0, 1}, draws: [2]int8{1, 2}, java: true, fails: 1}
	failingLate = lineBounds{calls: [2]int8{0, 1}, draws: [2]int8{1, 2}, fails: 1, faults: 1, strays: 1}
)

var ( // Calls of both wait, and in the last two X has the lock.
	together = lineBounds{calls: [2]int8{1, 1}, draws: [2]int8{2, 1}, java: true}
	mortal   = lineBounds{calls: [2]int8{1, 1}, draws: [2]int8{2, 1}, kills: 1}
	theirs   = lineBounds{calls: [2]int8{1, 1}, draws: [2]int8{1, 1}, theirs: true, wakes: true}
	orphaned = lineBounds{calls: [2]int8{1, 1}, draws: [2]int8{1, 1}, theirs: true, wakes: true, kills: 1}
)

var ( // Calls of A wait while it has the lock.
	inside       = lineBounds{calls: [2]int8{2, 0}, draws: [2]int8{3, 1}, inside: true, faults: 1, strays: 1}
	insideForced = lineBounds{calls: [2]int8{2, 0}, draws: [2]int8{3, 1}, inside: true, java: true, force: 1}
)

// TestLine finds no violation where sessions stand in a line.
func TestLine(t *testing.T) {
	for name, b := range map[string]lineBounds{
		"messages cross, and get lost": crossing, "another call": returning, "waiters live longer": living,
		"freed by force": freeing, "nobody knows who hears": unknown, "evicted": evicting, "woken": hearing,
		"both sessions": together, "one dies": mortal, "others have it": theirs, "one dies before the other": orphaned,
		"handed over inside": inside, "handed over inside, freed by force": insideForced,
		"failed over": failing, "failed over, others about": failingJava, "failed over, late": failingLate,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			exploreLine(allLineRules(), b).wantNone(t)
		})
	}
}

// TestEveryLineRuleIsNeeded drops the rules one by one and finds what each of them prevents.
func TestEveryLineRuleIsNeeded(t *testing.T) {
	believed, left := []violation{beliefWithoutHold, twoOwners}, []violation{ghost, leftBehind}
	for name, tt := range map[string]struct {
		without func(*lineRules)
		in      lineBounds
		want    []violation
	}{
		// B was handed the lock, and that has ended when B's next call comes. If the call puts B into the line again
		// and says so, B takes the message of the first grant for one of the second, which has not been made.
		"a wire owner stands again": {func(r *lineRules) { r.standsOnce = false }, crossing, believed},
		"a wire owner stands again, freed by force": {
			func(r *lineRules) { r.standsOnce = false }, freeing, append(believed, leftBehind),
		},
		"a release takes another's": {func(r *lineRules) { r.ownRelease = false }, crossing, believed},
		"handed to the dead":        {func(r *lineRules) { r.skipUnheard = false }, mortal, []violation{handedToNobody}},
		// The lock is handed to a call that has given up.
		"left, but in the line": {func(r *lineRules) { r.leavesLine = false }, crossing, left},
		"left, but has it":      {func(r *lineRules) { r.leavesLock = false }, crossing, []violation{ghost}},
		"first, and not told":   {func(r *lineRules) { r.tellsFree = false }, hearing, []violation{unheard}},
		// X releases the lock, and nobody of the line listens.
		"nobody listens":                 {func(r *lineRules) { r.listens = false }, hearing, []violation{unheard}},
		"who listened has left":          {func(r *lineRules) { r.tellsFirst = false }, theirs, []violation{unheard}},
		"who listened is dead":           {func(r *lineRules) { r.dropsDead = false }, orphaned, []violation{unheard}},
		"told while a call is in flight": {func(r *lineRules) { r.looksAgain = false }, hearing, []violation{unheard}},
		// A late copy of a call that was given up has stood in the line, and its message comes when another call waits.
		"another request's message": {
			func(r *lineRules) { r.ownMessage = false }, returning, []violation{beliefWithoutHold, ghost},
		},
		// The message comes a while after the release.
		"trust from the message": {func(r *lineRules) { r.fromStood = false }, crossing, believed},
		"trust is over":          {func(r *lineRules) { r.confirms = false }, crossing, believed},
		// The release was executed before the last call was sent, of which nothing is known.
		"trust from a call without a reply": {func(r *lineRules) { r.stoodReplied = false }, crossing, believed},
		"trust without a margin": {
			func(r *lineRules) { r.handedMargin = false }, crossing, append(believed, cutOff),
		},
		// B sleeps, and is in no line.
		"evicted, and waits on":         {func(r *lineRules) { r.newPlace = false }, evicting, []violation{unheard}},
		"first call lost, and waits on": {func(r *lineRules) { r.newPlace = false }, hearing, []violation{unheard}},
		"failed over, and waits on":     {func(r *lineRules) { r.newPlace = false }, failing, []violation{unheard}},
		// The server that B was told by has lost the grant, and the next one says that B waits.
		"a message of the former server": {func(r *lineRules) { r.mailFirst = false }, failing, believed[:1]},
		"gives up without undo":          {func(r *lineRules) { r.undoesPlaces = false }, crossing, left},
		// A late copy stands in the line after the undo, and is handed the lock.
		"undone only once": {func(r *lineRules) { r.undoesAgain = false }, crossing, left},
		// The call before the message had no reply, and takes the lock when the hold has been released.
		"copies forgotten": {func(r *lineRules) { r.keepsCopies = false }, crossing, []violation{ghost}},
		// Likewise, but X has the lock by then, so the copy stands in the line.
		"given back, but in the line": {func(r *lineRules) { r.rechecksLine = false }, living, []violation{leftBehind}},
		// Likewise, but the copy comes before, and makes the lease a long one. When trust in the short one is over,
		// the session takes it for expired.
		"the lease of a copy": {func(r *lineRules) { r.leaseOfCalls = false }, crossing, []violation{ghost}},
		"a place forgotten":   {func(r *lineRules) { r.bequeaths = false }, inside, left[:1]},
		// The place was handed the lock before the next call began.
		"a place, but not since when": {func(r *lineRules) { r.bequeathsTime = false }, insideForced, believed},
		"a place without an heir":     {func(r *lineRules) { r.givesUpEstate = false }, inside, left[:1]},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := allLineRules()
			tt.without(&r)
			exploreLine(r, tt.in, tt.want...).want(t, tt.want...)
		})
	}
}

// TestLineNotPromised: B's hold was freed by force, so a copy of its first call finds X, and stands in the line. B's
// release finds nothing, and does not look there. The place lasts until B is no longer taken to be alive.
func TestLineNotPromised(t *testing.T) {
	t.Parallel()
	b := living
	b.force = 1
	exploreLine(allLineRules(), b, leftBehind).want(t, leftBehind)
}
