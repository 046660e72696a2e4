package core

import (
	"context"
	"slices"
	"sync"
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

	closing sync.Mutex // guards the rest
	ended   []func()   // tell users of the holds that Close has ended
	left    []*grant   // which Close is to give back
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
	k.closing.Lock()
	ended := k.ended
	k.ended = nil
	k.closing.Unlock()
	for _, tell := range ended {
		defer tell() // the others', whatever one of them does
	}
}

// leave leaves a grant to Close to give back, some of whose holds Close has ended.
func (k *keeper) leave(g *grant, ended ...func()) {
	k.closing.Lock()
	defer k.closing.Unlock()
	k.left, k.ended = append(k.left, g), append(k.ended, ended...)
}

// ReleaseAll ends every hold and gives back whatever the server may still have of this session, repeatedly until the
// outcome is known or ctx ends.
func (k *keeper) ReleaseAll(ctx context.Context) error {
	var calls []debts.Giving
	for _, g := range k.dog.All() {
		var ended []func()
		now := k.session.Now()
		for _, h := range g.live() {
			if h.end(now, closedEnd) == nil {
				held := h.held()
				ended = append(ended, func() { h.tellEnd(closedEnd, held) })
			}
		}
		if len(ended) > 0 {
			k.leave(g, ended...)
		}
	}
	owed, endless := k.debts.Take()
	k.closing.Lock()
	left := k.left
	k.left = nil
	k.closing.Unlock()
	for _, own := range left {
		others := slices.DeleteFunc(own.tooLong(), func(g *grant) bool { return g == own })
		for _, g := range append([]*grant{own}, others...) {
			for _, call := range kind.Closing(g.lock.protocol, g.remaining()) {
				calls = append(calls, debts.Giving{Call: call, Means: g.lock.Final})
			}
			if debt := g.debt(); debt.MayReturn(debt.Due()) { // which is now
				endless++
			}
		}
	}
	return debts.GiveBack(ctx, k.session, append(calls, owed...), endless)
}
