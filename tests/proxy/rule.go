package proxy

import (
	"slices"
	"sync"
	"testing"
	"time"
)

// Rule is one fault set on a proxy, see Proxy.On.
type Rule struct {
	proxy  *Proxy
	match  Match
	action Action
	times  Times
	gate   *gate // shut: holds what Stall and HoldReply keep back

	mu      sync.Mutex
	counts  counts
	changed chan struct{} // closed and replaced whenever counts change
	fired   chan struct{} // closed when the rule has fired once
	conns   []*Conn
}

type counts struct {
	matched  int // commands that matched, whether the rule was to act on them or not
	fired    int // commands on which the action took effect
	answered int // of those that the rule acted on, the ones that the server has run and replied to
}

func newRule(p *Proxy, m Match, a Action, n Times) *Rule {
	r := &Rule{
		proxy: p, match: m, action: a, times: n, gate: newGate(),
		changed: make(chan struct{}), fired: make(chan struct{}),
	}
	r.gate.shut()
	return r
}

// Matched counts the commands that matched, also those that the rule's Times left alone.
func (r *Rule) Matched() int { return r.snapshot().matched }

// Count counts the commands on which the action has taken effect; Action says when that is.
func (r *Rule) Count() int { return r.snapshot().fired }

// Answered counts the commands that the rule acted on and the server has replied to: whether a stalled command has
// been run after its release, for one.
func (r *Rule) Answered() int { return r.snapshot().answered }

func (r *Rule) snapshot() counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts
}

// Fired is closed when the action has taken effect for the first time.
func (r *Rule) Fired() <-chan struct{} { return r.fired }

// Wait waits until the action has taken effect n times; not within 20 s ends the test.
func (r *Rule) Wait(t testing.TB, n int) {
	t.Helper()
	r.await(t, "fired", n, func(c counts) int { return c.fired })
}

// WaitMatched waits until n commands have matched; not within 20 s ends the test.
func (r *Rule) WaitMatched(t testing.TB, n int) {
	t.Helper()
	r.await(t, "matched", n, func(c counts) int { return c.matched })
}

// WaitAnswered waits until the server has replied to n of the commands on which the rule acted, delivered or not;
// not within 20 s ends the test.
func (r *Rule) WaitAnswered(t testing.TB, n int) {
	t.Helper()
	r.await(t, "answered", n, func(c counts) int { return c.answered })
}

func (r *Rule) await(t testing.TB, what string, n int, of func(counts) int) {
	t.Helper()
	const limit = 20 * time.Second
	timeout := time.After(limit)
	for {
		r.mu.Lock()
		have, changed := of(r.counts), r.changed
		r.mu.Unlock()
		if have >= n {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("proxy rule: %s %d times in %v, not %d", what, have, limit, n)
		}
	}
}

// Release lets go all that the rule holds at this moment; what it catches later it holds until the next Release.
func (r *Rule) Release() { r.gate.pulse() }

// Remove ends the rule and releases what it holds.
func (r *Rule) Remove() {
	r.proxy.remove(r)
	r.gate.open()
}

// Conns are the connections that have sent a matching command and are still open, in that order.
func (r *Rule) Conns() []*Conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conns = slices.DeleteFunc(r.conns, (*Conn).closed)
	return slices.Clone(r.conns)
}

// consider counts a command if it matches, and says whether the rule is to act on it.
func (r *Rule) consider(command []string, c *Conn) bool {
	if !r.match(command) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.conns, c) {
		r.conns = append(slices.DeleteFunc(r.conns, (*Conn).closed), c)
	}
	r.counts.matched++
	r.notify()
	return r.times == EveryTime || int(r.times) == r.counts.matched
}

func (r *Rule) noteFired() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counts.fired++; r.counts.fired == 1 {
		close(r.fired)
	}
	r.notify()
}

func (r *Rule) noteAnswered() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts.answered++
	r.notify()
}

// notify wakes the waiters; the mutex is held.
func (r *Rule) notify() {
	close(r.changed)
	r.changed = make(chan struct{})
}
