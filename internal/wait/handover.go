package wait

import "time"

// Accept says that the lock may be handed over to the place, once, and what the releaser must know for that.
func (p *Place) Accept(what any) {
	p.lines.mu.Lock()
	defer p.lines.mu.Unlock()
	p.heir = what
}

// Take takes the lock that has been handed over to the place; nil if nothing has.
func (p *Place) Take() (gift any) {
	if p.apart != nil {
		return nil
	}
	p.lines.mu.Lock()
	defer p.lines.mu.Unlock()
	return p.take()
}

// Refuse is Take of a call that gives up: nothing is handed over to the place afterwards.
func (p *Place) Refuse() (gift any) {
	if p.apart != nil {
		return nil
	}
	p.lines.mu.Lock()
	defer p.lines.mu.Unlock()
	gift = p.take()
	p.heir = nil
	return gift
}

// take takes what has been handed over. ls.mu is held.
func (p *Place) take() (gift any) {
	if p.given {
		gift, p.heir, p.given = p.heir, nil, false
	}
	return gift
}

// Accepts returns what the head of the listeners for the name accepts; nil if nothing can be handed over: nobody waits,
// the head does not accept it, or the session's turn is over.
func (ls *Lines) Accepts(name Name) (what any) {
	if ls.count.Load() == 0 {
		return nil
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if head := ls.heir(name); head != nil {
		return head.heir
	}
	return nil
}

// HandOver hands the lock to the head of the listeners for the name, if it still accepts that. From then on the session
// has the name for at most that long, until [Lines.Ended].
func (ls *Lines) HandOver(name Name, gift any, taken time.Duration) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	head := ls.heir(name)
	if head == nil {
		return false
	}
	head.heir, head.given = gift, true
	head.line.begin(ls.now())
	head.line.taken = taken
	head.Wake()
	return true
}

// heir is the place that the name can be handed over to. ls.mu is held.
func (ls *Lines) heir(name Name) *Place {
	l := ls.line(name)
	if l == nil || l.over(ls.now()) {
		return nil
	}
	if head := l.listens.first; head != nil && head.heir != nil && !head.given {
		return head
	}
	return nil
}

// Ended says that the session does not have the name any more that was handed over. It returns the wire owner of a
// place on the server that was left to the next call, and is given up because there is none; "" if there is no such
// place.
func (ls *Lines) Ended(name Name) (wire string) {
	ls.mu.Lock()
	l := ls.line(name)
	if l == nil {
		ls.mu.Unlock()
		return ""
	}
	l.taken = 0
	orphan, stop := l.orphan(), ls.tidy(l)
	ls.mu.Unlock()
	stop()
	return giveUp(orphan)
}
