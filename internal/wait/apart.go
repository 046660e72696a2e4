package wait

import "time"

// apart is the additional state of a place that is in no line.
type apart struct {
	name    Name
	channel string      // whose messages wake it
	ear     Ear         // of it; nil while there is none
	timer   *time.Timer // begins that; nil if it has begun at once
	shares  bool

	desk, wire string // the channel on which it expects messages, and for which wire owner
	mail       string // the last of them, until it is taken
}

// byItself is a place apart from the line that hears by itself.
type byItself Place

// Hear wakes the place.
func (p *byItself) Hear(string) { p.Wake() }

// Alone is a place in no line, and so its head.
func Alone(a *Alarm) *Place {
	return &Place{Waiter: NewWaiter(a), apart: &apart{}}
}

// Apart takes a place outside of the line of the name, for a call that need not wait for the others of its session.
// Leave it.
func (ls *Lines) Apart(name Name) *Place {
	p := &Place{Waiter: NewWaiter(ls.alarm), lines: ls, apart: &apart{name: name}}
	p.born.Store(ls.round.Load())
	return p
}

// Share says, once or more often, that the call, whose place is apart from the line, may share the name with others of
// its kind: these look first, and the head of the line somewhat later.
func (p *Place) Share() *Place {
	p.lines.mu.Lock()
	defer p.lines.mu.Unlock()
	if !p.apart.shares {
		p.apart.shares = true
		beside := p.lines.beside[p.apart.name]
		beside.add(p)
		p.lines.beside[p.apart.name] = beside
	}
	return p
}

// Listen makes the messages of a channel wake the place, which is apart from the line, instead of those of another
// channel.
func (p *Place) Listen(channel string) {
	a := p.apart
	if a.channel == channel && a.timer == nil {
		return
	}
	a.end(p.lines)
	a.channel = channel
	a.ear = p.lines.listen(channel, (*byItself)(p))
}

// ListenLater is Listen for a place that usually hears elsewhere: it begins after a while.
func (p *Place) ListenLater(channel string, after time.Duration) {
	ls, a := p.lines, p.apart
	if a.channel == channel {
		return
	}
	a.end(ls)
	a.channel = channel
	ls.mu.Lock()
	defer ls.mu.Unlock()
	var timer *time.Timer
	timer = time.AfterFunc(after, func() {
		ear := ls.listen(channel, (*byItself)(p))
		ls.mu.Lock()
		if a.timer == timer {
			a.ear, ear = ear, nil
		}
		ls.mu.Unlock()
		closeAll(ear)
	})
	a.timer = timer
}

// end ends that messages of a channel wake the place.
func (a *apart) end(ls *Lines) {
	ls.mu.Lock()
	ear := a.ear
	if a.timer != nil {
		a.timer.Stop()
	}
	a.ear, a.timer = nil, nil
	ls.mu.Unlock()
	closeAll(ear)
}

// leaveApart ends everything that a place apart from the line has begun.
func (p *Place) leaveApart() {
	ls, a := p.lines, p.apart
	a.end(ls)
	ls.mu.Lock()
	ear := p.quit()
	if a.shares {
		beside := ls.beside[a.name]
		beside.remove(p)
		if ls.beside[a.name] = beside; beside.first == nil {
			delete(ls.beside, a.name)
		}
	}
	ls.mu.Unlock()
	closeAll(ear)
}
