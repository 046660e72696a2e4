package model_test

const (
	leftBehind violation = "a place in the line of which nobody knows"
	unheard    violation = "a free lock, and those who stand in line have not heard of it"
)

// check looks at one world.
func (w *lineWorld) check(report func(violation)) {
	v := &w.server
	believed := 0
	for i := range w.s {
		s := &w.s[i]
		if !s.believes(w.now) || w.excused&(1<<s.held.wire) != 0 {
			continue
		}
		if believed++; believed > 1 || v.holder == others || w.bounds.twin && i == 1 {
			report(twoOwners)
		}
		if v.holder != s.held.wire {
			report(beliefWithoutHold)
		} else if ticks(s.held.trust-w.now) > int(v.ttl) {
			report(cutOff)
		}
	}
	if w.busy() {
		return
	}
	idles, waits := true, false
	for i := range w.s {
		s := &w.s[i]
		idles = idles && s.call == idle && s.holds == idle
		if s.call != idle {
			waits = true
			if s.look || !s.sure || s.down || s.mail > 0 {
				return
			}
		}
	}
	if v.holder == 0 && waits && !w.deadFirst() {
		report(unheard)
	}
	if !idles || w.failed {
		return
	}
	if o := v.holder; o > 0 && o != others && !v.remains && !w.s[o.of()].dead {
		report(ghost)
	}
	for _, o := range v.line.items() {
		if o != others && v.alive[o] > 0 && !w.s[o.of()].dead {
			report(leftBehind)
		}
	}
	if w.bounds.fair {
		w.checkFair(report)
	}
}

// busy reports whether anything is under way.
func (w *lineWorld) busy() bool {
	for i := range w.s {
		s := &w.s[i]
		if s.call == acquiring || s.holds == releasing || s.inbox.n > 0 || s.estate.Wire != "" {
			return true
		}
	}
	return w.stray.n+w.debts.n > 0
}

// deadFirst reports whether the first in the line is dead, and is not known to be.
func (w *lineWorld) deadFirst() bool {
	v := &w.server
	if v.line.n > 0 && v.line.all[0] == others {
		return true // or looks at any time
	}
	return v.line.n > 0 && v.alive[v.line.all[0]] > 0 && w.s[v.line.all[0].of()].dead
}
