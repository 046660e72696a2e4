package core

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wait"
)

// standInQueue waits in the server's queue: it attempts when its channel says so, and so often
// besides that the server does not take it for dead.
func (a *acquisition) standInQueue(ctx, sleep context.Context) (*Hold, error) {
	s := a.lock.session
	a.stand = true
	h, retry, err := a.attempt(ctx)
	if h != nil || err != nil {
		return h, err
	}
	w := wait.NewWaiter(s.closing)
	a.claim.await(w)
	defer a.claim.forgo(w)
	listening, stop := "", func() {}
	defer func() { stop() }()
	for {
		if a.wire != "" && a.wire != listening { // the first time, and after a re-entry was tried in vain
			stop()
			listening, stop = a.wire, s.hub.Listen(a.lock.Queue.Channel(a.wire), w.Wake).Close
		}
		if err := w.Sleep(sleep, retry); err != nil {
			return nil, a.interrupted(ctx, err)
		}
		if h, retry, err = a.attempt(ctx); h != nil || err != nil {
			return h, err
		}
	}
}

// stood takes in that an attempt found the lock taken, and where it stands in the queue now.
func (a *acquisition) stood() {
	if !a.stand {
		return
	}
	log, l := a.lock.session.config.Logger, a.lock
	switch {
	case a.stands && a.answer.place == placeNew:
		log.Warn("holdfast: taken for dead, queued up anew", "kind", l.Kind, "name", l.Name, "lease", l.WaiterLease)
	case a.answer.place == placeRegained:
		log.Warn("holdfast: dropped from the queue by another client, back in place", "kind", l.Kind, "name", l.Name)
	}
	a.stands = true
}

// leave takes the call out of the server's queue before it returns, if its ctx has not ended and
// that is quick: whoever asks again at once must not find a place of its own in the way.
func (a *acquisition) leave(ctx context.Context) {
	s := a.lock.session
	if !a.stands || ctx.Err() != nil || s.isClosed() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	call := a.lock.undo(a.wire)
	defer call.Free()
	if err := s.runner.Run(ctx, script.Keep, call); err == nil && a.until == 0 {
		a.stands = false
	}
}
