package wait

import "strings"

// A desk is where a session is told on one channel what is for several of its calls, which wait apart from the line. A
// message begins with the wire owner that it is for, or is for all.
type desk struct {
	stop  func() // ends the subscription
	calls map[string]*Place
}

// Expect has the messages of a channel that begin with a wire owner wake the place, which is apart from the line, and
// no longer those for another wire owner. It reports whether that is new.
func (p *Place) Expect(channel, wire string) bool {
	ls, a := p.lines, p.apart
	ls.mu.Lock()
	d := ls.desks[channel]
	first := d == nil
	if first {
		d = &desk{calls: make(map[string]*Place)}
		ls.desks[channel] = d
	}
	anew := d.calls[wire] != p
	if anew {
		delete(d.calls, a.wire)
		d.calls[wire], a.desk, a.wire, a.mail = p, channel, wire, ""
	}
	ls.mu.Unlock()
	if first { // nobody else does this, and the desk stays as long as the place is there
		stop := ls.listen(channel, func(message string) { ls.toldApart(channel, message) })
		ls.mu.Lock()
		d.stop = stop
		ls.mu.Unlock()
	}
	return anew
}

// Calm forgets what has woken the place before its call looks for the first time.
func (p *Place) Calm() {
	select {
	case <-p.hint:
	default:
	}
}

// toldApart takes a message to the call that it is for, or to all, as "" is: one may have been missed.
func (ls *Lines) toldApart(channel, message string) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	d := ls.desks[channel]
	if d == nil {
		return
	}
	if !strings.Contains(message, ":") {
		for _, p := range d.calls {
			p.Wake()
		}
		return
	}
	wire, _, _ := strings.Cut(message, " ")
	if p := d.calls[wire]; p != nil {
		p.apart.mail = message
		p.Wake()
	}
}

// quit is for a place that expects nothing any more. It returns what is to be called without ls.mu, which is held.
func (a *apart) quit(ls *Lines) (stop func()) {
	d := ls.desks[a.desk]
	if d == nil {
		return func() {}
	}
	delete(d.calls, a.wire)
	if len(d.calls) > 0 {
		return func() {}
	}
	delete(ls.desks, a.desk)
	return d.stop
}
