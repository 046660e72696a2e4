package model_test

import "testing"

// In these worlds waiters of a fair lock stand each for themselves: a session is one of them.

// fair makes waiters stand in Redisson's queue.
func fair(b lineBounds) lineBounds {
	b.fair = true
	return b
}

var ( // A has the lock, and calls of B wait for it.
	fairCrossing = fair(lineBounds{calls: oneWaits, draws: drawsTwo, faults: 2, strays: 1})
	fairLiving   = fair(lineBounds{
		calls: oneWaits, draws: drawsOne, faults: 1, strays: 1, lives: 2, fairBounds: fairBounds{redisson: 1},
	})
	fairFreed   = fair(lineBounds{calls: oneWaits, draws: drawsTwo, faults: 1, strays: 1, force: 1})
	fairForced  = fair(lineBounds{calls: oneWaits, draws: drawsTwo, force: 1, fairBounds: fairBounds{redisson: 1}})
	fairUnheard = fair(lineBounds{calls: oneWaits, draws: drawsTwo, faults: 1, wakes: true})
	fairDropped = fair(lineBounds{
		calls: oneWaits, draws: drawsOne, wakes: true, fairBounds: fairBounds{redisson: 1, pops: 1},
	})
	fairHearing = fair(lineBounds{
		calls: oneWaits, draws: drawsOne, wakes: true, fairBounds: fairBounds{redisson: 1, dies: true, silent: true},
	})
	fairEvicted = fair(lineBounds{calls: oneWaits, draws: drawsTwo, wakes: true, evicts: 2, force: 1})
	fairRefused = fair(lineBounds{calls: oneWaits, draws: drawsTwo, fairBounds: fairBounds{refuses: 1}})
	fairFailing = fair(lineBounds{calls: oneWaits, draws: drawsTwo, wakes: true, fails: 1})
	fairFailedX = fair(lineBounds{calls: oneWaits, draws: drawsOne, fails: 1, fairBounds: fairBounds{redisson: 1}})
	fairFailure = fair(lineBounds{calls: oneWaits, draws: drawsTwo, fails: 1, faults: 1, strays: 1})
	fairTwin    = fair(lineBounds{calls: oneWaits, draws: drawsOne, faults: 1, fairBounds: fairBounds{twin: true}})
	oneWaits    = [2]int8{0, 1}
	drawsOne    = [2]int8{1, 1}
	drawsTwo    = [2]int8{1, 2}
)

var ( // Calls of both wait; in the second X has the lock, and in the last A.
	fairMortal   = fair(lineBounds{calls: bothWait, draws: [2]int8{2, 1}, kills: 1})
	fairOrphaned = fair(lineBounds{calls: bothWait, draws: drawsOne, theirs: true, wakes: true, kills: 1})
	fairInside   = fair(lineBounds{
		calls: bothWait, draws: [2]int8{2, 1}, inside: true, fairBounds: fairBounds{pops: 1},
	})
	bothWait = [2]int8{1, 1}
)

// TestFair finds no violation where waiters stand in the queue of a fair lock.
func TestFair(t *testing.T) {
	for name, b := range map[string]lineBounds{
		"messages cross, and get lost": fairCrossing, "waiters live longer": fairLiving, "not heard": fairUnheard,
		"freed by force": fairFreed, "freed by force, and taken": fairForced, "dropped by Redisson": fairDropped,
		"woken": fairHearing, "evicted": fairEvicted, "refused": fairRefused, "two names": fairTwin,
		"failed over": fairFailing, "failed over to Redisson": fairFailedX, "failed over, late": fairFailure,
		"one dies": fairMortal, "one dies before the other": fairOrphaned, "two wait": fairInside,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			exploreLine(allFairRules(), b).wantNone(t)
		})
	}
}

// TestEveryFairRuleIsNeeded drops the rules one by one and finds what each of them prevents.
func TestEveryFairRuleIsNeeded(t *testing.T) {
	believed, ghosts := []violation{beliefWithoutHold}, []violation{ghost}
	unheards, left := []violation{unheard}, []violation{leftovers}
	for name, tt := range map[string]struct {
		without func(*lineRules)
		in      lineBounds
		want    []violation
	}{
		"a wire owner stands again": {func(r *lineRules) { r.standsOnce = false }, fairForced, believed},
		"granted, but in the queue": {func(r *lineRules) { r.forgetsGranted = false }, fairFreed, believed},
		"told before it is granted": {func(r *lineRules) { r.messageLast = false }, fairRefused, believed},
		"not heard, and out of the queue": {
			func(r *lineRules) { r.keepsUnheard = false }, fairUnheard, []violation{lostPlace},
		},
		"handed to the dead": {
			func(r *lineRules) { r.skipUnheard = false }, fairMortal, []violation{handedToNobody},
		},
		"another name's": {
			func(r *lineRules) { r.ownName = false }, fairTwin, []violation{twoOwners},
		},
		"granted by a call, but in the queue": {func(r *lineRules) { r.alwaysForgets = false }, fairDropped, left},
		"behind others": {
			func(r *lineRules) { r.listensBehind = false }, fairHearing, unheards,
		},
		"another's place":                {func(r *lineRules) { r.ownPlace = false }, fairInside, left},
		"the dead stay":                  {func(r *lineRules) { r.buries = false }, fairOrphaned, unheards},
		"failed over, and waits on":      {func(r *lineRules) { r.newPlace = false }, fairFailing, unheards},
		"a message of the former server": {func(r *lineRules) { r.mailFirst = false }, fairFailing, believed},
		"a release takes another's":      {func(r *lineRules) { r.ownRelease = false }, fairCrossing, believed},
		"left, but in the queue":         {func(r *lineRules) { r.leavesLine = false }, fairCrossing, left},
		"left, but has it":               {func(r *lineRules) { r.leavesLock = false }, fairCrossing, ghosts},
		"nobody listens":                 {func(r *lineRules) { r.listens = false }, fairOrphaned, unheards},
		"who was first has left":         {func(r *lineRules) { r.tellsFirst = false }, fairOrphaned, unheards},
		"told while a call is in flight": {func(r *lineRules) { r.looksAgain = false }, fairHearing, unheards},
		"trust from the message":         {func(r *lineRules) { r.fromStood = false }, fairCrossing, believed},
		"trust is over":                  {func(r *lineRules) { r.confirms = false }, fairCrossing, believed},
		"trust from a call without a reply": {
			func(r *lineRules) { r.stoodReplied = false }, fairCrossing, believed,
		},
		"trust without a margin": {
			func(r *lineRules) { r.handedMargin = false }, fairCrossing, believed,
		},
		"no place, and waits on":       {func(r *lineRules) { r.newPlace = false }, fairUnheard, unheards},
		"gives up without undo":        {func(r *lineRules) { r.undoesPlaces = false }, fairCrossing, left},
		"undone only once":             {func(r *lineRules) { r.undoesAgain = false }, fairCrossing, left},
		"copies forgotten":             {func(r *lineRules) { r.keepsCopies = false }, fairCrossing, ghosts},
		"given back, but in the queue": {func(r *lineRules) { r.rechecksLine = false }, fairLiving, left},
		"the lease of a copy":          {func(r *lineRules) { r.leaseOfCalls = false }, fairCrossing, ghosts},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := allFairRules()
			tt.without(&r)
			exploreLine(r, tt.in, tt.want...).want(t, tt.want...)
		})
	}
}
