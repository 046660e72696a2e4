package doctor

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/internal/cluster"
	"github.com/holdfast-go/holdfast/internal/refusal"
	"github.com/holdfast-go/holdfast/internal/survey"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// topology says what kind of deployment it is, and whether it can grant all locks.
func topology(ctx context.Context, d *doctor) finding {
	n := d.nodes[0]
	switch {
	case d.cluster():
		return clusterTopology(ctx, d)
	case n.Info["redis_mode"] == "sentinel":
		return fail("%s is a Sentinel, not a server that keeps locks", n.addr).
			means("It knows no keys: no lock can be taken.").
			fix("Name the servers that it watches: redis://%s?master_set=NAME. SENTINEL MASTERS shows them.", n.addr)
	case n.Replica():
		from := ""
		if host := n.Info["master_host"]; host != "" {
			from = " of " + net.JoinHostPort(host, n.Info["master_port"])
		}
		return fail("%s is a replica%s", n.addr, from).
			means("It takes no writes: no lock can be taken. If it did, masters would not know of them.").
			fix("Connect to the master, or through Sentinel: redis://SENTINEL:26379?master_set=NAME.")
	case n.Info["role"] == "":
		return unknown("what part this server plays", "+info", n.InfoErr)
	case d.sentinel():
		return okay("Sentinel; the master of %q is %s", d.opt.Sentinel.MasterSet, n.addr)
	}
	list, err := n.Do(ctx, "CLIENT", "LIST", "TYPE", "NORMAL").ToString()
	if err == nil && strings.Contains(list, " name=sentinel-") {
		return warn("a single server, the master, which Sentinels watch; but this is a direct connection").
			means("After a failover, programs that connect like this stay with the old master, and others use the " +
				"new one: two can have the same lock.").
			fix("Connect by way of Sentinel: ?master_set=NAME, and in Go ClientOption.Sentinel.MasterSet.")
	}
	return okay("a single server, the master")
}

func clusterTopology(ctx context.Context, d *doctor) finding {
	if d.slotsErr != nil {
		return unknown("who serves which slot", "+cluster|slots", d.slotsErr)
	}
	masters, replicas, served := d.slots.Count()
	have := fmt.Sprintf("a cluster of %s and %s", cli.Plural(masters, "master"), cli.Plural(replicas, "replica"))
	if served < wire.Slots {
		return fail("%s; %d of %d slots have no server", have, wire.Slots-served, wire.Slots).
			means("Locks with names in those slots cannot be taken; by default the cluster refuses all others, too.").
			fix("redis-cli --cluster check HOST:PORT shows which; redis-cli --cluster fix HOST:PORT assigns them.")
	}
	if f := silentMasters(ctx, d, have); f.Status != "" {
		return f
	}
	for _, n := range d.masters() {
		info, err := n.Do(ctx, "CLUSTER", "INFO").ToString()
		if state := survey.Fields(info)["cluster_state"]; err == nil && state != "ok" {
			return fail("%s; %s says that the cluster's state is %q", have, n.addr, state).
				means("It refuses all commands with keys: no lock can be taken.").
				fix("See which masters are down: redis-cli --cluster check HOST:PORT.")
		}
	}
	return okay("%s, and all slots are served", have)
}

// silentMasters names the masters that do not answer, if there are any.
func silentMasters(ctx context.Context, d *doctor, have string) finding {
	lost, text := false, have
	for _, n := range d.nodes {
		if n.err == nil || !n.master {
			continue
		}
		var slots []string
		for _, r := range d.slots.Of(n.addr) {
			slots = append(slots, fmt.Sprintf("%d-%d", r.First, r.Last))
		}
		if len(slots) > examples {
			slots = append(slots[:examples], "…")
		}
		text += fmt.Sprintf("; %s, the master of slots %s, does not answer", n.addr, strings.Join(slots, ", "))
		if next := d.successor(ctx, n, d.slots.Of(n.addr)[0].Nodes[0].ID); next != nil {
			text += fmt.Sprintf(", and its replica %s takes over", next.addr)
		} else {
			lost = true
		}
	}
	const refuses = "ocks with names in those slots cannot be taken; by default the cluster refuses all others, too."
	switch {
	case text == have:
		return finding{}
	case lost:
		return fail("%s", text).means("L" + refuses).
			fix("Start it, or see what keeps this machine from it. A replica takes over only if most masters are up " +
				"and do not reach it either: redis-cli --cluster check HOST:PORT shows what they say.")
	}
	return warn("%s", text).means("Until it has, mostly within seconds, l%s The latest locks may be forgotten.", refuses).
		fix("Run the doctor again in a while, and start the old master: it comes back as a replica.")
}

// successor is the replica that takes over from a master, nil if none does.
func (d *doctor) successor(ctx context.Context, master *node, id string) *node {
	for _, n := range d.nodes {
		if n.err != nil || d.slots.MasterOf(n.addr) != master.addr {
			continue
		}
		if view, err := n.Do(ctx, "CLUSTER", "NODES").ToString(); err == nil && cluster.TakesOver(view, id) {
			return n
		}
	}
	return nil
}

// pubsub says which messages are used, and whether all listen to the same.
func pubsub(ctx context.Context, d *doctor) finding {
	if !d.cluster() {
		return okay("plain messages, as everywhere but in clusters")
	}
	n := d.masters()[0]
	err := n.Do(ctx, "PUBSUB", "SHARDNUMSUB", "0").Error()
	switch {
	case refusal.Denied(err):
		return fail("the user may not ask whether there are sharded messages").
			means("Go opens no session. Java takes it for a no and uses plain messages, which others do not hear.").
			fix("ACL SETUSER %s +pubsub|shardnumsub on each server, or set Options.PubSub, in Java too.", d.who(n))
	case err != nil && !refusal.Is(err):
		return unknown("whether there are sharded messages", "+pubsub|shardnumsub", err)
	}
	const same = "Set the same everywhere: Options.PubSub in Go, shardedSubscriptionMode in Java."
	plainly, sharded := d.heard(ctx, "CHANNELS"), d.heard(ctx, "SHARDCHANNELS")
	switch {
	case err != nil:
		return okay("plain messages: these servers have no sharded ones, which Go and Java find out by themselves")
	case plainly > 0 && sharded > 0:
		return warn("some programs listen to sharded messages, others to plain: %d and %d channels", sharded, plainly).
			means("They exclude, but do not wake each other: waits go by timers, and in Java some do not end.").
			fix("%s AUTO is sharded here.", same)
	case plainly > 0:
		return note("the servers have sharded messages, but programs listen to plain ones, on %d channels", plainly).
			means("That is right if all are told to: PubSubPlain in Go, shardedSubscriptionMode OFF in Java. " +
				"One with the default would not hear them.").fix(same)
	}
	return okay("sharded messages, which Go and Java use by themselves")
}

// heard counts the channels of locks to which somebody listens; those that may not be asked are none.
func (d *doctor) heard(ctx context.Context, list string) (count int) {
	var begins []string
	for _, c := range wire.Channels {
		begin, _, _ := strings.Cut(c.Of("x"), "{")
		begins = append(begins, begin)
	}
	slices.Sort(begins)
	for _, n := range d.masters() {
		for _, begin := range slices.Compact(begins) {
			found, _ := n.Do(ctx, "PUBSUB", list, begin+"*").AsStrSlice()
			count += len(found)
		}
	}
	return count
}
