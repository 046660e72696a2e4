package wait

// What a place's born is instead of a round: its call was asked to say that it has waited for long, and has answered.
const (
	answered uint32 = iota
	asked
	firstRound
)

// Round begins another round of looking after those who wait, and reports whether anybody does.
func (ls *Lines) Round() (anybody bool) {
	ls.round.Add(1)
	if ls.count.Load() > 0 {
		return true
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return len(ls.desks)+len(ls.beside) > 0
}

// Notice asks those who have waited for the name for two rounds or more, once each, see [Place.Noticed]. It reports
// whether there are any.
func (ls *Lines) Notice(name Name) (anybody bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for l := ls.lines[name.Key]; l != nil; l = l.next {
		if l.name.Channel == name.Channel { // also if it is the first of several
			anybody = ls.notice(&l.listens, name) || anybody
			anybody = ls.notice(&l.polls, name) || anybody
		}
	}
	beside := ls.beside[name]
	anybody = ls.notice(&beside, name) || anybody
	for _, d := range ls.desks {
		anybody = ls.notice(&d.calls, name) || anybody
	}
	return anybody
}

func (ls *Lines) notice(q *queue, name Name) (anybody bool) {
	for p := q.first; p != nil; p = p.next {
		long := p.Long() && (p.apart == nil || p.apart.name == name)
		anybody = anybody || long
		if long && p.born.Load() >= firstRound {
			p.born.Store(asked)
			p.Wake()
		}
	}
	return anybody
}

// Long reports whether the place, if there is one, was taken two rounds ago or more.
func (p *Place) Long() bool { return p != nil && p.lines.round.Load()-p.born.Load() > 2 }

// Noticed reports, once, whether the place was asked: its call has waited for long, for what its session has.
func (p *Place) Noticed() bool { return p.born.CompareAndSwap(asked, answered) }
