package fairqueue_test

import "math/rand/v2"

// A regime is a way of life from which scenarios are drawn.
type regime struct {
	java, ours int // the most waiters
	holds      []ms
	skewed     bool // Java's clocks are off, by up to 5 s
	crashes    bool
	goCrashes  bool // every Go process crashes
	stalls     bool
	forces     bool
	leases     bool // some leases are explicit
	short      bool // in every other run Java waits for seconds only
	patient    bool // Java waits for up to half an hour, and our side knows that
	async      bool
	waits      bool // each Go process has its own wait
	nested     bool
	messages   int // lost ones, per mille
	replies    int // lost ones, per mille
	losses     bool
}

var regimes = map[string]regime{
	"calm": {java: 8, ours: 8, holds: []ms{5, 50, 500}, nested: true},
	"mixed": {
		java: 8, ours: 8, holds: []ms{5, 50, 500, 5000, 40_000}, skewed: true, crashes: true, forces: true, short: true,
		leases: true, async: true, waits: true, nested: true, messages: 10,
	},
	"long holds": {
		java: 6, ours: 6, holds: []ms{5, 500, 60_000, 400_000, 1_200_000}, skewed: true, crashes: true, short: true,
		messages: 10, nested: true,
	},
	"long leases": {
		java: 6, ours: 6, holds: []ms{5, 500, 60_000, 400_000, 1_200_000}, skewed: true, crashes: true, leases: true,
		messages: 10, async: true, short: true, forces: true, waits: true,
	},
	"Go dies": {
		java: 6, ours: 6, holds: []ms{5, 500, 20_000}, skewed: true, crashes: true, goCrashes: true, messages: 5,
	},
	"Go dies, short waits": {
		java: 6, ours: 6, holds: []ms{5, 500, 20_000}, skewed: true, crashes: true, goCrashes: true, short: true,
		messages: 5, waits: true,
	},
	"stalls": {
		java: 6, ours: 6, holds: []ms{5, 500, 20_000}, skewed: true, crashes: true, stalls: true, messages: 5,
		replies: 20,
		waits:   true,
	},
	"Go only": {
		ours: 16, holds: []ms{5, 500, 20_000, 1_200_000}, crashes: true, forces: true, leases: true, messages: 20,
		replies: 20, waits: true, nested: true,
	},
	"Java only": {
		java: 12, holds: []ms{5, 500, 20_000, 400_000}, skewed: true, crashes: true, short: true, leases: true,
		messages: 5,
	},
	"lost replies": {
		java: 6, ours: 8, holds: []ms{5, 500, 5000, 40_000}, skewed: true, crashes: true, forces: true, leases: true,
		messages: 20, replies: 150, nested: true,
	},
	"patient Java": {
		java: 6, ours: 6, holds: []ms{5, 500, 60_000, 400_000}, skewed: true, patient: true, crashes: true, messages: 5,
		nested: true,
	},
	"lost keys": {
		java: 5, ours: 8, holds: []ms{5, 500, 20_000, 60_000}, skewed: true, crashes: true, messages: 10, waits: true,
		nested: true, losses: true, replies: 20,
	},
}

// dice draw scenarios.
type dice struct{ *rand.Rand }

func pick[T any](d dice, from ...T) T { return from[d.IntN(len(from))] }

func (d dice) oneIn(n int) bool { return d.IntN(n) == 0 }

// upTo returns a number from 1 to n.
func (d dice) upTo(n ms) ms { return 1 + d.Int64N(n) }

func (r regime) scenario(seed uint64) scenario {
	d := dice{rand.New(rand.NewPCG(seed, 1))}
	s := scenario{seed: seed, java: javaWait, lostMessages: r.messages, lostReplies: r.replies}
	if r.patient {
		s.java = 30 * minute
	}
	span := pick(d, 100, 2*second, 30*second, 10*minute)
	var java, ours []int
	for range 1 + d.IntN(4) {
		if r.java > 0 {
			java = append(java, len(s.processes))
			s.processes = append(s.processes, r.javaProcess(d, span))
		}
		if r.ours > 0 {
			ours = append(ours, len(s.processes))
			s.processes = append(s.processes, r.goProcess(d, span))
		}
	}
	for range min(r.java, 1+d.IntN(r.java+1)) {
		s.tasks = append(s.tasks, r.task(d, len(s.tasks)+1, pick(d, java...), true, seed, span))
	}
	for range min(r.ours, 1+d.IntN(r.ours+1)) {
		s.tasks = append(s.tasks, r.task(d, len(s.tasks)+1, pick(d, ours...), false, seed, span))
	}
	if r.losses {
		for range 1 + d.IntN(2) {
			loss := disappearing{at: d.upTo(span + 30*second), lost: keysets[d.IntN(len(keysets))]}
			if d.oneIn(3) {
				loss.lost, loss.back = keyset{}, d.upTo(5*second)
			}
			s.disappearings = append(s.disappearings, loss)
		}
	}
	return s
}

func (r regime) javaProcess(d dice, span ms) process {
	p := process{java: true}
	if r.skewed {
		p.skew = pick(d, 0, 5*second, -5*second, d.Int64N(10*second)-5*second)
	}
	if r.crashes && d.oneIn(3) {
		p.crash = d.upTo(span + minute)
	}
	r.stall(&p, d, span)
	return p
}

func (r regime) goProcess(d dice, span ms) process {
	p := process{wait: 15 * second}
	if r.waits {
		p.wait = pick(d, 12*second, 15*second, 20*second, 40*second)
	}
	p.grant = pick(d, 0, second, 5*second, 9500, 9500)
	p.early = p.grant > 0 && d.oneIn(2)
	if r.messages > 0 && d.oneIn(3) {
		p.broken, p.deaf = d.upTo(span+30*second), pick(d, 50, second, 6*second, 30*second)
	}
	if r.goCrashes || r.crashes && d.oneIn(3) {
		p.crash = d.upTo(span + minute)
	}
	r.stall(&p, d, span)
	return p
}

func (r regime) stall(p *process, d dice, span ms) {
	if r.stalls && d.oneIn(2) {
		p.stall = d.upTo(span + 30*second)
		p.stalled = pick(d, 3*second, 12*second, 40*second)
	}
}

func (r regime) task(d dice, id, process int, java bool, seed uint64, span ms) task {
	t := task{id: id, process: process, start: d.upTo(span), hold: pick(d, r.holds...)}
	t.hold += d.Int64N(t.hold/2 + 2)
	switch n := d.IntN(12); {
	case n == 0:
		t.kind = try
	case n <= 2 && java:
		t.kind, t.patience = tryFor, pick(d, second, 10*second, minute, 290*second)
		t.async = r.async && d.oneIn(2)
	case n <= 2:
		t.kind, t.patience = tryFor, pick(d, 500, 5*second, minute, 15*minute)
	case n == 3 && r.forces && d.oneIn(3):
		t.kind = force
	case java && r.short && seed%2 == 0:
		t.kind, t.patience = tryFor, pick(d, 2*second, 10*second, 30*second, 2*minute)
	case java && r.patient && d.oneIn(3):
		t.kind, t.patience = tryFor, pick(d, 10*minute, 30*minute)
	}
	if r.leases && d.oneIn(3) {
		t.lease = pick(d, second, 10*second, 10*minute)
	}
	if r.nested && !java && d.oneIn(3) {
		t.nested = d.upTo(3)
	}
	if r.crashes && d.oneIn(5) {
		t.quit = t.start + d.upTo(pick(d, 50, 5*second, 100*second))
		if d.oneIn(3) {
			t.again = d.upTo(minute)
		}
	}
	return t
}
