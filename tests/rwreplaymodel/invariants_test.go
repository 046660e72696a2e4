package rwreplaymodel_test

import "github.com/holdfast-go/holdfast/tests/replaymodel"

type violation = replaymodel.Violation

const (
	fine = replaymodel.Fine

	besideX           violation = "a writer beside somebody else"
	beliefWithoutHold violation = "belief without a hold on the server"
	ghost             violation = "ghost: a hold that nobody will release"
	earlyLoss         violation = "a hold is told that it is lost, and it is not"
	wrongErrLost      violation = "Release returns ErrLost, and the hold was there"
)

// check looks at one world. earlyLoss and wrongErrLost are found by the steps themselves: see settle.
func (w *world) check(report func(violation)) {
	s := &w.server
	writes, reads := w.writer.doing == holding, w.live(0) > 0

	// I1. X believes exactly while the server says so.
	if s.x == xWrites && (writes || reads) || s.x == xReads && writes {
		report(besideX)
	}
	// I2. Who believes is covered by the server; a read hold by the key of one, too.
	if writes && !s.writes || reads && !s.alive() {
		report(beliefWithoutHold)
	}
	// I3. When nothing is held, nothing is in flight and everything is given back, the server has nothing of ours.
	if (s.writes || s.reads > 0) && w.quiet() {
		report(ghost)
	}
}
