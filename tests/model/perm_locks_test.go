package model_test

import "testing"

type permWants = [permSessions][callsOfOne]int8

var (
	permPure   = permBounds{free: 2, wants: permWants{{1, 1}, {2}, {1}}}
	permFaulty = permBounds{free: 1, wants: permWants{{1}, {1}, {1}}, faults: 1, strays: 1}
	permIDs    = permBounds{free: 1, wants: permWants{{1, 1}, {1}}, ids: true, faults: 1, strays: 1}
	permMortal = permBounds{free: 2, wants: permWants{{2}, {1}, {1}}, kills: 1}
	permFrozen = permBounds{free: 1, wants: permWants{{1}, {1}, {1}}, freezes: 1}
	permEvicts = permBounds{free: 1, wants: permWants{{1}, {1}, {1}}, evicts: 1}
	permJava   = permBounds{free: 2, wants: permWants{{1}, {1}}, java: 1, turns: 2}
)

// TestPermits finds no violation where sessions wait for permits in a line.
func TestPermits(t *testing.T) {
	for name, b := range map[string]permBounds{
		"pure": permPure, "faults": permFaulty, "ids": permIDs, "one dies": permMortal, "one stops": permFrozen,
		"evicted": permEvicts, "java": permJava,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			explorePerm(allPermRules(), b).wantNone(t)
		})
	}
}
