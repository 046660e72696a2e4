package model_test

const (
	lostPlace violation = "a waiter that lives loses its place"
	leftovers violation = "something in a key of the queue of which nobody knows"
)

// redisson has the steps of a client of Redisson, and of a server that loses keys or refuses to grant.
func (w *lineWorld) redisson(r lineRules, emit lineEmit) {
	v, b := &w.server, &w.bounds
	stands := v.due.has(others)
	x := func(what string, do func(n *lineWorld, v *lineServer)) {
		w.then(emit, lineEvent{who: "X", what: what}, func(n *lineWorld) { do(n, &n.server) })
	}
	switch first := v.line.n == 0 || v.line.all[0] == others; {
	case v.holder == others:
		x("releases the lock", func(n *lineWorld, v *lineServer) {
			if v.holder = 0; v.line.n > 0 {
				n.tellOwn(v.line.all[0])
			}
		})
	case v.gone:
	case v.holder == 0 && first && (stands || b.redisson > 0):
		x("takes the lock", func(n *lineWorld, v *lineServer) {
			if !stands {
				n.bounds.redisson--
			}
			v.forget(others)
			v.holder, v.ttl = others, 0
		})
	case !stands && b.redisson > 0:
		x("stands", func(n *lineWorld, v *lineServer) {
			n.bounds.redisson--
			v.forget(others)
			v.line.add(others)
			v.due.set(others, true)
		})
	}
	if stands && !v.gone {
		x("leaves the queue", func(n *lineWorld, v *lineServer) {
			v.forget(others)
			n.disturb()
		})
		if b.dies {
			x("dies", func(_ *lineWorld, v *lineServer) { v.gone = true })
		}
	}
	if v.gone && !v.over {
		x("is late", func(n *lineWorld, v *lineServer) {
			v.over = true
			n.disturb()
		})
	}
	if b.pops > 0 && v.line.n > 0 && v.line.all[0] != others {
		x("drops the first", func(n *lineWorld, v *lineServer) {
			n.bounds.pops--
			v.due.set(v.line.shift(), false)
			n.disturb()
		})
	}
	if b.refuses > 0 && v.holder > 0 && v.holder != others {
		w.then(emit, lineEvent{who: "server", what: "refuses to grant"}, func(n *lineWorld) {
			n.bounds.refuses--
			n.excused |= 1 << n.server.holder
			n.passFair(r, false)
		})
	}
	if b.evicts > 0 && v.line.n > 0 {
		drops := func(what string, key func(v *lineServer)) {
			w.then(emit, lineEvent{who: "server", what: "drops " + what}, func(n *lineWorld) {
				n.bounds.evicts--
				key(&n.server)
				n.disturb()
			})
		}
		drops("queue", func(v *lineServer) { v.line = list[wire]{} })
		drops("due", func(v *lineServer) { v.due = 0 })
		drops("ours", func(v *lineServer) { v.ours = list[wire]{} })
		drops("alive", func(v *lineServer) { v.listed, v.hear, v.alive = 0, 0, [others]int8{} })
	}
}

// checkFair looks at a world in which nobody wants or has the lock here, and nothing is under way.
func (w *lineWorld) checkFair(report func(violation)) {
	v := &w.server
	for o := wire(1); o < others; o++ {
		dead := v.listed.has(o) && v.alive[o] == 0 // the next one to look drops it
		if v.stands(o) && !dead && !w.s[o.of()].dead {
			report(leftovers)
		}
	}
}
