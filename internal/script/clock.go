package script

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/wire"
)

// Clocks knows, for each server, a lower bound of its clock: a reply that carries the server's time was made before it
// arrived, so the server's clock is at least that far on. The not-after of an acquisition (G2), which is computed from
// it, can come out too early and cost a refusal, which brings a fresh sample with it; it never costs safety, because
// nothing is trusted on its strength.
//
// In a cluster the samples are kept by slot: which server a slot is on is the client's
// business and may change.
type Clocks struct {
	cluster bool
	fresh   time.Duration // a sample older than this is replaced by any newer one

	single atomic.Pointer[sample] // of the one server there is outside of clusters
	mu     sync.Mutex             // guards slots
	slots  map[uint16]*sample
}

// A sample is immutable.
type sample struct {
	offset int64         // server ms − our ms, at most
	at     time.Duration // when it was learned

	// The same of a later one that may promise less, but is worth more for its age, see [Clocks.Window].
	newer int64
	since time.Duration
}

// NewClocks starts with no knowledge. Moments are the session's, from when it began. Samples older than fresh
// give way to newer ones even if they promise more, so that a server clock that was set back
// is not believed for long.
func NewClocks(cluster bool, fresh time.Duration) *Clocks {
	return &Clocks{cluster: cluster, fresh: fresh, slots: make(map[uint16]*sample)}
}

// Learn records that the server of key read its clock as server ms for a reply that arrived
// at the time received.
func (c *Clocks) Learn(key string, server int64, received time.Duration) {
	s, old := newSample(server, received), c.sample(key)
	if old == nil || s.offset > old.offset || received-old.at > c.fresh {
		c.keep(key, s)
	} else if s.newer > old.newer-(received-old.since).Milliseconds()/100 { // seldom, too
		s.offset, s.at = old.offset, old.at
		c.keep(key, s)
	}
}

// Relearn is Learn, but forgets earlier samples: because of that a call was refused.
func (c *Clocks) Relearn(key string, server int64, received time.Duration) {
	c.keep(key, newSample(server, received))
}

// newSample rounds to the safe side.
func newSample(server int64, received time.Duration) sample {
	offset := server - (received + time.Millisecond - 1).Milliseconds()
	return sample{offset: offset, at: received, newer: offset, since: received}
}

// keep is seldom called: most samples are no better than the one before, and cost no allocation.
func (c *Clocks) keep(key string, s sample) {
	if !c.cluster {
		c.single.Store(&s)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slots[wire.Slot(key)] = &s
}

// Window returns the server ms between which a call about key that is sent then may be executed: what the server will
// have reached at least by then, and what it reaches before limit has passed, also if its clock has run 1 % slower than
// ours since its sample, for which a lease allows as well. They are 0 if nothing is known of the clock; notAfter also
// if nothing so recent is that half of limit would be left.
func (c *Clocks) Window(key string, sent, limit time.Duration) (notBefore, notAfter int64) {
	s := c.sample(key)
	if s == nil {
		return 0, 0
	}
	if slow := (max(sent-s.since, 0)+limit)/100 + 1; slow <= limit/2 {
		notAfter = s.newer + sent.Milliseconds() + (limit - slow).Milliseconds()
	}
	return s.offset + sent.Milliseconds(), notAfter
}

func (c *Clocks) sample(key string) *sample {
	if !c.cluster {
		return c.single.Load()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.slots[wire.Slot(key)]
}

// Forget drops all samples: a connection is new, so the server behind it may be another.
func (c *Clocks) Forget() {
	c.single.Store(nil)
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.slots)
}
