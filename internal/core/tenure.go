package core

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/owner"
	"github.com/holdfast-go/holdfast/internal/scope"
)

// A tenure is a [owner.Grant] with its place in the session: in the watchdog's queue and in the registry.
type tenure struct {
	lease.Entry // the watchdog's notes
	links       // the session's registry
	lock        *Lock
	claim       *claim

	owner.Grant[*tenure, *Single] // guarded by claim.mu, but for Of and Wire
}

// Group says with which tenures this one may be renewed in one call.
func (t *tenure) Group() lease.Group {
	return lease.Group{Script: t.lock.protocol.Renewal(), Slot: t.lock.slot}
}

// listeners is how many clients were told of the release of its last hold, this one included.
func (t *tenure) listeners() int {
	t.claim.mu.Lock()
	defer t.claim.mu.Unlock()
	return t.Heard()
}

// add makes h, granted by a call sent at sent, a live hold of the tenure.
func (t *tenure) add(h *Single, sent time.Duration) {
	k, c := t.lock.keeper, t.claim
	c.mu.Lock()
	first, watch := c.Add(&t.Grant, &h.Hold, lease.Add(h.Acquired(), h.lock.Length()), h.watched())
	if watch {
		k.dog.Add(t, sent)
	}
	var waits []Waker
	if first {
		k.tenures.add(t)
		if c.crowd != nil {
			waits = slices.Clone(c.crowd.waits)
		}
	}
	c.mu.Unlock()
	for _, w := range waits {
		w.Wake() // calls of the same owner: they may re-enter now
	}
}

// drop takes an ended hold out and returns its contexts, which are to end, too.
func (t *tenure) drop(h *Single) (contexts *scope.Context) {
	k, c := t.lock.keeper, t.claim
	c.mu.Lock()
	last, unwatch := c.Drop(&t.Grant, &h.Hold, h.watched(), h.ended.Load() == detachedEnd, k.session.Now())
	if unwatch {
		k.dog.Remove(t)
	}
	if last {
		k.tenures.remove(t)
	}
	if h.timer != nil {
		h.timer.Stop()
	}
	contexts = h.contexts.Close()
	owned := c.owner != nil
	c.mu.Unlock()
	if owned {
		c.unref()
	}
	return contexts
}

// left is the hold count that the server should have.
func (t *tenure) left() int {
	t.claim.mu.Lock()
	defer t.claim.mu.Unlock()
	return t.Count(t.lock.Session().Now())
}

// rest is what a release is to leave: what is true now.
func (t *tenure) rest() Rest {
	t.claim.mu.Lock()
	defer t.claim.mu.Unlock()
	return t.claim.Rest(&t.Grant, t.lock.Session().Now())
}

// sweep gives back what a lost tenure may leave behind.
func (t *tenure) sweep() {
	t.claim.mu.Lock()
	duty := t.claim.Sweep(&t.Grant, t.lock.Session().Now(), t.claim.owner != nil)
	t.claim.mu.Unlock()
	t.do(duty)
}

// do tells the server in the background what is left to be told.
func (t *tenure) do(duty owner.Duty) {
	if duty.Correct {
		t.correct(0)
	}
	t.lock.keeper.debts.add(t.lock, duty.Debt)
}

// believed reports whether any hold is held. Those whose trust has ended end, if nobody has
// noticed before.
func (t *tenure) believed() bool {
	held := false
	for _, h := range t.live() {
		held = h.Err() == nil || held
	}
	return held
}

// live returns the live holds.
func (t *tenure) live() (live []*Single) {
	t.claim.mu.Lock()
	defer t.claim.mu.Unlock()
	return slices.Collect(t.Live())
}

// endAll ends every hold, and returns those that had not ended, and whether the server is to be told.
func (t *tenure) endAll(why *ending) (ended []*Single, last bool) {
	now := t.lock.Session().Now()
	for _, h := range t.live() {
		if h.end(now, why) == nil {
			ended = append(ended, h)
		}
	}
	return ended, len(ended) > 0 && t.left() == 0
}

// lose ends every hold: a call that was sent then has found nothing of this wire owner on the server.
func (t *tenure) lose(sent time.Duration) {
	t.claim.mu.Lock()
	t.Gone()
	for h := range t.Live() {
		if h.trusted() { // else it was lost before, of that
			h.failure = nil
		}
	}
	t.claim.mu.Unlock()
	for _, h := range t.live() {
		h.lose()
	}
	now := t.lock.Session().Now()
	t.claim.mu.Lock()
	again := t.claim.Recheck(&t.Grant, sent, now, t.lock.memory())
	t.claim.mu.Unlock()
	t.lock.keeper.debts.add(t.lock, again)
}

// lasts records that a call which has just returned extended the server's lease, or may have.
func (t *tenure) lasts(length time.Duration) {
	t.claim.mu.Lock()
	t.Lasts(lease.Add(t.lock.Session().Now(), length))
	t.claim.mu.Unlock()
}
