package session

import (
	"math"
	"sync/atomic"
)

// An admission counts the calls under way, until it is closed and admits no more. It replaces a mutex, a flag and a
// WaitGroup by one atomic number: every call passes it twice.
type admission struct {
	n    atomic.Int64 // under way; plus shut once it is closed
	idle chan struct{}
}

const shut = math.MinInt64

func newAdmission() *admission { return &admission{idle: make(chan struct{})} }

// enter admits one more, to be given back with leave, or reports that it is closed.
func (a *admission) enter() bool {
	for {
		n := a.n.Load()
		if n < 0 {
			return false
		}
		if a.n.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// busy reports whether anything is under way.
func (a *admission) busy() bool { return a.n.Load()&^shut > 0 }

func (a *admission) leave() {
	if a.n.Add(-1) == shut {
		close(a.idle)
	}
}

// close admits no more calls, and returns a channel that is closed when none is under way any longer. It is called
// once.
func (a *admission) close() <-chan struct{} {
	if a.n.Add(shut) == shut {
		close(a.idle)
	}
	return a.idle
}
