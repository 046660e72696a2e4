package core

import "sync"

// gifts are calls that give something back which nothing tells from another of its kind, and which the server has
// refused. They have changed nothing, so they may be sent again: one goroutine does so now and then, until they are
// executed, or may have been, and once more when the session ends.
type gifts struct {
	session *Session

	mu      sync.Mutex // guards the rest
	owed    []owedGift
	running bool
}

type owedGift struct {
	object *Object
	Gift
}

// owe has a call sent again that was refused because of err, which may pass, and reports whether it will be.
func (gs *gifts) owe(o *Object, g Gift, err error) bool {
	s := gs.session
	if !gs.add(owedGift{o, g}) {
		return false
	}
	s.config.Logger.Warn("holdfast: refused to be given back", "kind", o.title(), "name", o.Name, "error", err)
	return true
}

func (gs *gifts) add(g owedGift) bool {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if !gs.running && !gs.session.start(gs.pay) {
		return false // closed
	}
	gs.running = true
	gs.owed = append(gs.owed, g)
	return true
}

// pay works off what is owed and ends when there is nothing, or with the session.
func (gs *gifts) pay() {
	for delay := firstRetry; ; delay = min(2*delay, rareRetry) {
		last := pause(gs.session.ctx, delay) != nil
		var kept []owedGift
		for _, g := range gs.take() {
			if !gs.send(g, last) {
				kept = append(kept, g)
			}
		}
		if gs.keep(kept) {
			return
		}
	}
}

func (gs *gifts) take() (all []owedGift) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	all, gs.owed = gs.owed, nil
	return all
}

// keep puts back what is still owed, and reports whether nothing is.
func (gs *gifts) keep(kept []owedGift) (done bool) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	gs.owed = append(kept, gs.owed...)
	gs.running = len(gs.owed) > 0
	return !gs.running
}

// send sends a call once more, and reports whether it is done with.
func (gs *gifts) send(g owedGift, last bool) (done bool) {
	ctx, cancel := gs.session.within(gs.session.now(), gs.session.bounds.limit)
	defer cancel()
	err := g.object.giveOnce(ctx, g.Call(), g.Read)
	switch {
	case err == nil:
		return true
	case mayPass(err) && !last:
		return false
	}
	g.object.warnOfGift(err)
	return true
}

// warnOfGift says that what was to be given back may never be.
func (o *Object) warnOfGift(err error) {
	o.session.config.Logger.Warn("holdfast: what was to be given back may be lost", "kind", o.title(), "name", o.Name, "error", err)
}
