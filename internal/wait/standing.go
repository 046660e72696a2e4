package wait

import "time"

// A Told is how a session hears from a release that hands the name on to it, or lets it look.
type Told interface {
	// Channel is where the session gets its messages, instead of on the name's own channel.
	Channel() string
}

// A Standing is how a session stands for a name in a line on the server, where a release hands the name on to the
// first. One call of a session stands there at a time, the head of the listeners.
type Standing interface {
	Told
	// Mark is where sessions that listen on the name's channel all the same listen as well; "" is nowhere.
	Mark() string
	// Kind is the same for calls that may take each other's place in the line.
	Kind() string
	// Open reports whether the name's own channel is listened to always, since others may be about at any time.
	Open() bool
}

// Messages to a session. Any other message says that it has the name.
const (
	toldFree  = "free"  // the name is free, and others may take it first
	toldFirst = "first" // the one in front has left the line
)

// An Estate is a place in a line on the server that one call leaves to the next of its session.
type Estate interface {
	// GiveUp gives the place up that nobody has taken, and returns whose it is.
	GiveUp() (wire string)
}

type estate struct {
	Estate
	kind string        // of the call
	left time.Duration // when
}

// fresh is for how long a call need not look that a place on the server was left to: the server forgets a place in 15 s
// that nobody looks after, and who left it may have looked 6 s ago, as the next one will in 6 s.
const fresh = 2 * time.Second

// post is the part of a line for calls that stand in a line on the server.
type post struct {
	own    Ear    // of the session's channel; nil while there is none
	mail   string // the last message to the session, until the head takes it
	estate *estate

	freed time.Duration // when the line was last told that others may take the name first
}

// JoinStanding is Join of a call that stands in a line on the server as soon as it is a head here.
func (ls *Lines) JoinStanding(name Name, s Standing) *Place { return ls.join(name, true, true, s) }

// Subscribe has messages wake the place before its call looks for the first time, if it is the head.
func (p *Place) Subscribe() {
	if !p.Head() || !p.listen {
		return
	}
	p.listen = false
	p.subscribe()
	p.Calm() // that the subscription stands is no news
}

// Hear says whether the place, which is the head, is to be woken by those, too, who do not know the line on the server;
// and whether it stands there.
//
//nolint:revive // no control: it is so from now on
func (p *Place) Hear(others, stands bool) {
	ls, l := p.lines, p.line
	if p.stands.Open() {
		return
	}
	ls.mu.Lock()
	ear, mark := l.ear, l.mark
	if others == (ear != nil) {
		ls.mu.Unlock()
		return
	}
	l.ear, l.mark = nil, nil
	ls.mu.Unlock()
	if !others {
		closeAll(mark, ear)
		return
	}
	p.hearOthers(stands)
}

// open has the place hear others from the beginning, if it is to.
func (p *Place) open() {
	p.lines.mu.Lock()
	opens := p.stands.Open() && p.line.ear == nil
	p.lines.mu.Unlock()
	if opens {
		p.hearOthers(true)
	}
}

// hearOthers makes the messages on the name's channel wake the place as long as it is the head. The mark comes second:
// who counts others may count too many for a moment, but must not overlook one.
func (p *Place) hearOthers(stands bool) { //nolint:revive // as above
	ls, l := p.lines, p.line
	ear := ls.listen(l.name.Channel, (*byOthers)(p))
	var mark Ear
	if m := p.stands.Mark(); stands && m != "" {
		mark = ls.listen(m, hearer(func(string) {}))
	}
	ls.mu.Lock()
	if l.ear == nil && l.listens.first == p {
		l.ear, l.mark, ear, mark = ear, mark, nil, nil
	}
	ls.mu.Unlock()
	closeAll(mark, ear)
}

// told takes a message to the session: "" if one may have been missed.
func (ls *Lines) told(name Name, message string) {
	if message == toldFree {
		ls.free(name)
		return
	}
	var nobodys *estate
	defer func() { giveUp(nobodys) }()
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.line(name)
	if l == nil {
		return
	}
	has := message != "" && message != toldFirst
	if has {
		l.mail = message
	}
	switch {
	case l.listens.first == nil && has: // though the session had it before: it was freed by force
		nobodys, l.estate = l.estate, nil
	case l.listens.first == nil:
	case message == toldFirst && ls.beside[name].first != nil: // places that may share the name look first
		ls.lookLater(l)
	default:
		l.listens.first.Wake()
	}
}

// free makes the head look later, when others have had time to take the name; or sooner, if they release it again.
func (ls *Lines) free(name Name) {
	ls.mu.Lock()
	l := ls.line(name)
	if l == nil || !l.posted() {
		ls.mu.Unlock()
		return
	}
	head := l.listens.first
	l.freed, l.echo = ls.now(), l.ear != nil
	listens := l.echo
	ls.lookLater(l)
	ls.mu.Unlock()
	if !listens {
		head.hearOthers(true)
	}
}

// known reports whether a message on the name's channel belongs to a release that the line already knows. It was told
// just now that others may take the name first: it reaches those who listen besides, and is not the end of anybody's
// turn.
func (ls *Lines) known(l *line, message string) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if message == "" && l.posted() && l.listens.first.stands.Open() && !ls.isTold(l) {
		time.AfterFunc(refusedBy, func() { ls.lookUnlessTold(l) }) // as a rule, it looks when both subscriptions stand
		return true
	}
	if l.freed == 0 || ls.now()-l.freed > courtesy {
		return false
	}
	known := message == "" || l.echo
	l.echo = message == "" // it listens since before that release
	return known
}

// refusedBy is when the server has refused the subscription to the session's channel, as a rule, if it does not stand.
const refusedBy = 100 * time.Millisecond

func (ls *Lines) lookUnlessTold(l *line) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l.listens.first != nil && !ls.isTold(l) {
		l.listens.first.Wake()
	}
}

// Mail takes the last message to the session, if that was for the place; "" if it was nothing. In the line, it is for
// the first.
func (p *Place) Mail() (message string) {
	p.lines.mu.Lock()
	defer p.lines.mu.Unlock()
	switch {
	case p.apart != nil:
		message, p.apart.mail = p.apart.mail, ""
	case p.line.listens.first == p:
		message, p.line.mail = p.line.mail, ""
	}
	return message
}

// Followed reports whether a call of the same kind is next.
func (p *Place) Followed() bool {
	p.lines.mu.Lock()
	defer p.lines.mu.Unlock()
	return p.line.listens.first == p && p.next != nil && p.next.stands != nil && p.next.stands.Kind() == p.stands.Kind()
}

// Bequeath leaves a place in the line on the server to the next call of the same kind. If there is none when the
// session has the name no longer, it is given up.
func (p *Place) Bequeath(e Estate) {
	p.lines.mu.Lock()
	l := p.line
	orphan := l.estate
	l.estate = &estate{e, p.stands.Kind(), p.lines.now()}
	p.lines.mu.Unlock()
	giveUp(orphan)
}

// Inherit takes the bequeathed place, if this place is the first; nil if nothing was.
func (p *Place) Inherit() (e Estate) {
	p.lines.mu.Lock()
	defer p.lines.mu.Unlock()
	if l := p.line; l.listens.first == p && l.estate != nil {
		e, l.estate = l.estate.Estate, nil
	}
	return e
}

// provided reports whether something was bequeathed to the place just now, so that it need not look.
func (p *Place) provided() bool {
	p.lines.mu.Lock()
	defer p.lines.mu.Unlock()
	e := p.line.estate
	return e != nil && p.lines.now()-e.left < fresh
}

// orphan takes an estate that nobody will take. The mutex of the lines is held.
func (l *line) orphan() (e *estate) {
	head := l.listens.first
	if l.estate == nil || head == nil && l.taken > 0 ||
		head != nil && head.stands != nil && head.stands.Kind() == l.estate.kind {
		return nil
	}
	e, l.estate = l.estate, nil
	return e
}

func giveUp(e *estate) (wire string) {
	if e != nil {
		wire = e.GiveUp()
	}
	return wire
}

// posted reports whether the head stands in a line on the server. The mutex of the lines is held.
func (l *line) posted() bool { return l.listens.first != nil && l.listens.first.stands != nil }

// isTold reports whether the head hears what a release tells those who stand in a line on the server. The mutex of the
// lines is held.
func (ls *Lines) isTold(l *line) bool {
	return l.own != nil && l.posted() && ls.Subscribed(l.listens.first.stands.Channel())
}
