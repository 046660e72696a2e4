package adopt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/owner"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/session"
)

// A Mover is the additional interface of a protocol whose holds can go to another session.
type Mover interface {
	// On is the same lock, with the same settings, of a session.
	On(s *session.Session) *core.Lock
}

var (
	errSeveral   = errors.New("it is a hold of several locks; hand over those of single locks")
	errNil       = errors.New("the session is nil")
	errKind      = errors.New("a hold of this kind stays in its session")
	errRenamed   = errors.New("Options.MapName of the other session gives the lock another name")
	errElsewhere = errors.New("the other session's server does not have it: it is another server, or the hold is lost")
)

// To makes a hold, with those nested with it, one of the session to. Nothing changes on the server but the lease.
//
// A renewal by that session comes first: it proves that the server there has the wire owner. Only then, without a call,
// the hold ends here and begins there. So there is no outcome that nobody knows.
func To(ctx context.Context, of session.Holding, to *session.Session) (*core.Hold, error) {
	h, ok := of.(*core.Single)
	if !ok {
		return nil, of.Label().Fail(handOver, errSeveral)
	}
	if to == nil {
		return nil, h.Label().Fail(handOver, errNil)
	}
	if err := h.Err(); err != nil {
		return nil, h.Label().Fail(handOver, err)
	}
	if !h.Session().Enter() {
		return nil, h.Label().Fail(handOver, session.ErrClosed)
	}
	heir, ended, err := whenItMay(ctx, h, to)
	h.Session().Leave() // an observer may close the session, which waits for calls
	if err != nil {
		return nil, err
	}
	returned := false
	defer func() { // if the user's observer panics, or ends the goroutine
		if !returned {
			_ = heir.Release()
		}
	}()
	ended()
	heir.Observe(ctx)
	returned = true
	return heir.Public(), nil
}

const handOver = "hand over"

// whenItMay is handTo, again for as long as that is too early.
func whenItMay(ctx context.Context, h *core.Single, to *session.Session) (heir *core.Single, ended func(), err error) {
	for {
		heir, ended, err = handTo(ctx, h, to)
		early, ok := errors.AsType[owner.EarlyError](err)
		if !ok {
			return heir, ended, err
		}
		_ = session.Pause(h.Context(ctx), time.Duration(early)) // handTo says what has ended
	}
}

// handTo is To without what is told to users.
func handTo(ctx context.Context, h *core.Single, to *session.Session) (heir *core.Single, ended func(), err error) {
	mover, ok := h.Of().Protocol().(Mover)
	if !ok {
		return nil, nil, h.Label().Fail(handOver, errKind)
	}
	l := mover.On(to)
	if err := l.Begin(ctx, handOver); err != nil {
		return nil, nil, err
	}
	defer to.Leave()
	if l.Key() != h.Of().Key() {
		return nil, nil, l.Fail(handOver, errRenamed)
	}
	claims := claimsOf(ctx, l)
	heir, ended, err = move(&patience{Context: ctx, end: time.Now().Add(l.NotAfter())}, h, claims, to)
	if err != nil {
		claims.Drop()
		return nil, nil, l.FailIn(ctx, handOver, explain(ctx, err))
	}
	return heir, ended, nil
}

// explain is why a hold stays: a renewal whose outcome is not known has not moved it.
func explain(ctx context.Context, err error) error {
	f, ok := err.(*script.Failure) //nolint:errorlint // a loss may have one inside, of a renewal
	if ok && ctx.Err() == nil && script.InDoubt(f) {
		why := f.Err
		if !errors.Is(why, session.ErrNoReply) {
			why = fmt.Errorf("%w: %w", session.ErrNoReply, why)
		}
		return fmt.Errorf("from the other session's server: %w", why)
	}
	if ctx.Err() != nil {
		return session.Stopped(ctx)
	}
	return session.Explain(ctx, err)
}

// A patience is how long a hand-over takes at most, turns included. Its context ends then if there was a turn to wait
// for: to make one would be a quarter of all that a hand-over allocates.
type patience struct {
	context.Context //nolint:containedctx // for one call
	end             time.Time
	cancel          func()
}

// over is a context that has ended, with which one enters a turn only if that is free.
var over = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

func (p *patience) bounded() context.Context {
	if p.cancel == nil {
		p.Context, p.cancel = context.WithDeadlineCause(p.Context, p.end, session.ErrNoReply)
	}
	return p.Context
}

func (p *patience) stop() {
	if p.cancel != nil {
		p.cancel()
	}
}

// move moves the hold in the turns of both owners.
func move(
	p *patience, h *core.Single, claims *core.Claims, to *session.Session,
) (heir *core.Single, ended func(), err error) {
	if claims.Have(h) { // the two turns would be one
		return nil, nil, cmp.Or(h.Err(), session.ErrAlreadyHeld)
	}
	arrivals, sent, lasts := ArrivalsOf(to), time.Duration(0), time.Duration(0)
	arrived := Then(func(time.Duration) {})
	defer func() { arrived(sent) }() // without the turns
	defer p.stop()
	leave, err := claims.Enter(over)
	if err != nil {
		leave, err = claims.Enter(p.bounded())
	}
	if err != nil {
		return nil, nil, err
	}
	defer leave()
	if claims.Held() > 0 {
		return nil, nil, session.ErrAlreadyHeld
	}
	leaveHere, err := h.Enter(over)
	if err != nil {
		leaveHere, err = h.Enter(p.bounded())
	}
	if err != nil {
		return nil, nil, &script.Failure{Class: script.Refused, Err: err}
	}
	defer leaveHere()
	of, err := h.Moves()
	if err != nil {
		return nil, nil, err
	}
	l, least := of.Protocol().(Mover).On(to), look
	if l.FixedLease == 0 {
		least = l.Length()
	}
	within := p.Context
	if to.Config().CloseClient == nil { // nobody knows when its client gives a silent connection up
		within = p.bounded()
	}
	owed := false
	if l.Wires.Ownerless { // so anybody may release it, by its id
		arrived = arrivals.expect(h.Wire())
		owed = core.DebtsOf(to).Owes(h.Wire()) // what is paid after the renewal is forgotten then
	}
	checks := l.Checks()
	signs := checks.Signs()
	defer func() {
		if err != nil && least > look { // the hold stays, and its session does not know of the renewal
			h.MayLast(least)
		}
	}()
	err = to.Once(within, l.Key(), l.NotAfter(), func(ctx context.Context) (err error) {
		sent = to.Now()
		lasts, err = renew(ctx, l, least, h.Wire())
		if err == nil && lasts <= 0 {
			err = errElsewhere
		}
		return err
	})
	switch {
	case err != nil:
		return nil, nil, err
	case to.Closed():
		return nil, nil, session.ErrClosed
	}
	heir, ended, err = h.Move(l, claims, sent)
	if err == nil && (l.Wires.Ownerless || forgotten(heir, lasts)) { // or the other session has made a permit's shorter
		before := heir.Distrust(lease.Trust(sent, lasts))
		heir.TrustAgain(before, before.Unsure, 0, 0)
	}
	if err == nil && owed {
		l.GrantedTo([]string{heir.Wire()}).Doubt()
	}
	checks.Since(signs)
	return heir, ended, err
}

// forgotten reports whether the lease ends before the trust in it: another server has taken over that has not heard of
// the call that made it longer. (To a look, a lease without end lasts no longer than that.)
func forgotten(h *core.Single, lasts time.Duration) bool {
	return lasts > look && h.Trust() > lease.Add(h.Session().Now(), lasts)
}

// look is a lease with which a renewal extends nothing.
const look = time.Millisecond
