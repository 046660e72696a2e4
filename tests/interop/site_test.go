package interop_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/interop"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// site is where cells of the matrix are proven: servers of one topology, and the fleets that use them. Those are kept
// for whoever needs one with the same options, as to connect takes longer than most of what is done then. They live as
// long as the test that made the site. What shares a site must use names of its own.
type site struct {
	t       *testing.T
	jvm     *interop.Java
	cluster *redistest.Cluster // nil if the servers know nothing of each other

	mu      sync.Mutex // guards what follows
	servers []*redistest.Server
	fleets  map[fleetOptions]*fleet
}

// alone is a site with servers that know nothing of each other: one, or as many as a kind needs.
func alone(t *testing.T) *site {
	t.Helper()
	return aloneWith(t, sharedJava(t))
}

// aloneWith is such a site with a JVM of its own.
func aloneWith(t *testing.T, jvm *interop.Java) *site {
	t.Helper()
	return &site{t: t, jvm: jvm, fleets: map[fleetOptions]*fleet{}}
}

// clustered is a site with a cluster of three masters.
func clustered(t *testing.T) *site {
	t.Helper()
	s := alone(t)
	s.cluster = redistest.StartCluster(t, 3)
	if !s.cluster.Sharded() {
		t.Log("this server has no sharded messages, so plain ones are what is proven")
	}
	s.servers = s.cluster.Nodes
	return s
}

// fleet is the site's fleet with these options, made on first use.
func (s *site) fleet(opts fleetOptions) *fleet {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.fleets[opts]; f != nil {
		return f
	}
	nodes := s.servers
	if s.cluster == nil {
		for len(s.servers) < max(1, opts.sessions) {
			s.servers = append(s.servers, redistest.Start(s.t))
		}
		nodes = s.servers[:max(1, opts.sessions)]
	}
	f := joinFleetFrom(s.t, s.jvm, opts, s.cluster, nodes...)
	s.fleets[opts] = f
	return f
}

// fleetFor is the fleet with these options for a kind. One of several servers has these, and a session for each; in a
// cluster, whose masters stand for them, only a RedLock must have a session for each of its members.
func (s *site) fleetFor(k kind, opts fleetOptions) *fleet {
	if s.cluster == nil || k.name == red.name {
		opts.sessions = k.servers
	}
	return s.fleet(opts)
}

// namesUsed counts the names there have been.
var namesUsed atomic.Int64

// unique makes a name that nobody has used, and that is not a part of another one.
func unique(name string) string { return fmt.Sprintf("%s.%d.", name, namesUsed.Add(1)) }

// fresh is the name of a lock of that kind that nobody has used.
func (f *fleet) fresh(t *testing.T, k kind) string {
	t.Helper()
	return f.of(t, k, unique("x"))
}

// of is a name for a lock of that kind: for one of several, names; those of a RedLock in a cluster are of different
// masters, as Go would not have two on one server.
func (f *fleet) of(t *testing.T, k kind, name string) string {
	t.Helper()
	switch {
	case k.name == multi.name:
		return name + ", " + name + "'"
	case k.name == red.name && f.cluster != nil:
		members := make([]string, len(f.nodes))
		for i, node := range f.nodes {
			for n := 0; members[i] == ""; n++ {
				if member := variant(name, n); f.at(t, f.options.prefix+member) == node {
					members[i] = member
				}
			}
		}
		return strings.Join(members, ", ")
	default:
		return name
	}
}

// variant is the name with a number, in its hash tag if it has one.
func variant(name string, n int) string {
	if before, after, tagged := strings.Cut(name, "}"); tagged {
		return fmt.Sprintf("%s%d}%s", before, n, after)
	}
	return fmt.Sprintf("%s%d.", name, n)
}

// mapped are the keys of a lock of that name: one, or those of its members.
func (f *fleet) mapped(lock string) (keys []string) {
	for name := range strings.SplitSeq(lock, ", ") {
		keys = append(keys, f.options.prefix+name)
	}
	return keys
}

// at is the server where a key is, or belongs: in a cluster the master of its slot, else the first.
func (f *fleet) at(t *testing.T, key string) *redistest.Server {
	t.Helper()
	if f.cluster != nil {
		return f.cluster.NodeOf(t, key)
	}
	return f.server()
}

// homesOf are all the servers where a key belongs.
func (f *fleet) homesOf(t *testing.T, key string) []*redistest.Server {
	t.Helper()
	if f.cluster != nil {
		return []*redistest.Server{f.at(t, key)}
	}
	return f.nodes
}

// ttls is the time that each key has left, for those that have a TTL, on the first server that has the key: that of a
// RedLock's member may be longer on the others, which were asked later.
func (f *fleet) ttls(t *testing.T) map[string]time.Duration {
	t.Helper()
	all := map[string]time.Duration{}
	for _, node := range slices.Backward(f.nodes) {
		maps.Copy(all, node.TTLs(t))
	}
	return all
}

// state is what the servers hold of a name.
func (f *fleet) state(t *testing.T, name string, owners ...string) map[string]redistest.Value {
	t.Helper()
	all := map[string]redistest.Value{}
	for _, node := range f.nodes {
		maps.Copy(all, state(t, node, owners...))
	}
	maps.DeleteFunc(all, func(key string, _ redistest.Value) bool { return !strings.Contains(key, name) })
	return all
}

// clear removes what tests have left behind, which makes [fleet.state] slow. Nobody may be using the servers.
func (f *fleet) clear(t *testing.T) {
	t.Helper()
	for _, node := range f.nodes {
		node.Do(t, "FLUSHALL")
	}
}

// messages collects what is published on a channel.
func (f *fleet) messages(t *testing.T, channel string) *redistest.Messages {
	t.Helper()
	if f.cluster != nil && f.cluster.Sharded() {
		return f.at(t, channel).ShardMessages(t, channel)
	}
	return f.at(t, channel).Messages(t, channel)
}

// allAtOnce runs a part of a test for each of some cells, all of them together, as they take their time and not the
// machine's.
func allAtOnce(t *testing.T, cells []cell, test func(t *testing.T, c cell)) {
	t.Helper()
	var running sync.WaitGroup
	for _, c := range cells {
		running.Go(func() { t.Run(c.name, func(t *testing.T) { test(t, c) }) })
	}
	running.Wait()
}
