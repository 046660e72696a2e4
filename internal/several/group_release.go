package several

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/lease"
)

// Release gives all members back. If the group has ended by itself, it waits for what gives the
// others back, and returns everything that went wrong.
func (g *group) Release() error {
	if g.Err() == nil && g.finish(releasedEnd, 0) {
		ended := releasedEnd
		defer func() { g.tellEnd(ended, time.Since(g.began)) }()
		defer g.wakeNext()
		defer g.giveWay()
		err := g.releaseMembers()
		if errors.Is(err, core.ErrLost) {
			ended = &ending{err: err}
		}
		return err
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

// giveWay has those of this process stand back for a moment if others have been told of the release: who has
// just had the lock asks sooner than anybody who has to be told.
func (g *group) giveWay() {
	if g.quorum == nil {
		return
	}
	for _, m := range *g.members.Load() {
		if m.hold == nil {
			continue
		}
		if m.single().Told() > 0 {
			_, name := g.quorum.line()
			of(g.quorum.Session()).ways.give(name, time.Now().Add(askLater(g.took)))
			return
		}
	}
}

// wakeNext has the next one of this process look who waits for the same servers.
func (g *group) wakeNext() {
	if g.quorum != nil {
		line, name := g.quorum.line()
		line.Wake(name)
	}
}

func (g *group) releaseMembers() error {
	if g.batch == nil {
		return g.each(g.releaseMember)
	}
	var holds []*core.Single
	for _, m := range *g.members.Load() {
		holds = append(holds, m.single())
	}
	return g.batch.release(holds)
}

func (g *group) releaseMember(m *member) error {
	if g.quorum == nil {
		return m.hold.Release()
	}
	length := m.single().Of().Length()
	return m.single().ReleaseWithin(min(g.quorum.timeout(length), lease.Bound(length)))
}

// dissolve ends the group because too many members have ended, and gives the others back.
func (g *group) dissolve() {
	why := g.why()
	if !g.finish(why, len(*g.members.Load())) {
		return
	}
	go g.tellEnd(why, time.Since(g.began)) // whoever has noticed it may be in the middle of anything
	first := true
	for _, m := range *g.members.Load() {
		if m.missing() {
			var err error
			if g.quorum == nil && !first { // why says that of the first, or of all
				err = m.hold.Err()
			}
			first = false
			g.gaveBack(err)
			continue
		}
		giveBack := func() {
			err := errUndone
			defer func() { g.gaveBack(err) }() // also if an observer ends the goroutine
			err = g.releaseMember(&m)
		}
		if !m.hold.Session().Start(giveBack) {
			giveBack()
		}
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
		g.wakeNext()
	}
}

// Detach ends the hold here and leaves all members on their servers.
func (g *group) Detach() error {
	if err := g.Err(); err != nil {
		return err
	}
	if !g.finish(detachedEnd, 0) {
		return g.Err()
	}
	defer func() { g.tellEnd(detachedEnd, time.Since(g.began)) }()
	return g.each(func(m *member) error { return m.hold.Detach() })
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
