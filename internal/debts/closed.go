package debts

import (
	"sync"
	"time"
)

// Closed are the holds of type H that have ended because of Close, and the grants of type G that it is to give back.
type Closed[H any, G comparable] struct {
	mu    sync.Mutex // guards the rest
	ended []ClosedHold[H]
	left  []G
}

// A ClosedHold is a hold that has ended because of Close, after that time.
type ClosedHold[H any] struct {
	Hold H
	Held time.Duration
}

// End adds a hold that has ended.
func (c *Closed[H, G]) End(h H, held time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = append(c.ended, ClosedHold[H]{h, held})
}

// Ended are the holds of which nobody has been told so far.
func (c *Closed[H, G]) Ended() (ended []ClosedHold[H]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ended, c.ended = c.ended, nil
	return ended
}

// Leave leaves a grant to Close to give back.
func (c *Closed[H, G]) Leave(g G) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = append(c.left, g)
}

// Left are the grants that have been left since the last call, each with those that are to be given back with it.
func (c *Closed[H, G]) Left(with func(g G) []G) (left []G) {
	c.mu.Lock()
	grants := c.left
	c.left = nil
	c.mu.Unlock()
	for _, g := range grants {
		left = append(left, g)
		for _, other := range with(g) {
			if other != g {
				left = append(left, other)
			}
		}
	}
	return left
}
