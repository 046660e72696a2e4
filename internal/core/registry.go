package core

import "sync"

// registry is the set of grants that Close has to end, a list through them.
type registry struct {
	mu     sync.Mutex // guards the rest, and all links
	first  *grant
	byWire map[string]*grant // of permits, which anybody may ask for
}

// links are a grant's neighbours in the registry.
type links struct{ previous, next *grant }

func (r *registry) add(g *grant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	g.next = r.first
	if g.next != nil {
		g.next.previous = g
	}
	r.first = g
	if g.lock.Wires.Ownerless {
		if r.byWire == nil {
			r.byWire = make(map[string]*grant)
		}
		r.byWire[g.Wire] = g
	}
}

// permits returns those of a semaphore's permits given that the session has. Names that differ by braces
// alone share a channel, and the key of the permits that are taken.
func (r *registry) permits(l *Lock, wires []string) (found []*grant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, wire := range wires {
		if g := r.byWire[wire]; g != nil && g.lock.Channel == l.Channel {
			found = append(found, g)
		}
	}
	return found
}

func (r *registry) remove(g *grant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case g.previous != nil:
		g.previous.next = g.next
	case r.first == g:
		r.first = g.next
	default:
		return // not in the list
	}
	if g.next != nil {
		g.next.previous = g.previous
	}
	g.links = links{}
	if g.lock.Wires.Ownerless {
		delete(r.byWire, g.Wire)
	}
}

// any reports whether there is one.
func (r *registry) any() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.first != nil
}

func (r *registry) all() (all []*grant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for g := r.first; g != nil; g = g.next {
		all = append(all, g)
	}
	return all
}
