package core

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/acks"
	"github.com/holdfast-go/holdfast/internal/owner"
	"github.com/holdfast-go/holdfast/internal/scope"
	"github.com/holdfast-go/holdfast/internal/session"
)

// A Single is a hold of one lock.
type Single struct {
	hold  Hold // the user's hold, unless that is allocated apart; its inside is the Single
	lock  *Lock
	grant *grant
	ended atomic.Pointer[ending]

	owner.Hold[*Single] // what Trust returns may be read without the claim's mutex, the rest only with it

	rare *rare // nil until it is needed
}

// rare is what few holds have. The claim's mutex guards it.
type rare struct {
	owner    Owner // of the claim, if a context of this hold was the first to carry one
	contexts scope.Contexts
	timer    *time.Timer // ends the contexts when trust does; nil until there is one
	failure  error       // of the last renewal, if it failed
	observed func(held time.Duration, why error)
	taken    session.Place // where in the program; nil unless that is to be known
	asked    chan struct{} // closed when others ask for the lock; nil unless that is to be known
}

// setRare returns that for a change. The claim's mutex is held.
func (h *Single) setRare() *rare {
	if h.rare == nil {
		h.rare = new(rare)
		if h.ended.Load() != nil {
			h.rare.contexts.Close()
		}
	}
	return h.rare
}

// setFailure notes how the last renewal failed, nil if it did not. The claim's mutex is held.
func (h *Single) setFailure(why error) {
	if h.rare != nil || why != nil {
		h.setRare().failure = why
	}
}

// failure is how the last renewal failed, nil if it did not.
func (h *Single) failure() error {
	h.grant.claim.Lock()
	defer h.grant.claim.Unlock()
	if h.rare == nil {
		return nil
	}
	return h.rare.failure
}

// place is where in the program the hold was taken, if that was noted.
func (h *Single) place() session.Place {
	h.grant.claim.Lock()
	defer h.grant.claim.Unlock()
	if h.rare == nil {
		return nil
	}
	return h.rare.taken
}

// An ending is why a hold ended.
type ending struct {
	err  error
	loss error // why the hold was lost; nil: it was not
}

var (
	releasedEnd = &ending{err: session.ErrNotHeld}
	detachedEnd = &ending{err: session.ErrNotHeld}
	closedEnd   = &ending{err: session.ErrClosed}
)

// Public is the hold as its user gets it; nil if there is none.
func (h *Single) Public() *Hold {
	switch {
	case h == nil:
		return nil
	case h.hold.reclaimed():
		return NewHold(h)
	}
	return &h.hold
}

// Label returns the label of the lock.
func (h *Single) Label() *session.Label { return &h.lock.Label }

// Session returns the session of the lock.
func (h *Single) Session() *session.Session { return h.lock.Session() }

// Of returns the lock of the hold.
func (h *Single) Of() *Lock { return h.lock }

// Wire is the wire owner that stands for the hold.
func (h *Single) Wire() string { return h.grant.Wire }

// Granted is what replicas are to have of it.
func (h *Single) Granted() acks.Grant {
	l, g := h.lock, h.grant
	g.claim.Lock()
	defer g.claim.Unlock()
	return acks.Grant{
		Key: l.Key(), Slot: l.slot, Protocol: l.protocol, Wire: g.Wire, Trust: h.Trust(), Watched: h.watched(),
		Of: h, Mutex: g.claim, Acked: g.Acked(), Kept: g.Acked().Renewed && !l.keeper.dog.Rests(g),
	}
}

// Told is how many clients of others were told of the release of the last hold of the name.
func (h *Single) Told() int {
	h.grant.claim.Lock()
	others := h.grant.Heard()
	h.grant.claim.Unlock()
	if h.lock.Session().Subscribed(h.lock.Channel) {
		others--
	}
	return others
}

// ID returns the name of the hold on the server, in the form that users see.
func (h *Single) ID() string { return h.lock.id(h.grant.Wire) }

// Token is the fencing token, 0 if there is none.
func (h *Single) Token() int64 {
	h.grant.claim.Lock()
	defer h.grant.claim.Unlock()
	return h.grant.Token
}

// Deadline is the moment until which the hold is trusted without another renewal.
func (h *Single) Deadline() time.Time { return h.lock.Session().Time(h.Trust()) }

// Err is nil while the hold is held and trusted, by the clock.
func (h *Single) Err() error { return h.errAt(h.lock.Session().Now()) }

// errAt is Err by a clock that was read just now.
func (h *Single) errAt(now time.Duration) error {
	for {
		if e := h.ended.Load(); e != nil {
			return e.err
		}
		if now < h.Trust() {
			return nil
		}
		h.expire()
	}
}

// watched reports whether the hold is renewed.
func (h *Single) watched() bool { return h.lock.FixedLease == 0 }

func (h *Single) trusted() bool { return h.Trusted(h.lock.Session().Now()) }

// Limit makes the hold trusted at most until then, unless it has been renewed.
func (h *Single) Limit(until time.Time) {
	c := h.grant.claim
	c.Lock()
	defer c.Unlock()
	h.Hold.Limit(h.lock.Session().Moment(until))
}

// prolong makes the hold trusted until then, because of a call sent at sent. It is lost if trust has
// ended meanwhile: no reply revives a hold (G1).
func (h *Single) prolong(sent, until time.Duration) {
	h.believe(func(now time.Duration) bool { return h.Believe(now, sent, until) })
}

// believe follows a rule about trust, which reports whether the hold was trusted at all.
func (h *Single) believe(rule func(now time.Duration) (trusted bool)) {
	h.grant.claim.Lock()
	trusted := rule(h.lock.Session().Now())
	if trusted && !h.lock.keeper.dog.Rests(h.grant) { // else it still says why nobody renews it
		h.setFailure(nil)
	}
	h.grant.claim.Unlock()
	if !trusted {
		h.expire()
	}
}

// failed records a renewal that did not succeed, and appends to told what logs it.
func (h *Single) failed(told []func(), why error) []func() {
	h.grant.claim.Lock()
	h.setFailure(why)
	h.grant.claim.Unlock()
	if h.Err() != nil {
		return told
	}
	trusted := h.remaining().Round(time.Millisecond)
	return append(told, func() {
		h.lock.Session().Logger().Warn("holdfast: renewal failed", "kind", h.lock.Title(), "name", h.lock.Name,
			"trusted", trusted, "error", why)
	})
}

// end ends the hold for the reason given. If it has ended already, it returns why.
func (h *Single) end(now time.Duration, why *ending) error {
	if err := h.errAt(now); err != nil {
		return err
	}
	return h.finish(why)
}

// expire ends the hold as lost unless a renewal came first.
func (h *Single) expire() {
	h.grant.claim.Lock()
	trusted := h.trusted()
	h.grant.claim.Unlock()
	if !trusted { // and never will be again: prolong looks at the clock under the same mutex
		h.lose()
	}
}

// lose ends the hold as lost: the server has dropped it, or trust has run out.
func (h *Single) lose() {
	telling := &h.lock.keeper.telling
	telling.Add(1) // before it ends
	if tell := h.endLost(); tell != nil {
		telling.Add(1)
		go func() { // its caller may be in the middle of anything
			defer telling.Add(-1)
			tell()
		}()
	}
	telling.Add(-1)
}

// endLost is lose that leaves the reporting to its caller.
func (h *Single) endLost() (tell func()) {
	s := h.lock.Session()
	held := min(s.Now(), h.Trust()) - h.Acquired()
	end := lostEnd(&h.lock.Label, s, held, h.failure())
	if h.finish(end) != nil {
		return nil
	}
	h.grant.do(func() owner.Duty {
		c := h.grant.claim
		return c.Lost(&h.grant.Grant, &h.Hold, h.watched(), s.Now(), c.owner != nil)
	})
	return func() { h.tellEnd(end, held) }
}

// Lost returns the error of a hold with that label that was lost after it was held for that long. why is the reason, if
// it is known; and why as logs have it.
func Lost(s *session.Session, label *session.Label, held time.Duration, why error) (err, loss error) {
	return s.Config().Lost(label.Name, held, why), cmp.Or(why, errDropped)
}

// lostEnd returns the end of a hold with that label that was lost. why is the reason, if it is known.
func lostEnd(label *session.Label, s *session.Session, held time.Duration, why error) *ending {
	err, loss := Lost(s, label, held, why)
	return &ending{err: err, loss: loss}
}

// held is how long the hold has been held so far.
func (h *Single) held() time.Duration { return h.lock.Session().Now() - h.Acquired() }

// Why is the error of the last renewal of a lost hold, or that there was nothing to renew.
func (h *Single) Why() error { return cmp.Or(h.failure(), errDropped) }

var errDropped = errors.New("its lease was over, or the server has dropped it")

// finish makes why the end of the hold, unless it has another. Its caller reports it afterwards.
func (h *Single) finish(why *ending) error {
	h.grant.claim.Lock() // or the grant might move in between, with a hold that is detached
	if !h.ended.CompareAndSwap(nil, why) {
		h.grant.claim.Unlock()
		return h.ended.Load().err
	}
	h.grant.drop(h).EndAll(why.err)
	return nil
}

// Context returns ctx with the owner of the hold, ended when either ends. A permit has no owner.
func (h *Single) Context(ctx context.Context) *scope.Context {
	var owner any
	if !h.lock.Wires.Ownerless {
		owner = h.share()
	}
	return h.arm().New(ctx, &h.grant.claim.Mutex, h, owner)
}

// Watch calls ended when the hold ends.
func (h *Single) Watch(ended context.CancelCauseFunc) { h.arm().Watch(&h.grant.claim.Mutex, h, ended) }

// arm makes the timer of the contexts, unless there is one, and returns them.
func (h *Single) arm() *scope.Contexts {
	h.grant.claim.Lock()
	defer h.grant.claim.Unlock()
	r := h.setRare()
	if r.timer == nil && h.ended.Load() == nil {
		r.timer = time.AfterFunc(h.remaining(), h.tick)
	}
	return &r.contexts
}

// stop stops the timer of the contexts, and returns them, which are to end. The claim's mutex is held.
func (h *Single) stop() *scope.Context {
	if h.rare == nil {
		return nil
	}
	if h.rare.timer != nil {
		h.rare.timer.Stop()
	}
	return h.rare.contexts.Close()
}

func (h *Single) remaining() time.Duration { return h.Trust() - h.lock.Session().Now() }

// tick ends the contexts when trust has run out.
func (h *Single) tick() {
	if h.Err() == nil {
		h.rearm()
	}
}

// rearm sets the timer to when trust runs out now.
func (h *Single) rearm() {
	h.grant.claim.Lock()
	defer h.grant.claim.Unlock()
	h.resetTimer()
}

// resetTimer is rearm. The claim's mutex is held.
func (h *Single) resetTimer() {
	if h.rare != nil && h.rare.timer != nil && h.ended.Load() == nil {
		h.rare.timer.Reset(h.remaining())
	}
}

// Since is from when on the wire owner stands for this hold, and not for others before it; 0: always.
func (h *Single) Since() time.Duration {
	h.grant.claim.Lock()
	defer h.grant.claim.Unlock()
	return h.grant.Since(&h.Hold)
}

// Asked is the channel by which others ask for the lock. Whoever calls it first closes it when they do.
func (h *Single) Asked() (asked chan struct{}, first bool) {
	h.grant.claim.Lock()
	defer h.grant.claim.Unlock()
	r := h.setRare()
	if first = r.asked == nil; first {
		r.asked = make(chan struct{})
	}
	return r.asked, first
}

// Detach ends the hold here and leaves it on the server.
func (h *Single) Detach() error {
	if err := h.end(h.lock.Session().Now(), detachedEnd); err != nil {
		return err
	}
	h.tellEnd(detachedEnd, h.held())
	return nil
}
