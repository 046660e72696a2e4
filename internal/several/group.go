// Package several makes holds of several locks: of any locks, if it needs all of them, or of locks on independent
// servers, if it needs most of them.
package several

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/scope"
	"github.com/holdfast-go/holdfast/internal/session"
)

// A group is several holds as one, which lives while as many of them do as it needs. When it ends by
// itself those that are left are given back.
type group struct {
	behaviour behaviour
	label     session.Label
	need      int
	owner     *core.Owner // of all
	began     time.Time

	ended   atomic.Pointer[ending]
	members atomic.Pointer[[]member] // when it is taken, a new slice for each change
	sure    atomic.Int64             // as many members as it needs were held then; time.Duration since it began

	mu       sync.Mutex // guards the rest, and changes of members
	taken    bool       // it has begun to be held; until then it cannot be lost, and nobody else looks at the members
	contexts scope.Contexts
	back     chan struct{} // closed when all are given back, after it has ended by itself; nil else
	observed func(held time.Duration, why error)
	asked    chan struct{} // closed when others ask for any of the locks; nil unless that is to be known
	last     time.Time     // the deadline when it ended
	left     int           // how many are not given back yet
	failures []error       // of those that have ended by themselves, or could not be given back
}

// A behaviour is that in which a group of any locks ([allOf]) and the group of a quorum ([quorumGroup]) differ.
type behaviour interface {
	// Session is where the goroutines run that are no member's.
	Session() *session.Session
	// patience is how long members are waited for that are being given back; nil: for all.
	patience() *enough
	// lost is the end of the group, too many of whose members have ended, after it was held for so long; and what else
	// went wrong.
	lost(ended []int, held time.Duration) (why *ending, besides []error)
	// releaseAll gives all members back.
	releaseAll() error
	// tend is called when a member may be missing.
	tend()
	// stop ends what tend has begun. mu is held.
	stop()
	// freed is called when all members are given back.
	freed()
}

// An ending is why a group ended.
type ending struct {
	err  error
	loss error // why the group was lost; nil: it was not, or its members report it
}

var (
	releasedEnd = &ending{err: session.ErrNotHeld} // or detached
	closedEnd   = &ending{err: session.ErrClosed}
)

// A member is one hold of a group.
type member struct {
	hold   session.Holding // nil: not granted so far
	since  time.Duration   // it counts from then on, since the group began
	run    int64           // of its server
	asking bool            // a call for it is under way
	busy   bool            // somebody else had it when it was asked for last
}

// single is the hold of a member of a quorum or of a batch.
func (m *member) single() *core.Single { return m.hold.(*core.Single) }

func (m *member) missing() bool { return m.hold == nil || m.hold.Err() != nil }

// heldSince reports whether the member has counted from that moment to this one.
func (m *member) heldSince(moment time.Duration) bool { return m.since <= moment && !m.missing() }

// init makes g a group of that behaviour, which ctx's owner has.
func (g *group) init(ctx context.Context, b behaviour, label session.Label, need int, members []member) {
	g.behaviour, g.label, g.need, g.owner, g.began = b, label, need, core.OwnerOf(ctx), time.Now()
	g.members.Store(&members)
}

// Label is the joint name of the locks.
func (g *group) Label() *session.Label { return &g.label }

// ID is empty: each server knows its member alone.
func (g *group) ID() string { return "" }

// Token is 0: servers that do not know of each other have no tokens that increase.
func (g *group) Token() int64 { return 0 }

// Asked is the channel by which others ask for any of the locks. Whoever calls it first closes it when they do.
func (g *group) Asked() (asked chan struct{}, first bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if first = g.asked == nil; first {
		g.asked = make(chan struct{})
	}
	return g.asked, first
}

// Members are the holds that it has by now.
func (g *group) Members() (all []session.Holding) {
	for _, m := range *g.members.Load() {
		if m.hold != nil {
			all = append(all, m.hold)
		}
	}
	return all
}

// begin notices the end of any member from now on.
func (g *group) begin(ctx context.Context) {
	g.mu.Lock()
	g.taken = true
	g.certain() // members that have joined meanwhile count
	ended := context.CancelCauseFunc(g.memberEnded)
	for _, m := range *g.members.Load() {
		if m.hold != nil {
			m.hold.Watch(ended)
		}
	}
	g.mu.Unlock()
	observed := g.behaviour.Session().Holding(ctx, &g.label, g)
	g.mu.Lock()
	g.observed = observed
	why := g.ended.Load()
	g.mu.Unlock()
	g.behaviour.tend()
	if why != nil { // in between, when nobody could be told
		g.tellEnd(&ending{err: why.err}, time.Since(g.began))
	}
}

// memberEnded looks whether enough of the members are left, unless they are being given back.
func (g *group) memberEnded(error) {
	if g.ended.Load() != nil {
		return
	}
	go func() { // its caller may be in the middle of anything
		if g.Err() == nil {
			g.behaviour.tend()
		}
	}()
}

// change changes the members. mu is held.
func (g *group) change(do func(members []member)) {
	if !g.taken {
		do(*g.members.Load())
		return
	}
	members := slices.Clone(*g.members.Load())
	do(members)
	g.members.Store(&members)
}

// Err asks the members. If not enough of them are held, or not without a break, the group has ended.
func (g *group) Err() error {
	if e := g.ended.Load(); e != nil {
		return e.err
	}
	if g.certain() {
		return nil
	}
	g.dissolve()
	return g.ended.Load().err
}

// certain reports whether as many members as are needed have been held since that was so the last time. A later
// acquisition does not make up for a loss: others may have had the lock in between.
func (g *group) certain() bool {
	now, sure := time.Since(g.began), time.Duration(g.sure.Load())
	held, members := 0, *g.members.Load()
	for i := range members {
		if members[i].heldSince(sure) {
			held++
		}
	}
	if held < g.need {
		return false
	}
	if now > sure {
		g.sure.CompareAndSwap(int64(sure), int64(now))
	}
	return true
}

// finish makes why the end of the group, and reports whether it had none; the caller reports it afterwards. Then it
// gives back as many members as are left.
func (g *group) finish(why *ending, left int) bool {
	g.mu.Lock()
	if g.ended.Load() != nil {
		g.mu.Unlock()
		return false
	}
	g.last = g.deadline()
	g.ended.Store(why)
	contexts := g.contexts.Close()
	g.behaviour.stop()
	if g.left = left; left > 0 {
		g.back = make(chan struct{})
	}
	g.mu.Unlock()
	contexts.EndAll(why.err)
	return true
}

// tellEnd reports that the group has ended, and how long it lasted.
func (g *group) tellEnd(why *ending, held time.Duration) {
	defer func() {
		g.mu.Lock()
		observed := g.observed
		g.observed = nil
		g.mu.Unlock()
		switch {
		case observed == nil:
		case errors.Is(why.err, session.ErrNotHeld) && !errors.Is(why.err, session.ErrLost): // or a member was handed over
			observed(held, nil)
		default:
			observed(held, why.err)
		}
	}()
	g.behaviour.Session().LogLoss(&g.label, why.loss, held)
}

// Context returns ctx with the owner of all members, ended when either ends.
func (g *group) Context(ctx context.Context) *scope.Context {
	return g.contexts.New(ctx, &g.mu, g, g.owner)
}

// LogUnreachable is LogUnreachable of a member that is held.
func (g *group) LogUnreachable(label *session.Label) {
	for _, m := range *g.members.Load() {
		if !m.missing() {
			m.hold.LogUnreachable(label)
			return
		}
	}
}

// Watch calls ended when the group ends.
func (g *group) Watch(ended context.CancelCauseFunc) { g.contexts.Watch(&g.mu, g, ended) }

// Deadline returns the deadline of the members that are needed: until then as many are trusted. It stays when the group
// has ended.
func (g *group) Deadline() time.Time {
	if g.Err() == nil { // and members that have joined count
		return g.deadline()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.last
}

// deadline is that of the members that are held. If they are too few, it is that of those that were: as many as are
// needed were trusted until then.
func (g *group) deadline() time.Time {
	until := g.deadlines(func(m *member) bool { return !m.missing() })
	if len(until) < g.need {
		until = g.deadlines(func(m *member) bool { return m.hold != nil })
	}
	if len(until) < g.need { // as many were never held
		return time.Time{}
	}
	slices.SortFunc(until, time.Time.Compare)
	return until[len(until)-g.need]
}

// deadlines are those of some of the members that count.
func (g *group) deadlines(of func(m *member) bool) []time.Time {
	members, sure := *g.members.Load(), time.Duration(g.sure.Load())
	deadlines := make([]time.Time, 0, len(members))
	for i := range members {
		if m := &members[i]; m.since <= sure && of(m) {
			deadlines = append(deadlines, m.hold.Deadline())
		}
	}
	return deadlines
}

// held is how long as many members as are needed have been held so far.
func (g *group) held() time.Duration { return min(time.Since(g.began), g.deadline().Sub(g.began)) }
