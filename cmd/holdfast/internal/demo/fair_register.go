package demo

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A register is what the coordinator knows of the queue: in which order the waiters entered it,
// from looking at it all the time, and in which order they were served, from the numbers that
// they have read under the lock. A waiter is known by its id on the server.
type register struct {
	queue   []string // the next one first
	seen    time.Time
	entries map[string]int // waiter → the how-many-eth entry, from 1
	entered int
	again   int // entries of waiters that had been taken for dead
	grants  []grant
}

// A grant is a waiter being served.
type grant struct {
	read   int // in the counter, which is how many were served before
	id     string
	worker int
}

func newRegister() *register { return &register{entries: map[string]int{}} }

// see takes in what the queue looks like now.
func (r *register) see(queue []string, at time.Time) {
	for _, id := range queue {
		if slices.Contains(r.queue, id) {
			continue
		}
		if r.entries[id] > 0 {
			r.again++
		}
		r.entered++
		r.entries[id] = r.entered
	}
	r.queue, r.seen = queue, at
}

// grant books a grant. Those of several workers may be heard of in any order.
func (r *register) grant(read int, id string, worker int) {
	at := len(r.grants)
	for at > 0 && r.grants[at-1].read > read {
		at--
	}
	r.grants = slices.Insert(r.grants, at, grant{read, id, worker})
}

// judged is how many grants went to waiters that were seen in the queue, and how many of these
// went to one that entered after somebody who was served later.
func (r *register) judged() (n, outOfOrder int) {
	first := r.entered + 1 // of the entries that were served later
	for _, g := range slices.Backward(r.grants) {
		entry := r.entries[g.id]
		if entry == 0 {
			continue // served at once
		}
		n++
		if entry > first {
			outOfOrder++
		}
		first = min(first, entry)
	}
	return n, outOfOrder
}

// crossings is how many grants went to another worker than the one before.
func (r *register) crossings() (n int) {
	for i := 1; i < len(r.grants); i++ {
		if r.grants[i].worker != r.grants[i-1].worker {
			n++
		}
	}
	return n
}

func (r *register) audit() error {
	switch n, outOfOrder := r.judged(); {
	case outOfOrder > 0:
		return fmt.Errorf("%d of %d grants were out of order", outOfOrder, n)
	case n < len(r.grants)/2:
		return fmt.Errorf("only %d of %d grants could be judged: the machine is too busy to look at the queue", n, len(r.grants))
	}
	return nil
}

// leftFrom is the place in the queue, from 1, that was given up if nothing else has changed but
// who stands behind; 0 if none was.
func leftFrom(before, now []string) int {
	for i, id := range before {
		if i < len(now) && now[i] == id {
			continue
		}
		rest := before[i+1:]
		if len(now) >= i+len(rest) && slices.Equal(now[i:i+len(rest)], rest) {
			return i + 1
		}
		return 0
	}
	return 0
}

// sessionOf is the session that a waiter is of.
func sessionOf(id string) string { return id[:max(0, strings.LastIndexByte(id, ':'))] }
