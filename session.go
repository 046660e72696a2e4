package holdfast

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"
	"unicode/utf8"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/acks"
	"github.com/holdfast-go/holdfast/internal/cluster"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/presence"
	"github.com/holdfast-go/holdfast/internal/refusal"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/internal/sharing"
)

// A Session is a connection to Redis with everything that runs on it, and the identity under
// which its locks are held, as a Redisson client is. Make one per program and Redis deployment,
// and close it at the end. It is safe for concurrent use.
type Session session.Session

func (s *Session) core() *session.Session { return (*session.Session)(s) }

// Options tune a Session. The zero value of a field means its default.
type Options struct {
	// Lease is how long a renewed lock outlives a holder that has crashed: Redisson's
	// lockWatchdogTimeout. It is renewed every third of it. A longer lease needs fewer renewals,
	// but others wait longer after a crash; with a shorter one, a shorter outage loses the lock.
	// The default is 30 s, the minimum 1 s.
	Lease time.Duration

	// MaxHold is the longest time for which a hold is renewed: a safeguard against code that never returns. After that its
	// lease runs out, at most a Lease later, and the hold is lost: its contexts end with a [LostError] that says so. It
	// does not end holds with a fixed lease, nor holds that Extend extends. For a RedLock the time counts for each server
	// from its grant, and no server is asked again once the RedLock has been held for as long. The default is 0, no limit;
	// any other value must be at least Lease.
	MaxHold time.Duration

	// LongHold logs, once, each hold that lasts longer, as a warning of the Logger with the hold's name, its note
	// ([WithNote]), and where it was taken ([Options.Places]). The line may be late by up to an eighth of LongHold. It
	// does not end the hold; MaxHold does. It covers every kind of hold, including permits and holds with a fixed lease;
	// of nested holds it logs the outermost, of a multilock each member. The session looks through what it holds eight
	// times in each LongHold; taking and releasing cost nothing more. The default is 0, which logs nothing; any other
	// value must be at least 10 ms.
	LongHold time.Duration

	// MapName maps the names of locks to those on the server: Redisson's NameMapper. Both
	// sides must use the same function. The default is none.
	MapName func(string) string

	// PubSub says how releases are published in a cluster: Redisson's shardedSubscriptionMode.
	// The default is PubSubAuto.
	PubSub PubSubMode

	// Label is free text by which people recognize the session. Holders and Waiters show it with the
	// process. At most 256 bytes; the default is none.
	Label string

	// Anonymous keeps the session from publishing which process it is and from looking up others.
	// Otherwise, while it holds or waits for something, it keeps a key "holdfast_session:{<its id>}" on
	// the server, with a time to live. That costs at most one command every third of Lease, or four a second while notes
	// ([WithNote]) change or calls wait for half a second while their owners hold something ([Options.BreakDeadlocks]),
	// and nothing for what is held for less than a quarter of a second.
	Anonymous bool

	// Places records where each hold was taken. Logs of calls that wait for something that their own session holds, and of
	// holds longer than LongHold, then show that place. It costs about a microsecond for each hold. The default is false.
	Places bool

	// Reclaim gives back each hold that the program can no longer release, because nothing refers to the Hold or to one of
	// its contexts ([Hold.Context]), and logs a warning of the Logger with its name, its note ([WithNote]) and where it
	// was taken ([Options.Places]). Without it such a hold is renewed for as long as the session lives. The garbage
	// collector finds it; an idle program collects every two minutes. A context derived from that of a hold keeps the hold
	// in use until that context has ended, and a multilock keeps its members. The default is false, because a program may
	// drop the Hold on purpose, to hold something until the program ends or until somebody gives it back by its ID. Also,
	// each hold costs three allocations and 48 bytes more. A copy of the Hold, as by *hold, keeps nothing in use.
	Reclaim bool

	// BreakDeadlocks makes a call fail with [ErrDeadlock] if it waits for an owner that waits, perhaps through others, for
	// what the call's own owner holds, and it is the youngest such call. That takes up to 2 s. It finds owners that
	// contexts carry ([Hold.Context]) and that do one thing at a time. It looks at locks and the halves of read-write
	// locks, in all processes whose sessions are not anonymous and use the same server, up to some thousands of waits and
	// sessions, and in each session for 256 names. A session without this option is still found, but its calls do not
	// fail. It costs nothing unless a call waits for half a second while its owner holds something: then it costs eight
	// commands a second, four without this option, and four for each further name that such calls wait for. The default
	// is false; the command holdfast deadlocks names such calls either way.
	BreakDeadlocks bool

	// Acks is how many replicas must have an acquisition before the call returns with its hold: a number, [AcksMost] or
	// [AcksAll]. If fewer have it within AcksTimeout, it is given back in the background, and the call fails with a
	// [NotAcknowledgedError]. If one of those replicas takes over, it knows the lock. The option applies to locks, to
	// permits, and to each member of a multilock or a RedLock. A nested hold, or one that was handed over inside the
	// session, has been acknowledged before. [Hold.Extend], a nested hold with a longer fixed lease, and one that is
	// renewed and nested in a hold with a fixed lease are acknowledged again. Renewals, releases, plain semaphores and
	// latches are not acknowledged; docs/guarantees.md says what follows from that. Calls that come together wait
	// together, on a connection of their own, and delay nobody else. The user needs the right to WAIT and, for AcksMost
	// and AcksAll, to INFO. The default is 0: no call waits. It corresponds to Redisson's checkLockSyncedSlaves, which is
	// satisfied with one replica.
	Acks Acks

	// AcksOnDisk waits until the server and those replicas have also written the acquisition to disk, with WAITAOF. It
	// needs Redis 7.2 or Valkey 7.2, and appendonly on all of them. If Acks is 0, only the server must have written it.
	AcksOnDisk bool

	// AcksTimeout is how long to wait for the replicas: Redisson's slavesSyncTimeout. A call that comes while others wait
	// may take twice as long, and half a second more if the server does not answer. The time of a TryLockFor ends the wait
	// as well, at most 0.1 s later. It must be at least 1 ms and at most a third of Lease. The default is 1 s, or 3 s with
	// AcksOnDisk, but never more than a third of Lease.
	AcksTimeout time.Duration

	// Logger gets what a person must know: holds lost, renewals failing, subscriptions interrupted,
	// names refused, calls that wait for their own session. docs/observability.md lists its lines. The
	// default is silence.
	Logger *slog.Logger

	// Observer sees what the session does, for metrics and traces. Package otel has one for OpenTelemetry. The default,
	// nil, costs nothing.
	Observer *Observer
}

// Acks is a number of replicas, see [Options.Acks].
type Acks int

const (
	// AcksMost is more than half of the replicas that the session has seen at the master at the same time within the last
	// minute, and at least one.
	AcksMost Acks = session.MostReplicas
	// AcksAll is as many replicas as the session has seen at the master at the same time within the last minute, and at
	// least one. If you know how many there are, a number is safer.
	AcksAll Acks = session.AllReplicas
)

// A PubSubMode says how releases are published in a cluster. It must be the same in all
// processes that share locks: a plain subscriber does not hear sharded messages, nor the
// reverse. Outside of clusters messages are always plain.
type PubSubMode int

const (
	// PubSubAuto is sharded if the servers of the cluster know sharded messages (Redis 7.0),
	// else plain, as Redisson decides. In a cluster it needs the right to PUBSUB SHARDNUMSUB.
	PubSubAuto PubSubMode = iota
	// PubSubSharded is always sharded. It needs a cluster.
	PubSubSharded
	// PubSubPlain is always plain, also in a cluster.
	PubSubPlain
)

const (
	closePatience = 100 * time.Millisecond // for how long the client may close before its connections are cut

	defaultLease = 30 * time.Second
	minLease     = time.Second
	maxLabel     = 256

	defaultAcksTimeout = time.Second
)

// Open connects and returns a session that owns the client. It blocks until the first connection is up or fails. It
// changes opt where the guarantees need that:
//
//   - one connection per server, PipelineMultiplex −1, and no client cache, DisableCache;
//   - BlockingPoolSize at least 4, for messages and for what blocks a connection;
//   - ReadBufferEachConn and WriteBufferEachConn 64 KiB, unless set;
//   - ConnWriteTimeout at most Lease/6 and Dialer.KeepAlive at most Lease/12, so that a connection that goes silent is
//     noticed while there is still time to renew on a new one; if they are not set, at most 5 s and 1 s;
//   - Dialer.Timeout at most the lesser of 2 s and Lease/6. Open itself, when nothing is held yet, repeats its attempts
//     for up to 2 s, or less if opt says so. All this applies to Sentinel.Dialer as well, for each sentinel by itself:
//     they are asked one after the other;
//   - Sentinel.TopologyRefreshInterval 5 s, ClusterOption.MaxMovedRedirections 8 and
//     ClusterOption.ShardsRefreshInterval 10 s, unless set.
//
// Open refuses URLs in InitAddress, unless opt has a dialer of its own; ConnLifetime, with which a script can run
// twice; ReplicaOnly, SendToReplicas and DisableAutoPipelining; and a RingScaleEachConn of less than 10, which has no
// room for the thousand calls that a session may have in flight.
// With Standalone.EnableRedirect, a session may go on listening to the server from which it was sent away: its waiters
// then look from time to time. Sentinel is for that. With AlwaysRESP2, each refresh of credentials (RefreshAfter)
// breaks the connection for messages; waiters look again when the next one stands.
func Open(opt rueidis.ClientOption, opts *Options) (*Session, error) {
	o, err := opts.checked()
	if err != nil {
		return nil, fmt.Errorf("holdfast: open: %w", err)
	}
	patience := atMost(opt.Dialer.Timeout, dialLimit)
	var l links
	if err := setUp(&opt, o.Lease, &l); err != nil {
		return nil, fmt.Errorf("holdfast: open: %w", err)
	}
	client, err := connect(opt, patience)
	if err != nil {
		l.end()
		return nil, fmt.Errorf("holdfast: open: %w", err)
	}
	var directs *sharing.Directs
	if opt.ConnWriteTimeout <= lease.Bound(o.Lease) { // else a direct release might last for longer than it may
		directs = &l.directs
	}
	closeClient := func() {
		closed := make(chan struct{})
		go func() {
			client.Close()
			close(closed)
		}()
		select {
		case <-closed:
		case <-time.After(closePatience): // it waits for a Sentinel that does not answer
		}
		l.end()
		<-closed
	}
	s, err := newSession(sharing.Client(client, directs), o, closeClient, &l)
	if err != nil {
		closeClient()
		return nil, fmt.Errorf("holdfast: open: %w", err)
	}
	l.session.Store(s)
	return (*Session)(s), nil
}

// NewSession returns a session on a client that stays the caller's; close the client after the session. NewSession
// cannot see how the client was set up, so everything that [Open] lists is up to the caller. Without these settings a
// silent connection may be noticed only after the lease has ended; the hold is then lost, and knows it. Nor can it see
// when the client makes a new connection: the first calls that need one may wait for it beyond the end of their ctx.
//
// A client whose AuthCredentialsFn sets RefreshAfter needs Open. If a connection cannot log in again, the client gives
// that error to all calls that were under way. After Open their outcome is unknown; after NewSession the error looks
// like one of a call that did nothing, which may then be executed twice, or leave its lock until the lease ends.
func NewSession(client rueidis.Client, opts *Options) (*Session, error) {
	if client == nil {
		return nil, errors.New("holdfast: new session: client is nil")
	}
	o, err := opts.checked()
	if err != nil {
		return nil, fmt.Errorf("holdfast: new session: %w", err)
	}
	s, err := newSession(sharing.Client(client, nil), o, nil, new(links))
	if err != nil {
		return nil, fmt.Errorf("holdfast: new session: %w", err)
	}
	return (*Session)(s), nil
}

// ID is the session's random id, a UUID like Redisson's client id. The ids of its holds
// start with it.
func (s *Session) ID() string { return s.core().ID() }

// Close refuses new work with [ErrClosed], ends all waits, ends and releases all holds except detached ones, in one
// batch per server, and waits for the session's goroutines. It returns within 5 s. An error says what may not have been
// released; that ends with its lease. Closing again does nothing and returns the same.
func (s *Session) Close() error {
	if err := s.core().Close(); err != nil {
		return fmt.Errorf("holdfast: %w", err)
	}
	return nil
}

// checked returns the options with defaults, or what is wrong with them.
func (o *Options) checked() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	if c.Lease == 0 {
		c.Lease = defaultLease
	}
	if c.Lease < minLease {
		return c, fmt.Errorf("Options.Lease is %v, must be at least %v", c.Lease, minLease)
	}
	if c.MaxHold != 0 && c.MaxHold < c.Lease {
		return c, fmt.Errorf("Options.MaxHold is %v, must be 0 or at least Lease, %v", c.MaxHold, c.Lease)
	}
	if c.LongHold != 0 && c.LongHold < lease.Min {
		return c, fmt.Errorf("Options.LongHold is %v, must be 0 or at least %v", c.LongHold, lease.Min)
	}
	if c.PubSub < PubSubAuto || c.PubSub > PubSubPlain {
		return c, fmt.Errorf("Options.PubSub is %d, must be PubSubAuto, PubSubSharded or PubSubPlain", c.PubSub)
	}
	if len(c.Label) > maxLabel || !utf8.ValidString(c.Label) {
		return c, fmt.Errorf("Options.Label has %d bytes, must be UTF-8 of at most %d", len(c.Label), maxLabel)
	}
	if c.BreakDeadlocks && c.Anonymous {
		return c, errors.New("Options.BreakDeadlocks needs a session that publishes its waits: it must not be Anonymous")
	}
	if c.Acks < AcksAll {
		return c, fmt.Errorf("Options.Acks is %d, must be a number of replicas, AcksMost or AcksAll", c.Acks)
	}
	if c.AcksTimeout == 0 {
		c.AcksTimeout = min(defaultAcksTimeout, c.Lease/3)
		if c.AcksOnDisk {
			c.AcksTimeout = min(3*defaultAcksTimeout, c.Lease/3)
		}
	}
	if c.AcksTimeout < time.Millisecond || c.AcksTimeout > c.Lease/3 {
		return c, fmt.Errorf("Options.AcksTimeout is %v, must be at least 1ms and at most a third of Lease, %v",
			c.AcksTimeout, c.Lease/3)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

func newSession(client rueidis.Client, o Options, closeClient func(), l *links) (*session.Session, error) {
	sharded, err := shardedPubSub(client, o.PubSub)
	if err != nil {
		return nil, err
	}
	if err := acks.Check(client, o.acks()); err != nil {
		return nil, err
	}
	return session.New(session.Config{
		Client: client, CloseClient: closeClient, Renews: l.renews.Load, Ended: l.haveEnded,
		Lease: o.Lease, MaxHold: o.MaxHold, LongHold: o.LongHold,
		MapName: o.MapName, Sharded: sharded, Logger: o.Logger, Observer: o.Observer.inside(), Process: o.process(),
		Places: o.Places, Reclaim: o.Reclaim, Breaks: o.BreakDeadlocks, Lost: newLostError, Acks: o.acks(),
	}), nil
}

// acks are the replicas that are asked; nil: none are.
func (o *Options) acks() *session.Acks {
	if o.Acks == 0 && !o.AcksOnDisk {
		return nil
	}
	return &session.Acks{
		Replicas: int(o.Acks), Disk: o.AcksOnDisk, Timeout: o.AcksTimeout,
		Short: func(wanted, got int, why error) error {
			return &NotAcknowledgedError{Wanted: wanted, Got: got, Err: why}
		},
	}
}

// process is what the session publishes about itself.
func (o *Options) process() *presence.Process {
	if o.Anonymous {
		return nil
	}
	host, _ := os.Hostname()
	program := ""
	if len(os.Args) > 0 {
		program = filepath.Base(os.Args[0])
	}
	return &presence.Process{
		Host: host, PID: os.Getpid(), Program: program, Label: o.Label, Started: time.Now().Truncate(time.Millisecond),
	}
}

// shardedPubSub decides as Redisson does: sharded only in a cluster, by a probe if not told.
func shardedPubSub(client rueidis.Client, mode PubSubMode) (bool, error) {
	single := client.Mode() != rueidis.ClientModeCluster
	switch {
	case mode == PubSubSharded && single:
		return false, errors.New("Options.PubSub is PubSubSharded, which needs a cluster")
	case mode != PubSubAuto || single:
		return mode == PubSubSharded, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, err := cluster.Ask(ctx, client, "PUBSUB", "SHARDNUMSUB", "0")
	switch {
	case refusal.Denied(err):
		return false, fmt.Errorf("PubSubAuto needs the right to PUBSUB SHARDNUMSUB, or Options.PubSub: %w", err)
	case refusal.Is(err):
		return false, nil // a server that knows no sharded messages
	}
	if err != nil {
		return false, fmt.Errorf("PubSubAuto: %w", err)
	}
	return true, nil
}
