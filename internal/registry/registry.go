// Package registry lets a session or an owner find things by a key: permits, which anybody may ask for by their ids,
// and claims.
package registry

import "sync"

// A Member is something that a registry can hold.
type Member interface {
	// Indexed is the text by which the member can be found, "" if it cannot.
	Indexed() string
}

// A Registry is a set of members that can be found. The zero value is ready.
type Registry[M Member] struct {
	mu      sync.Mutex // guards the rest
	indexed map[string]M
}

// Add adds a member that is not in the registry, unless it cannot be found.
func (r *Registry[M]) Add(m M) {
	text := m.Indexed()
	if text == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.indexed == nil {
		r.indexed = make(map[string]M)
	}
	r.indexed[text] = m
}

// Remove takes a member out, if it is in the registry.
func (r *Registry[M]) Remove(m M) {
	text := m.Indexed()
	if text == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.indexed, text)
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
