package holdfast

import (
	"context"
	"net"
	"sync"
	"time"
)

// The client asks sentinels which server is the master, and closes the connection if there is none where they say. For
// each connection that ends, one more of its goroutines asks again, and again, until a master is there. While a master
// is down, they would soon be thousands, and make hundreds of connections a second. So they have to wait for one, the
// longer the more time this has lasted: a sentinel's next answer is late by a twentieth of that at most.
const (
	leastPace = 20 * time.Millisecond
	mostPace  = 5 * time.Second // as often, the client asks sentinels when all is well
	calm      = 2 * mostPace    // after this long without a new connection, the next one need not wait
)

// A pace is how connections to sentinels follow each other.
type pace struct {
	resolver *net.Resolver // by this one, which is theirs alone, a dialer of sentinels is known; nil: there are none
	over     chan struct{} // closed by the end
	once     sync.Once     // of end

	mu    sync.Mutex
	spans map[string]span // by address; mu guards them
}

// A span is the time in which connections follow each other too soon: from the first to the last one.
type span struct{ first, last time.Time }

// mark makes d known as the dialer of sentinels.
func (p *pace) mark(d *net.Dialer) {
	p.resolver, p.over, p.spans = &net.Resolver{}, make(chan struct{}), make(map[string]span)
	if r := d.Resolver; r != nil {
		p.resolver.PreferGo, p.resolver.StrictErrors, p.resolver.Dial = r.PreferGo, r.StrictErrors, r.Dial
	}
	d.Resolver = p.resolver
}

// marked reports whether d is the dialer of sentinels.
func (p *pace) marked(d *net.Dialer) bool { return p.resolver != nil && d.Resolver == p.resolver }

// await returns when d may connect to an address, or why it may not.
func (p *pace) await(ctx context.Context, addr string, d *net.Dialer) error {
	if !p.marked(d) {
		return nil
	}
	timer := time.NewTimer(time.Until(p.next(addr, time.Now())))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-p.over:
		return net.ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// next is when an address may be connected to that is asked for now.
func (p *pace) next(addr string, now time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.spans[addr]
	if now.Sub(s.last) > calm {
		s = span{now, now}
	} else if next := s.last.Add(min(max(now.Sub(s.first)/20, leastPace), mostPace)); next.After(now) {
		s.last = next
	} else {
		s.last = now
	}
	p.spans[addr] = s
	return s.last
}

// end ends what waits.
func (p *pace) end() {
	p.once.Do(func() {
		if p.over != nil {
			close(p.over)
		}
	})
}
