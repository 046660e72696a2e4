package rwreplaymodel_test

import ("testing";"os";"fmt")

func TestDev(t *testing.T) {
	r := allRules()
	switch os.Getenv("RULES") {
	case "old": r.oneTenure, r.restOfOwner, r.oweInTurn, r.keepNumbers, r.sweepReentries = false, false, false, false, false
	case "head": r.oneTenure, r.oweInTurn, r.keepNumbers, r.sweepReentries = false, false, false, false
	case "head1": r.oneTenure = false
	}
	var b bounds
	fmt.Sscan(os.Getenv("BOUNDS"), &b.locks[0], &b.locks[1], &b.faults, &b.strays, &b.reads)
	s := explore(r, b)
	t.Log(s.states)
	for v, tr := range s.traces {
		t.Logf("%s, %d steps", v, len(tr))
		for _, l := range tr { t.Log("     ", l) }
	}
}
