package several

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/session"
)

// A quorumGroup is a group of locks on independent servers that needs most of them.
type quorumGroup struct {
	group
	quorum *Quorum
	note   string        // of the call, for members that come later
	took   time.Duration // to be granted by enough servers

	// guarded by mu
	again    *time.Timer   // when to ask for members that are missing; nil: none are, or they are being asked
	delay    time.Duration // until then
	ripening []*time.Timer // of members that are young
}

// newGroup makes the group of an attempt, in which every server is to be asked.
func (q *Quorum) newGroup(ctx context.Context) *quorumGroup {
	members := make([]member, len(q.Locks))
	for i := range members {
		members[i].asking = true // or tend would ask one that the attempt comes to late a second time
	}
	g := &quorumGroup{quorum: q, note: session.NoteIn(ctx)}
	g.init(ctx, g, q.Label, q.need(), members)
	return g
}

// Session returns the session of the first lock.
func (g *quorumGroup) Session() *session.Session { return g.quorum.Session() }

// verdict returns nil if the grants are enough, otherwise why they are not.
func (g *quorumGroup) verdict(errs []error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.sure.Store(int64(time.Since(g.began))); !g.certain() {
		return g.quorum.tooFew(errs)
	}
	runs := make(map[int64]bool)
	for _, m := range *g.members.Load() {
		if m.run != 0 && runs[m.run] {
			return errAlike
		}
		runs[m.run] = true
	}
	if left := time.Until(g.deadline()); left <= 0 || left < g.quorum.MinValidity {
		return &script.Failure{Class: script.Refused, Temporary: true, Err: fmt.Errorf("%w: %v", errShort, left)}
	}
	return nil
}

// giveBack gives back the grants of an attempt that has failed. It waits for that until ctx ends, and a little longer;
// it goes on all the same.
func (g *quorumGroup) giveBack(ctx context.Context) {
	patience := g.patience()
	over, stop := soonAfter(ctx)
	defer stop()
	patience.need, patience.ends = len(g.quorum.Locks), over
	_ = g.each(patience, release)
}

// Extend gives as many members as are needed a lease of at least d from now.
func (g *quorumGroup) Extend(ctx context.Context, d time.Duration) error {
	if err := g.Err(); err != nil {
		return err
	}
	if err := g.quorum.mayExtend(d); err != nil {
		return err
	}
	patience := g.patience()
	patience.limit = g.quorum.asking()
	err := g.each(patience, func(m *member) error {
		within, cancel := g.quorum.within(ctx)
		defer cancel()
		err := m.hold.Extend(within, d)
		if ctx.Err() == nil {
			err = answered(err)
		}
		if err == nil && m.since > time.Since(g.began) {
			return g.label.Fail("extend", session.Unknown(errYoung))
		}
		return err
	})
	if lost := g.Err(); lost != nil {
		return lost
	}
	return err
}

// mayExtend refuses a lease for which a server that restarts is not doubted.
func (q *Quorum) mayExtend(d time.Duration) error {
	if _, longest := q.Leases(); d > longest && !q.TrustRestarted {
		return q.Fail("extend", fmt.Errorf("lease is %v, must be at most %v, the one it was taken with: "+
			"a server that restarts is doubted for no longer", d, longest))
	}
	return nil
}

func (g *quorumGroup) patience() *enough {
	shortest, _ := g.quorum.Leases()
	limit := min(g.quorum.timeout(), lease.Bound(shortest))
	return &enough{need: g.need, missing: len(g.quorum.Locks), limit: limit}
}

func (g *quorumGroup) releaseAll() error {
	defer g.giveWay()
	return g.each(g.patience(), release)
}

// giveWay makes the waiters of this process stand back for a moment if others were told of the release: this process
// would ask before the message reaches them.
func (g *quorumGroup) giveWay() {
	for _, m := range *g.members.Load() {
		if m.hold != nil && m.single().Told() > 0 {
			_, name := g.quorum.line()
			of(g.Session()).ways.give(name, time.Now().Add(askLater(g.took)))
			return
		}
	}
}

// freed wakes the next waiter of this process.
func (g *quorumGroup) freed() {
	line, name := g.quorum.line()
	line.Wake(name)
}
