package script

import (
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/wire"
)

// Clocks knows, for each server, a lower bound of its clock: a reply that carries the
// server's time was made before it arrived, so the server's clock is at least that far on.
// What is computed from it, the not-after of an acquisition (G2), can come out too early and
// cost a refusal, which brings a fresh sample with it; it never costs safety, because nothing
// is trusted on its strength.
//
// In a cluster the samples are kept by slot: which server a slot is on is the client's
// business and may change.
type Clocks struct {
	base    time.Time
	cluster bool
	fresh   time.Duration // a sample older than this is replaced by any newer one

	mu      sync.Mutex // guards samples
	samples map[uint16]sample
}

type sample struct {
	offset int64         // server ms − our ms, at the most
	at     time.Duration // when it was learned, since base
}

// NewClocks starts with no knowledge. Samples older than fresh give way to newer ones even
// if they promise more, so that a server clock that was set back is not believed for long.
func NewClocks(base time.Time, cluster bool, fresh time.Duration) *Clocks {
	return &Clocks{base: base, cluster: cluster, fresh: fresh, samples: make(map[uint16]sample)}
}

func (c *Clocks) slot(key string) uint16 {
	if c.cluster {
		return wire.Slot(key)
	}
	return 0
}

// Learn takes in that the server of key read its clock as server ms for a reply that has
// just arrived. 0 means that it did not read it.
func (c *Clocks) Learn(key string, server int64) {
	if server == 0 {
		return
	}
	now := time.Since(c.base)
	slot, offset := c.slot(key), server-now.Milliseconds()
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, ok := c.samples[slot]; !ok || offset > old.offset || now-old.at > c.fresh {
		c.samples[slot] = sample{offset: offset, at: now}
	}
}

// At returns the server ms that the server of key will have reached, at the least, at the
// time t since base; 0 if nothing is known of it.
func (c *Clocks) At(key string, t time.Duration) int64 {
	slot := c.slot(key)
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.samples[slot]
	if !ok {
		return 0
	}
	return s.offset + t.Milliseconds()
}

// Forget drops all samples: a connection is new, so the server behind it may be another.
func (c *Clocks) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.samples)
}
