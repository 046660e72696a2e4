package several

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/session"
)

// allOf is a group of any locks that needs all of them.
type allOf struct {
	group
	batch *Batch // that one call has taken, and may give back; may be nil
}

// Join makes one hold of several that were taken under ctx's owner. It needs all of them.
func Join(ctx context.Context, label session.Label, holds []*core.Hold) *core.Hold {
	members := make([]member, len(holds))
	for i, h := range holds {
		h.Keep() // it is given back with the others
		members[i].hold = h.Inside()
	}
	return join(ctx, label, members, nil)
}

func join(ctx context.Context, label session.Label, members []member, b *Batch) *core.Hold {
	g := &allOf{batch: b}
	g.init(ctx, g, label, len(members), members)
	h := core.NewHold(g)
	Guard(h, func() { g.begin(ctx) })
	return h
}

// Guard does something that calls code of the user's. If that panics or ends the goroutine, nobody gets the hold, if
// there is one, and it is given back.
func Guard(h *core.Hold, do func()) {
	done := false
	defer func() {
		if !done && h != nil {
			_ = h.Inside().Release()
		}
	}()
	do()
	done = true
}

// Session returns the session of the first member.
func (g *allOf) Session() *session.Session { return (*g.members.Load())[0].hold.Session() }

// Extend gives all members a lease of at least d from now.
func (g *allOf) Extend(ctx context.Context, d time.Duration) error {
	if err := g.Err(); err != nil {
		return err
	}
	return g.each(nil, func(m *member) error { return m.hold.Extend(ctx, d) })
}

func (g *allOf) patience() *enough { return nil }

// lost returns the end of the first member that has ended, and those of others besides.
func (g *allOf) lost(ended []int, _ time.Duration) (first *ending, others []error) {
	members := *g.members.Load()
	for _, i := range ended[1:] {
		others = append(others, members[i].hold.Err())
	}
	return &ending{err: members[ended[0]].hold.Err()}, others
}

func (g *allOf) releaseAll() error {
	if g.batch == nil {
		return g.each(nil, release)
	}
	var holds []*core.Single
	for _, m := range *g.members.Load() {
		holds = append(holds, m.single())
	}
	return g.batch.release(holds)
}

func (g *allOf) tend()  {}
func (g *allOf) stop()  {}
func (g *allOf) freed() {}
