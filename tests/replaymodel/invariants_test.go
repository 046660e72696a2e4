package replaymodel_test

import "github.com/holdfast-go/holdfast/tests/replaymodel"

type violation = replaymodel.Violation

const (
	fine = replaymodel.Fine

	twoOwners         violation = "two owners at once"
	beliefWithoutHold violation = "belief without a hold on the server"
	ghost             violation = "ghost: a hold that nobody will release"
	wrongCount        violation = "the server's count is not the session's"
	earlyLoss         violation = "a hold is told that it is lost, and it is not"
	wrongErrLost      violation = "Release returns ErrLost, and the hold was there"
	hiddenLoss        violation = "Release returns nil, and the hold was gone"
)

// check looks at one world. earlyLoss, wrongErrLost and hiddenLoss are found by the steps themselves: see settle and lose.
func (w *world) check(report func(violation)) {
	for i, g := range w.g {
		if !g.believes() || g.gone == forced {
			continue
		}
		// I1. No two believers have different owners. X believes exactly while the server says so.
		if w.server.owner == other {
			report(twoOwners)
		}
		for _, h := range w.g[i+1:] {
			if h.believes() && h.gone != forced && h.msg.owner != g.msg.owner {
				report(twoOwners)
			}
		}
		// I2. Who believes is covered by the server, unless an operator has intervened.
		if w.server.owner != g.msg.owner {
			report(beliefWithoutHold)
		}
	}

	// I3. When nothing is in flight, no stray is left and every sweep is made, the server has nothing of ours; at most the remains
	// of a hold whose trust ran out here, and they run out there.
	if w.server.owner > nobody && !w.server.remains && w.quiet() {
		report(ghost)
	}

	// I4. The counts agree up to the operations in flight. Strays may make them drift; the next release sets that right.
	s := &w.session
	if s.wire != nobody && w.server.owner == s.wire && (!w.drift || w.bounds.strict) {
		if flying := w.inFlight(s.wire); w.server.count > s.count+flying || flying == 0 && w.server.count != s.count {
			report(wrongCount)
		}
	}
}
