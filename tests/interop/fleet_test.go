package interop_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/tests/interop"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// fleet is a Go session and a Redisson client that use the same servers.
type fleet struct {
	options  fleetOptions
	nodes    []*redistest.Server // one, or the masters of a cluster, or several that know nothing of each other
	cluster  *redistest.Cluster  // nil if they are none
	session  *holdfast.Session   // of the first of several
	sessions []*holdfast.Session // of each of them; or several of the cluster
	client   *interop.Client
	log      *warnings
	threads  atomic.Int64 // Java threads there have been, for their names
}

// fleetOptions are what both sides of a fleet are set up with.
type fleetOptions struct {
	sessions int           // of Go, each with a server of its own, unless they share a cluster; 0: one
	lease    time.Duration // of renewed holds; 0: each side's default, 30 s
	javaWait time.Duration // of Java's waiters for a fair lock; 0: Redisson's default, 5 min
	prefix   string        // both sides' name mapper puts it in front
	timeout  time.Duration // of Java's commands, which are sent once then; 0: Redisson's default, and its retries
}

// newFleet starts a server and connects both sides to it.
func newFleet(t *testing.T, opts fleetOptions) *fleet {
	t.Helper()
	return joinFleet(t, opts, nil, redistest.Start(t))
}

// newWideFleet starts some servers that know nothing of each other and connects both sides to all of them.
func newWideFleet(t *testing.T, opts fleetOptions, servers int) *fleet {
	t.Helper()
	var nodes []*redistest.Server
	for range servers {
		nodes = append(nodes, redistest.Start(t))
	}
	return joinFleet(t, opts, nil, nodes...)
}

func joinFleet(t *testing.T, opts fleetOptions, cluster *redistest.Cluster, nodes ...*redistest.Server) *fleet {
	t.Helper()
	return joinFleetFrom(t, sharedJava(t), opts, cluster, nodes...)
}

// joinFleetFrom connects Go and a JVM to some servers.
func joinFleetFrom(
	t *testing.T, jvm *interop.Java, opts fleetOptions, cluster *redistest.Cluster, nodes ...*redistest.Server,
) *fleet {
	t.Helper()
	f := &fleet{options: opts, nodes: nodes, cluster: cluster, log: &warnings{}}
	options := &holdfast.Options{
		Lease:  opts.lease,
		Logger: slog.New(slog.NewTextHandler(f.log, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	if opts.prefix != "" {
		options.MapName = func(name string) string { return opts.prefix + name }
	}
	open := func(addresses ...string) {
		session := kit.OpenKnown(t, rueidis.ClientOption{InitAddress: addresses}, options)
		t.Cleanup(func() { require.NoError(t, session.Close()) })
		require.NoError(t, learnClock(t.Context(), session))
		f.sessions = append(f.sessions, session)
	}
	for _, addresses := range f.homes() {
		open(addresses...)
	}
	f.session = f.sessions[0]
	f.client = jvm.Connect(t, f.config())
	return f
}

// homes are the addresses that each of the sessions is given.
func (f *fleet) homes() (all [][]string) {
	if f.cluster != nil {
		return slices.Repeat([][]string{f.addresses()}, max(1, f.options.sessions))
	}
	for _, address := range f.addresses() {
		all = append(all, []string{address})
	}
	return all
}

// addresses are those of the fleet's servers.
func (f *fleet) addresses() (all []string) {
	for _, node := range f.nodes {
		all = append(all, node.Addr())
	}
	return all
}

// config is what a Redisson client of the fleet is made with.
func (f *fleet) config() interop.Config {
	return interop.Config{
		Addresses: f.addresses(), Cluster: f.cluster != nil, Timeout: f.options.timeout,
		Watchdog: f.options.lease, FairWait: f.options.javaWait, Prefix: f.options.prefix,
	}
}

// learnClock has the session learn the server's clock, which costs its first acquisition a call more.
func learnClock(ctx context.Context, session *holdfast.Session) error {
	hold, err := fairlock.New(session, "clock", nil).TryLock(ctx)
	if err != nil {
		return err
	}
	return hold.Release()
}

// warnings is what the Go session has logged that is not in the order of things.
type warnings struct {
	mu   sync.Mutex
	text strings.Builder
}

func (w *warnings) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(line)
}

func (w *warnings) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// server is the fleet's only server, or the first of several.
func (f *fleet) server() *redistest.Server { return f.nodes[0] }

// kind is a lock that both sides have.
type kind struct {
	name         string
	java         interop.Kind
	golang       func(sessions []*holdfast.Session, name string, lease time.Duration) kit.Locker
	lease        time.Duration // fixed; 0: renewed
	nonReentrant bool
	fenced       bool
	fair         bool
	half         bool // of a read-write lock
	polls        bool // to wait
	servers      int  // that know nothing of each other, on which it is tried; 0: one
}

// lasting is the kind with holds of a fixed lease, or renewed ones for 0.
func (k kind) lasting(lease time.Duration) kind {
	k.lease = lease
	return k
}

// channel is where the release of a lock of that mapped name is published.
func (k kind) channel(mapped string) string {
	if k.half {
		return prefixed("redisson_rwlock", mapped)
	}
	return lockChannel(mapped)
}

var (
	plain        = rlockKind("rlock", interop.RLock, rlock.Options{})
	fenced       = rlockKind("fenced", interop.Fenced, rlock.Options{Fenced: true})
	nonReentrant = rlockKind("nonreentrant", interop.NonReentrant, rlock.Options{NonReentrant: true})
	spin         = rlockKind("spin", interop.Spin,
		rlock.Options{Backoff: rlock.Exponential(time.Millisecond, 128*time.Millisecond)})

	kinds = []kind{plain, fenced, nonReentrant, spin}
	// woken are the kinds whose waiters sleep until a message wakes them.
	woken = kinds[:3]

	fair             = fairKind("fair", interop.Fair, fairlock.Options{})
	nonReentrantFair = fairKind("nonreentrant fair", interop.NonReentrantFair, fairlock.Options{NonReentrant: true})
	// mortal is a fair lock whose dead waiters are soon forgotten. Java must be told of its JavaWait.
	mortal = fairKind("mortal fair", interop.Fair, fairlock.Options{WaiterLease: briefWait, JavaWait: briefWait})

	fairKinds = []kind{fair, nonReentrantFair}

	reading = halfKind("read", interop.ReadLock, (*rwlock.RWMutex).Read, rwlock.Options{})
	writing = halfKind("write", interop.WriteLock, (*rwlock.RWMutex).Write, rwlock.Options{})

	halves = []kind{reading, writing}

	// Of these the readers wait behind the writers that wait, which only Go knows of.
	waitingBehind = halfKind("read, preferring", interop.ReadLock, (*rwlock.RWMutex).Read,
		rwlock.Options{PreferWriter: true})
	preferred = halfKind("write, preferred", interop.WriteLock, (*rwlock.RWMutex).Write,
		rwlock.Options{PreferWriter: true})
)

// briefWait is for how long a dead waiter of [mortal] may be in the way.
const briefWait = 2 * time.Second

func rlockKind(name string, java interop.Kind, options rlock.Options) kind {
	return kind{
		name: name, java: java, nonReentrant: options.NonReentrant, fenced: options.Fenced, polls: options.Backoff != nil,
		golang: func(sessions []*holdfast.Session, name string, lease time.Duration) kit.Locker {
			options := options
			options.FixedLease = lease
			return rlock.New(sessions[0], name, &options)
		},
	}
}

func fairKind(name string, java interop.Kind, options fairlock.Options) kind {
	return kind{
		name: name, java: java, nonReentrant: options.NonReentrant, fair: true,
		golang: func(sessions []*holdfast.Session, name string, lease time.Duration) kit.Locker {
			options := options
			options.FixedLease = lease
			return fairlock.New(sessions[0], name, &options)
		},
	}
}

func halfKind(name string, java interop.Kind, half func(*rwlock.RWMutex) *rwlock.Half, options rwlock.Options) kind {
	return kind{
		name: name, java: java, half: true,
		golang: func(sessions []*holdfast.Session, name string, lease time.Duration) kit.Locker {
			options := options
			options.FixedLease = lease
			return half(rwlock.New(sessions[0], name, &options))
		},
	}
}

// language is one side of a fleet: it makes owners, and whoever else uses something.
type language struct {
	name      string
	owner     func(t *testing.T, f *fleet, k kind, lock string) owner
	loner     func(t *testing.T, f *fleet, k kind, lock string) loner
	victim    func(t *testing.T, grabs []grab) process // who has locks, and is there to be killed
	pool      func(t *testing.T, f *fleet, name string) pool
	expirable func(t *testing.T, f *fleet, name string) expirable
	gate      func(t *testing.T, f *fleet, name string) gate
}

var (
	golang = language{"go", newGoOwner, newGoLoner, newGoVictim, newGoPool, newGoExpirable, newGoGate}
	java   = language{"java", newJavaOwner, newJavaLoner, newJavaVictim, newJavaPool, newJavaExpirable, newJavaGate}

	languages = []language{golang, java}
)

// other is the opposite side.
func (l language) other() language {
	if l.name == golang.name {
		return java
	}
	return golang
}

// pair is a kind of lock, and what cannot be had while it is held: of most kinds the same.
type pair struct{ kind, rival kind }

// rivals are the halves of a read-write lock that keep each other out.
var rivals = []pair{{writing, reading}, {writing, writing}, {reading, writing}}

// cell is a kind of lock, and which language comes first: one row of a test.
type cell struct {
	pair
	name          string
	first, second language
}

// cells are both directions of some kinds.
func cells(kinds ...kind) []cell {
	var all []cell
	for _, k := range kinds {
		for _, first := range languages {
			all = append(all, cell{pair{k, k}, k.name + ", " + first.name + " first", first, first.other()})
		}
	}
	return all
}

// clashes are both directions of rivals.
func clashes() []cell {
	var all []cell
	for _, p := range rivals {
		for _, first := range languages {
			name := p.kind.name + " against " + p.rival.name + ", " + first.name + " first"
			all = append(all, cell{p, name, first, first.other()})
		}
	}
	return all
}

// lockChannel is where the release of a lock of that mapped name is published.
func lockChannel(mapped string) string { return prefixed("redisson_lock__channel", mapped) }

// prefixed is how keys and channels are named that belong to a lock of that mapped name.
func prefixed(word, mapped string) string {
	if strings.Contains(mapped, "{") {
		return word + ":" + mapped
	}
	return word + ":{" + mapped + "}"
}
