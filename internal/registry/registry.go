// Package registry is the set of what a session holds: a list through its members, so that it costs no memory of its
// own, and an index of those whom anybody may ask for by what the server knows them by.
package registry

import "sync"

// A Member is what may be in a registry.
type Member[M any] interface {
	comparable
	// Linked is where the member keeps its neighbours; embed [Links].
	Linked() *Links[M]
	// Indexed is the text by which the member can be found, "" if it cannot.
	Indexed() string
}

// Links are a member's neighbours. The zero value is ready.
type Links[M any] struct{ previous, next M }

// Linked returns l, for a member that embeds it.
func (l *Links[M]) Linked() *Links[M] { return l }

// A Registry is a set of members. The zero value is ready.
type Registry[M Member[M]] struct {
	mu      sync.Mutex // guards the rest, and all links
	first   M
	indexed map[string]M
}

// Add adds a member that is not in the registry.
func (r *Registry[M]) Add(m M) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var none M
	l := m.Linked()
	if l.next = r.first; l.next != none {
		l.next.Linked().previous = m
	}
	r.first = m
	if text := m.Indexed(); text != "" {
		if r.indexed == nil {
			r.indexed = make(map[string]M)
		}
		r.indexed[text] = m
	}
}

// Remove takes a member out, if it is in the registry.
func (r *Registry[M]) Remove(m M) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var none M
	l := m.Linked()
	switch {
	case l.previous != none:
		l.previous.Linked().next = l.next
	case r.first == m:
		r.first = l.next
	default:
		return
	}
	if l.next != none {
		l.next.Linked().previous = l.previous
	}
	*l = Links[M]{}
	delete(r.indexed, m.Indexed())
}

// Any reports whether there is a member.
func (r *Registry[M]) Any() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	var none M
	return r.first != none
}

// All are the members, the last that was added first.
func (r *Registry[M]) All() (all []M) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var none M
	for m := r.first; m != none; m = m.Linked().next {
		all = append(all, m)
	}
	return all
}

// Find returns the members of these texts.
func (r *Registry[M]) Find(texts []string) (found []M) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, text := range texts {
		if m, ok := r.indexed[text]; ok {
			found = append(found, m)
		}
	}
	return found
}
