package core

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/acks"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/owner"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/session"
)

// renew renews a batch of grants and decides the outcome of every hold on its own (G9). A batch that the server refuses
// as a whole because of some of its keys is renewed in halves, both at once.
func (k *keeper) renew(batch []*grant) {
	s := k.session
	if batch = k.withinMax(batch); len(batch) == 0 {
		return
	}
	ctx, cancel := context.WithTimeoutCause(s.Context(), s.Lease()/6, session.ErrNoReply)
	defer cancel()
	call := script.NewCall(batch[0].lock.protocol.Renewal()).Arg(k.millis)
	defer call.Free()
	for _, g := range batch {
		g.lock.protocol.Renew(call, g.Wire)
	}
	sent := s.Now()
	err := s.Runner().Run(ctx, script.Keep, call)
	var answers []rueidis.RedisMessage
	if err == nil {
		_, answers, err = s.Runner().ReadRenewal(call, batch[0].lock.Key(), len(batch))
	}
	if half := len(batch) / 2; half > 0 && script.BecauseOfKeys(err) {
		s.Start(func() { k.renew(batch[:half]) })
		k.renew(batch[half:])
		return
	}
	var long []*grant
	var told []func()
	for i, g := range batch {
		if err != nil {
			told = k.failed(told, g, err)
			continue
		}
		switch n, bad := answers[i].AsInt64(); {
		case bad != nil:
			said := k.session.Runner().Said(ctx, g.lock.Key(), answers[i])
			told = k.failed(told, g, &script.Failure{Class: script.Refused, Err: said})
		case n >= 1:
			k.renewed(g, sent)
			told = g.renewal(told, nil)
			if g.slackens(lease.Lasting(n)) {
				long = append(long, g)
			}
		case n == 0:
			g.lose(sent)
			told = g.renewal(told, errDropped)
		default:
			told = k.failed(told, g, call.Unexpected())
		}
	}
	if len(told) > 0 {
		go func() { // nothing waits for what is done there, not even Close
			for _, tell := range told {
				tell()
			}
		}()
	}
	if len(long) > 0 {
		s.Start(func() {
			for _, g := range long {
				_ = g.trim() // what fails is left to the next renewal
			}
		})
	}
}

// Renew gives a wire owner a lease of at least that, in ms, and returns what the script says of it, and when, in server
// ms.
func (l *Lock) Renew(ctx context.Context, lane script.Lane, wire, lease string) (n, now int64, err error) {
	r, call := l.Session().Runner(), script.NewCall(l.protocol.Renewal()).Arg(lease)
	defer call.Free()
	l.protocol.Renew(call, wire)
	if err = r.Run(ctx, lane, call); err != nil {
		return 0, 0, err
	}
	now, answers, err := r.ReadRenewal(call, l.Key(), 1)
	if err != nil {
		return 0, 0, err
	}
	switch n, err = answers[0].AsInt64(); {
	case err != nil:
		err = r.Said(ctx, l.Key(), answers[0])
	case n < 0:
		err = call.Unexpected()
	}
	return n, now, err
}

// withinMax returns the grants of a batch that have been held for less than MaxHold. The others are not renewed any
// more, and end with their leases.
func (k *keeper) withinMax(batch []*grant) []*grant {
	now, most := k.session.Now(), k.session.Config().MaxHold
	if most == 0 {
		return batch
	}
	return slices.DeleteFunc(batch, func(g *grant) bool {
		g.claim.Lock()
		defer g.claim.Unlock()
		live := slices.DeleteFunc(slices.Collect(g.Live()), func(h *Single) bool { return !h.watched() })
		if len(live) == 0 || now-live[len(live)-1].Acquired() < most { // the last one is the outermost
			return false
		}
		for _, h := range live {
			h.setFailure(fmt.Errorf("held for longer than Options.MaxHold, %v", most))
		}
		k.dog.Rest(g, g.Rests())
		return true
	})
}

// renewal appends to told a function that tells the observer how a renewal of the grant ended.
func (g *grant) renewal(told []func(), err error) []func() {
	observer := g.lock.Session().Config().Observer
	if observer == nil || observer.Renewal == nil {
		return told
	}
	return append(told, func() { observer.Renewal(g.lock.Title(), g.lock.Name, err) })
}

// renewed records a renewal sent at sent, for each hold of the grant that is renewed.
func (k *keeper) renewed(g *grant, sent time.Duration) {
	length := k.session.Lease()
	g.lasts(length)
	for _, h := range g.live() {
		if h.watched() {
			h.prolong(sent, lease.Trust(sent, length))
		} else {
			_ = h.Err() // ends it if its lease is over
		}
	}
	k.dog.Renewed(g, sent)
	g.sweep() // if it was lost while the renewal was under way
}

// failed records a renewal that did not succeed: the deadlines stay where they were, and it is tried again while
// anything is held. It appends to told what says so.
func (k *keeper) failed(told []func(), g *grant, why error) []func() {
	if script.ClassOf(why) == script.Unknown {
		g.lasts(k.session.Lease())
	}
	if k.session.Closed() { // which has cut it off
		return told
	}
	for _, h := range g.live() {
		if h.watched() {
			told = h.failed(told, why)
		}
	}
	k.dog.Failed(g)
	g.sweep() // nothing waits for this either
	return g.renewal(told, session.Explain(context.Background(), why))
}

// Extend gives the hold a lease of at least d from now. It never shortens it.
func (h *Single) Extend(ctx context.Context, d time.Duration) error {
	s, g := h.lock.Session(), h.grant
	switch err := h.Err(); {
	case err != nil:
		return h.lock.Fail("extend", err)
	case d < lease.Min:
		return h.lock.Fail("extend", fmt.Errorf("lease is %v, must be at least %v", d, lease.Min))
	case ctx.Err() != nil:
		return h.lock.Fail("extend", session.Stopped(ctx))
	case !s.Enter():
		return h.lock.Fail("extend", session.ErrClosed)
	}
	defer s.Leave()
	if err := g.ask(ctx, d); err != nil {
		return h.lock.FailIn(ctx, "extend", session.Explain(ctx, err))
	}
	defer func() {
		g.claim.Lock()
		g.claim.Asked(d)
		g.claim.Unlock()
		if h.ended.Load() != nil { // a nested hold that was released meanwhile has left the lease to this call
			g.slack()
		}
	}()
	if err := h.Err(); err != nil { // meanwhile; another session may have it, which would not know of a longer lease
		return h.lock.Fail("extend", err)
	}
	defer g.lock.Checks().Since(g.lock.Checks().Signs())
	sent := s.Now()
	n, now, err := g.lock.Renew(ctx, script.Keep, g.Wire, lease.Millis(d))
	switch {
	case err != nil:
		if script.ClassOf(err) == script.Unknown {
			h.MayLast(d)
		}
		return h.lock.FailIn(ctx, "extend", session.Explain(ctx, err))
	case n == 0:
		g.lose(sent)
	default:
		g.lasts(d)
		until := lease.Trust(sent, d)
		believe := func() { h.prolong(sent, until) }
		if s.Config().Acks == nil {
			believe()
		} else {
			err = acks.Extended(ctx, s, h, until, acks.Executed{At: now, Sent: sent}, believe)
		}
		g.sweep()
	}
	switch err = cmp.Or(err, h.Err()); {
	case err != nil:
		return h.lock.Fail("extend", err)
	case h.Trust() < lease.Trust(sent, d):
		return h.lock.Fail("extend", session.Unknown(errUnsure))
	}
	return nil
}

// MayLast records that a call may have given the hold, which stays, a lease of d, or may yet. It may be lost by now.
func (h *Single) MayLast(d time.Duration) {
	h.grant.do(func() owner.Duty { h.grant.MayLast(lease.Add(h.lock.Session().Now(), d)); return owner.Duty{} })
	h.grant.sweep()
}

// errUnsure is why a lease that the server has extended is not trusted.
var errUnsure = errors.New("an update of the lease is under way, and may undo it")
