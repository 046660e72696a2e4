package core

import (
	"context"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/owner"
	"github.com/holdfast-go/holdfast/internal/scope"
	"github.com/holdfast-go/holdfast/internal/script"
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
	s, c := t.lock.session, t.claim
	c.mu.Lock()
	first, watch := c.Add(&t.Grant, &h.Hold, lease.Add(h.Acquired(), h.lock.length()), h.watched())
	if watch {
		s.dog.Add(t, sent)
	}
	var waits []Waker
	if first {
		s.tenures.add(t)
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
	s, c := t.lock.session, t.claim
	c.mu.Lock()
	last, unwatch := c.Drop(&t.Grant, &h.Hold, h.watched(), h.ended.Load() == detachedEnd, s.now())
	if unwatch {
		s.dog.Remove(t)
	}
	if last {
		s.tenures.remove(t)
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
	return t.Count(t.lock.session.now())
}

// rest is what a release is to leave: what is true now.
func (t *tenure) rest() Rest {
	t.claim.mu.Lock()
	defer t.claim.mu.Unlock()
	return t.claim.Rest(&t.Grant, t.lock.session.now())
}

// sweep gives back what a lost tenure may leave behind.
func (t *tenure) sweep() {
	t.claim.mu.Lock()
	duty := t.claim.Sweep(&t.Grant, t.lock.session.now(), t.claim.owner != nil)
	t.claim.mu.Unlock()
	t.do(duty)
}

// do has the server told in the background what is left to be told.
func (t *tenure) do(duty owner.Duty) {
	if duty.Correct {
		t.correct(0)
	}
	t.lock.session.debts.add(t.lock, duty.Debt)
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
	now := t.lock.session.now()
	for _, h := range t.live() {
		if h.end(now, why) == nil {
			ended = append(ended, h)
		}
	}
	return ended, len(ended) > 0 && t.left() == 0
}

// lose ends every hold: the server has nothing of this wire owner any more.
func (t *tenure) lose() {
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
	now := t.lock.session.now()
	t.claim.mu.Lock()
	again := t.claim.Recheck(&t.Grant, now, now, t.lock.memory())
	t.claim.mu.Unlock()
	t.lock.session.debts.add(t.lock, again)
}

// lasts takes in that a call which has just returned extended the server's lease, or may have.
func (t *tenure) lasts(length time.Duration) {
	t.claim.mu.Lock()
	t.Lasts(lease.Add(t.lock.session.now(), length))
	t.claim.mu.Unlock()
}

// renew renews a batch of tenures and decides the outcome of every hold on its own (G9). What the server refuses as a
// whole because of some of its keys is renewed in halves, both at once.
func (s *Session) renew(batch []lease.Renewable) {
	ctx, cancel := context.WithTimeoutCause(s.ctx, s.config.Lease/6, errNoReply)
	defer cancel()
	call := script.NewCall(batch[0].(*tenure).lock.protocol.Renewal()).Arg(s.millis)
	defer call.Free()
	for _, r := range batch {
		t := r.(*tenure)
		t.lock.protocol.Renew(call, t.Wire)
	}
	sent := s.now()
	err := s.runner.Run(ctx, script.Keep, call)
	var answers []rueidis.RedisMessage
	if err == nil {
		answers, err = s.runner.ReadRenewal(call, batch[0].(*tenure).lock.key, len(batch))
	}
	if half := len(batch) / 2; half > 0 && script.BecauseOfKeys(err) {
		s.start(func() { s.renew(batch[:half]) })
		s.renew(batch[half:])
		return
	}
	var long []*tenure
	var told []func()
	for i, r := range batch {
		t := r.(*tenure)
		if err != nil {
			told = s.failed(told, t, err)
			continue
		}
		switch n, bad := answers[i].AsInt64(); {
		case bad != nil:
			told = s.failed(told, t, &script.Failure{Class: script.Refused, Err: s.saidOf(ctx, t, answers[i])})
		case n >= 1:
			s.renewed(t, sent)
			told = t.renewal(told, nil)
			if t.slackens(lease.Lasting(n)) {
				long = append(long, t)
			}
		case n == 0:
			t.lose()
			told = t.renewal(told, errDropped)
		default:
			told = s.failed(told, t, call.Unexpected())
		}
	}
	if len(told) > 0 {
		go tellAll(told) // nothing waits for what is done there, not even Close
	}
	s.trimAll(long)
}

// tellAll tells the user's code everything.
func tellAll(told []func()) {
	for _, tell := range told {
		tell()
	}
}

// renewal appends to told what tells the observer how a renewal of the tenure ended.
func (t *tenure) renewal(told []func(), err error) []func() {
	observer := t.lock.session.config.Observer
	if observer == nil || observer.Renewal == nil {
		return told
	}
	return append(told, func() { observer.Renewal(t.lock.title(), t.lock.Name, err) })
}

// A serverError is what the server said of one name of many.
type serverError string

func (e serverError) Error() string { return script.Words(string(e)) }

// saidOf is what the server answered of the tenure instead of a number.
func (s *Session) saidOf(ctx context.Context, t *tenure, answer rueidis.RedisMessage) error {
	text, _ := answer.ToString()
	s.runner.Heard(ctx, t.lock.key, text)
	return serverError(text)
}

// renewed takes in a renewal sent at sent, for each hold of the tenure that is renewed.
func (s *Session) renewed(t *tenure, sent time.Duration) {
	t.lasts(s.config.Lease)
	for _, h := range t.live() {
		if h.watched() {
			h.prolong(sent, s.config.Lease)
		}
	}
	s.dog.Renewed(t, sent)
	t.sweep() // if it was lost while the renewal was under way
}

// failed takes in a renewal that did not succeed: the deadlines stay where they were, and it
// is tried again while anything is held. It appends to told what says so.
func (s *Session) failed(told []func(), t *tenure, why error) []func() {
	if script.ClassOf(why) == script.Unknown {
		t.lasts(s.config.Lease)
	}
	if s.isClosed() { // which has cut it off
		return told
	}
	for _, h := range t.live() {
		if h.watched() {
			told = h.failed(told, why)
		}
	}
	s.dog.Failed(t)
	t.sweep() // likewise
	return t.renewal(told, explain(context.Background(), why))
}
