package fairqueue_test

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// A scenario is everything that a run is made of; the same scenario always runs in the same way. It can be shrunk:
// removing a task or a misfortune does not change the dice of the others.
type scenario struct {
	seed  uint64
	exact bool // every message takes 1 ms, and nobody rolls dice
	java  ms   // the longest wait of any Java process, as all Go processes are told

	lostMessages  int // per mille
	lostReplies   int // per mille of the calls of Go clients: they get no reply
	processes     []process
	tasks         []task
	disappearings []disappearing
}

type process struct {
	java    bool
	skew    ms   // of a Java process' clock
	wait    ms   // how long a Go process' waiters live on without a re-poll
	crash   ms   // when it ends; 0: never
	stall   ms   // when it stops …
	stalled ms   // … and for how long
	grant   ms   // for how long its waiters are handed the lock; 0: their sessions do not listen
	early   bool // they listen before the first call
	broken  ms   // when its subscriptions break …
	deaf    ms   // … and for how long
}

func (p process) isDeaf(at ms) bool { return at >= p.broken && at < p.broken+p.deaf }

func (p process) stalls(at ms) bool { return at >= p.stall && at < p.stall+p.stalled }

// A disappearing is an eviction of keys, or a failover that takes everything back to an earlier state.
type disappearing struct {
	at   ms
	lost keyset
	back ms
}

type kind int

const (
	lock kind = iota
	tryFor
	try
	force
)

// A task is one Java thread or one goroutine that wants the lock once.
type task struct {
	id       int
	process  int
	kind     kind
	start    ms
	patience ms    // of tryFor
	lease    ms    // 0: a watchdog renews it
	hold     ms    // from the grant to the release
	nested   int64 // re-entries in the meantime, only of Go
	quit     ms    // when a wait ends: a Go waiter leaves, an interrupted Java thread does not; 0: never
	again    ms    // how long after that the same thread of Java calls lock once more; 0: never
	async    bool  // for Java's tryFor: on leaving it takes 300 s off the scores behind, whatever it has added
}

type event struct {
	at ms
	n  int
	do func()
}

type events []event

func (q events) Len() int { return len(q) }
func (q events) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].n < q[j].n
}
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *events) Push(x any)   { *q = append(*q, x.(event)) }
func (q *events) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	*q = (*q)[:last]
	return e
}

// A world runs one scenario.
type world struct {
	scenario
	without without
	beside  *scripts // the real scripts, or nil

	now     ms
	events  events
	n       int
	keys    keys
	past    []snapshot
	clients map[owner]*client
	referee referee

	tracing bool
	trace   []string
}

const (
	runsEnd   = epoch + day
	maxEvents = 2_000_000
)

// play runs a scenario to its end.
func play(s scenario, w without, options ...func(*world)) *world {
	world := &world{scenario: s, without: w, now: epoch, keys: newKeys(), clients: map[owner]*client{}}
	world.referee = newReferee(world)
	for _, option := range options {
		option(world)
	}
	for _, t := range s.tasks {
		world.enter(t)
	}
	for _, d := range s.disappearings {
		world.at(epoch+d.at, func() { world.disappear(d) })
	}
	for len(world.events) > 0 && world.events[0].at <= runsEnd {
		if world.n > maxEvents {
			world.referee.report("end", "the events do not end")
			break
		}
		e := heap.Pop(&world.events).(event)
		world.now = e.at
		e.do()
	}
	world.referee.end()
	return world
}

func traced(w *world) { w.tracing = true }

func besides(s *scripts) func(*world) { return func(w *world) { w.beside = s } }

// enter sets up a client that does a task.
func (w *world) enter(t task) {
	p := w.processes[t.process]
	c := &client{
		world: w, task: t, process: p, rng: rand.New(rand.NewPCG(w.seed, uint64(t.id))), session: &session{}, number: 1,
	}
	if p.java {
		j := &javaClient{c}
		c.owner = fmt.Sprintf("J%d:1", t.id)
		c.after(t.start, j.begin)
	} else {
		g := newGoClient(c)
		c.session.subscribed = p.early
		c.after(t.start, g.begin)
	}
	w.join(c)
}

// join makes a client known.
func (w *world) join(c *client) {
	p := c.process
	w.clients[c.owner] = c
	if p.crash > 0 {
		w.at(epoch+p.crash, func() {
			c.crashed = true
			c.listening, c.session.subscribed = false, false
			w.note("%s crashes", c.owner)
			w.referee.look()
		})
	}
	if p.crash > 0 && w.now >= epoch+p.crash {
		c.crashed = true
	}
	if p.deaf > 0 {
		w.at(epoch+p.broken+p.deaf, c.hearsAgain)
	}
	if p.stalled > 0 {
		w.at(epoch+p.stall, w.referee.look)
		w.at(epoch+p.stall+p.stalled, w.referee.look)
	}
}

// A snapshot is what the keys were at some moment.
type snapshot struct {
	until ms
	keys  keys
}

func (w *world) disappear(d disappearing) {
	if d.back > 0 {
		at := slices.IndexFunc(w.past, func(s snapshot) bool { return s.until > w.now-d.back })
		if at >= 0 {
			w.keys = w.past[at].keys.clone()
		}
	}
	w.keys.expire(w.now)
	w.keys.lose(d.lost)
	w.note("lost:%v, back %d ms → %s", d.lost, d.back, w.state())
	w.expect()
	w.referee.shaken = true
	w.referee.look()
}

func (w *world) at(t ms, do func()) {
	w.n++
	heap.Push(&w.events, event{max(t, w.now), w.n, do})
}

// An execution is what one script did.
type execution struct {
	by       *client
	ours     bool
	script   string
	clock    ms // what it takes for the present time
	takesOff ms // what it takes off the scores of others if it is granted or leaves
	before   keys
	reply    reply
	looked   bool // it looked for our dead waiters
}

// queued reports whether a waiter of ours has called and is in the queue: only then has the reply a place.
func (e execution) queued() bool { return len(e.reply) == 5 }

// stands reports whether the reply has that place.
func (e execution) stands(place int64) bool { return e.queued() && e.reply[3] == place }

// before prepares for a script, and returns the keys that it finds.
func (w *world) before() keys {
	w.keys.expire(w.now)
	before := w.keys.clone()
	if len(w.disappearings) > 0 {
		w.past = append(w.past, snapshot{w.now, before})
	}
	return before
}

// call executes one of our scripts on the server, at once.
func (w *world) call(c *client, s call) reply {
	before := w.before()
	r := &run{keys: &w.keys, now: w.now, java: w.java, without: w.without, hears: w.hears, told: w.told}
	answer := s.model(r)
	if w.beside != nil {
		w.beside.compare(comparison{
			where: fmt.Sprintf("seed %d", w.seed), call: s, now: w.now, hears: w.hears, told: w.told,
			before: before, after: w.keys, answer: answer, published: r.published,
		})
	}
	w.done(execution{
		by: c, ours: true, script: s.script, clock: w.now, before: before, reply: answer, looked: r.looked,
	}, r.published)
	return answer
}

// javaCall executes one of Redisson's scripts on the server, at once.
func (w *world) javaCall(c *client, script string, takesOff ms, do func(*javaRun)) {
	before := w.before()
	r := &javaRun{keys: &w.keys, now: w.now, clock: w.now + c.process.skew}
	do(r)
	w.done(execution{by: c, script: script, clock: r.clock, takesOff: takesOff, before: before}, r.published)
}

// done is what follows when a script has been executed.
func (w *world) done(e execution, published []message) {
	if w.tracing {
		w.note("%s %s %v → %s", e.by.owner, e.script, []int64(e.reply), w.state())
	}
	w.referee.executed(e)
	w.expect()
	for _, m := range published {
		c := w.clients[m.to]
		switch {
		case m.session && w.told(m.to):
			if to := c.session.waits; to.rng.IntN(1000) >= w.lostMessages {
				to.deliver(to.latency(), m)
			}
		case !m.session && w.hears(m.to) && c.rng.IntN(1000) >= w.lostMessages:
			c.after(c.latency(), c.message)
		}
	}
}

// expect makes the referee look when the lock expires.
func (w *world) expect() {
	if !w.keys.free() {
		w.at(w.keys.until, func() {
			w.keys.expire(w.now)
			w.referee.look()
		})
	}
	w.referee.look()
}

// renew prolongs the lease of the lock if the owner still holds it.
func (w *world) renew(o owner) {
	w.keys.expire(w.now)
	if _, held := w.keys.counts[o]; held {
		w.keys.until = max(w.keys.until, w.now+javaLease)
		w.expect()
	}
}

func (w *world) hears(o owner) bool {
	c := w.clients[o]
	return c != nil && c.listening && !c.crashed && !c.process.isDeaf(w.now-epoch)
}

// told reports whether the session of an owner is subscribed.
func (w *world) told(o owner) bool {
	c := w.clients[o]
	return c != nil && c.session.subscribed && !c.crashed && !c.process.isDeaf(w.now-epoch)
}

func (w *world) note(format string, args ...any) {
	if w.tracing {
		w.trace = append(w.trace, fmt.Sprintf("%11.3f ", float64(w.now-epoch)/1000)+fmt.Sprintf(format, args...))
	}
}

// state is what the server stores, in one line, with times from now.
func (w *world) state() string {
	var b strings.Builder
	if w.keys.free() {
		b.WriteString("free")
	} else {
		fmt.Fprintf(&b, "%s×%d for %d", w.keys.holder(), w.keys.counts[w.keys.holder()], w.keys.until-w.now)
	}
	for _, o := range w.keys.queue {
		fmt.Fprintf(&b, "; %s", o)
		if !w.clients[o].lives() {
			b.WriteString("†")
		}
		if due, ok := w.keys.due[o]; ok {
			fmt.Fprintf(&b, " %+d", due-w.now)
		}
		if until, ok := w.keys.alive[o]; ok {
			fmt.Fprintf(&b, " alive %+d", until-w.now)
		}
	}
	return b.String()
}
