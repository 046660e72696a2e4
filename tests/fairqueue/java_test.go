package fairqueue_test

import "slices"

// These are Redisson's scripts for a fair lock. They get the time from the client; leases run by the server's.

// A javaRun is one execution of one of Redisson's scripts.
type javaRun struct {
	*keys
	now   ms // the server's
	clock ms // the client's

	published []message
}

const (
	javaWait  = 300 * second // fairLockWaitTimeout
	javaLease = 30 * second  // lockWatchdogTimeout
)

// purge removes the heads that are due.
func (r *javaRun) purge() {
	for o := r.head(); o != nobody; o = r.head() {
		due, scored := r.due[o]
		if !scored || due > r.clock {
			return
		}
		delete(r.due, o)
		r.queue = r.queue[1:]
	}
}

// take grants the lock, or raises its count, if possible.
func (r *javaRun) take(o owner, lease, wait ms) (taken bool) {
	r.purge()
	switch _, mine := r.counts[o]; {
	case r.free() && (r.head() == nobody || r.head() == o):
		r.queue = r.queue[min(1, len(r.queue)):]
		delete(r.due, o)
		for other := range r.due {
			r.due[other] -= wait
		}
		r.grant(o, r.now+lease)
		return true
	case mine:
		r.counts[o]++
		r.until = r.now + lease
		return true
	}
	return false
}

// acquire returns how long to sleep if the lock is not taken: a negative number means without limit, 0 not at all.
func (r *javaRun) acquire(o owner, lease, wait ms) (taken bool, sleep ms) {
	if r.take(o, lease, wait) {
		return true, 0
	}
	if _, queued := r.due[o]; queued {
		return false, max(0, r.pttl(r.now))
	}
	base := r.pttl(r.now)
	if n := len(r.queue); n > 0 && r.queue[n-1] != o {
		if due, scored := r.due[r.queue[n-1]]; scored {
			base = due - r.clock
		}
	}
	r.due[o] = r.clock + base + wait
	r.queue = append(r.queue, o)
	return false, base
}

// leave is what follows when the time to wait is over.
func (r *javaRun) leave(o owner, wait ms) {
	if at := slices.Index(r.queue, o); at >= 0 {
		for _, behind := range r.queue[at+1:] {
			r.due[behind] -= wait
		}
	}
	delete(r.due, o)
	r.queue = removed(r.queue, o)
}

func (r *javaRun) unlock(o owner, lease ms) {
	r.purge()
	count, mine := r.counts[o]
	switch {
	case r.free():
		r.tell()
	case mine && count > 1:
		r.counts[o]--
		r.until = r.now + lease
	case mine:
		clear(r.counts)
		r.tell()
	}
}

func (r *javaRun) force() {
	r.purge()
	if !r.free() {
		clear(r.counts)
		r.tell()
	}
}

func (r *javaRun) tell() {
	if o := r.head(); o != nobody {
		r.published = append(r.published, message{to: o})
	}
}
