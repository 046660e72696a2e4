package core

import (
	"context"
	"errors"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A lease on the server may be longer than anybody needs it: a hold with a longer one than the others was
// released, or the server's clock was set back, by which Redis counts what is left. The name would stay
// locked for all that when its holder dies. So the lease is trimmed to what the longest hold needs.
//
// Nobody's lease is shortened by that. Renewals always ask for the session's lease, and while anything is
// renewed no trim goes below that, counted from when the server executes it. Whatever else asks for a lease
// takes turns with it; or, as Extend, which waits for no release, says so before. And while a trim whose
// outcome is not known may still be executed, nothing is asked for under the same wire owner that it would
// cut off: for twice as long as its window, as that is a matter of the server's clock, which may run more
// slowly than ours, or be set back. tests/replaymodel is the argument for all that.

// A Trimmer is what a package supplies besides whose leases may be trimmed.
type Trimmer interface {
	// Trim is the call that trims a lease, with the replies of lock_trim.
	Trim(t Trim) *script.Call
}

// A Trim is for how long a wire owner is to have the lock at the most, and when the server may see to it.
type Trim struct {
	Owner  string
	most   string // ms
	window script.Window
}

// Call is the call of a script with the arguments of lock_trim.
func (t Trim) Call(s *script.Script, key, owner string) *script.Call {
	return script.NewCall(s).Key(key).Arg(owner, t.most).Within(t.window)
}

// TrimScript trims the leases of locks that are one hash.
var TrimScript = script.Load("lock_trim")

// A trimming is a trim that is under way, or that had no reply.
type trimming struct {
	wire  string
	most  time.Duration
	until time.Duration // it may be executed until then; the largest while it is under way
}

// errTrimming is why no longer lease is asked for.
var errTrimming = &script.Failure{
	Class: script.Refused, Temporary: true, Err: errors.New("a call that makes the lease shorter may be under way"),
}

// mayTrim returns errTrimming if a lease of d may be made shorter by a trim that is under way. The claim's
// turn is the caller's.
func (c *claim) mayTrim(wire string, d time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.trims(wire, d)
}

// trims is mayTrim with mu held, for whoever does not take turns.
func (c *claim) trims(wire string, d time.Duration) error {
	if c.crowd == nil {
		return nil
	}
	if t := c.crowd.trimming; t.wire == wire && t.most < d && t.until > c.lock.session.now() {
		return errTrimming
	}
	return nil
}

// ask says that a lease of d is asked for without the claim's turn: no trim goes below it until the caller
// calls asked. One that has been sent before is waited for, but not if its reply was lost.
func (c *claim) ask(ctx context.Context, wire string, d time.Duration) (asked func(), err error) {
	for delay := firstRetry; ; delay = min(2*delay, lastRetry) {
		c.mu.Lock()
		if err = c.trims(wire, d); err == nil {
			crowd := c.gather()
			crowd.asked = append(crowd.asked, d)
			c.mu.Unlock()
			return func() {
				c.mu.Lock()
				defer c.mu.Unlock()
				i := slices.Index(crowd.asked, d)
				crowd.asked = slices.Delete(crowd.asked, i, i+1)
			}, nil
		}
		underWay := c.crowd.until == math.MaxInt64
		c.mu.Unlock()
		if !underWay || pause(ctx, delay) != nil {
			return nil, err
		}
	}
}

// tooLong is by how much a lease may be longer than anybody needs it.
const tooLong = time.Second

// slack trims, in the background, the leases under the tenure's wire owner if they may be too long.
func (t *tenure) slack() {
	s, c := t.lock.session, t.claim
	c.mu.Lock()
	until, most := t.until, t.needed()
	var parts []*tenure
	for part := range t.siblings() {
		until, parts = max(until, part.until), append(parts, part)
	}
	c.mu.Unlock()
	if most == 0 || until <= lease.Add(s.now(), most+tooLong) {
		return
	}
	s.start(func() {
		for _, part := range parts {
			for delay := firstRetry; ; delay = min(2*delay, lastRetry) {
				err := part.trim()
				if err == nil || !errors.Is(err, ErrUnknown) && !script.IsTemporary(err) || pause(s.ctx, delay) != nil {
					break
				}
			}
		}
	})
}

// trimAll trims the leases of tenures whose renewal has found them too long, and leaves what fails to the
// next renewal.
func (s *Session) trimAll(tenures []*tenure) {
	if len(tenures) > 0 {
		s.start(func() {
			for _, t := range tenures {
				_ = t.trim()
			}
		})
	}
}

// slackens reports whether a lease that lasts for so long yet is too long.
func (t *tenure) slackens(lasts time.Duration) bool {
	if lasts <= t.lock.session.config.Lease+tooLong {
		return false
	}
	t.claim.mu.Lock()
	defer t.claim.mu.Unlock()
	return lasts > lease.Add(t.needed(), tooLong)
}

// needed is what the longest of all holds under the wire owner needs, 0 if there are none. claim.mu is held.
func (t *tenure) needed() (d time.Duration) {
	for part := range t.siblings() {
		d = max(d, part.most())
	}
	if d > 0 && t.claim.crowd != nil {
		d = slices.Max(append(t.claim.crowd.asked, d))
	}
	return d
}

// siblings are the tenures under the wire owner that have live holds, one for each half. claim.mu is held.
func (t *tenure) siblings() iter.Seq[*tenure] {
	return func(yield func(*tenure) bool) {
		for _, part := range t.claim.parts {
			if part != nil && part.wire == t.wire && !yield(part) {
				return
			}
		}
	}
}

// most is the lease with which no hold of the tenure ends before its own, whatever renewals are under way.
// claim.mu is held.
func (t *tenure) most() (d time.Duration) {
	if t.watched > 0 {
		d = t.lock.session.config.Lease
	}
	for h := t.detached; h != nil; h = h.next {
		d = max(d, h.forgotten()-t.lock.session.now())
	}
	return max(d, t.needs())
}

// trim trims the tenure's lease to what the longest hold under its wire owner needs.
func (t *tenure) trim() error {
	l, s, c := t.lock, t.lock.session, t.claim
	trimmer, ok := l.protocol.(Trimmer)
	if !ok || l.Token != "" { // by which others may hold it
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(s.ctx, s.bounds.limit, errNoReply)
	defer cancel()
	if err := c.enter(ctx); err != nil {
		return errNoTurn
	}
	defer c.leave()
	c.mu.Lock()
	most := t.needed()
	if most == 0 { // nothing is left
		c.mu.Unlock()
		return nil
	}
	crowd := c.gather()
	before := crowd.trimming
	if before.wire != t.wire || before.until <= s.now() {
		before = trimming{most: most}
	}
	under := trimming{wire: t.wire, most: min(most, before.most), until: math.MaxInt64}
	crowd.trimming = under
	c.mu.Unlock()
	window := lease.NotAfter(s.config.Lease) / 2
	_, err := l.inTime(ctx, "trim", window, func(w script.Window) *script.Call {
		return trimmer.Trim(Trim{Owner: t.wire, most: lease.Millis(most), window: w})
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	crowd.trimming = before
	switch {
	case err == nil:
		t.until = min(t.until, lease.Add(s.now(), most))
	case errors.Is(err, ErrUnknown) || script.ClassOf(err) == script.Broken:
		under.until = lease.Add(s.now(), 2*window)
		crowd.trimming = under
	}
	return err
}
