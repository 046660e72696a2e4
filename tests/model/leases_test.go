package model_test

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/owner"
)

// Leases of different lengths, and what makes them longer or shorter. A lock is held from the beginning, and at most
// two holds are nested. Requests and replies are lost, but only trims are executed when nobody waits for them any more:
// copies of all else can only make the lease longer. A release takes one step: that of a nested hold changes no lease,
// and with the last one everything is over.

// The session's own goroutines; there is one of each.
const (
	watchdog       = 2
	trimmer        = 3
	sharedWatchdog = 3 // where the third one writes
)

// ticks is how many ticks a duration takes: some are a margin longer than that many less one.
func ticks(d time.Duration) int { return int((d + tick - 1) / tick) }

// renewal is what renewals ask for, as trims are told.
func (r rules) renewal() time.Duration {
	if !r.wholeLease {
		return 0
	}
	return leaseTicks * tick
}

// keepOrEnd: a goroutine extends its hold, or releases it.
func (w *world) keepOrEnd(r rules, i int, emit emit) {
	if w.bounds.extends > 0 {
		n := w.clone()
		n.bounds.extends--
		if g := &n.g[i]; n.ask(r, g) {
			g.doing, g.msg = extending, message{verb: renew, owner: wireOf(g.grant.Wire), lease: longTicks}
			n.send(g)
			emit(event{who: names[i], what: "extends:", msg: g.msg}, n, fine)
		} else {
			n.drop()
		}
	}
	if w.turn(r, 0) {
		n := w.clone()
		n.end(i)
		n.release(r, i)
		g := &n.g[i]
		g.answer = r.run(&n.server, g.msg)
		wrong := n.settle(r, i, false)
		emit(event{who: names[i], what: "releases"}, n, wrong)
	}
}

// ask reports whether a long lease may be asked for without a turn.
func (w *world) ask(r rules, g *goroutine) bool {
	wire := g.grant.Wire
	if !r.refuseLonger {
		wire = ""
	}
	may, _ := w.claims[0].Ask(wire, longTicks*tick, w.now)
	if may && !r.asked {
		w.claims[0].Asked(longTicks * tick)
	}
	return may
}

// asked ends that.
func (w *world) asked(r rules, g *goroutine) {
	if g.doing == extending && r.asked {
		w.claims[0].Asked(longTicks * tick)
	}
}

// upkeep: the watchdog renews whatever is to be renewed, in one call that takes no turns. The session trims, at any
// time, also when there is nothing to trim.
func (w *world) upkeep(r rules, emit emit) {
	if !w.claims[0].Holds() {
		return
	}
	if w.g[watchdog].doing == idle && (w.renewed(0) || w.renewed(1)) {
		w.clone().maintain(watchdog, renewing, renew, leaseTicks, emit)
	}
	if w.g[trimmer].doing == idle && w.turn(r, 0) {
		n := w.clone()
		has, _ := n.claims[0].Held(owner.Exclusive)
		most := n.claims[0].BeginTrim(has, n.now, r.renewal())
		n.maintain(trimmer, trimming, trim, ticks(most), emit)
	}
}

// renewShared: the watchdog renews the shared half, whose lease does not run out here, and may find that it is gone.
func (w *world) renewShared(emit emit) {
	if has, _ := w.claims[0].Held(owner.Shared); w.bounds.renew > 0 && has != nil && w.g[sharedWatchdog].doing == idle {
		n := w.clone()
		n.bounds.renew--
		n.maintain(sharedWatchdog, renewing, renew, leaseTicks, emit)
	}
}

// maintain sends a call of the session's own, about the half that goroutines take.
func (w *world) maintain(i int, doing activity, verb verb, ticks int, emit emit) {
	g, half := &w.g[i], w.g[0].half
	g.grant, _ = w.claims[0].Held(half)
	g.doing, g.msg = doing, message{verb: verb, half: half, owner: wireOf(g.grant.Wire), lease: int8(ticks)}
	w.send(g)
	emit(event{who: names[i], what: "sends", msg: g.msg}, w, fine)
}

// renewed reports whether a goroutine has a hold that is renewed.
func (w *world) renewed(i int) bool { return w.g[i].has() && w.watched(i) }

// settleLease takes the reply of a renewal or of Extend.
func (w *world) settleLease(r rules, i int) violation {
	was := w.g[i]
	w.heard(r, i)
	if was.answer == gone {
		return w.lose(r, was.grant, was.sent)
	}
	was.grant.Lasts(w.leased(was.msg.lease))
	for j := range w.g {
		if was.doing == renewing && w.renewed(j) || j == i && was.doing == extending {
			w.g[j].hold.Believe(w.now, was.sent, w.trust(r, was.msg.lease, was.sent))
		}
	}
	return fine
}

// settleTrim takes the reply of a trim. One that was refused as late is sent again as it was, or given up.
func (w *world) settleTrim(r rules, i int, again bool) {
	g := &w.g[i]
	switch {
	case again:
		w.send(g)
		return
	case g.answer == late:
		w.claims[0].NotTrimmed()
	default:
		w.claims[0].Trimmed(g.grant, w.serverNow())
		if !r.keepDoubt {
			w.claims[0].TrimInDoubt(0, 0) // long ago
		}
	}
	w.heard(r, i)
}

// leaseUnanswered is what the session does about a renewal, an Extend or a trim without a reply.
func (w *world) leaseUnanswered(r rules, i int) {
	window := trimFor * tick
	if !r.waitLonger {
		window /= 2
	}
	switch g := &w.g[i]; {
	case g.doing == trimming:
		w.claims[0].TrimInDoubt(w.now, window)
	case r.lengthInDoubt:
		g.grant.MayLast(w.leased(g.msg.lease))
	}
	w.heard(r, i)
}

// heard: the call is over. Who has extended a hold has it still.
func (w *world) heard(r rules, i int) {
	g := &w.g[i]
	w.asked(r, g)
	was := *g
	if *g = was.idle(); was.doing == extending {
		g.doing, g.grant, g.hold, g.gone, g.doubted = holding, was.grant, was.hold, was.gone, was.doubted
	}
}

// tidyLeases is tidy where leases differ.
func (w *world) tidyLeases() {
	w.server.remains, w.server.writes, w.drift = false, min(w.server.writes, 1), false  // counts do not matter
	if !w.claims[0].Holds() && w.g[0].doing != acquiring && w.g[1].doing != acquiring { // all is over
		*w = world{claims: []*claim{new(claim)}, now: w.now, bounds: bounds{kind: leases}, dropped: w.dropped}
	}
}

// over reports whether a trim that is on its way is refused whenever it is executed.
func (w *world) over(m message, r rules) bool {
	switch w.bounds.setBack {
	case always:
		return r.notAfter && r.notBefore && m.open <= 0
	default:
		return r.notAfter && m.open <= -w.bounds.setBack || r.notBefore && m.open == always
	}
}

// forgotten reports whether the lease is longer than anybody needs it, and the session does not know, or would not when
// it hears of the next renewal. Nobody knows of a clock that was set back but by that.
func (w *world) forgotten() bool {
	has, _ := w.claims[0].Held(owner.Exclusive)
	needed, watched := 0, false
	for i := range w.g {
		g := &w.g[i]
		switch {
		case g.sends():
			return false
		case g.has():
			needed, watched = max(needed, ticks(g.hold.Trust()-w.now)+safety), watched || w.watched(i)
		}
	}
	if has == nil || int(w.server.ttl) <= needed || watched && w.server.ttl <= leaseTicks+1 {
		return false
	}
	lasts := time.Duration(w.server.ttl) * tick
	if watched && !w.claims[0].Slackens(has, lasts, w.now, leaseTicks*tick) {
		return true
	}
	return w.bounds.slack && len(w.claims[0].Slack(has, w.now, leaseTicks*tick)) == 0
}
