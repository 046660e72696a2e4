package wait

import "strings"

// A desk takes messages on one channel for several calls of a session, which wait apart from the line. A message begins
// with the wire owner that it is for, or is for all.
type desk struct {
	ear   Ear
	calls queue
}

// Expect makes the messages of a channel that begin with a wire owner wake the place, which is apart from the line,
// instead of those for another wire owner. It reports whether that is new.
func (p *Place) Expect(channel, wire string) bool {
	ls, a := p.lines, p.apart
	ls.mu.Lock()
	d := ls.desks[channel]
	first := d == nil
	if first {
		d = &desk{}
		ls.desks[channel] = d
	}
	anew := ls.expected[wire] != p
	if anew {
		if delete(ls.expected, a.wire); a.wire == "" {
			d.calls.add(p)
		}
		ls.expected[wire], a.desk, a.wire, a.mail = p, channel, wire, ""
	}
	ls.mu.Unlock()
	if first { // nobody else does this, and the desk stays as long as the place is there
		ear := ls.listen(channel, hearer(func(message string) { ls.toldApart(channel, message) }))
		ls.mu.Lock()
		d.ear = ear
		ls.mu.Unlock()
	}
	return anew
}

// Calm forgets wake-ups from before the place's call looks for the first time.
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
		for p := d.calls.first; p != nil; p = p.next {
			p.Wake()
		}
		return
	}
	wire, _, _ := strings.Cut(message, " ")
	if p := ls.expected[wire]; p != nil && p.apart.desk == channel {
		p.apart.mail = message
		p.Wake()
	}
}

// quit is for a place that expects nothing any more. It returns what is to be closed without ls.mu, which is held; or
// nil.
func (p *Place) quit() Ear {
	ls, a := p.lines, p.apart
	d := ls.desks[a.desk]
	if d == nil {
		return nil
	}
	delete(ls.expected, a.wire)
	if d.calls.remove(p); d.calls.first != nil {
		return nil
	}
	delete(ls.desks, a.desk)
	return d.ear
}
