package several

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/session"
)

// ask asks one server, which is marked so already, within ctx, and makes its grant a member of the group. The lease
// counts from first.
func (g *quorumGroup) ask(ctx context.Context, i int, first time.Time) (err error) {
	defer func() {
		g.doneAsking(i, err)
		g.tend()
	}()
	q, l := g.quorum, g.quorum.Locks[i]
	known := of(l.Session())
	asked := known.silence.begin(l.Session())
	before, links := known.servers.known(l.Slot()), l.Session().Connections()
	asks := ""
	if before.run == 0 || !q.TrustRestarted {
		asks = before.age(links)
	}
	h, replied, more, err := l.TryAsking(ctx, asks)
	switch {
	case !replied.IsZero() || script.Answered(err): // a refusal is an answer
		known.silence.end()
	case errors.Is(err, session.ErrAlreadyHeld): // it was not asked
		known.silence.spare(asked)
	}
	if err != nil {
		return answered(err)
	}
	h.Limit(first.Add(l.Length() - drift(l.Length())))
	m := member{hold: h, run: before.run, asking: true}
	if links != l.Session().Connections() {
		links = unknown
	}
	if told := (age{replied, links, more[1], more[2], more[3]}); asks != "" && (told.up >= 0 || !q.TrustRestarted) {
		_, longest := q.Leases()
		run, ripe, silent := known.servers.ripe(l.Slot(), before, told, longest)
		if m.run = run; !q.TrustRestarted {
			m.since = ripe.Sub(g.began)
		}
		if silent {
			defer l.Session().Logger().Warn(
				"holdfast: the server does not tell how long it has been up: if it restarts, what it has forgotten goes unnoticed",
				"kind", l.Title(), "name", l.Name)
		}
	}
	young := m.since > time.Since(g.began)
	switch admitted, late := g.admit(i, m); {
	case !admitted:
		return release(&m)
	case young:
		g.ripenAt(m.since)
		return errYoung
	case late:
		l.Session().Logger().Debug("holdfast: another server has the lock", "kind", g.label.Title(), "name", g.label.Name)
	}
	return nil
}

// ripenAt looks at a member that is young when it counts.
func (g *quorumGroup) ripenAt(since time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended.Load() != nil {
		return
	}
	g.ripening = append(g.ripening, time.AfterFunc(since-time.Since(g.began), func() {
		g.mu.Lock()
		taken := g.taken
		g.mu.Unlock()
		if taken {
			_ = g.Err()
		}
	}))
}

// doneAsking notes that a server is not being asked any more, and whether it was busy. If that is new, it is asked
// again soon.
func (g *quorumGroup) doneAsking(i int, err error) {
	busy := errors.Is(err, session.ErrBusy)
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.taken && g.ended.Load() != nil {
		return
	}
	if busy && !(*g.members.Load())[i].busy {
		g.delay = 0
		if g.again != nil && g.again.Stop() {
			g.again = nil
		}
	}
	g.change(func(members []member) { members[i].asking, members[i].busy = false, busy })
}

// admit makes m a member, unless the group has ended, or has the lock and another member on the same server. It is late
// if the group has the lock already.
func (g *quorumGroup) admit(i int, m member) (admitted, late bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m.since = max(m.since, time.Since(g.began))
	if g.ended.Load() != nil || g.taken && !g.certain() || g.sure.Load() > 0 && g.alike(m.run) {
		return false, g.taken
	}
	if g.taken {
		m.hold.Watch(g.memberEnded)
	}
	g.change(func(members []member) { members[i] = m })
	g.delay = 0 // the next one that is missing is asked soon
	return true, g.taken
}

// alike reports whether a member is held that has the same server; 0 is none that is known.
func (g *quorumGroup) alike(run int64) bool {
	return run != 0 && slices.ContainsFunc(*g.members.Load(), func(m member) bool { return m.run == run && !m.missing() })
}

// tend asks servers again that have not granted the lock, or have lost it: soon at first, since it may be the last
// holder's still, or that of an attempt that comes to nothing; and then when it is time to renew the others.
func (g *quorumGroup) tend() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.taken && g.again == nil && g.ended.Load() == nil && len(g.vacant()) > 0 {
		shortest, _ := g.quorum.Leases()
		g.delay = min(max(2*g.delay, lastAsk), shortest/3)
		g.again = time.AfterFunc(g.delay, g.askAgain)
	}
}

// stop ends what tend has begun, and the ripening of members. mu is held.
func (g *quorumGroup) stop() {
	if g.again != nil {
		g.again.Stop()
	}
	for _, t := range g.ripening {
		t.Stop()
	}
	g.ripening = nil
}

// vacant are the members that are to be asked for: of sessions that still renew what has been held for as long.
func (g *quorumGroup) vacant() (vacant []int) {
	for i, m := range *g.members.Load() {
		l := g.quorum.Locks[i]
		if m.asking || !m.missing() || l.FixedLease > 0 {
			continue
		}
		if most := l.Session().Config().MaxHold; most == 0 || time.Since(g.began) < most {
			vacant = append(vacant, i)
		}
	}
	return vacant
}

// askAgain asks for the members that are missing.
func (g *quorumGroup) askAgain() {
	g.mu.Lock()
	g.again = nil
	vacant := g.vacant()
	g.change(func(members []member) {
		for _, i := range vacant {
			members[i].asking = true // before anybody else looks which members are missing
		}
	})
	g.mu.Unlock()
	if g.Err() != nil {
		return
	}
	for _, i := range vacant {
		s := g.quorum.Locks[i].Session()
		if s.Closed() {
			continue // it is not asked again
		}
		of(s).hands.do(s, func() {
			within, cancel := g.quorum.within(session.WithNote(g.owner.As(s.Context()), g.note))
			defer cancel()
			_ = g.ask(within, i, time.Now())
		})
	}
}
