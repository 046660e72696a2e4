package wait

import "time"

// A line may hand a name on from place to place for one turn. Then, if other processes wait for
// the name too, it stands back until each of them may have had a turn: a message reaches those
// who listen in the order in which they subscribed, so the first to hear it would always be the
// same (guarantee G4). A turn is longer if nobody has heard of the end of the last one.
const (
	turn     = 10 * time.Millisecond
	longTurn = 5 * turn
)

// courtesy is how much later than the others a line looks that stands back. If they do not take
// the name, that is all it costs.
const courtesy = 3 * time.Millisecond

// fairness is a line's record of its turns.
type fairness struct {
	since   time.Duration // the present turn began; zero between turns
	counted time.Duration // when the last turn of others was that has passed
	behind  int32         // turns of others to let pass
	alone   bool          // no other process has heard of the end of the last one
	later   bool          // a look is put off
	echo    bool          // the message of a release that the line was told of is still to come on the name's channel
}

// begin begins a turn, unless one is on.
func (f *fairness) begin(now time.Duration) {
	if f.since == 0 {
		f.since, f.behind = now, 0
	}
}

func (f *fairness) over(now time.Duration) bool {
	length := turn
	if f.alone {
		length = longTurn
	}
	return f.since > 0 && now-f.since > length
}

// pass counts a message that may be the end of another's turn.
func (f *fairness) pass(now time.Duration) {
	if now-f.counted >= turn {
		f.behind, f.counted = f.behind-1, now
	}
}

// Releasing says that the session is about to release the name: if its turn is over the line
// stands back already when the message comes, which may be before the reply.
func (ls *Lines) Releasing(name Name) {
	if ls.count.Load() == 0 {
		return
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.line(name); l != nil && l.over(ls.now()) && !l.posted() {
		l.behind = max(l.behind, 1)
	}
}

// Released says that the session has released the name, and how many clients listen for it, this
// one included. The heads of the line look at once, unless it is the turn of others.
func (ls *Lines) Released(name Name, listeners int) {
	if ls.count.Load() == 0 {
		return
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.line(name)
	if l == nil {
		return
	}
	others := listeners
	if l.ear != nil {
		others--
	}
	over := l.over(ls.now())
	if over {
		l.alone = others <= 0
	}
	if ls.isTold(l) { // the release has handed the name on, or told those whose turn it is
		l.since = 0
		if l.polls.first != nil {
			l.polls.first.Wake()
		}
		return
	}
	if over {
		l.since = 0
	}
	if l.ear != nil && others > 0 && over {
		l.behind = int32(others) //nolint:gosec // clients of a server
		ls.lookLater(l)          // the message may get lost
		return
	}
	l.behind = 0
	ls.next(l)
}

// hear makes the head of those who listen look after a message, or somewhat later if the line stands back.
func (ls *Lines) hear(name Name) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	switch l := ls.line(name); {
	case l == nil:
	case l.behind <= 0:
		ls.tell(l)
	default:
		l.pass(ls.now())
		ls.lookLater(l)
	}
}

// lookLater makes the head of those who listen look when others have had time to. ls.mu is held.
func (ls *Lines) lookLater(l *line) {
	if !l.later {
		l.later = true
		time.AfterFunc(courtesy, func() { ls.look(l) })
	}
}

// look makes the head of those who listen look, if there still is one.
func (ls *Lines) look(l *line) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l.later = false
	if l.listens.first != nil {
		l.listens.first.Wake()
	}
}
