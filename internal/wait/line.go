package wait

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// A Name is what callers wait for: a key of the server, and the channel on which its changes are published. The channel
// alone is not enough: Redisson's braces make one channel of the keys x and {x}.
type Name struct {
	Channel, Key string
	Of           uint64 // several names of which it is the first, with others of other sessions; 0: it is alone
}

// Lines are a session's local queues in front of contended names. Only the first of a name's waiters contends for it
// with the other processes (guarantee G4); the rest cost the server nothing and follow in the order in which they came.
type Lines struct {
	listen func(channel string, h Hearer) Ear
	alarm  *Alarm

	// Subscribed reports whether the messages of a channel are heard now; nil: nobody stands in a line on the server. It
	// is set before the first call.
	Subscribed func(channel string) bool

	count  atomic.Int32     // of lines, so that Empty need not lock while there are none
	round  atomic.Uint32    // see notice
	mu     sync.Mutex       // guards the rest, and all that is in lines
	lines  map[string]*line // of each key the first
	beside map[Name]queue   // those who wait apart from the line, for a name that they may share
	desks  map[string]*desk

	expected map[string]*Place // those apart from their lines, by the wire owners that they expect messages for
}

// An Ear hears the messages of a channel until it is closed. (As a function, to close it would be 16 bytes more.)
type Ear interface{ Close() }

// A Hearer gets the messages of a channel, or "" when one may have been missed.
type Hearer interface{ Hear(message string) }

// hearer is a function that hears.
type hearer func(message string)

// Hear calls h.
func (h hearer) Hear(message string) { h(message) }

// The place that listens for its line is the hearer itself: a function would be 24 bytes more.
type (
	byName    Place // where the name's changes are published
	byOthers  Place // as well, for the sake of those who do not know the line on the server
	bySession Place // where the session gets its messages
)

// Hear makes a head look.
func (p *byName) Hear(string) { p.lines.hear(p.line.name) }

// Hear makes a head look, if that is news.
func (p *byOthers) Hear(message string) {
	if !p.lines.known(p.line, message) {
		p.lines.hear(p.line.name)
	}
}

// Hear takes the message.
func (p *bySession) Hear(message string) { p.lines.told(p.line.name, message) }

// closeAll closes the ears that there are.
func closeAll(ears ...Ear) {
	for _, e := range ears {
		if e != nil {
			e.Close()
		}
	}
}

// A line has at least one place, in one of its queues, unless it is taken. Those who poll have a queue of their own:
// listeners must not wait for their pauses.
type line struct {
	name           Name
	next           *line // with the same key, as few have it; a map by names would be larger
	listens, polls queue
	ear, mark      Ear           // of the name's channel, and of its mark; nil while there is none
	taken          time.Duration // for how long the session has the name, at most, after a hand-over; 0: unknown
	fairness
	post
}

// A queue has its places in the order in which they came; the first is the head, and the one before it the last. To
// leave costs the same wherever the place is, since thousands may give up together.
type queue struct{ first *Place }

// A Place is one caller's place in a line. Leave it.
type Place struct {
	Waiter
	lines      *Lines
	line       *line
	apart      *apart // instead, if the place is in no line
	prev, next *Place
	polls      bool               // is in that queue of the line
	listen     bool               // to be subscribed when it is the head; known to the place's owner alone
	eager      bool               // looks as soon as it is the head, and first
	given      bool               // the lock has been handed over to the place; of heir
	born       atomic.Uint32      // the round in which it was taken; or one of those below firstRound
	first      chan time.Duration // nil: it is the head; capacity 1: told once, on becoming it, what to wait for
	stands     Standing           // nil: in no line on the server
	heir       any                // what its caller says to whoever hands over to it, nil: nothing can be; or the gift
}

// NewLines makes the queues of a session, which listen to channels like that. All waits end when the alarm is closed.
func NewLines(listen func(channel string, h Hearer) Ear, a *Alarm) *Lines {
	ls := &Lines{
		listen: listen, alarm: a,
		lines: make(map[string]*line), beside: make(map[Name]queue), desks: make(map[string]*desk),
		expected: make(map[string]*Place),
	}
	ls.round.Store(firstRound)
	return ls
}

// now is the time in few bytes, above zero.
func (ls *Lines) now() time.Duration { return ls.alarm.now() + 1 }

// Empty reports whether nobody waits for the name: then a newcomer may try at once.
func (ls *Lines) Empty(name Name) bool {
	if ls.count.Load() == 0 {
		return true
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.line(name) == nil
}

// line is that of the name; nil: nobody waits there. ls.mu is held.
func (ls *Lines) line(name Name) *line {
	l := ls.lines[name.Key]
	for l != nil && l.name != name {
		l = l.next
	}
	return l
}

// remove ends a line. ls.mu is held.
func (ls *Lines) remove(l *line) {
	before := ls.lines[l.name.Key]
	if before != l {
		for before.next != l {
			before = before.next
		}
		before.next = l.next
		return
	}
	if ls.lines[l.name.Key] = l.next; l.next == nil {
		delete(ls.lines, l.name.Key)
	}
}

// Join takes the last place in the line of the name. With listen, the line subscribes to its channel as soon as this
// place is a head, unless it has already; without, the place polls, and waits behind others that do. An eager place
// looks as soon as it is a head, even if the name has just been taken; and does not let others go first.
func (ls *Lines) Join(name Name, listen, eager bool) *Place { return ls.join(name, listen, eager, nil) }

// join is Join of a call that stands in a line on the server like that; nil: in none.
func (ls *Lines) join(name Name, listen, eager bool, stands Standing) *Place {
	ls.mu.Lock()
	l, p := ls.line(name), (*Place)(nil)
	if l == nil {
		made := new(struct {
			line  line
			place Place
		}) // most lines have no other
		l, p = &made.line, &made.place
		l.name, l.next = name, ls.lines[name.Key]
		ls.lines[name.Key] = l
		ls.count.Add(1)
	} else {
		p = new(Place)
	}
	taken := listen && l.taken > 0
	*p = Place{
		Waiter: NewWaiter(ls.alarm), lines: ls, line: l, polls: !listen, listen: listen, eager: eager, stands: stands,
	}
	p.born.Store(ls.round.Load())
	q := p.queue()
	if q.first != nil || taken {
		p.first = make(chan time.Duration, 1)
	}
	if taken && q.first == nil {
		p.first <- l.taken
	}
	q.add(p)
	orphan := l.orphan()
	ls.mu.Unlock()
	giveUp(orphan)
	return p
}

// queue is the one of its line that the place is in.
func (p *Place) queue() *queue {
	if p.polls {
		return &p.line.polls
	}
	return &p.line.listens
}

func (q *queue) add(p *Place) {
	if q.first == nil {
		q.first, p.prev = p, p
		return
	}
	last := q.first.prev
	last.next, p.prev, q.first.prev = p, last, p
}

func (q *queue) remove(p *Place) {
	if q.first == p {
		q.first = p.next
	} else {
		p.prev.next = p.next
	}
	if p.next != nil {
		p.next.prev = p.prev
	} else if q.first != nil {
		q.first.prev = p.prev
	}
	p.prev, p.next = nil, nil
}

// Wake makes the heads of the name's line look again: the name may be free.
func (ls *Lines) Wake(name Name) {
	if ls.count.Load() == 0 {
		return
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.line(name); l != nil {
		ls.next(l)
	}
}

// next makes the heads of a line look. ls.mu is held.
func (ls *Lines) next(l *line) {
	ls.tell(l)
	if l.polls.first != nil {
		l.polls.first.Wake()
	}
}

// tell makes the head of the listeners look, after the places beside the line. ls.mu is held.
func (ls *Lines) tell(l *line) {
	switch head := l.listens.first; {
	case head == nil:
	case head.eager || ls.beside[l.name].first == nil:
		head.Wake()
	default:
		ls.lookLater(l)
	}
}

// Head reports whether the place is the first, as far as its owner has been told.
func (p *Place) Head() bool { return p.first == nil }

// begin waits until the place is the first, and returns for how long to sleep then; or until it is time to look. Its
// error is why ctx ended, or [ErrClosed].
func (p *Place) begin(ctx context.Context, d time.Duration) (sleep time.Duration, sleeps bool, err error) {
	if !p.Head() {
		taken, err := p.reach(ctx)
		if taken == 0 || p.eager && !p.provided() {
			return 0, false, err
		}
		d = Interval(taken)
	}
	if p.listen {
		p.listen = false
		p.subscribe()
	}
	return d, true, nil
}

// reach waits until the place is the first, and returns for how long there is nothing to look
// for; or until somebody woke it.
func (p *Place) reach(ctx context.Context) (taken time.Duration, err error) {
	select {
	case taken = <-p.first:
		p.first, p.cause = nil, Turn
		return taken, nil
	case <-p.hint:
		p.cause = Hint
		select {
		case <-p.first: // the hint may have been for the first, which is this one by now
			p.first = nil
		default:
		}
		return 0, nil
	case <-p.alarm.closed:
		return 0, ErrClosed
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// subscribe makes messages wake the head of the listeners at that time, and the confirmation the present head.
func (p *Place) subscribe() {
	ls, l := p.lines, p.line
	channel, h, ear := l.name.Channel, Hearer((*byName)(p)), &l.ear
	if p.stands != nil {
		p.open()
		channel, h, ear = p.stands.Channel(), (*bySession)(p), &l.own
	}
	ls.mu.Lock()
	already := *ear != nil && (p.stands != nil || l.mark == nil)
	ls.mu.Unlock()
	if already {
		return
	}
	// Nobody else does this: the place is the head, and cannot leave meanwhile.
	hears := ls.listen(channel, h)
	ls.mu.Lock()
	var mark Ear
	if *ear, hears = hears, *ear; hears != nil { // that of one that stood, which others do not count
		mark, l.mark = l.mark, nil
	}
	ls.mu.Unlock()
	closeAll(mark, hears)
}

// Leave gives the place up. If it was the first, the next one follows: with taken above zero
// the name has just been taken by this session for that long, and there is nothing to look
// for until it is released; else the next one looks at once, since the leaver may have used
// up a wake-up that was meant for whoever is first.
func (p *Place) Leave(taken time.Duration) {
	if p.apart != nil {
		p.leaveApart()
		return
	}
	ls, l, q := p.lines, p.line, p.queue()
	ls.mu.Lock()
	first := q.first == p
	q.remove(p)
	if first && q.first != nil {
		q.first.first <- max(taken, 0)
		if taken > 0 {
			l.begin(ls.now())
		}
	}
	orphan, stop := l.orphan(), ls.tidy(l)
	ls.mu.Unlock()
	stop()
	giveUp(orphan)
}

// tidy ends everything that a line no longer needs. The function that it returns does the rest, and must be called
// without ls.mu.
func (ls *Lines) tidy(l *line) (stop func()) {
	if l.listens.first != nil || l.taken > 0 {
		return func() {}
	}
	if l.polls.first == nil {
		ls.remove(l)
		ls.count.Add(-1)
	}
	ear, mark, own := l.ear, l.mark, l.own
	l.ear, l.mark, l.own = nil, nil, nil
	return func() { closeAll(mark, ear, own) }
}
