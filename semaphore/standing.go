package semaphore

import (
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/internal/wait"
)

// One call of a session at a time stands in the line on the server, the first of the session's own line. A release
// tells it that it may look. It takes nothing for it: a counting permit has no owner, and would be lost with whoever
// got it.

// breath is how long a call that stands sleeps, about: a waiter that was told is given up after 5 s, so one that has
// missed the message must look before.
const breath = 4 * time.Second

// TakePlace is where the call waits.
func (t *taking) TakePlace() *wait.Place {
	o := &t.semaphore.object
	if t.Place == nil {
		t.Stay(o.Session().Lines().JoinStanding(o.Line(), &t.semaphore.line))
	}
	return t.Place
}

// stands is how an attempt stands in the line if there are too few permits; "" if it does not.
func (t *taking) stands() (waiter string) {
	p := t.semaphore
	s := p.object.Session()
	if t.waiter == "" && t.Place != nil && t.Place.Head() && s.Subscribed(p.line.told) {
		t.waiter = core.NewWire(s) + " " + strconv.Itoa(t.n)
	}
	return t.waiter
}

// An estate is a place in the line on the server that one call leaves to the next.
type estate struct {
	semaphore *Semaphore
	waiter    string
	n         int
}

// GiveUp gives the place back.
func (e *estate) GiveUp() (wire string) {
	e.semaphore.leave(e.waiter, nil)
	return e.waiter
}

// succeed takes over the place that an earlier call has left.
func (t *taking) succeed() {
	if t.Place == nil {
		return
	}
	e, _ := t.Place.Inherit().(*estate)
	switch {
	case e == nil:
	case t.waiter != "" || e.n != t.n:
		e.GiveUp()
	default:
		t.waiter = e.waiter
	}
}

// leave leaves the place on the server, if there is one, to the next call of the session, or gives it up.
func (t *taking) leave(err error) {
	switch {
	case t.waiter == "":
	case script.ClassOf(err) != script.Unknown && t.Place.Followed():
		t.Place.Bequeath(&estate{t.semaphore, t.waiter, t.n})
	default:
		t.semaphore.leave(t.waiter, err)
	}
}

// leave takes a waiter out of the line in the background: if its last call has ended with an error that does not say
// whether it has been executed, once more when it cannot be any longer.
func (p *Semaphore) leave(waiter string, err error) {
	if waiter == "" {
		return
	}
	o := &p.object
	s := o.Session()
	forgo := func() {
		o.Forgo(session.Gift{
			Call: func() *script.Call {
				owner, _, _ := strings.Cut(waiter, " ")
				return p.line.publishing(script.NewCall(leaveScript).Key(o.Key())).Arg(owner)
			},
			Read:     func(c *script.Call) error { _, err := c.ReadInt(); return err },
			Harmless: true,
		})
	}
	all := func() {
		forgo()
		if script.InDoubt(err) {
			_ = session.Pause(s.Context(), s.NotAfter())
			forgo()
		}
	}
	if !s.Start(all) { // Close waits for the goroutine that this is
		all()
	}
}
