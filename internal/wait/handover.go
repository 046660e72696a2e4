package wait

import "time"

// An heir is what a place has to do with hand-overs inside its session.
type heir struct {
	accepts any // what its caller says to whoever hands over to it; nil: nothing can be
	gift    any // what has been handed over, until it is taken
}

// Accept says that what the place waits for may be handed over to it, with what whoever does so is to know.
func (p *Place) Accept(what any) {
	p.lines.mu.Lock()
	defer p.lines.mu.Unlock()
	p.accepts = what
}

// Take takes what has been handed over to the place; nil if nothing has.
func (p *Place) Take() (gift any) {
	if p.apart != nil {
		return nil
	}
	p.lines.mu.Lock()
	defer p.lines.mu.Unlock()
	gift, p.gift = p.gift, nil
	return gift
}

// Refuse is Take of a call that gives up: nothing is handed over to the place afterwards.
func (p *Place) Refuse() (gift any) {
	if p.apart != nil {
		return nil
	}
	p.lines.mu.Lock()
	defer p.lines.mu.Unlock()
	gift, p.heir = p.gift, heir{}
	return gift
}

// HandOver hands the name over to the head of those who listen, if that accepts it and the turn of the session is not
// over. make makes what it gets of what it accepts, or nil if it cannot; it is called under a mutex of the lines. The
// name stays taken by the session, for at most that long, until [Lines.Ended].
func (ls *Lines) HandOver(name Name, taken time.Duration, make func(accepts any) (gift any)) bool {
	if ls.count.Load() == 0 {
		return false
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.lines[name]
	if l == nil || l.over() {
		return false
	}
	head := l.listens.first
	if head == nil || head.accepts == nil || head.gift != nil {
		return false
	}
	if head.gift = make(head.accepts); head.gift == nil {
		return false
	}
	l.begin()
	l.taken = taken
	head.Wake()
	return true
}

// Ended says that the session does not have the name any more that was handed over.
func (ls *Lines) Ended(name Name) {
	ls.mu.Lock()
	l := ls.lines[name]
	if l == nil {
		ls.mu.Unlock()
		return
	}
	l.taken = 0
	stop := ls.tidy(l)
	ls.mu.Unlock()
	stop()
}
