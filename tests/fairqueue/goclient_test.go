package fairqueue_test

// goClient is a goroutine: it waits in the queue and calls again when the script says so, or when a message comes.
type goClient struct {
	*client

	doubt  ms // until then a copy of an unanswered acquire may still be executed
	target int64
}

const silence = second // a call without a reply is repeated after this time

func (g *goClient) begin() {
	if g.task.kind == force {
		g.send(forceCall(g.now+g.lease()/3, g.java), func(reply) { g.finish() }, g.finish)
		return
	}
	if g.task.kind == tryFor {
		g.deadline = g.now + g.task.patience
	}
	if g.task.quit > 0 && g.task.kind != try {
		g.at(epoch+g.task.quit, g.cancel)
	}
	g.wants = g.task.kind != try
	g.poll()
}

// wait is the argument of acquire.
func (g *goClient) wait() ms {
	if g.task.kind == try {
		return 0
	}
	return g.process.wait
}

// acquire sends an acquisition. If it is not answered, it stays in doubt until its not-after has passed.
func (g *goClient) acquire(target int64, answered func(sent ms, r reply), silent func()) {
	sent := g.now
	d := demand{owner: g.owner, target: target, lease: g.lease(), notAfter: sent + g.lease()/3, wait: g.wait()}
	g.send(acquireCall(d, g.java), func(r reply) { answered(sent, r) }, func() {
		g.doubt = max(g.doubt, d.notAfter)
		silent()
	})
}

// send executes a script. The reply may get lost, or the call itself may travel for longer than anybody waits.
func (g *goClient) send(s call, answered func(reply), silent func()) {
	there, back, life := g.latency(), g.latency(), g.life
	if g.lostReplies > 0 && g.rng.IntN(1000) < g.lostReplies {
		if g.rng.IntN(2) == 0 {
			there = g.rng.Int64N(g.lease())
		}
		g.at(g.now+there, func() { g.call(g.client, s) })
		g.after(silence, silent)
		return
	}
	g.at(g.now+there, func() {
		r := g.call(g.client, s)
		if g.life == life {
			g.after(back, func() { answered(r) })
		}
	})
}

// poll enters the queue or shows that the waiter is alive.
func (g *goClient) poll() {
	if g.deadline > 0 && g.now >= g.deadline {
		g.giveUp()
		return
	}
	g.news = false
	g.acquire(1, g.polled, g.poll)
}

func (g *goClient) polled(sent ms, r reply) {
	switch {
	case r[0] == 1 && g.now >= sent+g.lease()*9/10: // nothing of the lease is left
		g.giveUp()
	case r[0] == 1:
		g.held()
	case r[0] == -2:
		g.poll()
	case g.task.kind == try:
		g.giveUp()
	case !g.listening:
		g.after(g.latency(), func() {
			g.listening = true
			g.after(g.latency(), g.poll)
		})
	default:
		again := r[2]
		if !g.exact {
			again += again * (g.rng.Int64N(201) - 100) / 1000
		}
		g.park(again, g.poll)
	}
}

// cancel ends a wait from outside.
func (g *goClient) cancel() {
	if !g.wants || g.crashed {
		return
	}
	g.deadline = g.now
	if g.wake != nil {
		g.after(0, func() {
			if g.wake != nil {
				g.awake()
			}
		})
	}
}

// giveUp takes back whatever the acquisition may have got.
func (g *goClient) giveUp() {
	g.wants = false
	g.referee.look()
	g.leave(g.rest)
}

func (g *goClient) leave(then func()) {
	g.send(leaveCall(g.owner, g.java), func(reply) { then() }, func() { g.leave(then) })
}

// rest ends the task. What was in doubt is taken back once more when no copy of it can be executed any longer.
func (g *goClient) rest() {
	g.finish()
	if g.doubt < g.now {
		g.settled = true
		return
	}
	g.after(g.doubt-g.now+1, func() { g.leave(func() { g.settled = true }) })
}

// held keeps the lock for the time of the task, and re-enters and releases at even intervals.
func (g *goClient) held() {
	g.wants, g.listening = false, false
	g.target = 1
	g.watchdog()
	g.work(0)
}

// work is one of the 2×nested+1 equal parts of the hold.
func (g *goClient) work(part int64) {
	parts := 2*g.task.nested + 1
	g.after(g.task.hold/parts, func() {
		switch {
		case part < g.task.nested:
			g.reenter(part)
		default:
			g.release(part)
		}
	})
}

func (g *goClient) reenter(part int64) {
	g.acquire(g.target+1, func(sent ms, r reply) {
		switch {
		case r[0] == 1 && g.now < sent+g.lease()*9/10:
			g.target++
			g.work(part + 1)
		case r[0] == -2:
			g.reenter(part)
		default: // lost
			g.life++
			g.giveUp()
		}
	}, func() { g.reenter(part) })
}

func (g *goClient) release(part int64) {
	target := g.target - 1
	if target == 0 {
		g.life++ // ends the watchdog
	}
	g.send(releaseCall(g.owner, target, g.java), func(r reply) {
		g.target = target
		switch {
		case target == 0 || r[0] == 0:
			g.rest()
		default:
			g.work(part + 1)
		}
	}, func() { g.release(part) })
}
