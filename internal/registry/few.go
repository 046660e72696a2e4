package registry

import "iter"

// Few is a map that most often has one key, which costs it no allocation. The zero value is empty.
type Few[K, V comparable] struct {
	key   K
	value V // none: there is none for key
	more  map[K]V
}

// Get is the value of a key, none if there is none.
func (f *Few[K, V]) Get(key K) V {
	var none V
	if f.value != none && f.key == key {
		return f.value
	}
	return f.more[key]
}

// All are the values, in no order.
func (f *Few[K, V]) All() iter.Seq[V] {
	return func(yield func(V) bool) {
		var none V
		if f.value != none && !yield(f.value) {
			return
		}
		for _, v := range f.more {
			if !yield(v) {
				return
			}
		}
	}
}

// Put adds a key that has no value.
func (f *Few[K, V]) Put(key K, value V) {
	var none V
	switch {
	case f.value == none:
		f.key, f.value = key, value
		return
	case f.more == nil:
		f.more = make(map[K]V)
	}
	f.more[key] = value
}

// Remove takes a key out, if it is there.
func (f *Few[K, V]) Remove(key K) {
	if f.key == key {
		var none V
		f.value = none
	}
	delete(f.more, key)
}
