package cluster

import (
	"errors"
	"slices"
	"strings"

	"github.com/redis/rueidis"
)

// A Map says who has which slots, as one node sees it.
type Map []Range

// Owner is the master of a slot, "" if there is none.
func (m Map) Owner(slot uint16) string {
	for _, r := range m {
		if r.First <= int64(slot) && int64(slot) <= r.Last {
			return r.Nodes[0].Addr
		}
	}
	return ""
}

// Has reports whether the server is the master of any of the slots.
func (m Map) Has(addr string, first, last int64) bool {
	return slices.ContainsFunc(m, func(r Range) bool {
		return r.Nodes[0].Addr == addr && r.First <= last && first <= r.Last
	})
}

// MasterOf is the master whose replica the server is, "" if it is none.
func (m Map) MasterOf(replica string) string {
	for _, r := range m {
		if slices.ContainsFunc(r.Nodes[1:], func(n Node) bool { return n.Addr == replica }) {
			return r.Nodes[0].Addr
		}
	}
	return ""
}

// ErrFailed is the error for a master that the client does not know: servers from version 8 on do not name those that
// they take for failed. It may also have joined since the client asked.
var ErrFailed = errors.New("the cluster takes it for failed, or it has just joined")

// Without are the masters that are not among the nodes that a client knows.
func (m Map) Without(known map[string]rueidis.Client) (masters []string) {
	for _, r := range m {
		addr := r.Nodes[0].Addr
		if _, knows := known[addr]; !knows && addr != "" && !slices.Contains(masters, addr) {
			masters = append(masters, addr)
		}
	}
	return masters
}

// Of returns the slots of a master.
func (m Map) Of(master string) Map {
	return slices.DeleteFunc(slices.Clone(m), func(r Range) bool { return r.Nodes[0].Addr != master })
}

// Count counts masters, replicas, and slots that have a master.
func (m Map) Count() (masters, replicas, slots int64) {
	master := make(map[string]bool) // by id
	for _, r := range m {
		slots += r.Last - r.First + 1
		for i, n := range r.Nodes {
			master[n.ID] = master[n.ID] || i == 0
		}
	}
	for _, is := range master {
		if is {
			masters++
		} else {
			replicas++
		}
	}
	return masters, replicas, slots
}

// TakesOver reports whether the replica whose CLUSTER NODES this is takes over from the master with the id:
// most masters take that for failed ("fail?" is an opinion of its own), and the replica may.
func TakesOver(view, master string) bool {
	failed, may := false, true
	for line := range strings.Lines(view) {
		words := strings.Fields(line) // id, address, flags
		if len(words) < 3 {
			continue
		}
		flags := strings.Split(words[2], ",")
		if words[0] == master {
			failed = slices.Contains(flags, "fail")
		}
		if slices.Contains(flags, "myself") {
			may = !slices.Contains(flags, "nofailover")
		}
	}
	return failed && may
}
