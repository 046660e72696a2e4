package core

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/session"
)

// renew renews a batch of tenures and decides the outcome of every hold on its own (G9). What the server refuses as a
// whole because of some of its keys is renewed in halves, both at once.
func (k *keeper) renew(batch []lease.Renewable) {
	s := k.session
	ctx, cancel := context.WithTimeoutCause(s.Context(), s.Lease()/6, session.ErrNoReply)
	defer cancel()
	call := script.NewCall(batch[0].(*tenure).lock.protocol.Renewal()).Arg(k.millis)
	defer call.Free()
	for _, r := range batch {
		t := r.(*tenure)
		t.lock.protocol.Renew(call, t.Wire)
	}
	sent := s.Now()
	err := s.Runner().Run(ctx, script.Keep, call)
	var answers []rueidis.RedisMessage
	if err == nil {
		answers, err = s.Runner().ReadRenewal(call, batch[0].(*tenure).lock.Key(), len(batch))
	}
	if half := len(batch) / 2; half > 0 && script.BecauseOfKeys(err) {
		s.Start(func() { k.renew(batch[:half]) })
		k.renew(batch[half:])
		return
	}
	var long []*tenure
	var told []func()
	for i, r := range batch {
		t := r.(*tenure)
		if err != nil {
			told = k.failed(told, t, err)
			continue
		}
		switch n, bad := answers[i].AsInt64(); {
		case bad != nil:
			told = k.failed(told, t, &script.Failure{Class: script.Refused, Err: saidOf(ctx, t, answers[i])})
		case n >= 1:
			k.renewed(t, sent)
			told = t.renewal(told, nil)
			if t.slackens(lease.Lasting(n)) {
				long = append(long, t)
			}
		case n == 0:
			t.lose(sent)
			told = t.renewal(told, errDropped)
		default:
			told = k.failed(told, t, call.Unexpected())
		}
	}
	if len(told) > 0 {
		go tellAll(told) // nothing waits for what is done there, not even Close
	}
	k.trimAll(long)
}

// tellAll tells the user's code everything.
func tellAll(told []func()) {
	for _, tell := range told {
		tell()
	}
}

// renewal appends to told what tells the observer how a renewal of the tenure ended.
func (t *tenure) renewal(told []func(), err error) []func() {
	observer := t.lock.Session().Config().Observer
	if observer == nil || observer.Renewal == nil {
		return told
	}
	return append(told, func() { observer.Renewal(t.lock.Title(), t.lock.Name, err) })
}

// A serverError is what the server said of one name of many.
type serverError string

func (e serverError) Error() string { return script.Words(string(e)) }

// saidOf is what the server answered of the tenure instead of a number.
func saidOf(ctx context.Context, t *tenure, answer rueidis.RedisMessage) error {
	text, _ := answer.ToString()
	t.lock.Session().Runner().Heard(ctx, t.lock.Key(), text)
	return serverError(text)
}

// renewed records a renewal sent at sent, for each hold of the tenure that is renewed.
func (k *keeper) renewed(t *tenure, sent time.Duration) {
	length := k.session.Lease()
	t.lasts(length)
	for _, h := range t.live() {
		if h.watched() {
			h.prolong(sent, length)
		}
	}
	k.dog.Renewed(t, sent)
	t.sweep() // if it was lost while the renewal was under way
}

// failed records a renewal that did not succeed: the deadlines stay where they were, and it is tried again while
// anything is held. It appends to told what says so.
func (k *keeper) failed(told []func(), t *tenure, why error) []func() {
	if script.ClassOf(why) == script.Unknown {
		t.lasts(k.session.Lease())
	}
	if k.session.Closed() { // which has cut it off
		return told
	}
	for _, h := range t.live() {
		if h.watched() {
			told = h.failed(told, why)
		}
	}
	k.dog.Failed(t)
	t.sweep() // likewise
	return t.renewal(told, session.Explain(context.Background(), why))
}
