package script

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/cluster"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// nodes finds the gate in front of a call's server. In a cluster each node has one, so that calls to a node that is
// silent take no places from calls to the others (guarantee G9). The client does not say which node a slot is on, so
// the cluster is asked from time to time. While a node is not known, the only cost is that nodes share a gate.
type nodes struct {
	client  rueidis.Client
	cluster bool
	base    time.Time
	common  *gate           // the only one; in a cluster, for slots whose node is not known
	wg      *sync.WaitGroup // of the runner's goroutines

	due   atomic.Int64 // when to ask again, as a time.Duration since base
	slots atomic.Pointer[[wire.Slots]*gate]

	mu   sync.Mutex // guards byID
	byID map[string]*gate
}

const (
	askAgain    = 10 * time.Second
	askPatience = 2 * time.Second
)

func (n *nodes) init(client rueidis.Client, wg *sync.WaitGroup) {
	n.client, n.cluster, n.base = client, client.Mode() == rueidis.ClientModeCluster, time.Now()
	n.common, n.byID, n.wg = newGate(), make(map[string]*gate), wg
}

// gate returns the gate for calls with the key.
func (n *nodes) gate(key string) *gate {
	if !n.cluster {
		return n.common
	}
	now := int64(time.Since(n.base))
	if due := n.due.Load(); now >= due && n.due.CompareAndSwap(due, now+int64(askAgain)) {
		n.wg.Go(n.ask)
	}
	if slots := n.slots.Load(); slots != nil {
		if g := slots[wire.Slot(key)]; g != nil {
			return g
		}
	}
	return n.common
}

// server is the same for all keys that one server has, as far as is known; of a slot whose node is not known it is the
// slot's own.
func (n *nodes) server(key string) any {
	if g := n.gate(key); g != n.common || !n.cluster {
		return g
	}
	return wire.Slot(key)
}

// ask learns the nodes of all slots.
func (n *nodes) ask() {
	ctx, cancel := context.WithTimeout(context.Background(), askPatience)
	defer cancel()
	ranges, err := cluster.Slots(ctx, n.client, n.wg.Go)
	if err != nil {
		n.due.Store(int64(time.Since(n.base) + askPatience))
		return
	}
	slots := new([wire.Slots]*gate)
	for _, r := range ranges {
		g := n.of(r.Nodes[0].ID)
		for slot := max(r.First, 0); slot <= r.Last && slot < wire.Slots; slot++ {
			slots[slot] = g
		}
	}
	n.slots.Store(slots)
}

// of returns the gate of the node with an id.
func (n *nodes) of(id string) *gate {
	n.mu.Lock()
	defer n.mu.Unlock()
	g := n.byID[id]
	if g == nil {
		g = newGate()
		n.byID[id] = g
	}
	return g
}
