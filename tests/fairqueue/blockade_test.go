package fairqueue_test

// A blockade is a time in which a dead head keeps a free lock from live waiters.
type blockade struct {
	head  *client // nil: none
	since ms
	ours  bool // one of ours, which is not stalled, is among the waiters
	due   ms   // the last score of the head
}

// look must be called whenever something has changed.
func (f *referee) look() {
	b := f.blocked()
	if b.head == f.blockade.head && b.ours == f.blockade.ours {
		f.blockade.due = b.due
		return
	}
	f.lift()
	f.blockade = b
}

func (f *referee) blocked() blockade {
	k := &f.keys
	head := f.clients[k.head()]
	if !k.free() || head == nil || head.lives() {
		return blockade{}
	}
	b := blockade{since: f.now, due: k.due[head.owner]}
	for _, o := range k.queue {
		if c := f.clients[o]; c.lives() && !c.process.stalls(f.now-epoch) {
			b.head = head
			b.ours = b.ours || !c.process.java
		}
	}
	return b
}

// slack is the time lost on the way: a call, a reply that never comes, a message.
const slack = 6 * second

// lift ends a blockade.
func (f *referee) lift() {
	b := f.blockade
	f.blockade = blockade{}
	if b.head == nil {
		return
	}
	name, limit := b.limit(f)
	if name == "" {
		return
	}
	end := f.now
	if !b.ours { // nobody has to look when it is due; only the score counts
		end = min(f.now, max(b.since, b.due+f.inaccuracy()))
	}
	f.seen.worst[name] = max(f.seen.worst[name], end-b.since)
	if end-b.since > limit+slack {
		f.report("blocked", "by %s for %d ms, %s, limit %d", b.head.owner, end-b.since, name, limit)
	}
}

// limit is how long a dead head may block, with a name for the case; "" if we promise nothing.
func (b blockade) limit(f *referee) (string, ms) {
	var longest ms
	for _, p := range f.processes {
		longest = max(longest, p.wait)
	}
	asJava := f.java + longest/3
	switch java := b.head.process.java; {
	case f.shaken && b.ours:
		return "after a loss", asJava
	case f.shaken:
		return "", 0
	case java && b.ours:
		return "a dead Java head, Go behind", asJava
	case java:
		return "", 0 // as long as Redisson's own
	case b.ours:
		return "a dead Go head, Go behind", max(b.head.process.wait, longest/3)
	}
	return "a dead Go head, only Java behind", b.head.standing.limit
}
