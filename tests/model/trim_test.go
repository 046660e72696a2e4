package model_test

import "testing"

var (
	outerWatched = trimBounds{length: [2]int8{shortLease, longLease}, watched: [2]bool{true, false}, locks: 1,
		extends: 1, setBack: 1}
	innerWatched = trimBounds{length: [2]int8{longLease, shortLease}, watched: [2]bool{false, true}, locks: 2,
		extends: 1, setBack: 1}
	noneWatched = trimBounds{length: [2]int8{shortLease, longLease}, locks: 2, extends: 2, setBack: 1}
	lonely      = trimBounds{length: [2]int8{shortLease}, watched: [2]bool{true}, extends: 1} // there is no inner hold
)

// setBackBy returns b with a clock that is set back by that many ticks.
func (b trimBounds) setBackBy(ticks int8) trimBounds {
	b.setBack = ticks
	return b
}

// TestTrimsCutNobodyOff finds no hold whose lease ends before its trust while every rule of trims is kept.
func TestTrimsCutNobodyOff(t *testing.T) {
	for name, b := range map[string]trimBounds{
		"the outer hold is renewed":    outerWatched,
		"the inner hold is renewed":    innerWatched,
		"nothing is renewed":           noneWatched,
		"a clock that is set back far": lonely.setBackBy(always),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			exploreTrims(allTrimRules(), b).wantNone(t)
		})
	}
}

// TestEveryRuleOfTrimsIsNeeded drops the rules one by one; each time somebody is cut off.
func TestEveryRuleOfTrimsIsNeeded(t *testing.T) {
	for name, tt := range map[string]struct {
		without func(*trimRules)
		in      trimBounds
	}{
		// A trim that does not know of a re-entry is executed between the re-entry and its reply.
		"turns": {func(r *trimRules) { r.turns = false }, outerWatched},
		// The same with an Extend.
		"what Extend asks for": {func(r *trimRules) { r.asked = false }, lonely},
		// A trim has no reply, a longer lease is granted, and then the trim is executed.
		"longer leases refused": {func(r *trimRules) { r.refuseLonger = false }, lonely},
		// The same after another trim that was answered.
		"the doubt of an earlier trim": {func(r *trimRules) { r.keepDoubt = false }, lonely},
		// The trim leaves what the hold needed before the session heard of a renewal that had already been executed.
		"a whole lease": {func(r *trimRules) { r.wholeLease = false }, lonely},
		// A trim is executed long after it was given up.
		"not-after": {func(r *trimRules) { r.notAfter = false }, lonely},
		// The same, since the clock was set back and the not-after is far away again.
		"not-before": {func(r *trimRules) { r.notBefore = false }, lonely.setBackBy(always)},
		// The session's clock has reached a trim's not-after, the server's has not: it runs more slowly, or was set
		// back.
		"a margin":                     {func(r *trimRules) { r.waitLonger = false }, lonely},
		"a margin, nothing is renewed": {func(r *trimRules) { r.waitLonger = false }, noneWatched.setBackBy(0)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := allTrimRules()
			tt.without(&r)
			exploreTrims(r, tt.in, cutOff).want(t, cutOff)
		})
	}
}

// TestTrimsAsLateAsTheClock shows what is not promised. If the server's clock is set back, and a trim without a reply
// is in flight for just as long, which is longer than the session allows for, then its time comes once more.
func TestTrimsAsLateAsTheClock(t *testing.T) {
	t.Parallel()
	exploreTrims(allTrimRules(), lonely.setBackBy(doubtFor), cutOff).want(t, cutOff)
}
