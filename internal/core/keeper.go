package core

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/checks"
	"github.com/holdfast-go/holdfast/internal/debts"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/registry"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// A keeper keeps the grants of a session: it renews them, knows each until it has ended, and gives back whatever the
// server may still have.
type keeper struct {
	session *session.Session
	numbers atomic.Int64            // of the wire owners so far
	dog     *lease.Watchdog[*grant] // knows all that is held
	debts   debts.Debts
	millis  string // the session's lease, as scripts take it
	permits registry.Registry[*grant]
	checks  *checks.Checks[*grant]
	telling atomic.Int64 // losses of which users are being told
	closed  debts.Closed[*Single, *grant]
}

// keeperOf returns the session's keeper.
func keeperOf(s *session.Session) *keeper { return session.Attached(s, newKeeper) }

func newKeeper(s *session.Session) *keeper {
	k := &keeper{session: s, millis: lease.Millis(s.Lease())}
	k.debts.Init(s)
	k.checks = checks.New(s, func() []*grant { return k.dog.All() }, (*grant).subject, func() { k.dog.Hasten(soon) })
	k.dog = lease.NewWatchdog(s.Now, s.Lease(), func(f func()) { s.Start(f) }, k.renew, (*grant).look)
	s.Keep(k)
	s.Start(func() { k.dog.Run(s.Context()) })
	return k
}

// newOwner returns a wire owner that nobody has ever had.
func (k *keeper) newOwner() string { return wire.Owner(k.session.ID(), k.numbers.Add(1)) }

// DebtsOf are what a session gives back in the background.
func DebtsOf(s *session.Session) *debts.Debts { return &keeperOf(s).debts }

// soon is over which time renewals are spread that are due at once.
const soon = 50 * time.Millisecond

// Checks are those of what the lock's session holds.
func (l *Lock) Checks() *checks.Checks[*grant] { return l.keeper.checks }

// Changed checks what the session holds, as another server may have taken over.
func (k *keeper) Changed() { k.checks.Changed() }

// Holds reports whether the session holds anything.
func (k *keeper) Holds() bool { return k.dog.Any() }

// HeldSince calls yield for the outermost hold of each grant if it began after that, and not after then.
func (k *keeper) HeldSince(after, then time.Duration, yield func(h session.Held)) {
	for _, g := range k.dog.All() {
		live := g.live()
		if len(live) == 0 {
			continue
		}
		if h := live[len(live)-1]; after < h.Acquired() && h.Acquired() <= then {
			yield(session.Held{
				Label: h.Label(), Line: g.lock.Line(), Of: h, For: h.held(), Taken: h.place(), Ownerless: g.lock.Wires.Ownerless,
			})
		}
	}
}

// TellAll reports to the user's code the holds that Close has ended.
func (k *keeper) TellAll() {
	for _, h := range k.closed.Ended() {
		defer h.Hold.tellEnd(closedEnd, h.Held) // the others', whatever one of them does
	}
}

// ReleaseAll ends every hold and gives back whatever the server may still have of this session, repeatedly until the
// outcome is known or ctx ends.
func (k *keeper) ReleaseAll(ctx context.Context) error {
	var calls []debts.Giving
	for _, g := range k.dog.All() {
		some, now := false, k.session.Now()
		for _, h := range g.live() {
			if h.end(now, closedEnd) == nil {
				k.closed.End(h, h.held())
				some = true
			}
		}
		if some {
			k.closed.Leave(g)
		}
	}
	owed, endless := k.debts.Take()
	for _, g := range k.closed.Left((*grant).tooLong) {
		for _, call := range kind.Closing(g.lock.protocol, g.remaining()) {
			calls = append(calls, debts.Giving{Call: call, Means: g.lock.Final})
		}
		if debt := g.debt(); debt.MayReturn(debt.Due()) { // which is now
			endless++
		}
	}
	return debts.GiveBack(ctx, k.session, append(calls, owed...), endless)
}
