package proxy

import (
	"sync"
	"time"
)

// A gate lets through what comes, or holds it.
type gate struct {
	mu      sync.Mutex
	blocked chan struct{} // nil while open; closed to let go
}

func newGate() *gate { return &gate{} }

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.blocked == nil {
		g.blocked = make(chan struct{})
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.blocked != nil {
		close(g.blocked)
		g.blocked = nil
	}
}

// pulse lets go everything that waits at a shut gate, and leaves it shut for what comes later.
func (g *gate) pulse() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.blocked != nil {
		close(g.blocked)
		g.blocked = make(chan struct{})
	}
}

// ticket is closed when the gate is next opened, and already closed if it is open.
func (g *gate) ticket() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.blocked == nil {
		return passed
	}
	return g.blocked
}

// passed is the ticket of an open gate.
var passed = func() chan struct{} {
	ch := make(chan struct{})
	close(ch)
	return ch
}()

// after is a ticket that is closed after d.
func after(d time.Duration) <-chan struct{} {
	ch := make(chan struct{})
	time.AfterFunc(d, func() { close(ch) })
	return ch
}
