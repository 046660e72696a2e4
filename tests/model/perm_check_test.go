package model_test

import "slices"

const (
	tooMany   violation = "more or fewer permits than there are"
	overtaken violation = "a call takes what one is to have that has asked earlier"
	asleep    violation = "a call sleeps though there is room for it"
	leaked    violation = "permits that nobody will give back"
	forgotten violation = "X sleeps though there are permits for it"
)

// check looks at one world.
func (w *permWorld) check(r permRules, report func(violation)) {
	v := &w.server
	sum := v.free + w.loose + w.lost
	if w.x.holds {
		sum += w.bounds.java
	}
	for i := range w.s {
		s := &w.s[i]
		for o := waiter(1); o < waiters; o++ {
			if s.holds.has(o) {
				sum += w.n(o)
			}
		}
		if s.call == acquiring && s.answer == granted && !w.bounds.ids {
			sum += w.n(s.ask.waiter)
		}
	}
	if sum != w.total || v.free < 0 {
		report(tooMany)
	}
	if w.busy(r) {
		return
	}
	idles := true
	for i := range w.s {
		s := &w.s[i]
		if s.dead || s.frozen || s.call == idle {
			continue
		}
		idles = false
		if s.sure && w.reserved(w.present(i))+w.n(w.present(i)) <= v.free {
			report(asleep)
		}
	}
	if w.x.asleep && v.free >= w.bounds.java && !w.failed { // no failover wakes X
		report(forgotten)
	}
	if w.loose > 0 && !w.bounds.ids {
		report(leaked)
	}
	for o := waiter(1); o < waiters; o++ {
		s := &w.s[o.of()]
		if v.taken.has(o) && !s.holds.has(o) && !w.failed && !s.dead && !s.frozen && w.present(o.of()) != o {
			report(leaked)
		}
	}
	if idles && !w.failed {
		for _, o := range v.line.items() {
			if s := &w.s[o.of()]; v.alive[o] > past && !s.dead && !s.frozen {
				report(leftBehind)
			}
		}
	}
}

// reserved is how many permits are for those in front of a waiter: for who was told, who can be, and who listens.
func (w *permWorld) reserved(o waiter) (sum int8) {
	for _, other := range w.server.line.items() {
		n, life := w.n(other), w.server.alive[other]
		if other == o {
			break
		}
		if room := sum+n <= w.server.free; life == told || life == fresh && (w.lives(other) || !room && w.hears(other)) {
			sum += n
		}
	}
	return sum
}

// busy reports whether anything is under way.
func (w *permWorld) busy(r permRules) bool {
	for i := range w.s {
		s := &w.s[i]
		switch {
		case s.call == acquiring && s.answer == none:
			return true
		case s.dead || s.frozen:
		case s.call == acquiring || s.call == wanting && (s.look || s.mail || s.news || s.down):
			return true
		case w.settles(r, i):
			return true
		}
	}
	owes := func(d permDebt) bool { return !w.s[d.waiter.of()].frozen }
	return w.x.awake || w.stray.n > 0 || slices.ContainsFunc(w.debts.items(), owes)
}
