package core

import (
	"slices"

	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/owner"
)

// Granted is what a session has of a lock: its grants when it was asked for, not those that are granted afterwards.
type Granted struct {
	lock   *Lock
	wires  []string // which were asked for
	grants []*grant
}

// Granted is all that the session has of the lock.
func (l *Lock) Granted() Granted {
	gs := Granted{lock: l}
	for _, g := range l.keeper.dog.All() {
		if g.lock.claimKey() == l.claimKey() {
			gs.grants = append(gs.grants, g)
		}
	}
	return gs
}

// LogStall logs, for a call of the session that has waited for the lock for long, that the session holds it.
func (l *Lock) LogStall() {
	for _, g := range l.Granted().grants {
		if live := g.live(); len(live) > 0 {
			outermost := live[len(live)-1]
			l.Session().LogStall(&l.Label, outermost.held(), outermost.place())
			return
		}
	}
}

// GrantedTo returns what the session has of the lock under some wire owners, for a lock whose holds have no other
// owners.
func (l *Lock) GrantedTo(wires []string) Granted {
	// Names that differ by braces alone share a channel, and the key of the permits that are taken.
	ours := slices.DeleteFunc(l.keeper.permits.Find(wires), func(g *grant) bool { return g.lock.Channel != l.Channel })
	return Granted{lock: l, wires: wires, grants: ours}
}

// Lose ends the holds as lost, because the server has nothing of them any more.
func (gs Granted) Lose() {
	for _, g := range gs.grants {
		g.lose(0) // nobody knows when it was lost
	}
}

// Forsake ends the holds as lost although the server may still have them, and gives them back in the background.
func (gs Granted) Forsake() {
	for _, g := range gs.grants {
		for _, h := range g.live() {
			h.lose()
		}
	}
}

// Doubt ends the holds as lost, because a call of the caller's that gives them back may have been executed. Give them
// back by another such call, or owe them.
func (gs Granted) Doubt() {
	for _, g := range gs.grants {
		g.claim.Lock()
		g.claim.SetReturned(&g.Grant, 0)
		g.claim.Unlock()
	}
	gs.Forsake()
}

// Owe gives all of them back in the background, each wire owner on its own, including those that others have.
func (gs Granted) Owe() {
	for _, g := range gs.grants {
		g.owe(kind.Remaining{})
	}
	for _, wire := range gs.wires {
		if !slices.ContainsFunc(gs.grants, func(g *grant) bool { return g.Wire == wire }) {
			gs.lock.owe(owner.Endless(wire, gs.lock.Session().Now()))
		}
	}
}
