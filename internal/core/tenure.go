package core

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/scope"
	"github.com/holdfast-go/holdfast/internal/script"
)

// A tenure is one outermost acquisition with what is nested in it: the time for which one
// wire owner has a name. The watchdog renews tenures, not holds.
type tenure struct {
	lease.Entry // the watchdog's notes
	lock        *Lock
	claim       *claim
	wire        string
	token       int64
	copies      time.Duration // of its acquisition, may be executed until then; 0: there are none
	links                     // the session's registry

	// guarded by claim.mu
	holds      *Single       // live, a list through them
	detached   *Single       // live on the server without us, a list through them
	until      time.Duration // the server's lease ends at the latest then
	watched    int32         // of holds, how many are to be renewed
	lost       bool          // one of the holds was, rather than released or detached
	returned   bool          // a release of the last hold was executed, or may have been
	correcting bool          // what the server refused to be told is tried again now and then
	heard      int32         // how many clients the server told of it, this one included, as far as it knows
}

// Group says with which tenures this one may be renewed in one call.
func (t *tenure) Group() lease.Group {
	return lease.Group{Script: t.lock.protocol.Renewal(), Slot: t.lock.slot}
}

// listeners is how many clients were told of the release of its last hold, this one included.
func (t *tenure) listeners() int {
	t.claim.mu.Lock()
	defer t.claim.mu.Unlock()
	return int(t.heard)
}

// add makes h, granted by a call sent at sent, a live hold of the tenure.
func (t *tenure) add(h *Single, sent time.Duration) {
	s, c := t.lock.session, t.claim
	c.mu.Lock()
	fresh := t.holds == nil
	h.next, t.holds = t.holds, h
	t.until = max(t.until, lease.Add(h.acquired, h.lock.length()))
	c.parts[t.lock.part] = t
	if h.watched() {
		t.watched++
		if t.watched == 1 {
			s.dog.Add(t, sent)
		}
	}
	var waits []Waker
	if fresh {
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
	at := &t.holds
	for *at != h {
		at = &(*at).next
	}
	*at, h.next = h.next, nil
	if h.ended.Load() == detachedEnd {
		t.forgetOver()
		h.next, t.detached = t.detached, h
	}
	if h.watched() {
		t.watched--
	}
	unwatch, over := h.watched() && t.watched == 0, t.holds == nil
	if over {
		c.forget(t)
	}
	if unwatch {
		s.dog.Remove(t)
	}
	if over {
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

// forgetOver takes out the detached holds whose leases are over. claim.mu is held.
func (t *tenure) forgetOver() {
	for at := &t.detached; *at != nil; {
		if (*at).over() {
			*at = (*at).next
		} else {
			at = &(*at).next
		}
	}
}

// forget takes a tenure without live holds out of the claim, and what was kept only because of it.
// c.mu is held.
func (c *claim) forget(t *tenure) {
	own, other := &c.parts[t.lock.part], &c.parts[1-t.lock.part]
	if *own == t && (t.detached == nil || *other == nil) { // else it counts along while the wire owner lives
		*own = nil
	}
	if *other != nil && (*other).holds == nil {
		*other = nil
	}
}

// left is the hold count that the server should have.
func (t *tenure) left() int {
	t.claim.mu.Lock()
	defer t.claim.mu.Unlock()
	return t.count()
}

// count is left with claim.mu held.
func (t *tenure) count() int {
	n := 0
	for range t.remaining() {
		n++
	}
	return n
}

// remaining are the holds that the server is to have: the live ones, and the detached ones whose
// leases are not over. claim.mu is held.
func (t *tenure) remaining() iter.Seq[*Single] {
	return func(yield func(*Single) bool) {
		for h := t.holds; h != nil; h = h.next {
			if !yield(h) {
				return
			}
		}
		for h := t.detached; h != nil; h = h.next {
			if !h.over() && !yield(h) {
				return
			}
		}
	}
}

// over reports whether a hold that nobody prolongs any more has no lease on the server either.
func (h *Single) over() bool { return h.lock.session.now() > h.forgotten() }

// forgotten is when the server has no lease any more of a hold that nobody prolongs: that lasts longer
// than trust by the margin, which is a hundredth of the lease and 50 ms at the most.
func (h *Single) forgotten() time.Duration {
	return lease.Add(h.trust(), (h.trust()-h.acquired)/50+100*time.Millisecond)
}

// rest is what a release is to leave: what is true now. Where the wire owner has lived on, a later
// tenure may have what a lost one had.
func (t *tenure) rest() Rest {
	c := t.claim
	c.mu.Lock()
	defer c.mu.Unlock()
	if later := c.parts[t.lock.part]; later != nil && later != t && later.wire == t.wire {
		later.copies = max(later.copies, t.copies) // whose release is to see to them
		t = later
	}
	r := Rest{Owner: t.wire, Count: t.count()}
	if t.lock.Shared {
		r.Ceiling = t.ceiling()
		r.Lease = t.needs()
		if r.Count > 0 && c.crowd != nil { // not to where an older release would take what is left
			r.Count = max(r.Count, c.crowd.floor+1)
		}
	}
	return r
}

// ceiling is the highest number that a hold of a shared half may have now; 0 when the wire owner
// gets no holds any more. claim.mu is held.
func (t *tenure) ceiling() int {
	c := t.claim
	for _, other := range c.parts {
		if t.lock.Shared && other != nil && other.wire == t.wire {
			return max(c.gather().top, 1)
		}
	}
	return 0
}

// needs is the shortest lease from now with which no hold ends before its own. claim.mu is held.
func (t *tenure) needs() (d time.Duration) {
	now := t.lock.session.now()
	for h := range t.remaining() {
		left := h.trust() - now
		d = max(d, left+lease.Margin(left))
	}
	return d
}

// doubt says that a release of the tenure may be executed at any time from now on, and returns
// the ceiling that it is to have.
func (t *tenure) doubt() (ceiling int) {
	t.claim.mu.Lock()
	defer t.claim.mu.Unlock()
	if ceiling = t.ceiling(); ceiling > 0 {
		t.claim.crowd.doubt()
	}
	return ceiling
}

// doubt says that a release under the present wire owner may be executed at any time from now on.
func (c *claim) doubt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.crowd != nil {
		c.crowd.doubt()
	}
}

// setEmptied notes whether nothing was to be left of a shared half since the last grant.
func (c *claim) setEmptied(emptied bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.crowd != nil {
		c.crowd.emptied = emptied
	}
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
	for h := t.holds; h != nil; h = h.next {
		live = append(live, h)
	}
	return live
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
	t.until = 0 // nothing to give back
	for h := t.holds; h != nil; h = h.next {
		if h.trusted() { // else it was lost before, of that
			h.failure = nil
		}
	}
	t.claim.mu.Unlock()
	for _, h := range t.live() {
		h.lose()
	}
	t.lock.session.debts.recheck(t, t.lock.session.now())
}

// expectCopies takes in that copies of an acquisition may be executed until then.
func (t *tenure) expectCopies(then time.Duration) {
	t.claim.mu.Lock()
	defer t.claim.mu.Unlock()
	t.copies = max(t.copies, then)
}

// lasts takes in that a call which has just returned extended the server's lease, or may have.
func (t *tenure) lasts(length time.Duration) {
	t.claim.mu.Lock()
	t.until = max(t.until, lease.Add(t.lock.session.now(), length))
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
		t.lock.protocol.Renew(call, t.wire)
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
