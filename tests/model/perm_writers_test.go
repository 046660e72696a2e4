package model_test

import "testing"

// Writers stand in the line of a read-write lock, which is a semaphore of one permit that has a lease: a release tells
// the first of them, and publishes besides, since it cannot know who listens.

// toWrite are the bounds of writers' worlds, of which b says the rest.
func toWrite(b permBounds) permBounds {
	b.free, b.ids, b.writers = 1, true, true
	if b.wants == (permWants{}) {
		b.wants = permWants{{1}, {1}, {1}}
	}
	return b
}

var twoWriters = permWants{{1}, {1}}

var (
	writersPure    = toWrite(permBounds{wants: permWants{{1, 1}, {1}, {1}}})
	writersFaulty  = toWrite(permBounds{faults: 1, strays: 1})
	writersSilent  = toWrite(permBounds{wants: permWants{{1, 1}, {1}}, faults: 1, strays: 1, silent: true})
	writersDie     = toWrite(permBounds{kills: 1, strays: 1})
	writersStop    = toWrite(permBounds{freezes: 1, kills: 1})
	writersEvicted = toWrite(permBounds{evicts: 1})
	writersFail    = toWrite(permBounds{fails: 1})
	writersXFail   = toWrite(permBounds{wants: twoWriters, java: 1, turns: 1, fails: 1})
	writersClose   = toWrite(permBounds{closes: 1, strays: 1})

	writersX        = toWrite(permBounds{java: 1, turns: 2})
	writersXDie     = toWrite(permBounds{wants: twoWriters, java: 1, turns: 2, kills: 1, strays: 1})
	writersXStop    = toWrite(permBounds{wants: twoWriters, java: 1, turns: 1, freezes: 1})
	writersXEvicted = toWrite(permBounds{wants: twoWriters, java: 1, turns: 2, evicts: 1})
	writersXClose   = toWrite(permBounds{wants: twoWriters, java: 1, turns: 2, closes: 1, strays: 1})
	writersXFaulty  = toWrite(permBounds{wants: twoWriters, java: 1, turns: 1, faults: 1, strays: 1})

	writersRead        = toWrite(permBounds{java: 1, turns: 2, reader: true})
	writersReadDie     = toWrite(permBounds{wants: twoWriters, java: 1, turns: 2, reader: true, kills: 1, strays: 1})
	writersReadEvicted = toWrite(permBounds{wants: twoWriters, java: 1, turns: 2, reader: true, evicts: 1})
)

// TestWriters finds no violation where sessions wait to write in a line.
func TestWriters(t *testing.T) {
	for name, b := range map[string]permBounds{
		"no faults": writersPure, "faults": writersFaulty, "not subscribed": writersSilent, "one dies": writersDie,
		"one stops, one dies": writersStop, "evicted": writersEvicted, "closed": writersClose,
		"failed over": writersFail, "X, and failed over": writersXFail,
		"X": writersX, "X, and one dies": writersXDie, "X, and one stops": writersXStop, "X, and evicted": writersXEvicted,
		"X, and closed": writersXClose, "X, and faults": writersXFaulty,
		"a reader": writersRead, "a reader, and one dies": writersReadDie, "a reader, and evicted": writersReadEvicted,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			explorePerm(allPermRules(), b).wantNone(t)
		})
	}
}

// TestEveryRuleOfWritersIsNeeded drops rules and finds what each of them prevents.
func TestEveryRuleOfWritersIsNeeded(t *testing.T) {
	for name, tt := range map[string]struct {
		without func(*permRules)
		in      permBounds
		want    violation
	}{
		"stands unnoticed":               {func(r *permRules) { r.marksStand = false }, writersPure, asleep},
		"frees it, and some stand":       {func(r *permRules) { r.marksFree = false }, writersRead, asleep},
		"a reader goes without a word":   {func(r *permRules) { r.readerTells = false }, writersRead, asleep},
		"a newcomer":                     {func(r *permRules) { r.behind = false }, writersPure, overtaken},
		"who cannot stand yet":           {func(r *permRules) { r.plainBehind = false }, writersSilent, overtaken},
		"told, and not heard":            {func(r *permRules) { r.skipUnheard = false }, writersDie, asleep},
		"told, and stopped":              {func(r *permRules) { r.lowers = false }, writersStop, asleep},
		"evicted, and waits on":          {func(r *permRules) { r.standsAgain = false }, writersEvicted, asleep},
		"failed over, and waits on":      {func(r *permRules) { r.standsAgain = false }, writersFail, asleep},
		"left without a word":            {func(r *permRules) { r.leaveTells = false }, writersClose, asleep},
		"left only once":                 {func(r *permRules) { r.leavesAgain = false }, writersClose, leftBehind},
		"told while a call is in flight": {func(r *permRules) { r.looksAgain = false }, writersX, asleep},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := allPermRules()
			tt.without(&r)
			explorePerm(r, tt.in, tt.want).want(t, tt.want)
		})
	}
}
