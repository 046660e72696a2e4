package fairqueue_test

import "fmt"

// goClient is a goroutine: it waits in the queue and calls again when the script says so, or when a message comes.
type goClient struct {
	*client

	called bool // under this owner
	doubt  ms   // until then a copy of an unanswered acquire may still be executed
	target int64

	answered ms   // when its last call was sent that was told to wait
	mail     bool // it was told that it has the lock
}

func newGoClient(c *client) *goClient {
	g := &goClient{client: c}
	c.owner = fmt.Sprintf("G%d:%d", c.task.id, c.number)
	c.mailed = g.mailed
	c.session.waits = c
	return g
}

// anew goes on under another owner, as the place of this one is gone.
func (g *goClient) anew() {
	g.referee.lost(g.client)
	c := *g.client
	c.number++
	c.standing, c.life, c.listening, c.wake, c.news = standing{}, 0, false, nil, false
	next := newGoClient(&c)
	g.join(&c)
	g.wants = false
	g.leave(g.rest)
	if !c.crashed {
		if c.task.quit > 0 {
			g.at(epoch+c.task.quit, next.cancel)
		}
		next.poll()
	}
}

// mailed hears what the session is told.
func (g *goClient) mailed(m message) {
	if !g.wants || g.crashed || m.to != g.owner {
		return
	}
	g.mail = g.mail || m.granted
	if g.wake == nil {
		g.news = true
		return
	}
	if g.believes() {
		g.wake = nil
		g.sleep++
		g.has()
		return
	}
	g.awake()
}

// believes reports whether it may take the lock for its own without a call.
func (g *goClient) believes() bool {
	told := g.mail
	g.mail = false
	return told && g.task.lease == 0 && g.answered > 0 && (g.now < g.trust() || g.without.sure)
}

func (g *goClient) trust() ms { return g.answered + g.process.grant*9/10 }

// has begins a hold without a call.
func (g *goClient) has() {
	g.referee.believed(g.client)
	g.begins(g.process.grant / 4)
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
	if target == 1 && d.wait > 0 {
		d.again, g.called = g.called, true
		if g.session.subscribed {
			d.grant = g.process.grant
		}
	}
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
	case r[0] == -1:
		g.anew()
	case g.process.grant > 0 && !g.session.subscribed || !g.listening && (r[4] == 1 || g.process.grant == 0):
		g.answered = sent
		g.after(g.latency(), func() {
			g.session.subscribed = g.process.grant > 0
			g.listening = r[4] == 1 || g.process.grant == 0
			g.after(g.latency(), g.poll)
		})
	default:
		g.answered = sent
		if g.believes() {
			g.has()
			return
		}
		again := r[2]
		if g.process.grant > 0 {
			again = min(again, g.process.grant*3/5)
		}
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
func (g *goClient) held() { g.begins(javaLease / 3) }

func (g *goClient) begins(renewed ms) {
	g.wants, g.listening = false, false
	g.target = 1
	g.renews(renewed)
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
