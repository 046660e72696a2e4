package session

import (
	"cmp"
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wait"
)

// A Gift is a call that gives something back.
type Gift struct {
	Call     func() *script.Call
	Read     func(c *script.Call) error // reads the reply
	Harmless bool                       // a copy does nothing if the call has been executed
	Doubted  func()                     // is called when the outcome is not known; may be nil
	Refused  func()                     // owes the gift when the server has refused for too long; nil: the session does
}

// Give runs a call that gives something back, whether or not the caller's ctx has ended: it would be missing
// otherwise. It is repeated while the server says that it has changed nothing and that this may pass, for as long as a
// release may take, and then in the background. If the reply is lost, only a harmless one is repeated.
func (o *Object) Give(operation string, g Gift) error {
	if err := o.Mistake(operation); err != nil {
		return err
	}
	if !o.session.Enter() {
		return o.Fail(operation, ErrClosed)
	}
	defer o.session.Leave()
	switch err := o.give(g); {
	case err == nil:
		return nil
	case mayPass(err) && o.owe(g, err):
		return o.Fail(operation, Unknown(err))
	default:
		return o.Fail(operation, Explain(context.Background(), err))
	}
}

// owe makes a gift that was refused because of why come back in the background, and reports whether it will. Refused
// calls have changed nothing, so they are sent again until they are executed, or may have been, and once more when the
// session ends: ever more rarely, but twice a second where the server is away, or says that it will take them soon.
func (o *Object) owe(g Gift, why error) bool {
	if g.Refused != nil {
		g.Refused()
		return true
	}
	s := o.session
	started := s.Start(func() {
		err, delay := why, time.Duration(0)
		for last := false; !last; {
			retry := wait.RetryRarely
			if script.IsTemporary(err) {
				retry = wait.Retry
			}
			delay = retry(delay)
			last = Pause(s.ctx, delay) != nil
			ctx, cancel := s.Within(s.Now(), s.Bound())
			err = o.giveOnce(ctx, g)
			cancel()
			switch {
			case err == nil:
				return
			case last || !mayPass(err):
				o.WarnOfGift(err)
				return
			}
		}
	})
	if started {
		o.LogRefusal(why)
	}
	return started
}

// WarnOfGift logs that a gift may never be given back.
func (o *Object) WarnOfGift(err error) {
	o.session.Logger().Warn("holdfast: what was to be given back may be lost",
		"kind", o.Title(), "name", o.Name, "error", err)
}

// give runs the call until its outcome is known, as far as copies of it may be sent.
func (o *Object) give(g Gift) error {
	ctx, cancel := o.session.Within(o.session.Now(), o.session.Bound())
	defer cancel()
	var err, doubt error // the reply to a copy does not say what the first call has done
	var tries Tries
	for tries.Next(ctx) {
		err = o.giveOnce(ctx, g)
		unknown := script.InDoubt(err)
		if unknown && doubt == nil && g.Doubted != nil {
			g.Doubted()
		}
		if unknown {
			doubt = err
		}
		if err == nil {
			return nil
		}
		if !script.IsTemporary(err) || unknown && !g.Harmless {
			break
		}
	}
	return cmp.Or(doubt, err)
}

func (o *Object) giveOnce(ctx context.Context, g Gift) error {
	runner := o.session.Runner()
	if !g.Harmless {
		if err := runner.Ready(ctx, o.key); err != nil {
			return err
		}
	}
	c := g.Call()
	defer c.Free()
	if err := runner.Run(ctx, script.Return, c); err != nil {
		return err
	}
	return g.Read(c)
}

// Return gives back something that nobody waits for any more, however long the server refuses it.
func (o *Object) Return(g Gift) {
	err := o.give(g)
	if err == nil || mayPass(err) && o.owe(g, err) {
		return
	}
	o.WarnOfGift(err)
}

// Forgo gives something up that the server forgets by itself if it is not told.
func (o *Object) Forgo(g Gift) { _ = o.give(g) }

// Given reads the reply {listeners} of a call that gave something back to the waiters.
func (o *Object) Given(c *script.Call) error {
	n, err := c.ReadInts(nil)
	if err != nil {
		return err
	}
	if len(n) != 1 {
		return c.Unexpected()
	}
	o.Released(n[0])
	return nil
}
