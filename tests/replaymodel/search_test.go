package replaymodel_test

import "github.com/holdfast-go/holdfast/tests/replaymodel"

// explore searches everything that can happen under one set of rules, or until it has seen what is wanted.
func explore(r rules, b bounds, until ...violation) replaymodel.Search {
	return replaymodel.Model[world, step]{
		Start: start(b),
		Moves: func(from world, emit func(step)) { from.moves(r, emit) },
		Tidy:  func(w *world) { w.tidy(r) },
		Check: (*world).check,
	}.Explore(until...)
}

func (s step) After() world { return s.next }

func (s step) Mistake() violation { return s.wrong }
