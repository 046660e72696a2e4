package core

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/scope"
)

// A group is several holds as one, which lives while as many of them do as it needs. When it ends by
// itself those that are left are given back.
type group struct {
	label  Label
	need   int
	owner  *Owner  // of all
	quorum *Quorum // of independent servers; nil: of any locks, all of which it needs
	batch  *Batch  // that one call has taken, and may give back; else nil
	began  time.Time
	took   time.Duration // to be granted by enough servers

	ended   atomic.Pointer[ending]
	members atomic.Pointer[[]member] // a new slice for each change
	sure    atomic.Int64             // as many members as it needs were held then; time.Duration since it began

	mu       sync.Mutex // guards the rest, and changes of members
	taken    bool       // it has begun to be held; until then it cannot be lost
	contexts scope.Contexts
	again    *time.Timer   // when to ask for members that are missing; nil: none are, or they are being asked
	delay    time.Duration // until then
	ripening []*time.Timer // of members that are young
	back     chan struct{} // closed when all are given back, after it has ended by itself; nil else
	observed func(held time.Duration, why *ending)
	left     int     // how many are not
	failures []error // of those that are
}

// A member is one hold of a group.
type member struct {
	hold    Holding       // nil: not granted so far
	since   time.Duration // it counts from then on, since the group began
	run     int64         // of its server
	asking  bool          // a call for it is under way
	unwatch func() bool
}

// single is a member of a quorum or of a batch.
func (m *member) single() *Single { return m.hold.(*Single) }

func (m *member) missing() bool { return m.hold == nil || m.hold.Err() != nil }

// heldSince reports whether the member has counted from that moment to this one.
func (m *member) heldSince(moment time.Duration) bool { return m.since <= moment && !m.missing() }

// Join makes one hold of several that were taken under ctx's owner, all of which it needs.
func Join(ctx context.Context, label Label, holds []*Hold) *Hold {
	members := make([]member, len(holds))
	for i, h := range holds {
		members[i].hold = h.Holding
	}
	return join(ctx, label, members, nil)
}

func join(ctx context.Context, label Label, members []member, b *Batch) *Hold {
	g := &group{label: label, need: len(members), owner: ownerOf(ctx), began: time.Now(), batch: b}
	g.members.Store(&members)
	h := &Hold{g}
	h.Guard(func() { g.begin(ctx) })
	return h
}

// Label is what the locks are called together.
func (g *group) Label() *Label { return &g.label }

// Session is where the group's goroutines run that are no member's.
func (g *group) Session() *Session {
	if g.quorum != nil {
		return g.quorum.session
	}
	return (*g.members.Load())[0].hold.Session()
}

// ID is empty: each server knows its member alone.
func (g *group) ID() string { return "" }

// Token is 0: servers that do not know of each other have no tokens that increase.
func (g *group) Token() int64 { return 0 }

// begin has the end of any member be noticed from now on.
func (g *group) begin(ctx context.Context) {
	observed := g.Session().holding(ctx, &g.label)
	g.mu.Lock()
	g.taken = true
	g.change(func(members []member) {
		for i := range members {
			g.watch(&members[i])
		}
	})
	g.observed = observed
	ended := g.ended.Load()
	g.mu.Unlock()
	g.tend()
	if ended != nil { // in between, when nobody could be told
		g.tellEnd(&ending{err: ended.err}, time.Since(g.began))
	}
}

// watch has the end of a member be noticed. mu is held.
func (g *group) watch(m *member) {
	if m.hold == nil {
		return
	}
	m.unwatch = context.AfterFunc(m.hold.Context(context.Background()), func() {
		if g.Err() == nil {
			g.tend()
		}
	})
}

// change changes the members. mu is held.
func (g *group) change(do func(members []member)) {
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

// certain reports whether as many members as are needed have been held since that was so the last time.
// What was had later does not make up for what has been lost: others may have had the lock in between.
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

// why is the end of a group that has ended by itself: that of its first member, or those of all servers.
func (g *group) why() *ending {
	members := *g.members.Load()
	if g.quorum != nil {
		return g.quorum.lost(time.Since(g.began), members)
	}
	i := slices.IndexFunc(members, func(m member) bool { return m.missing() })
	return &ending{err: members[i].hold.Err()}
}

// finish makes why the end of the group, and reports whether it had none; whoever ends it tells of it
// afterwards. So many members will be given back then.
func (g *group) finish(why *ending, left int) bool {
	g.mu.Lock()
	first := g.ended.CompareAndSwap(nil, why)
	var contexts *scope.Context
	if first {
		contexts = g.contexts.Close()
		if g.again != nil {
			g.again.Stop()
		}
		for _, t := range g.ripening {
			t.Stop()
		}
		g.ripening = nil
		if g.left = left; left > 0 {
			g.back = make(chan struct{})
		}
	}
	g.mu.Unlock()
	if !first {
		return false
	}
	for _, m := range *g.members.Load() {
		if m.unwatch != nil {
			m.unwatch()
		}
	}
	contexts.EndAll(why.err)
	return true
}

// tellEnd says that the group has ended, after so long.
func (g *group) tellEnd(why *ending, held time.Duration) {
	defer func() {
		g.mu.Lock()
		observed := g.observed
		g.observed = nil
		g.mu.Unlock()
		if observed != nil {
			observed(held, why)
		}
	}()
	g.Session().logLoss(&g.label, why, held)
}

// Context returns ctx with the owner of all members, ended when either ends.
func (g *group) Context(ctx context.Context) context.Context {
	return g.contexts.New(ctx, &g.mu, g, g.owner)
}

// Deadline is that of the members who are needed: until then as many are trusted. Of a group that has
// ended it is the first of all.
func (g *group) Deadline() time.Time {
	_ = g.Err() // whoever has joined counts
	var all, held []time.Time
	for _, m := range *g.members.Load() {
		if m.hold == nil {
			continue
		}
		all = append(all, m.hold.Deadline())
		if m.heldSince(time.Duration(g.sure.Load())) {
			held = append(held, m.hold.Deadline())
		}
	}
	if len(held) < g.need {
		return slices.MinFunc(all, time.Time.Compare)
	}
	slices.SortFunc(held, time.Time.Compare)
	return held[len(held)-g.need]
}

// each does something to all members at once. It returns nil if that succeeded for as many as are
// needed, else all errors.
func (g *group) each(do func(m *member) error) error {
	members := *g.members.Load()
	errs := atOnce(len(members), g.need, func(i int) error {
		if members[i].hold == nil {
			return errMissing
		}
		return do(&members[i])
	})
	done, lost := 0, 0
	for _, err := range errs {
		switch {
		case err == nil:
			done++
		case isLoss(err):
			lost++
		}
	}
	if done >= g.need {
		return nil
	}
	if lost <= len(errs)-g.need { // so few that they say nothing of the group
		for i, err := range errs {
			if isLoss(err) {
				errs[i] = errors.New(err.Error())
			}
		}
	}
	return errors.Join(errs...)
}

// isLoss reports whether a member fails so because it is not held any more, or has not been had.
func isLoss(err error) bool {
	return errors.Is(err, ErrLost) || errors.Is(err, ErrClosed) || errors.Is(err, ErrNotHeld) || errors.Is(err, errMissing)
}

var (
	errMissing = errors.New("a server did not grant it")
	errUndone  = errors.New("not done yet")
)

// atOnce does something for each of n at once and returns the errors when all is done. If so many as are
// needed have succeeded, or have said that somebody else has it, it waits for the others as long again, and
// leaves them to themselves then. If one of them panics, so does atOnce.
func atOnce(n, need int, do func(i int) error) []error { return atOnceBut(nil, n, need, do) }

// atOnceBut is atOnce that does not wait for those who are mute, nil if nobody is, once all others have answered and
// somebody else has it on one of them: what was had meanwhile would keep that one from it.
func atOnceBut(mute func(i int) bool, n, need int, do func(i int) error) []error {
	type outcome struct {
		i        int
		err      error
		panicked any
	}
	outcomes, began, left := make(chan outcome), time.Now(), make(chan struct{})
	defer close(left)
	errs, waited := make([]error, n), make([]bool, n)
	missing := 0 // of those who are waited for
	for i := range n {
		errs[i] = errUndone
		if waited[i] = mute == nil || !mute(i); waited[i] {
			missing++
		} else {
			errs[i] = unknown(errNoAnswer)
		}
		go func() {
			o := outcome{i: i, err: errUndone}
			defer func() { // also if an observer panics or ends the goroutine
				o.panicked = recover()
				select {
				case outcomes <- o:
				case <-left:
					if o.panicked != nil {
						panic(o.panicked)
					}
				}
			}()
			o.err = do(i)
		}()
	}
	var enough <-chan time.Time
	var panicked any
	for done, succeeded, refused, taken := 0, 0, 0, false; done < n && (missing > 0 || !taken); done++ {
		select {
		case o := <-outcomes:
			panicked = cmp.Or(panicked, o.panicked)
			switch errs[o.i] = o.err; {
			case o.err == nil:
				succeeded++
			case errors.Is(o.err, ErrBusy):
				refused++
			}
			if waited[o.i] {
				missing--
			}
			taken = taken || errors.Is(o.err, ErrBusy) || errors.Is(o.err, ErrAlreadyHeld)
			if max(succeeded, refused) == need && enough == nil {
				enough = time.After(time.Since(began))
			}
		case <-enough:
			done = n
		}
	}
	if panicked != nil {
		panic(panicked) // where whoever has called can recover
	}
	return errs
}

// Extend gives as many members as are needed a lease of at least d from now.
func (g *group) Extend(ctx context.Context, d time.Duration) error {
	if err := g.Err(); err != nil {
		return err
	}
	if g.quorum != nil {
		if err := g.quorum.mayExtend(d); err != nil {
			return err
		}
	}
	if g.quorum == nil {
		return g.each(func(m *member) error { return m.hold.Extend(ctx, d) })
	}
	err := g.each(func(m *member) error {
		within, cancel := g.quorum.within(ctx, m.single().lock.length())
		defer cancel()
		err := g.quorum.answered(ctx, m.hold.Extend(within, d))
		if err == nil && m.since > time.Since(g.began) {
			return g.label.Fail("extend", unknown(errYoung))
		}
		return err
	})
	if lost := g.Err(); lost != nil {
		return lost
	}
	return err
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
