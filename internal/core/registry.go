package core

import "sync"

// registry is the set of tenures that Close has to end, a list through them.
type registry struct {
	mu     sync.Mutex // guards the rest, and all links
	first  *tenure
	byWire map[string]*tenure // of permits, which anybody may ask for
}

// links are a tenure's neighbours in the registry.
type links struct{ previous, next *tenure }

func (r *registry) add(t *tenure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t.next = r.first
	if t.next != nil {
		t.next.previous = t
	}
	r.first = t
	if t.lock.Wires.Ownerless {
		if r.byWire == nil {
			r.byWire = make(map[string]*tenure)
		}
		r.byWire[t.Wire] = t
	}
}

// permits returns those of a semaphore's permits given that the session has. Names that differ by braces
// alone share a channel, and the key of the permits that are taken.
func (r *registry) permits(l *Lock, wires []string) (found []*tenure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, wire := range wires {
		if t := r.byWire[wire]; t != nil && t.lock.Channel == l.Channel {
			found = append(found, t)
		}
	}
	return found
}

func (r *registry) remove(t *tenure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case t.previous != nil:
		t.previous.next = t.next
	case r.first == t:
		r.first = t.next
	default:
		return // not in the list
	}
	if t.next != nil {
		t.next.previous = t.previous
	}
	t.links = links{}
	if t.lock.Wires.Ownerless {
		delete(r.byWire, t.Wire)
	}
}

// any reports whether there is one.
func (r *registry) any() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.first != nil
}

func (r *registry) all() (all []*tenure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for t := r.first; t != nil; t = t.next {
		all = append(all, t)
	}
	return all
}
