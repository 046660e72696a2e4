package wait

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Lines are a session's local queues in front of contended names, one per channel. Of those
// that wait for a name only the first contends for it with the other processes (guarantee
// G4); the rest cost the server nothing and follow in the order in which they came.
type Lines struct {
	listen  func(channel string, wake func()) (stop func())
	closing <-chan struct{}

	count  atomic.Int32 // of lines, so that Empty need not lock while there are none
	mu     sync.Mutex   // guards the rest, and all that is in lines
	lines  map[string]*line
	beside map[string]int // how many wait apart from the line, for what they may share
}

// A line has at least one place; the first is the head.
type line struct {
	places []*Place
	stop   func() // ends the subscription; nil while there is none
	fairness
}

// A Place is one caller's place in a line. Leave it.
type Place struct {
	*Waiter
	lines   *Lines
	channel string
	listen  bool               // to be subscribed when it is the head
	eager   bool               // looks as soon as it is the head, and first
	head    bool               // known to the place's owner alone, as listen is
	first   chan time.Duration // capacity 1: told once, on becoming the head, what to wait for
}

// NewLines makes the queues of a session; listen has wake called for the messages of a
// channel. All waits end when closing is closed.
func NewLines(listen func(channel string, wake func()) (stop func()), closing <-chan struct{}) *Lines {
	return &Lines{listen: listen, closing: closing, lines: make(map[string]*line), beside: make(map[string]int)}
}

// Empty reports whether nobody waits for the channel: then a newcomer may try at once.
func (ls *Lines) Empty(channel string) bool {
	if ls.count.Load() == 0 {
		return true
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.lines[channel] == nil
}

// Join takes the last place in the line of the channel. With listen, the line subscribes to
// its channel as soon as this place is its head, unless it has already. An eager place looks as
// soon as it is the head, even at what has just been taken; and does not let others go first.
func (ls *Lines) Join(channel string, listen, eager bool) *Place {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.lines[channel]
	if l == nil {
		l = &line{}
		ls.lines[channel] = l
		ls.count.Add(1)
	}
	p := &Place{Waiter: NewWaiter(ls.closing), lines: ls, channel: channel, listen: listen, eager: eager, head: len(l.places) == 0}
	if !p.head {
		p.first = make(chan time.Duration, 1)
	}
	l.places = append(l.places, p)
	return p
}

// Beside says that somebody waits for the channel apart from the line, who may share the name with
// others of the kind: they look first, and the head of the line somewhat later. What it returns
// ends that.
func (ls *Lines) Beside(channel string) (end func()) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.beside[channel]++
	return func() {
		ls.mu.Lock()
		defer ls.mu.Unlock()
		if ls.beside[channel]--; ls.beside[channel] == 0 {
			delete(ls.beside, channel)
		}
	}
}

// Wake has the head of the channel's line look again: the name may be free.
func (ls *Lines) Wake(channel string) {
	if ls.count.Load() == 0 {
		return
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.lines[channel]; l != nil {
		ls.next(channel, l)
	}
}

// next has the head of a line look, when those beside it have. ls.mu is held.
func (ls *Lines) next(channel string, l *line) {
	if head := l.places[0]; head.eager || ls.beside[channel] == 0 {
		head.Wake()
		return
	}
	ls.lookLater(l)
}

// Head reports whether the place is the first, as far as its owner has been told.
func (p *Place) Head() bool { return p.head }

// Wait returns nil when it is time to look: the place is the first, and it was woken or d has
// passed since; or somebody woke this very place. Otherwise it returns why ctx ended, or
// [ErrClosed].
func (p *Place) Wait(ctx context.Context, d time.Duration) error {
	if !p.head {
		taken, err := p.reach(ctx)
		if err != nil || taken == 0 || p.eager {
			return err
		}
		d = Interval(taken)
	}
	if p.listen {
		p.listen = false
		p.subscribe()
	}
	return p.Sleep(ctx, d)
}

// reach waits until the place is the first, and returns for how long there is nothing to look
// for; or until somebody woke it. It is apart from Wait so that who sleeps as the head, which
// are most in a session with many names, does so on a small stack.
func (p *Place) reach(ctx context.Context) (taken time.Duration, err error) {
	select {
	case taken = <-p.first:
		p.head, p.cause = true, Turn
		return taken, nil
	case <-p.hint:
		p.cause = Hint
		select {
		case <-p.first: // the hint may have been for whoever is first, which this is by now
			p.head = true
		default:
		}
		return 0, nil
	case <-p.closing:
		return 0, ErrClosed
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// subscribe has messages wake whoever is the head, and the confirmation the present one.
func (p *Place) subscribe() {
	ls := p.lines
	ls.mu.Lock()
	l := ls.lines[p.channel]
	already := l.stop != nil
	ls.mu.Unlock()
	if already {
		return
	}
	// Nobody else does this: the place is the head, and cannot leave meanwhile.
	stop := ls.listen(p.channel, func() { ls.hear(p.channel) })
	ls.mu.Lock()
	l.stop = stop
	ls.mu.Unlock()
}

// Leave gives the place up. If it was the first, the next one follows: with taken above zero
// the name has just been taken by this session for that long, and there is nothing to look
// for until it is released; else the next one looks at once, since the leaver may have used
// up a wake-up that was meant for whoever is first.
func (p *Place) Leave(taken time.Duration) {
	p.lines.mu.Lock()
	p.leaveAndUnlock(taken)
}

// LeaveSome is Leave of what the next one may have some of, too: a wake-up that came since this one
// looked is the next one's.
func (p *Place) LeaveSome(taken time.Duration) {
	p.lines.mu.Lock()
	if len(p.hint) > 0 {
		taken = 0
	}
	p.leaveAndUnlock(taken)
}

func (p *Place) leaveAndUnlock(taken time.Duration) {
	ls := p.lines
	l := ls.lines[p.channel]
	first := l.places[0] == p
	for i, other := range l.places {
		if other == p {
			copy(l.places[i:], l.places[i+1:])
			l.places[len(l.places)-1] = nil
			l.places = l.places[:len(l.places)-1]
			break
		}
	}
	var stop func()
	switch {
	case len(l.places) == 0:
		stop = l.stop
		delete(ls.lines, p.channel)
		ls.count.Add(-1)
	case first:
		l.places[0].first <- max(taken, 0)
		if taken > 0 {
			l.begin()
		}
	}
	ls.mu.Unlock()
	if stop != nil {
		stop()
	}
}
