package wait

// apart is what a place has that is in no line.
type apart struct {
	name    Name
	channel string // whose messages wake it
	stop    func() // ends that; nil while there is none
	shares  bool

	desk, wire string // where it expects messages, and which
	mail       string // the last of them, until it is taken
}

// Alone is a place in no line, and so its head. Its sleeps end when closing is closed.
func Alone(closing <-chan struct{}) *Place {
	return &Place{Waiter: NewWaiter(closing), apart: &apart{}, head: true}
}

// Apart takes a place outside of the line of the name, for a call that need not wait for the others of its session.
// Leave it.
func (ls *Lines) Apart(name Name) *Place {
	p := Alone(ls.closing)
	p.lines, p.apart.name = ls, name
	return p
}

// Share says, once or more often, that the call, whose place is apart from the line, may share the name with others of
// its kind: these look first, and the head of the line somewhat later.
func (p *Place) Share() *Place {
	p.lines.mu.Lock()
	defer p.lines.mu.Unlock()
	if !p.apart.shares {
		p.apart.shares = true
		p.lines.beside[p.apart.name]++
	}
	return p
}

// Listen has the messages of a channel wake the place, which is apart from the line, and no longer those of another
// channel; of none if it is "".
func (p *Place) Listen(channel string) {
	a := p.apart
	if a.channel == channel {
		return
	}
	if a.stop != nil {
		a.stop()
	}
	a.channel, a.stop = channel, nil
	if channel != "" {
		a.stop = p.lines.listen(channel, func(string) { p.Wake() })
	}
}

// leave ends what a place apart from the line has begun.
func (a *apart) leave(ls *Lines) {
	if a.stop != nil {
		a.stop()
	}
	if !a.shares && a.wire == "" {
		return
	}
	ls.mu.Lock()
	stop := a.quit(ls)
	if a.shares {
		if ls.beside[a.name]--; ls.beside[a.name] == 0 {
			delete(ls.beside, a.name)
		}
	}
	ls.mu.Unlock()
	stop()
}
