package proxy

import "sync"

// request is one command on its way through a connection, with what is to be done to it.
type request struct {
	frame
	rule     *Rule // that acts on it; nil: none does
	action   Action
	released <-chan struct{} // closed when it may be forwarded

	confirmed int // of a subscription command: confirmations seen
}

// queue keeps requests in order. It has no limit: a stalled connection accepts everything.
type queue struct {
	mu     sync.Mutex
	items  []*request
	closed bool
	wake   chan struct{} // holds a token when there may be something new for pop
}

func newQueue() *queue { return &queue{wake: make(chan struct{}, 1)} }

func (q *queue) push(r *request) {
	q.mu.Lock()
	q.items = append(q.items, r)
	q.mu.Unlock()
	q.signal()
}

// close says that nothing follows what is already queued.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.signal()
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// pop waits for the next request; false after close, or when done is closed.
func (q *queue) pop(done <-chan struct{}) (*request, bool) {
	for {
		q.mu.Lock()
		if len(q.items) > 0 {
			r := q.items[0]
			q.items = q.items[1:]
			q.mu.Unlock()
			return r, true
		}
		closed := q.closed
		q.mu.Unlock()
		if closed {
			return nil, false
		}
		select {
		case <-q.wake:
		case <-done:
			return nil, false
		}
	}
}

// head is the first request, left in place; nil if there is none.
func (q *queue) head() *request {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) == 0 {
		return nil
	}
	return q.items[0]
}

// drop removes the first request, if there is one.
func (q *queue) drop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) > 0 {
		q.items = q.items[1:]
	}
}
