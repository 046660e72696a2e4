// Package core is the inside of the toolkit: a session's running parts, the inside of a hold,
// and what the lock packages build on. A lock package describes its kind by a [Protocol] and
// gets waiting, re-entry, replays, renewal, loss and release from here.
package core

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/hub"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/presence"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wait"
	"github.com/holdfast-go/holdfast/internal/watch"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// Config is what a session is made of. The root package has checked it.
type Config struct {
	Client     rueidis.Client
	OwnsClient bool // Close closes it
	Lease      time.Duration
	MapName    func(string) string
	Sharded    bool // publish by SPUBLISH, subscribe by SSUBSCRIBE
	Logger     *slog.Logger
	Observer   *Observer
	Process    *presence.Process // what the session tells of itself; nil: nothing
	// Lost makes the error of a lost hold, whose type the root package defines.
	Lost func(name string, held time.Duration, why error) error
}

// A Session owns everything that runs: the identity, the watchdog, the subscriptions, the
// local queues, and what is still to be given back.
type Session struct {
	config  Config
	id      string
	cluster bool
	clock   clock
	numbers atomic.Int64
	runner  *script.Runner
	hub     *hub.Hub
	lines   *wait.Lines
	dog     *lease.Watchdog
	debts   debts
	watches *watch.Watches
	bounds  bounds
	known   *presence.Teller
	millis  string // the lease, as scripts take it

	ctx     context.Context //nolint:containedctx // the life of the session's goroutines
	cancel  context.CancelFunc
	closing chan struct{}

	calls    *admission // of calls that may leave something on the server
	routines *admission // of the session's goroutines
	closer   sync.Once
	outcome  error
	closed   closed

	tenures registry
	paid    atomic.Int64 // when the server last answered a call that gave something back in the background

	attached sync.Map // what packages keep for the session, by their types
}

// NewSession starts a session. It sends nothing.
func NewSession(c Config) *Session {
	base := time.Now()
	cluster := c.Client.Mode() == rueidis.ClientModeCluster
	ctx, cancel := context.WithCancel(context.Background())
	id := newID()
	c.Logger = c.Logger.With("session", id)
	s := &Session{
		config: c, id: id, cluster: cluster, clock: clock{base: base},
		hub: hub.New(c.Client, c.Sharded, c.Logger), millis: lease.Millis(c.Lease),
		ctx: ctx, cancel: cancel, closing: make(chan struct{}),
		calls: newAdmission(), routines: newAdmission(),
	}
	s.runner = script.NewRunner(c.Client, s.now, c.Lease)
	s.runner.Leaving = s.hub.Anew
	s.bounds.limit = lease.Bound(c.Lease)
	s.debts.init(s)
	s.watches = watch.New(ctx, s.closing, s.start)
	s.known = presence.NewTeller(ctx, presence.Session{
		ID: id, Client: c.Client, Lease: c.Lease, Logger: c.Logger, Now: s.now, Start: s.start, Busy: s.busy,
	}, c.Process)
	s.lines = s.NewLines()
	s.dog = lease.NewWatchdog(s.now, c.Lease, func(f func()) { s.start(f) }, s.renew)
	s.start(func() { s.dog.Run(ctx) })
	return s
}

// newID is a random version 4 UUID, as Redisson's client id.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// newOwner is a wire owner that nobody has ever had.
func (s *Session) newOwner() string { return wire.Owner(s.id, s.numbers.Add(1)) }

// ID is the session's part of its wire owners.
func (s *Session) ID() string { return s.id }

// Changing tells the session that one of the client's connections has ended, or that it opens one.
func (s *Session) Changing() { s.runner.Changing() }

// start runs f in a goroutine that Close waits for, unless Close has waited already.
func (s *Session) start(f func()) bool {
	if !s.routines.enter() {
		return false
	}
	go func() {
		defer s.routines.leave()
		f()
	}()
	return true
}

// busy reports whether the session holds or waits for anything.
func (s *Session) busy() bool { return s.calls.busy() || s.tenures.any() }

// slot groups keys that one script may touch together.
func (s *Session) slot(key string) uint16 {
	if s.cluster {
		return wire.Slot(key)
	}
	return 0
}

// publish is the command that reaches this session's kind of subscribers.
func (s *Session) publish() string {
	if s.config.Sharded {
		return "SPUBLISH"
	}
	return "PUBLISH"
}

func (s *Session) isClosed() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

// closeWithin bounds what Close waits for. The client may take a second more to close.
const closeWithin = 3500 * time.Millisecond

// Close refuses new work, ends waits, ends and releases all holds but the detached ones, in
// one batch per server, and waits for the session's goroutines. It returns within 5 s; an
// error says what may be left to run out with its lease, or without an end. Further calls return the
// same.
func (s *Session) Close() error {
	s.closer.Do(func() { s.outcome = s.close() })
	s.closed.tell() // not before: the observer may close the session, too
	return s.outcome
}

// closed is what has ended because of Close.
type closed struct {
	mu    sync.Mutex   // guards the rest
	holds []closedHold // of which nobody has been told
	left  []*tenure    // which are to be given back
}

type closedHold struct {
	hold *Single
	held time.Duration
}

func (c *closed) add(holds []*Single) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range holds {
		c.holds = append(c.holds, closedHold{h, h.held()})
	}
}

// leave leaves a tenure to Close to give back.
func (c *closed) leave(t *tenure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = append(c.left, t)
}

// take takes what has been left.
func (c *closed) take() (left []*tenure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	left, c.left = c.left, nil
	return left
}

func (c *closed) tell() {
	c.mu.Lock()
	holds := c.holds
	c.holds = nil
	c.mu.Unlock()
	for _, h := range holds {
		defer h.hold.tellEnd(closedEnd, h.held) // the others', whatever one of them does
	}
}

func (s *Session) close() error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), closeWithin, errNoReply)
	defer cancel()
	calls := s.calls.close()
	close(s.closing) // ends waits
	s.cancel()       // ends renewals and repeats

	err := s.releaseAll(ctx)
	var late error
	done := make(chan struct{})
	go func() {
		defer close(done)
		<-calls
		late = s.releaseAll(ctx) // what was granted to them meanwhile
		routines := s.routines.close()
		s.hub.Close()
		<-routines
		late = errors.Join(late, s.releaseAll(ctx)) // what those were about to give back
		s.known.End(ctx)
		s.bounds.end()
		if s.config.OwnsClient {
			s.config.Client.Close()
		}
		s.runner.Wait()
		if ctx.Err() != nil { // Close may have told the others before
			s.closed.tell()
		}
	}()
	select {
	case <-done:
		err = errors.Join(err, late)
	case <-ctx.Done():
		if s.config.OwnsClient {
			s.config.Client.Close() // whoever still waits for a reply gets an error instead
		}
		if err == nil { // else it is what took so long
			err = fmt.Errorf("close: calls are still under way after %v", closeWithin)
		}
	}
	return err
}

// releaseAll ends every hold and gives back what the server may still have of this session,
// again and again until it is known or ctx ends.
func (s *Session) releaseAll(ctx context.Context) error {
	var calls []giving
	for _, t := range s.tenures.all() {
		ended, last := t.endAll(closedEnd)
		s.closed.add(ended)
		if last {
			s.closed.leave(t)
		}
	}
	for _, t := range s.closed.take() {
		calls = append(calls, giving{t.lock, t.lock.protocol.Release(Rest{Owner: t.Wire})})
	}
	owed, endless := s.debts.take()
	for _, d := range owed {
		calls = append(calls, giving{d.lock, d.lock.undo(d.Wire, d.Ceiling)})
	}
	var left error
	if endless > 0 {
		left = fmt.Errorf("close: %d permits without an end may be taken once more, by calls that are under way", endless)
	}
	all, failed, why := len(calls), 0, error(nil)
	for delay := firstRetry; len(calls) > 0; delay = min(2*delay, lastRetry) {
		again, n, err := s.releaseBatch(ctx, calls)
		if failed += n; n > 0 {
			why = err
		}
		if len(again) > 0 && pause(ctx, delay) != nil {
			failed, why = failed+len(again), err
			break
		}
		calls = again
	}
	if failed > 0 {
		left = errors.Join(left, fmt.Errorf("close: %d of %d releases failed: %w", failed, all, explain(context.Background(), why)))
	}
	return left
}

// A giving is a call that gives a lock back.
type giving struct {
	lock *Lock
	call *script.Call
}

// releaseBatch runs the calls, and returns those whose outcome may still become known, how many others have failed,
// and the last error: of those others, if there are any.
func (s *Session) releaseBatch(ctx context.Context, givings []giving) (again []giving, failed int, why error) {
	calls := make([]*script.Call, len(givings))
	for i, g := range givings {
		calls[i] = g.call
	}
	s.runner.RunAll(ctx, calls, func(i int, err error) {
		err = givings[i].lock.final(err)
		switch {
		case script.IsTemporary(err):
			if again = append(again, givings[i]); failed == 0 {
				why = err
			}
			return
		case err != nil:
			failed, why = failed+1, err
		}
		calls[i].Free()
	})
	return again, failed, why
}
