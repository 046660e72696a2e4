package core

import "sync"

// registry is the set of tenures that Close has to end, a list through them.
type registry struct {
	mu    sync.Mutex // guards first and all links
	first *tenure
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
}

func (r *registry) all() (all []*tenure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for t := r.first; t != nil; t = t.next {
		all = append(all, t)
	}
	return all
}
