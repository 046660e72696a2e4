package several

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/session"
)

// Release gives all members back. If the group has ended by itself, it waits for what gives the
// others back, and returns everything that went wrong.
func (g *group) Release() error {
	if g.Err() == nil && g.finish(releasedEnd, 0) {
		ended := releasedEnd
		defer func() { g.tellEnd(ended, time.Since(g.began)) }()
		defer g.behaviour.freed()
		err := g.behaviour.releaseAll()
		if errors.Is(err, session.ErrLost) {
			ended = &ending{err: err}
		}
		return err
	}
	g.mu.Lock()
	back := g.back
	g.mu.Unlock()
	why := []error{g.ended.Load().err}
	if back != nil {
		patience := g.behaviour.patience()
		over, _ := patience.begin()
		defer patience.end()
		select {
		case <-back: // soon: every release is bounded
		case <-over:
			why = append(why, errUndone)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return errors.Join(append(why, g.failures...)...)
}

// LetGo gives holds back that make up no group, at once; nil is none. It waits for that until ctx ends, and a little
// longer; it goes on all the same.
func LetGo(ctx context.Context, holds []*core.Hold) {
	if holds = slices.DeleteFunc(holds, func(h *core.Hold) bool { return h == nil }); len(holds) == 0 {
		return
	}
	over, stop := soonAfter(ctx)
	defer stop()
	atOnce(len(holds), &enough{limit: session.Forever, ends: over},
		func(i int) *session.Session { return holds[i].Inside().Session() },
		func(i int) error {
			defer runtime.KeepAlive(holds[i]) // it is in use
			return holds[i].Inside().Release()
		})
}

// soonAfter returns a channel that is closed a little after ctx has ended, unless stop was called before that.
func soonAfter(ctx context.Context) (over chan struct{}, stop func() bool) {
	over = make(chan struct{})
	return over, context.AfterFunc(ctx, func() { time.AfterFunc(session.Grace, func() { close(over) }) })
}

// dissolve ends the group because too many members have ended, and gives the others back.
func (g *group) dissolve() {
	var ended []int
	for i, m := range *g.members.Load() {
		if m.missing() {
			ended = append(ended, i)
		}
	}
	held := g.held()
	why, besides := g.behaviour.lost(ended, held)
	if !g.finish(why, len(*g.members.Load())) {
		return
	}
	go g.tellEnd(why, held) // its caller may be in the middle of anything
	g.gaveBack(0, besides...)
	for i, m := range *g.members.Load() {
		if m.missing() && slices.Contains(ended, i) || m.hold == nil {
			g.gaveBack(1)
			continue
		}
		go func() { // Close does not wait for it: an observer that is told of the end may close the session
			err := errUndone
			defer func() { g.gaveBack(1, err) }() // also if an observer ends the goroutine
			err = release(&m)
		}()
	}
}

// gaveBack records that n more members are given back, and what went wrong.
func (g *group) gaveBack(n int, failures ...error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failures = append(g.failures, failures...)
	if g.left -= n; n > 0 && g.left == 0 {
		close(g.back)
		g.behaviour.freed()
	}
}

// Detach ends the hold here and leaves all members on their servers.
func (g *group) Detach() error {
	if err := g.Err(); err != nil {
		return err
	}
	if !g.finish(releasedEnd, 0) {
		return g.Err()
	}
	defer func() { g.tellEnd(releasedEnd, time.Since(g.began)) }()
	return g.each(nil, func(m *member) error { return m.hold.Detach() })
}

// Lose makes all members end as lost.
func (g *group) Lose(why error) (tell func(ctx context.Context), err error) {
	err = g.Err()
	var tells []func(ctx context.Context)
	for _, m := range *g.members.Load() {
		if m.hold != nil {
			tell, _ := m.hold.Lose(why) // some may have ended because others have
			tells = append(tells, tell)
		}
	}
	return func(ctx context.Context) {
		for _, tell := range tells {
			tell(ctx)
		}
	}, err
}
