// Package registry lets a session or an owner find things by a key: permits, which anybody may ask for by their ids,
// and claims.
package registry

import "sync"

// A Registry is a set of members that can be found, each by a text of its own. The zero value is ready.
type Registry[M any] struct {
	mu      sync.Mutex // guards the rest
	members map[string]M
}

// Add adds a member.
func (r *Registry[M]) Add(text string, m M) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.members == nil {
		r.members = make(map[string]M)
	}
	r.members[text] = m
}

// Remove takes the member of a text out, if there is one.
func (r *Registry[M]) Remove(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.members, text)
}

// Find returns the members of these texts.
func (r *Registry[M]) Find(texts []string) (found []M) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, text := range texts {
		if m, ok := r.members[text]; ok {
			found = append(found, m)
		}
	}
	return found
}
