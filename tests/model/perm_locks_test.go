package model_test

import "testing"

var ( // Sessions want permits.
	permPure    = permBounds{free: 3, wants: permWants{{1, 2}, {2}, {1}}}
	permTwice   = permBounds{free: 2, wants: permWants{{1, 1}, {2}, {1}}}
	permFaulty  = permBounds{free: 1, wants: permWants{{1}, {1}, {1}}, faults: 1, strays: 1}
	permSilent  = permBounds{free: 2, wants: permWants{{2}, {1, 1}}, faults: 1, strays: 1, silent: true}
	permIDs     = permBounds{free: 2, wants: permWants{{2}, {1}, {1}}, ids: true, faults: 1, strays: 1}
	permMortal  = permBounds{free: 2, wants: permWants{{2}, {1}, {1}}, kills: 1, strays: 1}
	permIDsDie  = permBounds{free: 1, wants: permWants{{1}, {1}, {1}}, ids: true, kills: 1, strays: 1}
	permFrozen  = permBounds{free: 2, wants: permWants{{2}, {1}, {1}}, freezes: 1}
	permStopDie = permBounds{free: 1, wants: permWants{{1}, {1}, {1}}, freezes: 1, kills: 1}
	permEvicted = permBounds{free: 2, wants: permWants{{2}, {1}, {1}}, evicts: 1}
	permResized = permBounds{free: 1, wants: permWants{{2}, {1}, {1}}, sizes: 2}
	permFailing = permBounds{free: 2, wants: permWants{{2}, {1}, {1}}, fails: 1}
	permFailIDs = permBounds{free: 1, wants: permWants{{1}, {1, 1}}, ids: true, fails: 1}
	permXFails  = permBounds{free: 1, wants: permWants{{1}, {1}}, java: 1, turns: 1, fails: 1}
	permClosing = permBounds{free: 2, wants: permWants{{2}, {1}, {1}}, closes: 2, strays: 1}
)

var ( // There is X, too.
	permXMany    = permBounds{free: 2, wants: permWants{{1}, {2}}, java: 2, turns: 2}
	permXStop    = permBounds{free: 1, wants: permWants{{1}, {1}}, java: 1, turns: 1, freezes: 1}
	permXDie     = permBounds{free: 1, wants: permWants{{1}, {1}}, java: 1, turns: 2, ids: true, kills: 1, strays: 1}
	permXClose   = permBounds{free: 1, wants: permWants{{1}, {1}}, java: 1, turns: 2, closes: 1, strays: 1}
	permXEvicted = permBounds{free: 1, wants: permWants{{1}, {1}}, java: 1, turns: 2, evicts: 1}
	permXResized = permBounds{free: 1, wants: permWants{{1}, {1}}, java: 1, turns: 1, sizes: 1}
)

// TestPermits finds no violation where sessions wait for permits in a line.
func TestPermits(t *testing.T) {
	for name, b := range map[string]permBounds{
		"no faults": permPure, "two permits": permTwice, "faults": permFaulty, "not subscribed": permSilent,
		"ids": permIDs, "one dies": permMortal, "one dies with ids": permIDsDie, "one stops": permFrozen,
		"one stops, one dies": permStopDie, "evicted": permEvicted, "another size": permResized, "closed": permClosing,
		"X": permXMany, "X, and one dies": permXDie, "X, and one stops": permXStop, "X, and closed": permXClose,
		"X, and evicted": permXEvicted, "X, and another size": permXResized,
		"failed over": permFailing, "failed over with ids": permFailIDs, "X, and failed over": permXFails,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			explorePerm(allPermRules(), b).wantNone(t)
		})
	}
}

// TestEveryPermitRuleIsNeeded drops the rules one by one and finds what each of them prevents.
func TestEveryPermitRuleIsNeeded(t *testing.T) {
	for name, tt := range map[string]struct {
		without func(*permRules)
		in      permBounds
		want    violation
	}{
		"a newcomer":            {func(r *permRules) { r.behind = false }, permResized, overtaken},
		"out of turn":           {func(r *permRules) { r.inOrder = false }, permResized, overtaken},
		"who cannot stand yet":  {func(r *permRules) { r.plainBehind = false }, permSilent, overtaken},
		"only the first":        {func(r *permRules) { r.tellsRoom = false }, permFrozen, asleep},
		"told, and not heard":   {func(r *permRules) { r.skipUnheard = false }, permMortal, asleep},
		"told, and stopped":     {func(r *permRules) { r.lowers = false }, permFrozen, asleep},
		"the dead stay":         {func(r *permRules) { r.dropsDead = false }, permEvicted, asleep},
		"left, but in the line": {func(r *permRules) { r.leaves = false }, permResized, leftBehind},
		"left without a word":   {func(r *permRules) { r.leaveTells = false }, permResized, asleep},
		// X has released, and who stands in front has died since.
		"in front of who looks": {func(r *permRules) { r.tellsFront = false }, permXDie, asleep},
		// One of two permits is free, and the dead one wants both.
		"dead, and wants more than is free": {func(r *permRules) { r.probes = false }, permMortal, asleep},
		"evicted, and waits on":             {func(r *permRules) { r.standsAgain = false }, permEvicted, asleep},
		"failed over, and waits on":         {func(r *permRules) { r.standsAgain = false }, permFailing, asleep},
		"taken for dead, and waits on":      {func(r *permRules) { r.standsAgain = false }, permFrozen, asleep},
		// The reply was lost, and what is free again is for those in the line.
		"has its permits already": {func(r *permRules) { r.findsIDs = false }, permIDs, leftBehind},
		"X is not told":           {func(r *permRules) { r.othersHear = false }, permXResized, forgotten},
		// … who alone has heard X.
		"in front of who does not hear":  {func(r *permRules) { r.allHear = false }, permXDie, asleep},
		"X has released just before":     {func(r *permRules) { r.looksThen = false }, permXResized, asleep},
		"taken for one less than listen": {func(r *permRules) { r.channelFirst = false }, permXResized, forgotten},
		"told while a call is in flight": {func(r *permRules) { r.looksAgain = false }, permResized, asleep},
		// The call in flight stands in the line when its place has been left.
		"left only once":           {func(r *permRules) { r.leavesAgain = false }, permXClose, leftBehind},
		"the next one waits":       {func(r *permRules) { r.nextStands = false }, permPure, asleep},
		"taken too late, and kept": {func(r *permRules) { r.givesBack = false }, permClosing, leaked},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := allPermRules()
			tt.without(&r)
			explorePerm(r, tt.in, tt.want).want(t, tt.want)
		})
	}
}

// TestPermitsNotPromised: while a session begins to listen to Redisson's channel, it counts as one who does not know
// the line, though there is none. Whoever calls then passes over those who stand there.
func TestPermitsNotPromised(t *testing.T) {
	t.Parallel()
	b := permPure
	b.listens = true
	explorePerm(allPermRules(), b, overtaken).want(t, overtaken)
}
