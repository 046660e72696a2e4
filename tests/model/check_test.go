package model_test

import "github.com/holdfast-go/holdfast/internal/owner"

const (
	twoOwners         violation = "two owners at once"
	beliefWithoutHold violation = "belief without a hold on the server"
	cutOff            violation = "a lease ends before the trust of its hold does"
	tooLong           violation = "a lease is longer than anybody needs it, and nobody knows"
	ghost             violation = "ghost: a hold that nobody will release"
	wrongCount        violation = "the server's count is not the session's"
	earlyLoss         violation = "a hold is told that it is lost, and it is not"
	wrongErrLost      violation = "Release returns ErrLost, and the hold was there"
	hiddenLoss        violation = "Release returns nil, and the hold was gone"
)

// check looks at one world. The steps themselves find earlyLoss, wrongErrLost and hiddenLoss: see settle and lose.
func (w *world) check(report func(violation)) {
	s := &w.server
	for i := range w.g {
		g := &w.g[i]
		if !g.believes(w.now) || g.gone == forced {
			continue
		}
		// I1. X believes exactly while the server says so, and then none of our owners does.
		if s.x == xWrites || s.x == xReads && g.half == owner.Exclusive {
			report(twoOwners)
		}
		for j := range w.g[:i] {
			if h := &w.g[j]; h.believes(w.now) && h.gone != forced &&
				(h.grant.Wire != g.grant.Wire || w.owner(i) != w.owner(j)) {
				report(twoOwners)
			}
		}
		// I2. The server backs whoever believes, unless an operator has intervened; a shared hold also needs the key
		// of one.
		covered := g.half == owner.Exclusive && s.writes > 0 || g.half == owner.Shared && s.alive()
		if wires[s.owner] != g.grant.Wire || !covered {
			report(beliefWithoutHold)
		}
		if !w.bounds.kind.endless() && ticks(g.hold.Trust()-w.now) > int(s.ttl) {
			report(cutOff)
		}
	}
	// I3. When nothing is held, nothing is in flight and everything is given back, the server has nothing of ours; at
	// most what a hold left whose trust ran out here, and that runs out there.
	if s.owner > 0 && !s.remains && w.quiet() && !w.bounds.detach {
		report(ghost)
	}
	// I4. The counts agree, apart from operations in flight. Strays may make them drift; the next release corrects
	// that.
	for of, c := range w.claims {
		g, _ := c.Held(owner.Exclusive)
		if g == nil {
			continue
		}
		counts := w.bounds.kind != leases && !w.bounds.detach && (!w.drift || w.bounds.strict)
		if counts && wires[s.owner] == g.Wire && w.miscounted(of, g) {
			report(wrongCount)
		}
		// I5. Somebody has every hold that is live.
		if w.had(g) < g.State().Live {
			report(ghost)
		}
	}
	if w.bounds.kind == leases && w.forgotten() {
		report(tooLong)
	}
}

// miscounted reports whether the server's count is not that of a claim's grant, give or take what is in flight.
func (w *world) miscounted(of int, g *grant) bool {
	pending := len(w.fixes)
	for i := range w.g {
		if o := &w.g[i]; o.claimOf() == of && o.doing != idle && o.doing != holding && o.doing != wanting {
			pending++
		}
	}
	count, has := g.Count(w.now), int(w.server.writes)
	return has > count+pending || pending == 0 && has != count
}
