// Package session is what every synchronizer of a session shares: an identity, calls to the server, subscriptions,
// waiting, giving back, and the end of it all. An [Object] is one name on the server; packages build synchronizers of
// it. Everything that has an owner and a lease is in package core.
package session

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
	"github.com/holdfast-go/holdfast/internal/sharing"
	"github.com/holdfast-go/holdfast/internal/wait"
	"github.com/holdfast-go/holdfast/internal/watch"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// Config has the settings of a session. The root package has checked it.
type Config struct {
	Client      rueidis.Client
	CloseClient func()      // nil: whoever made it closes it
	Renews      func() bool // whether connections may log in again; nil: none does
	Ended       func() bool // whether the server has ended a connection, which the client does not know; may be nil
	Lease       time.Duration
	MaxHold     time.Duration // how long a hold is renewed; 0: as long as it is held
	LongHold    time.Duration // longer holds are logged; 0: none are
	MapName     func(string) string
	Sharded     bool // publish by SPUBLISH, subscribe by SSUBSCRIBE
	Logger      *slog.Logger
	Observer    *Observer
	Process     *presence.Process // what the session publishes about itself; nil: nothing
	Places      bool              // holds know where in the program they were taken
	Reclaim     bool              // holds that have become unreachable are given back
	Breaks      bool              // the youngest wait of a cycle of owners fails
	Acks        *Acks             // nil: no replica is asked
	// Lost makes the error of a lost hold, whose type the root package defines.
	Lost func(name string, held time.Duration, why error) error
}

// Acks say how many replicas must have the session's grants.
type Acks struct {
	Replicas int           // or one of the two below
	Disk     bool          // they and the server must have it on their disks
	Timeout  time.Duration // for which they are waited for
	// Short makes the error of a grant that too few have, whose type the root package defines.
	Short func(wanted, got int, why error) error
}

// Replicas as the server has them.
const (
	MostReplicas = -1
	AllReplicas  = -2
)

// A Keeper keeps the holds of a session, which Close ends.
type Keeper interface {
	// Holds reports whether there is anything.
	Holds() bool
	// ReleaseAll ends all holds and gives back whatever the server may still have, repeatedly until the outcome is known
	// or ctx ends.
	ReleaseAll(ctx context.Context) error
	// HeldSince calls yield for each name whose outermost hold began after that, and not after then.
	HeldSince(after, then time.Duration, yield func(h Held))
	// Changed checks what is held, as another server may have taken over.
	Changed()
	// TellAll reports to the user's code what ReleaseAll has ended.
	TellAll()
}

// A Session owns everything that runs.
type Session struct {
	config   Config
	id       string
	cluster  bool
	clock    clock
	runner   *script.Runner
	hub      *hub.Hub
	lines    *wait.Lines
	joint    *wait.Lines
	watches  *watch.Watches
	bounds   bounds
	presence *presence.Teller
	watching atomic.Bool // a goroutine looks after those who wait
	blind    atomic.Bool // the session has no right to the keys of another kind

	ctx     context.Context //nolint:containedctx // the life of the session's goroutines
	cancel  context.CancelFunc
	closing chan struct{}
	alarm   *wait.Alarm

	calls    *admission // of calls that may leave something on the server
	routines *admission // of the session's goroutines
	closer   sync.Once
	outcome  error

	keeper   atomic.Value // Keeper; none until something is to be held
	attached sync.Map     // what packages keep for the session, by their types
}

// New starts a session. It sends nothing.
func New(c Config) *Session {
	ctx, cancel := context.WithCancel(sharing.Own())
	id := newID()
	c.Logger = c.Logger.With("session", id)
	s := &Session{
		config: c, id: id, cluster: c.Client.Mode() == rueidis.ClientModeCluster, clock: clock{base: time.Now()},
		hub: hub.New(c.Client, c.Sharded, c.Logger),
		ctx: ctx, cancel: cancel, closing: make(chan struct{}), alarm: wait.NewAlarm(),
		calls: newAdmission(), routines: newAdmission(),
	}
	s.runner = script.NewRunner(c.Client, s.Now, c.Lease)
	s.hub.Lost, s.runner.Renews, s.runner.Ended = s.Changed, c.Renews, c.Ended
	s.runner.Leaving = func() {
		if !s.follows() { // otherwise it will be told of the next connection
			s.hub.Anew()
		}
		s.Changed()
	}
	s.bounds.limit = lease.Bound(c.Lease)
	s.watches = watch.New(ctx, s.alarm, s.Start)
	s.presence = presence.NewTeller(ctx, presence.Session{
		ID: id, Client: c.Client, Runner: s.runner, Lease: c.Lease, Logger: c.Logger, Now: s.Now, Start: s.Start,
		Busy: s.busy, Breaks: c.Breaks,
	}, c.Process)
	listen := func(channel string, h wait.Hearer) wait.Ear { return s.hub.Hear(channel, h) }
	s.lines, s.joint = wait.NewLines(listen, s.alarm), wait.NewLines(listen, s.alarm)
	s.lines.Subscribed = s.Subscribed
	if c.LongHold > 0 {
		s.Start(s.lookForLong)
	}
	return s
}

// Keep makes k the session's keeper, once.
func (s *Session) Keep(k Keeper) { s.keeper.Store(k) }

// kept is the session's keeper, nil if nothing has been held.
func (s *Session) kept() Keeper {
	k, _ := s.keeper.Load().(Keeper)
	return k
}

// Attached returns the value that a package keeps for a session, one of each type. The first to ask makes it.
func Attached[T any](s *Session, make func(s *Session) *T) *T {
	had, ok := s.attached.Load((*T)(nil))
	if !ok {
		had, _ = s.attached.LoadOrStore((*T)(nil), sync.OnceValue(func() *T { return make(s) }))
	}
	return had.(func() *T)()
}

// newID is a random UUID in the form of Redisson's client id, of a version of our own (RFC 9562).
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|wire.SessionVersion<<4, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// ID is the session's part of its wire owners.
func (s *Session) ID() string { return s.id }

// Changing tells the session that one of the client's connections has ended, or that it opens one.
func (s *Session) Changing() { s.Runner().Changing() }

// Changed tells the session that the server may not have what it holds, or is just getting: a connection has ended or
// begins, a server has said that another one has taken over, or something was freed by force.
func (s *Session) Changed() {
	if k := s.kept(); k != nil {
		k.Changed()
	}
}

// Freed is Changed after a call that frees something by force, if it was done. A call without a reply may be executed
// within that time, so then it is Changed again.
func (s *Session) Freed(was bool, err error, within time.Duration) {
	switch {
	case errors.Is(err, ErrUnknown):
		s.Changed()
		s.Start(func() {
			if Pause(s.Context(), within) == nil {
				s.Changed()
			}
		})
	case was:
		s.Changed()
	}
}

// Connected tells the session that the client has made a connection for calls. It may lead elsewhere than the one for
// messages does, unless the client finds its servers by Sentinel or in a cluster.
func (s *Session) Connected() {
	if s.follows() {
		s.hub.Anew()
	}
}

// follows reports whether the session's connections for messages follow those that its client, of which it is told,
// makes for calls.
func (s *Session) follows() bool {
	return s.config.CloseClient != nil && s.config.Client.Mode() == rueidis.ClientModeStandalone
}

// Connections says how often a connection of the session's client has ended or was made: if that is as before, calls
// reach the server that they reached then. Below zero, it is not known.
func (s *Session) Connections() int64 {
	if !s.follows() {
		return -1
	}
	return s.Runner().Changes()
}

// Linking reports whether the session makes the client connect to a server for messages.
func (s *Session) Linking(addr string) bool { return s.hub.Linking(addr) }

// Start runs f in a goroutine that Close waits for, unless Close has waited already.
func (s *Session) Start(f func()) bool {
	if !s.routines.enter() {
		return false
	}
	go func() {
		defer s.routines.leave()
		f()
	}()
	return true
}

// Delay runs f, for which Close waits, unless it has waited already: then nothing is held any more.
func (s *Session) Delay(f func()) {
	if s.routines.enter() {
		defer s.routines.leave()
	}
	f()
}

// Enter admits a call, which may leave something on the server, until Leave; or reports that the session is closed.
func (s *Session) Enter() bool { return s.calls.enter() }

// Leave is the end of a call.
func (s *Session) Leave() { s.calls.leave() }

// busy reports whether the session holds or waits for anything.
func (s *Session) busy() bool {
	k := s.kept()
	return s.calls.busy() || k != nil && k.Holds()
}

// Closed reports whether Close has been called.
func (s *Session) Closed() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

// Context is the life of the session's goroutines.
func (s *Session) Context() context.Context { return s.ctx }

// Config returns the settings of the session.
func (s *Session) Config() *Config { return &s.config }

// Lease is the length of the leases that are renewed.
func (s *Session) Lease() time.Duration { return s.config.Lease }

// NotAfter is for how long a call that such a lease bounds may be executed, see [lease.NotAfter].
func (s *Session) NotAfter() time.Duration { return lease.NotAfter(s.config.Lease) }

// Logger is the session's.
func (s *Session) Logger() *slog.Logger { return s.config.Logger }

// Runner runs the session's calls.
func (s *Session) Runner() *script.Runner { return s.runner }

// Presence publishes which process the session is.
func (s *Session) Presence() *presence.Teller { return s.presence }

// Lines are the queues of the session's callers in front of single names.
func (s *Session) Lines() *wait.Lines { return s.lines }

// Watches are what callers of the session wait for together.
func (s *Session) Watches() *watch.Watches { return s.watches }

// Joint are the queues of those who wait for several names, each in that of one of them.
func (s *Session) Joint() *wait.Lines { return s.joint }

// Listen calls wake for each message of a channel, and whenever one may have been missed.
func (s *Session) Listen(channel string, wake func()) (stop func()) {
	return s.Hear(channel, func(string) { wake() })
}

// Hear is Listen for a caller that wants the messages: "" is that one may have been missed.
func (s *Session) Hear(channel string, hear func(message string)) (stop func()) {
	return s.hub.Listen(channel, hear).Close
}

// Subscribed reports whether the server counts the session among the subscribers of a channel.
func (s *Session) Subscribed(channel string) bool { return s.hub.Subscribed(channel) }

// Slot groups keys that one script may touch together: 0 unless the server is a cluster.
func (s *Session) Slot(key string) uint16 {
	if s.cluster {
		return wire.Slot(key)
	}
	return 0
}

// Counting is "1" if the server counts all who get a message. In a cluster a plain one goes on to other nodes: "0".
func (s *Session) Counting() string {
	if s.cluster && !s.config.Sharded {
		return "0"
	}
	return "1"
}

// Listeners returns how many clients may have received a message when the server counted got receivers. In a cluster a
// plain message goes on to other nodes, whose listeners nobody counts.
func (s *Session) Listeners(got int64) int {
	if s.Counting() == "0" {
		return max(int(got), 2)
	}
	return int(got)
}

// closeWithin bounds what Close waits for. The client may take a second more to close.
const closeWithin = 3500 * time.Millisecond

// Close refuses new work, ends waits, ends and releases all holds but the detached ones, in one batch per server, and
// waits for the session's goroutines. It returns within 5 s; an error says what may stay until its lease ends, or
// without end. Further calls return the same.
func (s *Session) Close() error {
	s.closer.Do(func() { s.outcome = s.close() })
	s.tellAll() // not before: the observer may close the session, too
	return s.outcome
}

func (s *Session) close() error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), closeWithin, ErrNoReply)
	defer cancel()
	close(s.closing) // first: whatever is refused from now on finds the session closed
	calls := s.calls.close()
	s.alarm.Close() // ends waits
	s.cancel()      // ends renewals and repeats

	err := s.releaseAll(ctx)
	var late error
	done := make(chan struct{})
	go func() {
		defer close(done)
		<-calls
		late = s.releaseAll(ctx) // grants that they got meanwhile
		routines := s.routines.close()
		s.hub.Close()
		<-routines
		late = errors.Join(late, s.releaseAll(ctx)) // what those were about to give back
		s.forget(ctx)
		s.bounds.end()
		s.closeClient()
		s.runner.Wait()
		if ctx.Err() != nil { // Close may have told the others before
			s.tellAll()
		}
	}()
	select {
	case <-done:
		err = errors.Join(err, late)
	case <-ctx.Done():
		s.closeClient() // whoever still waits for a reply gets an error instead
		if err == nil { // otherwise it is what took so long
			err = fmt.Errorf("close: calls are still under way after %v", closeWithin)
		}
	}
	return err
}

// forget makes the server forget which process the session is, or lets that expire.
func (s *Session) forget(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var tries Tries
	for tries.Next(ctx) && s.presence.End(ctx) != nil {
	}
}

func (s *Session) closeClient() {
	if s.config.CloseClient != nil {
		s.config.CloseClient()
	}
}

func (s *Session) releaseAll(ctx context.Context) error {
	if k := s.kept(); k != nil {
		return k.ReleaseAll(ctx)
	}
	return nil
}

func (s *Session) tellAll() {
	if k := s.kept(); k != nil {
		k.TellAll()
	}
}
