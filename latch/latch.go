// Package latch is the countdown latch, Redisson's RCountDownLatch: it is closed with a count, and
// opens for all waiters when it has been counted down to zero. It is for "start when all are ready"
// and "go on when all are done", across processes and languages.
//
//	done := latch.New(session, run+":done")
//	if _, err := done.TrySetCount(ctx, workers); err != nil {
//		return err
//	}
//	// … each worker calls done.CountDown(ctx) …
//	err := done.Wait(ctx)
//
// A latch that nobody has set is open, and so is one that has reached zero; an open latch can be set again. Waiters
// look at the count. If a latch is set again at once, a waiter may not have noticed that it was open, and waits on: use
// a new name for each round.
//
// If a process dies before it has counted down, nobody counts down in its place. Give [Latch.Wait] a ctx that ends.
//
// A latch is a number on the server, as a semaphore is. If the name belongs to a semaphore, CountDown takes a permit,
// and no call reports it. If it belongs to a lock that is held, all calls fail with [holdfast.ErrWrongKind].
package latch

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/internal/wire"
)

var (
	setScript       = script.Load("latch_set")
	countDownScript = script.Load("latch_count_down")
	deleteScript    = script.Load("latch_delete")
	countScript     = script.LoadLook("count_value")
	lifeScript      = script.LoadLook("count_life")
)

// A Latch is a countdown latch of one name. It is immutable and safe for concurrent use; make it
// once or at every use, as you like.
type Latch struct {
	object session.Object
}

// New returns the latch of that name. It sends nothing and cannot fail: a mistake in the name comes
// back from the first call. In a cluster the name must not have a hash tag of its own, because
// Redisson puts the channel of such a latch into another slot.
func New(s *holdfast.Session, name string) *Latch {
	l := &Latch{}
	session.InitObject(&l.object, (*session.Session)(s), session.Label{Kind: "latch", Name: name}, wire.LatchChannel)
	return l
}

// Name is the latch's name as it was given to [New].
func (l *Latch) Name() string { return l.object.Name }

// TrySetCount closes the latch until it has been counted down n times, n from 1 to 2^53 - 1. It reports
// whether it did: false says that the latch was closed already, and nothing was changed. It blocks for a
// round trip, or two. [holdfast.ErrUnknown] says that the reply was lost: the latch may be set, or may still be, for a
// third of the session's lease, at most a minute. It corresponds to trySetCount().
func (l *Latch) TrySetCount(ctx context.Context, n int) (bool, error) {
	const operation = "try set count"
	if n < 1 || n > wire.MaxCount {
		return false, l.object.Fail(operation, fmt.Errorf("count is %d, must be from 1 to 2^53 - 1", n))
	}
	return l.inTime(ctx, operation, func() *script.Call { return l.call(setScript).Int(int64(n)) })
}

// CountDown lowers the count by one; at zero the latch opens and lets all waiters through. On an open latch it does
// nothing. It is sent even if ctx has ended, since others wait for it, and returns within a third of the session's
// lease and within 5 s. [holdfast.ErrUnknown] has two meanings. Either the reply was lost: the count may be lowered,
// now or later, or not, and the call is not repeated. Or the server could not be reached, or refused, for example
// because it cannot write to its disk: it has not counted, and the session asks again in the background as long as it
// lives. It corresponds to countDown().
func (l *Latch) CountDown(context.Context) error {
	return l.object.Give("count down", session.Gift{
		Call: func() *script.Call {
			return l.call(countDownScript).Arg(l.object.Publish(), l.object.Channel)
		},
		Read: func(c *script.Call) error {
			_, err := c.ReadInt()
			return err
		},
	})
}

// Wait returns when the latch is open, at once if it already is, or when ctx ends, with an error that matches ctx.Err()
// and its cause. It waits out an outage of the server. Together, all waiters of a session cost one subscription and one
// look for each message. If a message is lost, they look within 6 s. It corresponds to await().
func (l *Latch) Wait(ctx context.Context) error {
	return l.object.Await(ctx, "wait", session.Look{
		Call: func() *script.Call { return l.call(countScript) },
		Over: func(c *script.Call) (bool, error) {
			n, err := c.ReadInt()
			return n <= 0, err
		},
	})
}

// Count returns the count that is left, 0 if the latch is open. It asks the master and blocks as long as
// [holdfast.Mutex.Locked] may. It corresponds to getCount().
func (l *Latch) Count(ctx context.Context) (n int, err error) {
	left, err := l.object.RunInt(ctx, "count", l.call(countScript))
	return max(int(left), 0), err
}

// Exists reports whether the server has the latch: one that is closed, or one that Redisson's trySetCount(0) has made,
// which is open. It asks the master. It corresponds to isExists().
func (l *Latch) Exists(ctx context.Context) (exists bool, err error) {
	left, err := l.object.RunInt(ctx, "exists", l.call(lifeScript))
	return err == nil && left != -2, err
}

// Delete opens the latch whatever its count, and lets the waiters in Go through. Redisson's await() sleeps on, as it
// does when Redisson deletes a latch. Delete reports whether there was a latch. [holdfast.ErrUnknown] says that the
// reply was lost: the latch may be deleted, or may still be, for a third of the session's lease, at most a minute. It
// corresponds to delete().
func (l *Latch) Delete(ctx context.Context) (bool, error) {
	return l.inTime(ctx, "delete", func() *script.Call { return l.call(deleteScript) })
}

func (l *Latch) call(s *script.Script) *script.Call { return script.NewCall(s).Key(l.object.Key()) }

// inTime runs a call that opens or closes the latch, and reports whether it has. Executed late, the call would do that
// to another round.
func (l *Latch) inTime(ctx context.Context, operation string, call func() *script.Call) (done bool, err error) {
	return l.object.InTime(ctx, operation, l.object.Session().NotAfter(), func(w script.Window) *script.Call {
		return call().Arg(l.object.Publish(), l.object.Channel).Int(w.NotAfter)
	})
}
