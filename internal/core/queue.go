package core

import (
	"context"

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
		if a.wire != listening { // the first time, and after a re-entry was tried in vain
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
