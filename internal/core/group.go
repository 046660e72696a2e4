package core

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// A group is several holds as one. It ends when the first of them does; the others are then given
// back.
type group struct {
	name    string
	members []*Hold
	owner   *Owner // of all

	ended    atomic.Pointer[ending]
	mu       sync.Mutex // guards the rest
	contexts contexts
	watches  []func() bool // each ends one
	back     chan struct{} // closed when all are given back, after one has ended by itself; nil else
	left     int           // how many are not
	failures []error       // of those that are
}

// Join makes one hold of several that were taken under ctx's owner.
func Join(ctx context.Context, name string, members []*Hold) *Hold {
	g := &group{name: name, members: members, owner: ownerOf(ctx)}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range members {
		end := context.AfterFunc(m.Context(context.Background()), func() { _ = g.err() })
		g.watches = append(g.watches, end)
	}
	return &Hold{group: g}
}

// err asks all members. If one has ended, it is why the group has.
func (g *group) err() error {
	if e := g.ended.Load(); e != nil {
		return e.err
	}
	for _, m := range g.members {
		if why := m.Err(); why != nil {
			g.dissolve(&ending{why})
			return g.ended.Load().err
		}
	}
	return nil
}

// dissolve ends the group because one of the members has ended, and gives the others back.
func (g *group) dissolve(why *ending) {
	if !g.finish(why, len(g.members)) {
		return
	}
	for _, m := range g.members {
		if m.Err() != nil {
			g.gaveBack(nil)
			continue
		}
		m.background(func() { g.gaveBack(m.Release()) })
	}
}

// gaveBack takes in that one more member is given back.
func (g *group) gaveBack(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil {
		g.failures = append(g.failures, err)
	}
	if g.left--; g.left == 0 {
		close(g.back)
	}
}

// background runs f in a goroutine of the hold's session, at once if that is closed.
func (h *Hold) background(f func()) {
	for h.group != nil {
		h = h.group.members[0]
	}
	if !h.lock.session.start(f) {
		f()
	}
}

// finish makes why the end of the group, and reports whether it had none. So many members will be given
// back afterwards.
func (g *group) finish(why *ending, left int) bool {
	g.mu.Lock()
	first := g.ended.CompareAndSwap(nil, why)
	contexts, watches := g.contexts.first, g.watches
	if first {
		g.contexts.first, g.watches = nil, nil
		if g.left = left; left > 0 {
			g.back = make(chan struct{})
		}
	}
	g.mu.Unlock()
	if !first {
		return false
	}
	for _, end := range watches {
		end()
	}
	for ctx := contexts; ctx != nil; ctx = ctx.next {
		ctx.cancel(why.err)
	}
	return true
}

func (g *group) context(ctx context.Context, h *Hold) context.Context {
	inner, cancel := context.WithCancelCause(ctx)
	c := &holdContext{Context: inner, cancel: cancel, hold: h, owner: g.owner}
	g.mu.Lock()
	ending := g.ended.Load()
	if ending == nil {
		g.contexts.add(c)
	}
	g.mu.Unlock()
	if ending != nil {
		cancel(ending.err)
	}
	return c
}

// deadline is the first of the members'.
func (g *group) deadline() time.Time {
	first := g.members[0].Deadline()
	for _, m := range g.members[1:] {
		if d := m.Deadline(); d.Before(first) {
			first = d
		}
	}
	return first
}

// each does something to all members at once and returns all errors.
func (g *group) each(do func(m *Hold) error) error {
	errs := make([]error, len(g.members))
	var all sync.WaitGroup
	for i, m := range g.members[1:] {
		all.Go(func() { errs[i+1] = do(m) })
	}
	errs[0] = do(g.members[0])
	all.Wait()
	return errors.Join(errs...)
}

func (g *group) extend(ctx context.Context, d time.Duration) error {
	if err := g.err(); err != nil {
		return err
	}
	return g.each(func(m *Hold) error { return m.Extend(ctx, d) })
}

func (g *group) detach() error {
	if err := g.err(); err != nil {
		return err
	}
	if !g.finish(detachedEnd, 0) {
		return g.err()
	}
	return g.each((*Hold).Detach)
}

// release gives all members back. If one of them has ended by itself, it waits for what gives the
// others back, and returns everything that went wrong.
func (g *group) release() error {
	if g.err() == nil && g.finish(releasedEnd, 0) {
		return g.each((*Hold).Release)
	}
	g.mu.Lock()
	back := g.back
	g.mu.Unlock()
	if back != nil {
		<-back // soon: every release is bounded
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return errors.Join(append([]error{g.ended.Load().err}, g.failures...)...)
}
