package core

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/owner"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/session"
)

// debts are wire owners that the server may still have, or may yet get, though nobody here
// holds anything under them: acquisitions that were given up, releases without a reply. One
// goroutine for each server gives them back, all that are due in one batch, until it is known that
// they are gone. Since a wire owner is never used again, giving back once too often harms nobody.
type debts struct {
	session *session.Session
	paid    atomic.Int64 // when a server last answered a call that gave something back

	mu       sync.Mutex // guards the rest, and what is in it
	accounts map[any]*account
}

// An account is what is owed to one server, by [script.Runner.Server].
type account struct {
	server any
	owed   []*debt
	kick   chan struct{}
}

// A debt is a wire owner to be given back, and the lock.
type debt struct {
	owner.Debt
	lock *Lock
}

func (d *debts) init(k *keeper) {
	d.session, d.accounts = k.session, make(map[any]*account)
}

// add has a debt paid, if there is one.
func (d *debts) add(l *Lock, owed owner.Debt) {
	if owed.Wire == "" || l.Wires.Reused { // another acquisition may have it by then
		return
	}
	server := d.session.Runner().Server(l.Key())
	d.mu.Lock()
	defer d.mu.Unlock()
	a := d.accounts[server]
	if a == nil {
		a = &account{server: server, kick: make(chan struct{}, 1)}
		d.accounts[server] = a
		d.session.Start(func() { d.pay(a) })
	}
	a.owed = append(a.owed, &debt{owed, l})
	select {
	case a.kick <- struct{}{}:
	default:
	}
}

// take removes all debts and returns them. So many of them may be made once more by calls that are
// under way, and never end by themselves.
func (d *debts) take() (all []*debt, endless int) {
	now := d.session.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range d.accounts {
		all = append(all, a.owed...)
		a.owed = nil
	}
	for _, debt := range all {
		if debt.MayReturn(now) {
			endless++
		}
	}
	return all, endless
}

// pay works off an account and ends when nothing is owed, or with the session.
func (d *debts) pay(a *account) {
	s := d.session
	for {
		due, next, done := d.next(a)
		if done {
			return
		}
		if len(due) > 0 {
			d.giveBack(due)
			continue
		}
		timer := time.NewTimer(next)
		select {
		case <-timer.C:
		case <-a.kick:
		case <-s.Context().Done():
		}
		timer.Stop()
	}
}

// next returns what is due, or how long nothing is; done when nothing is owed or the session
// closes, which sees to the rest itself.
func (d *debts) next(a *account) (due []*debt, next time.Duration, done bool) {
	now := d.session.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	kept := a.owed[:0]
	next = time.Hour
	for _, debt := range a.owed {
		if debt.Over(now) {
			continue
		}
		kept = append(kept, debt)
		if debt.Due() <= now && len(due) < lease.BatchSize {
			due = append(due, debt)
		} else {
			next = min(next, debt.Due()-now)
		}
	}
	clear(a.owed[len(kept):])
	a.owed = kept
	switch {
	case d.session.Context().Err() != nil:
		return nil, 0, true
	case len(a.owed) == 0:
		delete(d.accounts, a.server)
		return nil, 0, true
	}
	return due, max(next, 0), false
}

// giveBack releases what is due and notes what became of it.
func (d *debts) giveBack(due []*debt) {
	s := d.session
	calls := make([]*script.Call, len(due))
	for i, debt := range due {
		calls[i] = debt.lock.undo(debt.Wire, debt.Ceiling)
	}
	ctx, cancel := s.Within(s.Now(), s.Bound())
	defer cancel()
	var refused []func()
	s.Runner().RunAll(ctx, calls, func(i int, err error) {
		if d.note(due[i], err) {
			l := due[i].lock
			refused = append(refused, func() {
				s.Logger().Warn("holdfast: refused to be given back", "kind", l.Title(), "name", l.Name, "error", err)
			})
		}
		if err != nil {
			return
		}
		d.paid.Store(int64(s.Now()))
		if n, bad := calls[i].ReadInt(); bad == nil && n >= owner.Freed {
			s.Lines().Wake(due[i].lock.Line())
		}
	})
	for _, c := range calls {
		c.Free()
	}
	if len(refused) > 0 {
		go tellAll(refused) // what else is owed does not wait for that
	}
}

// note decides whether a debt is paid after a try that ended with err, and whether somebody is to be told.
func (d *debts) note(debt *debt, err error) (tell bool) {
	now := d.session.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case err != nil && (script.IsTemporary(err) || script.ClassOf(err) == script.Unknown):
		debt.Failed(now)
	case err != nil:
		return debt.Refused(now)
	default:
		debt.Paid(now)
	}
	return false
}
