// Package debts gives back, in the background, wire owners that the server may still have though nobody in the session
// holds them.
package debts

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/owner"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/internal/wait"
)

// A Lock is a lock that has debts.
type Lock interface {
	Key() string
	Line() wait.Name
	// Undo is the call that gives back whatever became of an acquisition, unless the wire owner has more holds than
	// ceiling by then.
	Undo(owner string, ceiling int) *script.Call
	// Final is a failure of such a call, as far as it may be sent again.
	Final(err error) error
	// LogRefusal says that the server refuses such a call.
	LogRefusal(why error)
}

// Debts are wire owners that the server may still have, or may yet get, though nobody here holds anything under them:
// acquisitions that were given up, releases without a reply. One goroutine for each server gives them back, all that
// are due in one batch, until it is known that they are gone. Since a wire owner is never used again, giving back once
// too often harms nobody.
type Debts struct {
	session *session.Session
	paid    atomic.Int64 // when a server last answered a call that gave something back

	mu       sync.Mutex // guards the other fields and their contents
	accounts map[any]*account
}

// An account has the debts to one server, by [script.Runner.Server].
type account struct {
	server any
	owed   []*debt
	kick   chan struct{}
}

// A debt is a wire owner to be given back, and the lock.
type debt struct {
	owner.Debt
	lock Lock
}

// Init makes d the debts of a session.
func (d *Debts) Init(s *session.Session) { d.session, d.accounts = s, make(map[any]*account) }

// Paid is when a server last answered a call that gave something back; 0 if none ever has.
func (d *Debts) Paid() time.Duration { return time.Duration(d.paid.Load()) }

// Add has a debt paid, if there is one.
func (d *Debts) Add(l Lock, owed owner.Debt) {
	if owed.Wire == "" {
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

// Owes reports whether that wire owner is one of them.
func (d *Debts) Owes(wire string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range d.accounts {
		if slices.ContainsFunc(a.owed, func(owed *debt) bool { return owed.Wire == wire }) {
			return true
		}
	}
	return false
}

// Take removes all debts and returns the calls that pay them. endless is how many of them may be made once more by
// calls that are under way, and never end by themselves.
func (d *Debts) Take() (all []Giving, endless int) {
	now := d.session.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range d.accounts {
		for _, owed := range a.owed {
			all = append(all, Giving{Call: owed.lock.Undo(owed.Wire, owed.Ceiling), Means: owed.lock.Final})
			if owed.MayReturn(now) {
				endless++
			}
		}
		a.owed = nil
	}
	return all, endless
}

// pay works off an account and ends when nothing is owed, or with the session.
func (d *Debts) pay(a *account) {
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

// next returns the debts that are due, or for how long none is; done when nothing is owed or the session closes, which
// sees to the rest itself.
func (d *Debts) next(a *account) (due []*debt, next time.Duration, done bool) {
	now := d.session.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	kept := a.owed[:0]
	next = time.Hour
	for _, owed := range a.owed {
		if owed.Over(now) {
			continue
		}
		kept = append(kept, owed)
		if owed.Due() <= now && len(due) < lease.BatchSize {
			due = append(due, owed)
		} else {
			next = min(next, owed.Due()-now)
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
	return due, next, false
}

// giveBack releases the debts that are due and notes the outcomes.
func (d *Debts) giveBack(due []*debt) {
	s := d.session
	calls := make([]*script.Call, len(due))
	for i, owed := range due {
		calls[i] = owed.lock.Undo(owed.Wire, owed.Ceiling)
	}
	ctx, cancel := s.Within(s.Now(), s.Bound())
	defer cancel()
	var refused []func()
	s.Runner().RunAll(ctx, calls, func(i int, err error) {
		if d.note(due[i], err) {
			refused = append(refused, func() { due[i].lock.LogRefusal(err) })
		}
		if err != nil {
			return
		}
		d.paid.Store(int64(s.Now()))
		if n, bad := calls[i].ReadInt(); bad == nil && owner.ReadReleased(n).Outcome == owner.Freed {
			s.Lines().Wake(due[i].lock.Line())
		}
	})
	for _, c := range calls {
		c.Free()
	}
	if len(refused) > 0 {
		go func() { // what else is owed does not wait for that
			for _, tell := range refused {
				tell()
			}
		}()
	}
}

// note decides whether a debt is paid after a try that ended with err, and whether somebody is to be told.
func (d *Debts) note(owed *debt, err error) (tell bool) {
	now := d.session.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case err != nil && (script.IsTemporary(err) || script.ClassOf(err) == script.Unknown):
		owed.Failed(now)
	case err != nil:
		return owed.Refused(now)
	default:
		owed.Paid()
	}
	return false
}
