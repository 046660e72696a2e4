package semaphore

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// waiterLease is how long a waiter is taken to be alive that does not call again.
const waiterLease = 15 * time.Second

// waiterMillis is that as scripts take it.
var waiterMillis = lease.Millis(waiterLease)

// A line is where sessions stand that wait for permits of a semaphore. A release tells the waiters for which there is
// room.
type line struct {
	object     *session.Object
	keys       [2]string // as scripts take them
	told, mark string    // the channels of its session, and of those who listen elsewhere, too
	kind       string    // of its calls, which may take each other's place
}

func lineOf(o *session.Object, kind string) line {
	channel := wire.LineChannel(o.Key())
	return line{
		object: o, keys: [...]string{wire.Line(o.Key()), wire.LineAlive(o.Key())},
		told: channel + o.Session().ID(), mark: channel + wire.Redisson, kind: kind,
	}
}

// Channel is where the session is told that it may look.
func (l *line) Channel() string { return l.told }

// Mark is where a session that listens on the semaphore's channel, too, listens as well.
func (l *line) Mark() string { return l.mark }

// Kind is that of the calls.
func (l *line) Kind() string { return l.kind }

// Open is true: others may take permits at any time.
func (l *line) Open() bool { return true }

// publishing appends the line to a call, and how to tell the waiters there and elsewhere.
func (l *line) publishing(c *script.Call) *script.Call {
	return c.Spare(l.keys[:]...).Arg(l.object.Publish(), l.object.Channel, l.object.Session().Counting())
}
