package leader

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/presence"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/internal/wait"
	"github.com/holdfast-go/holdfast/internal/wire"
)

var currentScript = script.LoadLook("leader_current")

// A Leader is who leads. The zero value says that nobody does. The fields from Host on are empty if its session is
// [holdfast.Options].Anonymous.
type Leader struct {
	ID    string    // of its hold, "<session>:<number>"
	Term  int64     // which term it is; higher than every earlier one
	Since time.Time // when the term began, by the server's clock

	Host    string    // where its process runs
	PID     int       // its process id
	Program string    // the file name of the program it runs
	Label   string    // [holdfast.Options].Label
	Started time.Time // when the session was opened
}

// Current returns who leads; the zero Leader if nobody does, as between two terms, and for a moment after a term has
// begun. A leader that died or was cut off is reported until its lease has run out, but never one of an earlier term
// than the present one. It asks the master, and blocks for a round trip.
func Current(ctx context.Context, s *holdfast.Session, name string) (Leader, error) {
	l, _, err := newElection(s, name).current(ctx, "current")
	return l, err
}

// current asks who leads, and for how long the lock stays taken at least; below zero if it is not, or has no end.
func (e *election) current(ctx context.Context, operation string) (l Leader, left time.Duration, err error) {
	c := script.NewCall(currentScript).Key(e.Key(), wire.LeaderKey(e.Key()))
	err = e.Run(ctx, operation, c, func() error {
		reply, err := c.ReadArray()
		if err != nil {
			return err
		}
		if len(reply) != 1 && len(reply) != 5 {
			return c.Unexpected()
		}
		ms, err := reply[0].ToInt64()
		if err != nil {
			return c.Unexpected()
		}
		if left = time.Duration(ms) * time.Millisecond; len(reply) == 1 {
			return nil
		}
		term, err1 := reply[2].AsInt64()
		since, err2 := reply[3].AsInt64()
		id, err3 := reply[1].ToString()
		process, err4 := reply[4].ToString()
		if errors.Join(err1, err2, err3, err4) != nil {
			return c.Unexpected()
		}
		var p presence.Process
		_ = json.Unmarshal([]byte(process), &p) // "": it is anonymous
		l = Leader{id, term, time.UnixMilli(since), p.Host, p.PID, p.Program, p.Label, p.Started}
		return nil
	})
	return l, left, err
}

// Watch reports who leads, and then each change, until ctx ends or the loop does. The zero Leader says that nobody
// leads.
//
//	for l, err := range leader.Watch(ctx, session, "billing") {
//		if err != nil {
//			return err
//		}
//		log.Printf("term %d: %s", l.Term, l.Host)
//	}
//
// A term that begins, or ends by a resignation, is reported at once, and one that ends with its lease when the lease is
// over. If a message is lost, the change is reported within 6 s. If the leader's session is closed, the lock is free at
// once; but if nobody else stands, that is reported when the next term begins, or within 6 s. A change that is undone
// before Watch looks, or while the loop's body runs, is not reported. Terms only go up: once Watch has reported one, it
// reports no earlier one.
//
// Watch waits out an outage of the server. An error comes last: it matches ctx.Err() and its cause if ctx ended, and
// [holdfast.ErrClosed] if the session was closed; otherwise it is the server's refusal. Watch costs a subscription, a
// look for each message, one when the lease would be over, and one every 4 to 6 s. Leading does not need it.
func Watch(ctx context.Context, s *holdfast.Session, name string) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		e := newElection(s, name)
		w := &watcher{
			election: e, tell: func(l Leader) bool { return yield(l, nil) },
			Lone: wait.Lone{Place: e.Session().Lines().Apart(e.Line())},
		}
		defer func() {
			if w.silence != nil {
				w.silence()
			}
		}()
		if err := wait.Until(ctx, ctx, true, w); err != nil {
			yield(Leader{}, err)
		}
	}
}

const watching = "watch"

// A watcher is one caller that watches.
type watcher struct {
	wait.Lone
	election *election
	tell     func(Leader) bool
	told     bool
	last     Leader // that was told
	newest   int64  // of the terms that were
	silence  func() // ends that it listens; nil: it does not yet
	delay    time.Duration
}

// Attempt looks once.
func (w *watcher) Attempt(ctx, _ context.Context) (done bool, retry time.Duration, err error) {
	e := w.election
	l, left, err := e.current(ctx, watching)
	switch {
	case err != nil && ctx.Err() != nil:
		return true, 0, e.Fail(watching, session.Stopped(ctx))
	case session.Passes(err):
		w.delay = wait.Retry(w.delay)
		return false, w.delay, nil
	case err != nil:
		return true, 0, err
	}
	w.delay = 0
	if w.silence == nil { // it is woken when the subscription stands, too
		w.silence = e.Session().Listen(e.Channel, w.Place.Wake)
	}
	if l.Term < w.newest { // of a server that has forgotten the later one
		l = Leader{}
	}
	if !w.told || l.ID != w.last.ID {
		w.told, w.last, w.newest = true, l, max(w.newest, l.Term)
		if !w.tell(l) {
			return true, 0, nil
		}
	}
	return false, wait.Interval(left), nil
}

// Interrupted makes the error of why a sleep was cut short.
func (w *watcher) Interrupted(ctx context.Context, why error) error {
	if errors.Is(why, wait.ErrClosed) {
		return w.election.Fail(watching, session.ErrClosed)
	}
	return w.election.Fail(watching, session.Stopped(ctx))
}
