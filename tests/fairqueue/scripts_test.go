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

	published []owner // the owners to whose channels it published, in order
	looked    bool    // it looked for dead waiters
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

	if r.head() != nobody {
		r.bury()
		if free || r.without.freeOnly {
			r.sweep()
		}
	}
	head := r.head()
	if free && (head == nobody || head == d.owner) {
		r.grant(d.owner, r.now+d.lease)
		if head != nobody {
			r.forget(d.owner)
			r.settle(d.lease)
		}
		return reply{1, r.now}
	}
	if d.wait == 0 {
		if free {
			r.publish(head)
		}
		return reply{0, r.now, pttl}
	}

	left := max(pttl, 0)
	place := r.stand(d, left)
	r.oursUntil, r.aliveUntil = r.now+day, r.now+day

	r.settle(left)
	head = r.head()
	again := d.wait / 3
	if free && head != d.owner {
		r.publish(head)
		again = min(again, r.end(head)-r.now)
	} else if head == d.owner && (free || left > 0) {
		again = min(again, left+1)
	}
	return reply{0, r.now, max(100, again), place}
}

// The places of a waiter in the replies of acquire.
const (
	asBefore int64 = iota
	atTheEnd
	backAgain
)

// stand gives a waiter its place in the queue, or leaves it there, and writes its score anew.
func (r *run) stand(d demand, left ms) (place int64) {
	was, known := r.due[d.owner]
	until, living := r.alive[d.owner]
	at := -1
	if known {
		at = slices.Index(r.queue, d.owner)
	}
	var score ms
	before := slices.Index(r.ours, d.owner)
	switch {
	case at >= 0:
		place = asBefore
		score = r.now + r.allowance(d, at, left)
		if before < 0 {
			r.ours = r.insert(d.owner, r.ours, r.queue, at)
		}
		if r.without.recount && at > 0 {
			score = r.now + d.wait + was - until
		}
	case living && before >= 0:
		r.queue = r.insert(d.owner, removed(r.queue, d.owner), r.ours, before)
		place = backAgain
		score = r.now + max(d.wait, left)
	default:
		place = atTheEnd
		score = r.enqueued(d, left)
		r.ours = append(removed(r.ours, d.owner), d.owner)
		r.queue = append(removed(r.queue, d.owner), d.owner)
	}
	r.due[d.owner] = score
	r.alive[d.owner] = r.now + d.wait
	return place
}

// allowance is how far ahead of now the score of a waiter is set that is already in the queue.
func (r *run) allowance(d demand, at int, left ms) ms {
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
	return base + r.java*r.javaInFront(at, slices.Index(r.ours, d.owner))
}

// enqueued is the score of a waiter that joins the queue.
func (r *run) enqueued(d demand, left ms) ms {
	if r.without.left {
		left = 0
	}
	score := r.now + left + d.wait + r.java*r.javaInFront(len(r.queue), len(r.ours))
	if (r.without.flat || r.without.allowance) && len(r.queue) > 0 {
		score = max(score, r.due[r.queue[len(r.queue)-1]]+d.wait)
	}
	return score
}

// javaInFront counts Java's waiters in front of a place in the queue. The place in ours is before, −1 if there is none.
func (r *run) javaInFront(at, before int) int64 {
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
	return int64(max(0, at-max(0, before-r.missing())))
}

// missing counts the waiters of ours at the front of ours that Java has dropped.
func (r *run) missing() int {
	n := slices.IndexFunc(r.ours, func(o owner) bool {
		_, scored := r.due[o]
		return scored
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
	if r.head() != nobody {
		r.bury()
		r.pass()
	}
	clear(r.counts)
	return reply{2}
}

func (r *run) force(notAfter ms) reply {
	if r.free() {
		return reply{0, r.now}
	}
	if r.now > notAfter {
		return reply{-2, r.now}
	}
	r.bury()
	r.pass()
	clear(r.counts)
	return reply{1, r.now}
}

func (r *run) leave(o owner) reply {
	buried := r.bury()
	if _, held := r.counts[o]; held {
		r.pass()
		clear(r.counts)
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
			r.publish(r.head())
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
	delete(r.alive, o)
	r.ours = removed(r.ours, o)
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
		r.forget(o)
	}
}

func (r *run) settle(left ms) {
	o := r.head()
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
	for {
		o := r.head()
		if o == nobody {
			return
		}
		if r.end(o) > r.now {
			break
		}
		_, scored := r.due[o]
		if _, living := r.alive[o]; scored && !living && !r.without.hearing && r.publish(o) {
			r.due[o] = r.now + 5*second
			return
		}
		r.forget(o)
	}
	r.settle(0)
	r.publish(r.head())
}

func (r *run) publish(o owner) (heard bool) {
	r.published = append(r.published, o)
	return r.hears(o)
}

const always ms = 1 << 53 // a not-after that never comes
