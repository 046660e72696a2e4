package fairqueue_test

import (
	"slices"
)

// These are our scripts, line by line; their contracts are in the headers of lua/fairlock_*.lua.
// TestScriptsDoWhatTheModelDoes shows that the two do the same.

// A run is one execution of one of our scripts.
type run struct {
	*keys
	now     ms
	java    ms // java_wait
	without without
	hears   func(owner) bool // reports whether somebody is subscribed to an owner's channel
	told    func(owner) bool // reports whether its session is subscribed to that of sessions

	published []message
	looked    bool // it looked for dead waiters
	handed    bool // it handed the lock to somebody
}

// A message tells a waiter, on its own channel, or its session, that it is its turn, or that it has the lock.
type message struct {
	to      owner
	session bool
	granted bool
}

// A reply is that of any of our scripts but waiters; an integer reply has one number.
type reply []int64

// A demand has the arguments of acquire.
type demand struct {
	owner    owner
	target   int64
	lease    ms
	notAfter ms
	wait     ms // 0: try
	grant    ms
	again    bool
}

func (r *run) acquire(d demand) reply {
	pttl := r.pttl(r.now)
	free := pttl == -2
	count, held := r.counts[d.owner]
	if !held && d.target > 1 {
		return reply{-1, 0}
	}
	if r.now > d.notAfter && !r.without.notAfter {
		return reply{-2, r.now}
	}
	if held {
		r.counts[d.owner] = max(count, d.target)
		r.until = max(r.until, r.now+d.lease)
		return reply{1, r.now}
	}

	if (free || d.again) && r.head() != nobody {
		r.bury()
		if free || r.without.freeOnly {
			r.sweep()
		}
	}
	head := r.head()
	if free && (head == nobody || head == d.owner) {
		r.grant(d.owner, r.now+d.lease)
		if head != nobody {
			r.pop(d.owner)
			r.settle(d.lease)
		} else if d.again {
			r.forget(d.owner)
		}
		return reply{1, r.now}
	}
	if d.wait == 0 {
		if free {
			r.tell(head)
		}
		return reply{0, r.now, pttl}
	}

	left := max(pttl, 0)
	place, java := r.stand(d, left)
	if place == gone {
		return reply{-1, r.now}
	}
	if free || d.again || place != atTheEnd {
		r.settle(left)
	}
	head = r.head()
	again := d.wait / 3
	if free && head != d.owner {
		r.tell(head)
		again = min(again, r.end(head)-r.now)
	} else if head == d.owner && (free || left > 0) {
		again = min(again, left+1)
	}
	listen := int64(0)
	next := r.holder()
	if free {
		next = head
	}
	if java > 0 || next != nobody && !knows(next) {
		listen = 1
	}
	return reply{0, r.now, max(100, again), place, listen}
}

// The places of a waiter in the replies of acquire.
const (
	asBefore int64 = iota
	atTheEnd
	backAgain
	gone
)

// stand gives a waiter its place in the queue, or leaves it there, and writes its score anew. At least so many of
// Java's are in front of it.
func (r *run) stand(d demand, left ms) (place, java int64) {
	was, known := r.due[d.owner]
	until, living := r.alive[d.owner]
	delete(r.due, d.owner)
	r.lives(d.owner, r.now+d.wait, d.grant)
	if d.again && !known && !living && !r.without.once {
		r.forget(d.owner)
		return gone, 0
	}
	at, before := -1, -1
	if known {
		at = slices.Index(r.queue, d.owner)
	}
	if at >= 0 || living {
		before = slices.Index(r.ours, d.owner)
	}
	var score ms
	extend := true
	switch {
	case at >= 0:
		place = asBefore
		if before < 0 {
			java = int64(at)
			score = r.now + r.allowance(d, at, before, left)
			r.ours = r.insert(d.owner, r.ours, r.queue, at)
		} else {
			if at > 0 {
				java = int64(max(0, at-max(0, before-r.missing(d.owner))))
			}
			score = r.now + r.allowance(d, at, before, left)
		}
		if r.without.recount && at > 0 {
			score = r.now + d.wait + was - until
		}
	case before >= 0:
		r.queue = r.insert(d.owner, removed(r.queue, d.owner), r.ours, before)
		place, java = backAgain, 1
		score = r.now + max(d.wait, left)
	default:
		place = atTheEnd
		if known || living {
			r.ours, r.queue = removed(r.ours, d.owner), removed(r.queue, d.owner)
		}
		r.ours, r.queue = append(r.ours, d.owner), append(r.queue, d.owner)
		extend = len(r.ours) == 1 || r.now%64 == 0
		same := len(r.ours) == len(r.queue) // as many of ours were dropped, maybe, as Java's are there
		if !same && len(r.ours) > 1 && r.missing(d.owner) > 0 {
			extend = true
			r.bury()
		}
		at, before := len(r.queue)-1, len(r.ours)-1
		if same {
			before += r.missing(d.owner)
		}
		java = int64(max(0, at-max(0, before-r.missing(d.owner))))
		score = r.enqueued(d, at, before, left)
	}
	r.due[d.owner] = score
	if extend {
		r.oursUntil, r.aliveUntil = r.now+day, r.now+day
	}
	return place, java
}

// allowance is how far ahead of now the score of a waiter is set that is already in the queue.
func (r *run) allowance(d demand, at, before int, left ms) ms {
	if r.without.left {
		left = 0
	}
	if at == 0 && !r.without.headExempt {
		return max(d.wait, left)
	}
	base := max(d.wait, left, 30*second)
	if r.without.nextLease || r.without.left {
		base = max(d.wait, left)
	}
	return base + r.java*r.javaInFront(d.owner, at, before)
}

// enqueued is the score of a waiter that has joined the queue.
func (r *run) enqueued(d demand, at, before int, left ms) ms {
	if r.without.left {
		left = 0
	}
	base := left + d.wait
	if at == 0 {
		base = max(left, d.wait)
	}
	score := r.now + base + r.java*r.javaInFront(d.owner, at, before)
	if (r.without.flat || r.without.allowance) && at > 0 {
		score = max(score, r.due[r.queue[at-1]]+d.wait)
	}
	return score
}

// javaInFront counts Java's waiters in front of a place in the queue. The place in ours is before, −1 if there is none.
func (r *run) javaInFront(o owner, at, before int) int64 {
	switch {
	case r.without.allowance:
		return 0
	case r.without.burial:
		return int64(max(0, len(r.queue)-len(r.alive)))
	case r.without.inFront:
		return int64(max(0, len(r.queue)-len(r.ours)))
	case before < 0:
		return int64(at)
	}
	return int64(max(0, at-max(0, before-r.missing(o))))
}

// missing counts the waiters at the front of ours, and of one of them, that were dropped from the queue.
func (r *run) missing(before owner) int {
	n := slices.IndexFunc(r.ours, func(o owner) bool {
		_, scored := r.due[o]
		return scored || o == before
	})
	if n < 0 {
		return len(r.ours)
	}
	return n
}

// insert puts an owner into a list, behind the nearest of those that are in front of a place in another list.
func (r *run) insert(o owner, list, other []owner, at int) []owner {
	for ; at > 0 && !r.without.predecessor; at-- {
		if place := slices.Index(list, other[at-1]) + 1; place > 0 {
			return slices.Insert(list, place, o)
		}
		if r.without.farther {
			break
		}
	}
	return slices.Insert(list, 0, o)
}

func (r *run) release(o owner, target int64) reply {
	if _, held := r.counts[o]; !held {
		return reply{0}
	}
	if target > 0 {
		r.counts[o] = target
		return reply{1}
	}
	r.pass()
	return reply{2}
}

func (r *run) force(notAfter ms) reply {
	if r.free() {
		return reply{0, r.now}
	}
	if r.now > notAfter {
		return reply{-2, r.now}
	}
	r.pass()
	return reply{1, r.now}
}

func (r *run) leave(o owner) reply {
	buried := r.bury()
	if _, held := r.counts[o]; held {
		r.forget(o)
		r.pass()
		return reply{2}
	}
	first := r.head() == o
	_, known := r.due[o]
	_, living := r.alive[o]
	r.forget(o)
	if first || buried {
		if r.free() {
			r.sweep()
		}
		r.settle(max(0, r.pttl(r.now)))
		if r.free() && r.head() != nobody {
			r.tell(r.head())
		}
	}
	if known || living {
		return reply{1}
	}
	return reply{0}
}

// waiters is the reply of the script of that name.
func (r *run) waiters() []any {
	found := []any{}
	for _, o := range r.queue {
		until, living := r.alive[o]
		if due, known := r.due[o]; !living && known {
			until = due
		}
		found = append(found, o, max(0, until-r.now))
	}
	return found
}

// These are the fragments.

// end is when a waiter is taken for dead: its score in alive if it is one of ours, otherwise that in due; 0 if it has
// neither.
func (r *run) end(o owner) ms {
	if until, living := r.alive[o]; living {
		return until
	}
	return r.due[o]
}

func (r *run) forget(o owner) {
	r.queue = removed(r.queue, o)
	delete(r.due, o)
	r.forgets(o)
	r.ours = removed(r.ours, o)
}

func (r *run) pop(o owner) {
	r.queue, r.ours = less(r.queue, o), less(r.ours, o)
	delete(r.due, o)
	r.forgets(o)
}

func (r *run) bury() (buried bool) {
	if r.without.burial {
		return false
	}
	r.looked = true
	dead := r.dead(r.now)
	for _, o := range dead {
		r.forget(o)
	}
	return len(dead) > 0
}

func (r *run) sweep() {
	for o := r.head(); o != nobody; o = r.head() {
		if r.end(o) > r.now {
			return
		}
		r.pop(o)
	}
}

// rest has those soon forgotten who are left when nobody is in the queue.
func (r *run) rest() { r.oursUntil, r.aliveUntil = r.now+forgotten, r.now+forgotten }

func (r *run) settle(left ms) {
	o := r.head()
	if o == nobody {
		r.rest()
		return
	}
	due, scored := r.due[o]
	until, living := r.alive[o]
	if !scored && !living || r.without.settle {
		return
	}
	limit := r.now + left + r.java
	if living {
		limit = max(until, r.now+left)
	}
	if !scored || due > limit {
		r.due[o] = limit
	}
}

func (r *run) pass() {
	deaf := false
	defer func() {
		if len(r.counts) > 0 && !r.handed {
			clear(r.counts)
		}
		if deaf && r.head() == nobody {
			r.rest()
		}
	}()
	for o := r.head(); o != nobody; o = r.head() {
		until, living := r.alive[o]
		switch {
		case living && until <= r.now:
			r.pop(o)
		case living && r.grants[o] > 0:
			if r.hand(o) {
				return
			}
			deaf = true
		default:
			r.bury()
			due, scored := r.due[o]
			if living || due > r.now {
				r.settle(0)
				r.publish(o)
				if living && !knows(o) {
					r.warn()
				}
				return
			}
			if scored && !r.without.hearing && r.publish(o) {
				r.due[o] = r.now + 5*second
				return
			}
			r.pop(o)
		}
	}
}

// hand gives the lock to the head, if that hears of it.
func (r *run) hand(o owner) (hears bool) {
	grant := r.grants[o]
	r.queue = less(r.queue, o)
	delete(r.due, o)
	if hears = r.told(o) || r.without.unheard; hears {
		clear(r.counts)
		r.grant(o, r.now+grant)
		r.published = append(r.published, message{to: o, session: true, granted: true})
		r.handed = true
	}
	if hears || r.without.comeback {
		r.forgets(o)
		r.ours = less(r.ours, o)
	}
	return hears
}

// knows reports whether an owner's session tells others where they are handed the lock.
func knows(o owner) bool { return o[0] == 'G' }

// warn has the first one look behind the head that hears of grants.
func (r *run) warn() {
	for _, o := range r.queue[1:] {
		if _, living := r.alive[o]; living && r.grants[o] > 0 {
			r.tell(o)
			return
		}
	}
}

// tell tells a waiter that it is its turn.
func (r *run) tell(o owner) {
	if _, living := r.alive[o]; living && r.grants[o] > 0 {
		r.published = append(r.published, message{to: o, session: true})
		return
	}
	r.publish(o)
}

func (r *run) publish(o owner) (heard bool) {
	r.published = append(r.published, message{to: o})
	return r.hears(o)
}

const always ms = 1 << 53 // a not-after that never comes
