package interop_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/interop"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// fleet is a Go session and a Redisson client that use the same servers.
type fleet struct {
	nodes   []*redistest.Server // one, or the masters of a cluster
	session *holdfast.Session
	client  *interop.Client
	threads int // Java threads there have been, for their names
}

// fleetOptions are what both sides of a fleet are set up with.
type fleetOptions struct {
	lease  time.Duration // of renewed holds; 0: each side's default, 30 s
	prefix string        // both sides' name mapper puts it in front
	java   *interop.Java // nil: the shared one
}

// newFleet starts a server and connects both sides to it.
func newFleet(t *testing.T, opts fleetOptions) *fleet {
	t.Helper()
	return joinFleet(t, opts, false, redistest.Start(t))
}

// newClusterFleet starts a cluster of three masters and connects both sides to it.
func newClusterFleet(t *testing.T) *fleet {
	t.Helper()
	return joinFleet(t, fleetOptions{}, true, redistest.StartCluster(t, 3).Nodes...)
}

func joinFleet(t *testing.T, opts fleetOptions, cluster bool, nodes ...*redistest.Server) *fleet {
	t.Helper()
	var addresses []string
	for _, node := range nodes {
		addresses = append(addresses, node.Addr())
	}
	if opts.java == nil {
		opts.java = sharedJava(t)
	}
	options := &holdfast.Options{Lease: opts.lease}
	if opts.prefix != "" {
		options.MapName = func(name string) string { return opts.prefix + name }
	}
	session, err := holdfast.Open(rueidis.ClientOption{InitAddress: addresses}, options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, session.Close()) })
	client := opts.java.Connect(t, interop.Config{
		Addresses: addresses, Cluster: cluster, Watchdog: opts.lease, Prefix: opts.prefix,
	})
	return &fleet{nodes: nodes, session: session, client: client}
}

// server is the fleet's only server.
func (f *fleet) server() *redistest.Server { return f.nodes[0] }

// kind is a lock that both sides have.
type kind struct {
	name    string
	java    interop.Kind
	options rlock.Options
}

var (
	plain        = kind{"rlock", interop.RLock, rlock.Options{}}
	fenced       = kind{"fenced", interop.Fenced, rlock.Options{Fenced: true}}
	nonReentrant = kind{"nonreentrant", interop.NonReentrant, rlock.Options{NonReentrant: true}}
	spin         = kind{"spin", interop.Spin, rlock.Options{Backoff: rlock.Exponential(time.Millisecond, 128*time.Millisecond)}}

	kinds = []kind{plain, fenced, nonReentrant, spin}
	// woken are the kinds whose waiters sleep until a message wakes them.
	woken = []kind{plain, fenced, nonReentrant}
)

// language is one side of a fleet: it makes owners.
type language struct {
	name  string
	owner func(t *testing.T, f *fleet, k kind, lock string) owner
}

var (
	golang = language{"go", newGoOwner}
	java   = language{"java", newJavaOwner}

	languages = []language{golang, java}
)

// other is the opposite side.
func (l language) other() language {
	if l.name == golang.name {
		return java
	}
	return golang
}

// cell is a kind of lock, and which language comes first: one row of a test.
type cell struct {
	name          string
	kind          kind
	first, second language
}

// cells are both directions of some kinds.
func cells(kinds ...kind) []cell {
	var all []cell
	for _, k := range kinds {
		for _, first := range languages {
			all = append(all, cell{k.name + ", " + first.name + " first", k, first, first.other()})
		}
	}
	return all
}

// lockChannel is where the release of a lock of that mapped name is published.
func lockChannel(mapped string) string {
	if strings.Contains(mapped, "{") {
		return "redisson_lock__channel:" + mapped
	}
	return "redisson_lock__channel:{" + mapped + "}"
}
