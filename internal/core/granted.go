package core

import (
	"slices"

	"github.com/holdfast-go/holdfast/internal/owner"
)

// Granted is what a session has of a lock: its tenures when it was asked for, not those that are granted afterwards.
type Granted struct {
	lock    *Lock
	wires   []string // which were asked for
	tenures []*tenure
}

// Granted is all that the session has of the lock.
func (l *Lock) Granted() Granted {
	g := Granted{lock: l}
	for _, t := range l.keeper.tenures.all() {
		if t.lock.claimKey() == l.claimKey() {
			g.tenures = append(g.tenures, t)
		}
	}
	return g
}

// GrantedTo is what the session has of the lock under some wire owners, of a lock whose holds have no other owners.
func (l *Lock) GrantedTo(wires []string) Granted {
	return Granted{lock: l, wires: wires, tenures: l.keeper.tenures.permits(l, wires)}
}

// Lose ends the holds as lost, because the server has nothing of them any more.
func (g Granted) Lose() {
	for _, t := range g.tenures {
		t.lose(0) // nobody knows when it was lost
	}
}

// Forsake ends the holds as lost although the server may have them still, and gives back in the background what it has.
func (g Granted) Forsake() {
	for _, t := range g.tenures {
		for _, h := range t.live() {
			h.lose()
		}
	}
}

// Doubt ends the holds as lost, because a call of the caller's that gives them back may have been executed. Give them
// back by another such call, or owe them.
func (g Granted) Doubt() {
	for _, t := range g.tenures {
		t.claim.mu.Lock()
		t.claim.SetReturned(&t.Grant, 0)
		t.claim.mu.Unlock()
	}
	g.Forsake()
}

// Owe gives back in the background what was asked for, each wire owner on its own, also those that others have.
func (g Granted) Owe() {
	for _, t := range g.tenures {
		t.owe(Rest{})
	}
	for _, wire := range g.wires {
		if !slices.ContainsFunc(g.tenures, func(t *tenure) bool { return t.Wire == wire }) {
			g.lock.keeper.debts.add(g.lock, owner.Endless(wire, g.lock.Session().Now()))
		}
	}
}
