package fairqueue_test

import "math/rand/v2"

// A client does one task; javaClient and goClient define how.
type client struct {
	*world
	task    task
	process process
	owner   owner
	session *session
	number  int // of its owners
	rng     *rand.Rand

	crashed   bool
	settled   bool // nothing of it can come back
	wants     bool // it wants the lock, and does not have it
	listening bool // it listens on its channel
	deadline  ms   // of its wait; 0: none

	life  int // raised when whatever is in flight no longer matters
	sleep int // raised when it wakes up
	wake  func()
	news  bool // a message came while it was not asleep

	standing standing
	mailed   func(m message) // hands it what its session was told
}

// A session is what the owners of one client have together.
type session struct {
	subscribed bool    // it is told of grants
	waits      *client // under its present owner
}

// deliver brings a message to a session, however long that takes.
func (c *client) deliver(d ms, m message) {
	c.at(c.now+d, func() {
		switch p := c.process; {
		case c.crashed:
		case p.stalls(c.now - epoch):
			c.deliver(epoch+p.stall+p.stalled-c.now, m)
		default:
			c.session.waits.mailed(m)
		}
	})
}

// hearsAgain is what follows when the subscriptions are back.
func (c *client) hearsAgain() {
	if c.crashed || !c.wants {
		return
	}
	c.after(0, c.message)
}

// lives reports whether it waits for the lock and can take it, unless it is stalled.
func (c *client) lives() bool { return c.wants && !c.crashed }

// lease is the lease that it asks for.
func (c *client) lease() ms {
	if c.task.lease > 0 {
		return c.task.lease
	}
	return javaLease
}

// latency is how long a message travels.
func (c *client) latency() ms {
	if c.exact {
		return 1
	}
	switch n := c.rng.IntN(1000); {
	case n < 2:
		return c.rng.Int64N(2 * second)
	case n < 20:
		return c.rng.Int64N(200)
	}
	return 1 + c.rng.Int64N(4)
}

// after runs do later, when the client is not stalled; unless it has crashed or turned to something else by then.
func (c *client) after(d ms, do func()) {
	life := c.life
	var attempt func()
	attempt = func() {
		switch {
		case c.crashed || c.life != life:
		case c.process.stalls(c.now - epoch):
			c.at(epoch+c.process.stall+c.process.stalled, attempt)
		default:
			do()
		}
	}
	c.at(c.now+d, attempt)
}

// park sleeps until a message comes or d has passed, without limit if d is negative, and then runs next. So it does
// at the deadline.
func (c *client) park(d ms, next func()) {
	if c.news {
		c.news = false
		next()
		return
	}
	if c.deadline > 0 && (d < 0 || c.now+d > c.deadline) {
		d = max(0, c.deadline-c.now)
	}
	c.wake = next
	sleep := c.sleep
	if d < 0 {
		return
	}
	c.after(d, func() {
		if c.sleep == sleep {
			c.awake()
		}
	})
}

func (c *client) awake() {
	next := c.wake
	c.wake = nil
	c.sleep++
	next()
}

func (c *client) message() {
	if c.wake != nil {
		c.awake()
	} else {
		c.news = true
	}
}

// watchdog renews the lock while the client holds it and lives.
func (c *client) watchdog() {
	c.renews(javaLease / 3)
}

func (c *client) renews(first ms) {
	if c.task.lease > 0 {
		return
	}
	var renewal func()
	renewal = func() {
		c.at(c.now+c.latency(), func() { c.renew(c.owner) })
		c.after(javaLease/3, renewal)
	}
	c.after(first, renewal)
}

// finish ends the task. Whatever is in flight no longer matters.
func (c *client) finish() {
	c.life++
	c.sleep++
	c.wants, c.listening = false, false
	c.wake = nil
	c.referee.look()
}
