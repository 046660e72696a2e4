package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// A worker is the inside of a worker process: its orders, and its voice.
type worker struct {
	setup

	started chan struct{} // closed by the order to start
	linger  chan struct{} // capacity 1; who takes the token has to linger …
	proceed chan struct{} // … until there is one here, of capacity 1, or its ctx ends
	pause   chan struct{} // capacity 1; who takes the token stays away, likewise
	leave   chan struct{} // capacity 1; who takes the token gives up waiting
	keep    chan struct{} // capacity 1; who takes the token goes on reading when it has written
	jobs    chan int      // that were dealt; as many as there are goroutines at the most
	finish  chan struct{} // closed by the order to finish

	mu     sync.Mutex // guards events
	events *json.Encoder
}

// work is the life of a worker process. It ends with its orders, which end with the
// coordinator at the latest.
func work(ctx context.Context, orders io.Reader, events io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	decoder := json.NewDecoder(orders)
	var first order
	if err := decoder.Decode(&first); err != nil || first.Do != setUp || first.Setup == nil {
		return errors.New("demo worker: this command is for the demo alone; use \"holdfast demo\"")
	}
	w := &worker{
		setup:   *first.Setup,
		started: make(chan struct{}),
		linger:  make(chan struct{}, 1),
		proceed: make(chan struct{}, 1),
		pause:   make(chan struct{}, 1),
		leave:   make(chan struct{}, 1),
		keep:    make(chan struct{}, 1),
		jobs:    make(chan int, first.Setup.Goroutines),
		finish:  make(chan struct{}),
		events:  json.NewEncoder(events),
	}
	sc := sceneOf(w.Scene)
	if sc.work == nil {
		return fmt.Errorf("demo worker: no scene %q", w.Scene)
	}
	go func() { // until the end of stdin or of the process
		defer cancel()
		w.obey(decoder)
	}()
	return sc.work(ctx, w)
}

func (w *worker) obey(orders *json.Decoder) {
	for {
		var o order
		if orders.Decode(&o) != nil {
			return
		}
		switch o.Do {
		case start:
			close(w.started)
		case linger:
			w.linger <- struct{}{}
		case proceed:
			w.proceed <- struct{}{}
		case pause:
			w.pause <- struct{}{}
		case leave:
			w.leave <- struct{}{}
		case keep:
			w.keep <- struct{}{}
		case deal:
			w.jobs <- o.Job
		case finish:
			close(w.finish)
		}
	}
}

// tell reports an event. It returns when the coordinator's pipe has it, so that what a
// process has told is not lost when it is killed.
func (w *worker) tell(e event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.events.Encode(e)
}
