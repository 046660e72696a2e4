package script

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/refusal"
	"github.com/holdfast-go/holdfast/internal/sharing"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// What the client does without a connection, and how this package deals with it: the first caller dials, in its own
// goroutine and with its own context, and all others wait for that, whatever their contexts say. It also stays with an
// address that has come to lead to a replica, and calls a connection closed that it closed itself.

// redialTimeout bounds one attempt to get a new connection.
const redialTimeout = 2 * time.Second

// errNoConnection says why a call was not sent, without the words of a context that is not the caller's.
var errNoConnection = fmt.Errorf("no connection to the server within %v", redialTimeout)

// leaveAgain is how long at least a connection that leads to a replica is kept.
const leaveAgain = time.Second

// do sends a command and waits for the reply. If there may be no connection, it does so in a goroutine of its own: the
// first caller makes the connection, and the others wait for that, all inside the client, which ignores every ctx
// meanwhile.
//
// A waiter's stack is the smaller the less there is on it while its call is under way: so sharing's frame is not, nor
// is a copy of the result.
func (r *Runner) do(ctx context.Context, g *gate, c *Call) error {
	changes := r.changes.Load()
	if !g.stands(changes) && ctx.Done() != nil && !r.direct(g, changes) {
		return r.doAside(Limited(ctx), g, c, changes)
	}
	client, ctx := sharing.Bearable(ctx, r.client)
	r.calls.Add(1)
	c.result = client.Do(ctx, c.command(client.B()))
	r.calls.Add(-1)
	sharing.Unwatch(ctx)
	return c.answered(g, changes)
}

// direct reports whether a call that may be silent can be left nevertheless: its connection stands, and is direct.
func (r *Runner) direct(g *gate, changes int64) bool {
	return g.stood.Load() == changes && sharing.AnyDirect(r.client)
}

func (r *Runner) doAside(ctx context.Context, g *gate, c *Call, changes int64) (err error) {
	command := c.command(r.client.B()) // before c is somebody else's
	if c.result, err = aside(ctx, r, func(ctx context.Context) rueidis.RedisResult {
		return r.client.Do(ctx, command)
	}); err != nil {
		return err
	}
	return c.answered(g, changes)
}

// answered reads the answer to a call that began after that many changes, be it an error.
func (c *Call) answered(g *gate, changes int64) (err error) {
	if c.reply, err = c.result.ToMessage(); err == nil {
		g.answers(changes)
	}
	return err
}

// aside returns what f does, or ctx's error as soon as it ends. f's own ctx may last for longer.
func aside[T any](ctx context.Context, r *Runner, f func(ctx context.Context) T) (result T, err error) {
	returned := make(chan T, 1)
	r.wg.Go(func() { returned <- f(sharing.Aside(ctx, r.client)) })
	select {
	case result = <-returned:
		return result, nil
	case <-ctx.Done():
		return result, ctx.Err()
	}
}

// rescue makes a Failure of the error of a call, or runs it a second time if there was no connection to send it on
// because of somebody else: the first caller dials, under its own deadline, and the others get its error.
func (r *Runner) rescue(ctx context.Context, g *gate, c *Call, err error) error {
	failure := r.failure(ctx, c, err)
	if errors.Is(failure.Err, rueidis.ErrClosing) {
		failure.Temporary = r.lives(ctx, c.keys[0])
		return failure
	}
	if !r.ofDial(ctx, c, err) {
		return failure
	}
	// Now under a deadline that is nobody's.
	if err := r.redial(ctx, c.keys[0]); err != nil {
		failure.Err, failure.Temporary = err, ended(ctx) == nil && !errors.Is(err, rueidis.ErrClosing)
		return failure
	}
	if err := r.run(ctx, g, c); err != nil {
		return r.failure(ctx, c, err)
	}
	return nil
}

// failure makes a Failure of the error of a call under ctx.
func (r *Runner) failure(ctx context.Context, c *Call, err error) *Failure {
	f := sortFailure(ctx, err)
	if f.Class == Refused && r.ofLogin(c) {
		f.Class = Unknown
		f.Err = cmp.Or(ended(ctx), f.Err)
	}
	return f
}

// ofDial reports whether a call under ctx was not sent because the context of whoever dialled has ended.
func (r *Runner) ofDial(ctx context.Context, c *Call, err error) bool {
	return foreign(err) && !r.ofLogin(c) && ended(ctx) == nil
}

// ofLogin reports whether a call may have failed because its connection could not log in again. The client then ends
// the connection, and gives the error of the login to all calls that were under way. Whether they were sent is not
// known: an error of the login with which a connection begins looks the same.
func (r *Runner) ofLogin(c *Call) bool {
	err := c.result.NonRedisError() // nil if it is the reply to the call itself
	if err == nil || r.Renews == nil || !r.Renews() {
		return false
	}
	if _, ok := errors.AsType[*LoginError](err); ok { // also that of a dial: to whoever has the credentials
		return true
	}
	return refusal.Is(err) || foreign(err) && !unsent(err)
}

// A LoginError is why there are no credentials with which a connection could log in.
type LoginError struct{ Err error }

func (l *LoginError) Error() string { return l.Err.Error() }
func (l *LoginError) Unwrap() error { return l.Err }

// Heard records the error with which the server of key refused a call. If it is a replica, the client connects anew
// before Heard returns, or ctx ends: the address behind which it was a master may lead to another server by now, and to
// this one only those who are connected already.
func (r *Runner) Heard(ctx context.Context, key, text string) {
	if !ofReplica(text) {
		return
	}
	now, last := int64(time.Since(r.nodes.base)), r.left.Load()
	if last > 0 && now-last < int64(leaveAgain) || !r.left.CompareAndSwap(last, now) {
		return
	}
	if r.Leaving != nil {
		r.Leaving()
	}
	// The server closes the connection behind its reply, and executes nothing that follows: so nothing should.
	settle := r.nodes.gate(key).leave()
	_, _ = aside(ctx, r, func(context.Context) error {
		defer settle()
		r.client.Do(context.Background(), r.client.B().Arbitrary("QUIT").Keys(key).Build().Pin())
		return r.redial(ctx, key)
	})
}

// Said is Heard of what the server of key answered for one name of several instead of a number.
func (r *Runner) Said(ctx context.Context, key string, answer rueidis.RedisMessage) error {
	text, _ := answer.ToString()
	r.Heard(ctx, key, text)
	return NameError(text)
}

// heard is Heard of the error of a call.
func (r *Runner) heard(ctx context.Context, key string, err error) {
	if answer, ok := rueidis.IsRedisErr(err); ok {
		r.Heard(ctx, key, answer.Error())
	}
}

// lives reports whether the client is not closed. It says ErrClosing also of a connection that it
// closed itself, because another server is the master now, or has the slot.
func (r *Runner) lives(ctx context.Context, key string) bool {
	return !errors.Is(r.redial(ctx, key), rueidis.ErrClosing)
}

// Ready makes sure that there is a connection to the server of key, or returns a *[Failure]. It is for calls of which
// no copy may be sent: if one is made for such a call, and fails before it is up, that looks like a lost reply.
func (r *Runner) Ready(ctx context.Context, key string) error {
	if r.nodes.gate(key).stands(r.changes.Load()) && (r.Ended == nil || !r.Ended()) {
		return nil
	}
	err := r.dial(ctx, key, r.answers)
	if err == nil || errors.Is(err, rueidis.ErrClosing) { // the call itself finds out what that means
		return nil
	}
	failure := sortFailure(ctx, err)
	failure.Class = Refused
	return failure
}

// redial makes the client connect to the server of key. An answer of the server is a success, whatever it says, but a
// server that is loading is waited for: the client takes it for none, and repeats EXISTS until there is a connection.
func (r *Runner) redial(ctx context.Context, key string) error { return r.dial(ctx, key, r.exists) }

func (r *Runner) exists(ctx context.Context, key string) error {
	// Pinned: a client whose connection dies may still read a command when its error has been returned.
	return r.client.Do(ctx, r.client.B().Exists().Key(key).Build().Pin()).NonRedisError()
}

// answers is exists at a server that says anything, also that it is loading: the client never repeats marker.
func (r *Runner) answers(ctx context.Context, key string) error {
	err := r.client.Do(ctx, marker(r.client.B(), key).Pin()).NonRedisError()
	if err == nil || unsent(err) { // the client would dial again until ctx ends, and not say why it fails
		return err
	}
	return r.exists(ctx, key)
}

// dial asks the server of key, in one goroutine however many do.
func (r *Runner) dial(ctx context.Context, key string, ask func(ctx context.Context, key string) error) error {
	slot := ""
	if r.client.Mode() == rueidis.ClientModeCluster {
		slot = string(rune(wire.Slot(key)))
	}
	// The client may go on: a call of Own may have no end on a direct connection, and is repeated.
	ctx, cancel := context.WithTimeoutCause(ctx, redialTimeout, errNoConnection)
	defer cancel()
	r.wg.Add(1)
	over := sync.OnceFunc(r.wg.Done)
	var begun atomic.Bool
	dialled := r.dials.DoChan(slot, func() (any, error) {
		begun.Store(true)
		defer over()
		ctx, cancel := context.WithTimeout(sharing.Own(), redialTimeout)
		defer cancel()
		return nil, ask(ctx, key)
	})
	select {
	case result := <-dialled:
		over()
		if foreign(result.Err) {
			return errNoConnection
		}
		return result.Err
	case <-ctx.Done():
		if !begun.Load() { // it waits for a dial that somebody else began
			over()
		}
		return context.Cause(ctx)
	}
}
