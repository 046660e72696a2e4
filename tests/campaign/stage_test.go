package campaign

import (
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lua"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
	"github.com/holdfast-go/holdfast/tests/worker"
)

// A stage is the servers of a round.
type stage struct {
	*testing.T
	round    round
	nodes    []*redistest.Server // that have data
	sentinel *redistest.SentinelSet
	cluster  *redistest.Cluster
	replica  *redistest.Server // of the first node, in a cluster
	front    *proxy.Proxy      // before a single server, for whom no stroke hits; so its address stays
	standby  *redistest.Server // the replica of a single server
	red      []*redistest.Server
	paused   int           // nodes
	epoch    string        // of the last failover: each has its own
	looked   time.Duration // when that was looked at
	later    time.Duration // than the machine's is the clock of a single server
	lapses   []lapse
}

func newStage(t *testing.T, r round) *stage {
	t.Helper()
	s := &stage{T: t, round: r}
	switch r.Site {
	case "single":
		// What a server has answered is in its file, though perhaps not on the disk: that survives a kill.
		persists := []string{"--appendonly", "yes", "--appendfsync", "no"}
		s.nodes = []*redistest.Server{redistest.StartWithClock(t, persists...)}
		s.front = proxy.Start(t, s.nodes[0].Addr())
		if slices.ContainsFunc(r.Strokes, func(st stroke) bool { return st.What == failOver }) {
			s.standby = redistest.StartReplica(t, s.nodes[0], persists...)
		}
	case "sentinel":
		s.sentinel = redistest.StartSentinels(t)
		s.nodes = []*redistest.Server{s.sentinel.Master(), s.sentinel.Replica()}
		s.epoch = s.failovers()
	case "cluster":
		s.cluster = redistest.StartCluster(t, 3)
		s.nodes = slices.Clone(s.cluster.Nodes)
		s.replica = s.cluster.AddReplica(t, s.nodes[0])
		s.epoch = s.failovers()
	}
	if slices.ContainsFunc(r.Objects, func(o object) bool { return o.Kind == "redlock" }) {
		s.red = kit.StartServers(t, three)
	}
	return s
}

// failovers tells one state after failovers from another: by the epoch of Sentinel's master, or by who is the master of
// the slots that have a replica.
func (s *stage) failovers() string {
	switch {
	case s.sentinel != nil:
		reply, err := s.sentinel.Sentinels[0].Try("SENTINEL", "MASTER", s.sentinel.MasterName)
		fields, _ := reply.([]any)
		i := slices.Index(fields, any("config-epoch"))
		require.True(s, err == nil && i >= 0, "%v, %v", reply, err)
		return fields[i+1].(string)
	case s.cluster != nil:
		return strconv.FormatBool(role(s.replica) == "master")
	}
	return ""
}

// unasked excuses what a server has forgotten since the last look, if a busy machine has made a failover that no stroke
// has made.
func (s *stage) unasked() {
	if now := s.failovers(); now != s.epoch {
		s.Log("a failover that no stroke has made")
		s.forgets("an unasked failover", s.looked).acked = s.round.Acks
		s.epoch = now
	}
	s.looked = worker.Now()
}

// restart restarts the first server, which may have been a replica once.
func (s *stage) restart() {
	s.nodes[0].Restart()
	s.insist(s.nodes[0], "REPLICAOF", "NO", "ONE")
}

// insist sends a command until the server obeys: it may be loading its data.
func (s *stage) insist(n *redistest.Server, args ...string) {
	kit.Await(s, args[0], func() bool {
		_, err := n.Try(args...)
		return err == nil
	})
}

// forgets registers what the servers may have lost while a stroke was on.
func (s *stage) forgets(what string, from time.Duration) *lapse {
	s.lapses = append(s.lapses, lapse{what: what, from: from, to: worker.Now()})
	return &s.lapses[len(s.lapses)-1]
}

// each sends a command to all nodes; one that is down does not matter.
func (s *stage) each(args ...string) {
	for _, n := range s.nodes {
		_, _ = n.Try(args...)
	}
}

// strike does to the servers what a stroke says, if it can, and returns how it is undone. The proxies are those of the
// processes.
func (s *stage) strike(st stroke, proxies []*proxy.Proxy) (undo func(), struck bool) {
	s.Helper()
	if s.paused > 0 && !slices.Contains(ofTheThree, st.What) {
		return nil, false // it would be waited for
	}
	began := worker.Now()
	first := s.nodes[0]
	config := func(key, value string) { s.each("CONFIG", "SET", key, value) }
	switch st.What {
	case "pause the server":
		node := s.nodes[st.Victim%len(s.nodes)]
		node.Pause()
		s.paused++
		return func() {
			node.Resume()
			s.paused--
		}, true
	case "flush the scripts":
		s.each("SCRIPT", "FLUSH")
	case "drop the clients":
		s.each("CLIENT", "KILL", "TYPE", "normal")
		s.each("CLIENT", "KILL", "TYPE", "pubsub")
	case "forget":
		first.Do(s, "FLUSHALL")
		s.forgets(st.What, began)
	case "restart":
		s.restart()
	case "restart empty":
		first.Do(s, "FLUSHALL")
		s.restart()
		s.forgets(st.What, began)
	case failOver:
		if s.standby == nil {
			return nil, false // it has taken over
		}
		s.standby.Do(s, "REPLICAOF", "NO", "ONE")
		s.nodes[0], s.standby = s.standby, nil
		for _, p := range append(proxies, s.front) {
			p.SetServer(s.nodes[0].Addr())
			p.CutAll()
		}
		first.Stop() // nobody can have dialled it meanwhile
		s.forgets(st.What, began)
	case clockBack:
		s.later -= st.Lasts
		return nil, first.SetClock(s.later)
	case clockForward: // leases end early
		s.later += st.Lasts
		if !first.SetClock(s.later) {
			return nil, false
		}
		s.forgets(st.What, began).leased = true
	case "fill the memory":
		config("maxmemory", "1")
		return func() { config("maxmemory", "0") }, true
	case "evict":
		config("maxmemory-policy", "allkeys-random")
		config("maxmemory", "1")
		return func() {
			config("maxmemory", "0")
			config("maxmemory-policy", "noeviction")
			s.forgets(st.What, began)
		}, true
	case "take rights":
		s.each("ACL", "SETUSER", "default", "-publish")
		return func() { s.each("ACL", "SETUSER", "default", "+@all") }, true
	case "kill the master":
		if s.sentinel.Disagreement(s.sentinel.Master().Addr()) != "" {
			return nil, false // the last one has not come back
		}
		s.unasked()
		s.sentinel.Failover(s)
		// What renewals have prolonged may have ended, if the failover took longer than two thirds of a lease.
		acked := s.round.Acks && worker.Now()-began < s.round.Lease*2/3
		// The dead one comes back as a master that knows nothing, and grants until it is told that it is none any more.
		host, port, err := net.SplitHostPort(s.sentinel.Master().Addr())
		require.NoError(s, err)
		s.sentinel.Replica().Restart()
		s.insist(s.sentinel.Replica(), "REPLICAOF", host, port)
		s.forgets(st.What, began).acked = acked
		s.epoch = s.failovers()
	case "kill a master":
		if role(first) != "master" {
			return nil, false
		}
		s.unasked()
		first.Stop()
		kit.AwaitFor(s, time.Minute, "a new master", func() bool { return role(s.replica) == "master" })
		first.Restart()
		s.cluster.AwaitOK(s)
		s.forgets(st.What, began)
		s.epoch = s.failovers()
	case "switch over":
		s.unasked()
		to := s.replica
		if role(to) == "master" {
			to = first
		}
		kit.Await(s, "a switch", func() bool { // it is refused while the replica is not in step
			_, _ = to.Try("CLUSTER", "FAILOVER")
			return role(to) == "master"
		})
		s.cluster.AwaitOK(s)
		s.epoch = s.failovers()
	case "move slots":
		if role(first) != "master" {
			return nil, false // whom a tool would have to tell has changed
		}
		s.cluster.AwaitOK(s)
		for _, o := range s.round.Objects {
			// Not from or to the one that has a replica: if that takes over before it has heard of a move, it takes the slot
			// back. And one way only: of two nodes that give slots to each other, one has the higher epoch, and its old claims
			// win. Either way nodes disagree for good.
			if s.cluster.NodeOf(s, o.Name).Addr() == s.nodes[1].Addr() {
				s.cluster.MoveSlot(s, o.Name, s.nodes[2])
			}
		}
	case "pause one of three":
		s.red[st.Victim].Pause()
		return s.red[st.Victim].Resume, true
	case "restart one of three empty":
		s.red[st.Victim].Restart()
	default:
		require.Fail(s, "unknown stroke", st.What)
	}
	return nil, true
}

func role(srv *redistest.Server) string {
	reply, err := srv.Try("ROLE")
	if fields, ok := reply.([]any); err == nil && ok && len(fields) > 0 {
		role, _ := fields[0].(string)
		return role
	}
	return ""
}

// strikeLink does to the connections of a process what a stroke says.
func (s *stage) strikeLink(p *proxy.Proxy, st stroke) (undo func()) {
	some := func(n int) proxy.Match {
		return func(command []string) bool { return kit.AnyScript(command) && rand.IntN(n) == 0 }
	}
	rule := func(m proxy.Match, a proxy.Action) func() { return p.On(m, a, proxy.EveryTime).Remove }
	switch st.What {
	case "cut":
		p.CutAll()
	case "silence":
		p.Silence()
		return p.ResumeAll
	case "delay":
		return rule(proxy.Any, proxy.Delay(st.Lasts/10))
	case "lose replies":
		return rule(some(4), proxy.DropReply)
	case "lose commands":
		return rule(some(4), proxy.ResetBefore)
	case "late commands":
		return rule(some(8), proxy.Stall)
	case "repeat commands":
		addr := s.nodes[0].Addr()
		return rule(func(command []string) bool {
			if rand.IntN(4) == 0 && slices.ContainsFunc(repeatable(), func(m proxy.Match) bool { return m(command) }) {
				go repeat(addr, slices.Clone(command))
			}
			return false
		}, proxy.Pass)
	case "lose messages":
		p.LoseMessages(true)
		return func() { p.LoseMessages(false) }
	case "refuse connections":
		p.RefuseNew(true)
		p.CutAll()
		return func() { p.RefuseNew(false) }
	}
	return nil
}

// The strokes that set a clock. After one back, new tokens may be lower than those that were forgotten.
const (
	clockBack    = "set the clock back"
	clockForward = "set the clock forward"
)

// failOver is the stroke after which another server has the address.
const failOver = "fail over behind the address"

// repeat sends a command once more, a while later.
func repeat(addr string, command []string) {
	kit.SleepUntil(time.Now().Add(rand.N(time.Second)))
	conn, err := redistest.Dial(addr)
	if err != nil {
		return // the server is down
	}
	defer conn.Close()
	_, _ = conn.Do(command...)
}

// repeatable matches the scripts of which a copy, however late, does nothing: those of what has an identity. A force
// has none, nor have counts.
var repeatable = sync.OnceValue(func() (all []proxy.Match) {
	for _, name := range lua.Names() {
		kind, verb, _ := strings.Cut(name, "_")
		switch kind {
		case "rlock", "fairlock", "rwlock", "setlock", "lock":
			if verb == "force" {
				continue
			}
		default:
			if !slices.Contains([]string{"acquire_expirable", "release_expirable", "renew_expirable"}, verb) {
				continue
			}
		}
		all = append(all, kit.ScriptNamed(name))
	}
	return all
})
