package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/internal/refusal"
	"github.com/holdfast-go/holdfast/internal/survey"
)

const asAdministrator = "Run the doctor as an administrator, or grant +config|get."

// version checks that the server knows the commands that the scripts use.
func version(_ context.Context, _ *doctor, n *node) finding {
	name, have, least := "Redis", n.Info["redis_version"], "6.2"
	if valkey := n.Info["valkey_version"]; valkey != "" || n.Info["server_name"] == "valkey" {
		name, have, least = "Valkey", cmp.Or(valkey, have), "7.2"
	}
	switch {
	case have == "":
		return unknown("the version", "+info", n.InfoErr)
	case !atLeast(have, least):
		return fail("%s %s is too old", name, have).means("It lacks commands that the scripts use: locks fail.").
			fix("Upgrade to %s %s or later.", name, least)
	}
	return okay("%s %s", name, have)
}

// atLeast compares versions, "6.2.14" and "6.2".
func atLeast(have, least string) bool {
	numbers := func(text string) (list []int) {
		for part := range strings.SplitSeq(text, ".") {
			n, _ := strconv.Atoi(part)
			list = append(list, n)
		}
		return list
	}
	return slices.Compare(numbers(have), numbers(least)) >= 0
}

// eviction checks that the server never throws a lock away to make room.
func eviction(_ context.Context, _ *doctor, n *node) finding {
	policy := n.Info["maxmemory_policy"]
	limit, used := n.Number("maxmemory"), n.Number("used_memory")
	switch {
	case n.InfoErr != nil || policy == "" || n.Info["maxmemory"] == "":
		return unknown("the eviction policy", "+info", n.InfoErr)
	case limit == 0 && policy != "noeviction":
		return okay("memory has no limit, so nothing is evicted; with one, %s would evict locks, or the permits", policy)
	case limit == 0:
		return okay("memory has no limit, and nothing is evicted")
	case policy != "noeviction":
		which, also := "any key", " Permits with leases never come back if their key is evicted, until SetPermits."
		if strings.HasPrefix(policy, "volatile-") {
			which, also = "keys with a time to live, as all locks have,", ""
		}
		return fail("maxmemory-policy is %s, with maxmemory %s", policy, size(limit)).
			means("When memory is full the server evicts %s. An evicted lock is free while somebody holds it.%s", which, also).
			fix("CONFIG SET maxmemory-policy noeviction, and the same in redis.conf; give a cache a server of its own.")
	case used > limit/10*9:
		return warn("%s of %s of memory are used, and nothing is evicted", size(used), size(limit)).
			means("When it is full the server refuses writes: no lock can be taken. Held locks stay as they are.").
			fix("Raise maxmemory, or find out what fills it: redis-cli --bigkeys.")
	}
	return okay("maxmemory-policy is noeviction; %s of %s are used", size(used), size(limit))
}

// persistence says what a restart forgets.
func persistence(_ context.Context, _ *doctor, n *node) finding {
	const (
		atRestart = "The holder of such a lock goes on, and somebody else gets it. Fencing tokens go back, too."
		better    = "With appendfsync always nothing is lost; RedLock on independent servers bears the loss of one."
		refuses   = "The server refuses all writes: no lock can be taken."
	)
	save, known := n.Config["save"]
	switch {
	case n.InfoErr != nil || n.Info["aof_enabled"] == "":
		return unknown("what it writes to disk", "+info", n.InfoErr)
	case n.Info["aof_enabled"] == "1" && n.Info["aof_last_write_status"] == "err":
		return fail("the append-only file could not be written").means(refuses).fix("Usually the disk is full: see the log.")
	case n.Info["aof_enabled"] == "1":
		return n.appendOnly()
	case n.Info["rdb_last_bgsave_status"] == "err" && n.Config["stop-writes-on-bgsave-error"] != "no":
		return fail("the last snapshot could not be written to disk").means(refuses).
			fix("See the server's log: usually the disk is full, or vm.overcommit_memory is not 1.")
	case known && save == "":
		return warn("nothing is written to disk").
			means("A restart forgets all locks, semaphores, latches and fencing tokens. %s", atRestart).
			fix("CONFIG SET appendonly yes, and in redis.conf. %s", better)
	case known:
		return note("snapshots are written to disk, with save %q, and no append-only file", save).
			means("A restart forgets a lock that was taken since the last snapshot. %s", atRestart).
			fix("If that is too much: CONFIG SET appendonly yes, and in redis.conf. %s", better)
	}
	return note("there is no append-only file; whether snapshots are written is not known: CONFIG GET %s", n.Withheld).
		means("A restart forgets the latest locks, or all. %s", atRestart).fix("%s %s", asAdministrator, better)
}

// appendOnly is persistence of a server that has an append-only file.
func (n *node) appendOnly() finding {
	lost, sync := "about the last second", n.Config["appendfsync"]
	switch sync {
	case "always":
		return okay("the append-only file is written with appendfsync always: a restart forgets no lock")
	case "everysec":
	case "no":
		lost = "what the system has not written to disk, some 30 s"
	default:
		return note("there is an append-only file; how often it is written is not known: CONFIG GET %s", n.Withheld).
			means("A restart may forget the locks taken in the last second, or more.").fix(asAdministrator)
	}
	return note("the append-only file is written with appendfsync %s", sync).
		means("If the machine fails, a restart forgets %s: such locks can be granted again.", lost).
		fix("If that is too much: CONFIG SET appendfsync always, and in redis.conf; or use fencing tokens.")
}

// replicas says what a failover can forget.
func replicas(_ context.Context, _ *doctor, n *node) finding {
	role, slaves := n.Info["role"], n.Info["connected_slaves"]
	if n.InfoErr != nil || role == "" || role == "master" && slaves == "" {
		return unknown("whether there are replicas", "+info", n.InfoErr)
	}
	if role != "master" {
		return finding{} // the topology says so
	}
	const (
		forgets = "Unless Options.Acks asks replicas, a lock is granted before they hear of it, and a failover in between " +
			"forgets it: somebody else gets it."
		bear = "With AcksAll, a lock that all replicas have is kept; RedLock on independent servers bears the loss of " +
			"one, and fencing tokens that the resource compares bear any."
	)
	count, lagging := cli.Plural(n.Number("connected_slaves"), "replica"), n.Number("min_slaves_good_slaves")
	var lags []string // as "10.0.0.2:6379 online, 1 s ago": when it was last heard from
	for i := range n.Number("connected_slaves") {
		about := survey.Fields(strings.NewReplacer("=", ":", ",", "\n").Replace(n.Info[fmt.Sprint("slave", i)]))
		lags = append(lags, fmt.Sprintf("%s:%s %s, %s s ago", about["ip"], about["port"], about["state"], about["lag"]))
	}
	count += " (" + strings.Join(lags, "; ") + ")"
	wanted, known := n.Setting("min-replicas-to-write")
	lag, _ := n.Setting("min-replicas-max-lag")
	switch {
	case known && wanted > lagging:
		return fail("min-replicas-to-write is %d, and %d replicas are in step", wanted, lagging).
			means("The server refuses all writes: no lock can be taken.").
			fix("Bring replicas back; until then CONFIG SET min-replicas-to-write %d lets it work.", lagging)
	case slaves == "0":
		return note("it has no replica").
			means("When it fails, nobody takes over: locks wait until it is back. Nothing is forgotten by a failover. " +
				"A session with Options.Acks takes no lock here.").
			fix("If waiting is too long, add a replica and Sentinel; or use RedLock on independent servers.")
	case known && wanted > 0:
		return note("it has %s, and refuses writes without %d of them within %d s", count, wanted, lag).
			means("%s min-replicas-to-write makes no lock wait for a replica: it bounds how long a master that is cut off "+
				"goes on granting and renewing.", forgets).fix(bear)
	case !known:
		return note("it has %s; whether it waits for any is not known: CONFIG GET %s", count, n.Withheld).
			means(forgets).fix("%s %s", asAdministrator, bear)
	}
	return warn("it has %s, and grants locks without any", count).
		means("%s A master that is cut off goes on granting locks to all who still reach it.", forgets).
		fix("CONFIG SET min-replicas-to-write 1, CONFIG SET min-replicas-max-lag 10, and in redis.conf. %s", bear)
}

// scripts checks that scripts run at all. Which commands they may call is a question of rights.
func scripts(ctx context.Context, _ *doctor, n *node) finding {
	err := n.Do(ctx, "EVAL", "return 1", "0").Error()
	switch {
	case err == nil:
	case refusal.Denied(err):
		return finding{} // the rights say so
	case refusal.Says(err, "BUSY"):
		return fail("a script has been running for too long: %s", plain(err)).
			means("The server does nothing else meanwhile: no lock can be taken, renewed or released.").
			fix("SCRIPT KILL ends it if it has written nothing; then find whose it was.")
	case refusal.Is(err):
		return fail("scripts do not run: %s", plain(err)).means("All locks are scripts: none can be taken.").
			fix("EVAL, EVALSHA and SCRIPT must be neither renamed nor switched off: see rename-command in redis.conf.")
	default:
		return unknown("whether scripts run", "+eval", err)
	}
	if limit, known := n.Setting("lua-time-limit"); known && limit > 0 && limit < 1000 {
		return note("scripts run; others get BUSY after %d ms of one", limit).
			means("The scripts of locks are far shorter. But beside a long one, renewals are refused instead of delayed.").
			fix("CONFIG SET busy-reply-threshold 5000, which is lua-time-limit before Redis 7, and in redis.conf.")
	}
	return okay("scripts run")
}

// connections looks at settings by which the server closes connections.
func connections(_ context.Context, d *doctor, n *node) finding {
	ping := d.q.lease / 12 // goes over a session's connection this often when nothing is held
	idle, told := n.Setting("timeout")
	limit, bounded := n.Setting("maxclients")
	have := n.Number("connected_clients")
	switch hard, soft := pubsubBuffer(n.Config["client-output-buffer-limit"]); {
	case n.ConfigErr != nil || !told && !bounded:
		return unknown("when it closes connections", "+config|get", n.ConfigErr)
	case limit > 0 && have > limit/10*9:
		return warn("%d of %d connections are in use", have, limit).
			means("When all are, a program that reconnects is refused, and loses its locks.").
			fix("CONFIG SET maxclients %d, and in redis.conf; or find who opens so many: CLIENT LIST.", 2*limit)
	case tight(hard) || tight(soft):
		return warn("client-output-buffer-limit pubsub is small: %s hard, %s soft", size(hard), size(soft)).
			means("A process that waits for many locks is cut off and subscribes again; meanwhile waits go by timers.").
			fix(`CONFIG SET client-output-buffer-limit "pubsub 32mb 8mb 60", and in redis.conf.`)
	case idle > 0 && float64(idle) < 2*ping.Seconds():
		return warn("timeout is %d s: connections that are idle for that long are closed", idle).
			means("A session with a lease of %s may send nothing for %s, so its connection may be closed, and a call fail.",
				d.q.lease, ping).
			fix("CONFIG SET timeout 0, and in redis.conf; tcp-keepalive finds dead connections.")
	case n.Config["tcp-keepalive"] == "0":
		return note("tcp-keepalive is 0").
			means("Connections of machines that have gone stay, and count as listeners.").
			fix("CONFIG SET tcp-keepalive 300, and in redis.conf.")
	}
	if !bounded || have == 0 { // ours is one
		return okay("no connection is closed too soon; how many are in use is not known")
	}
	return okay("%d of %d connections are in use, and none is closed too soon", have, limit)
}

// tight reports whether a limit of a buffer is less than what many waiters may need.
func tight(limit int64) bool { return limit > 0 && limit < 1<<20 }

// pubsubBuffer reads the limits of "normal 0 0 0 slave … pubsub 33554432 8388608 60".
func pubsubBuffer(text string) (hard, soft int64) {
	_, limits, _ := strings.Cut(text, "pubsub ")
	_, _ = fmt.Sscan(limits, &hard, &soft)
	return hard, soft
}

// Differences between clocks from which on they are worth a word, and may do harm.
const (
	apart    = 250 * time.Millisecond
	farApart = 5 * time.Second
)

const ntp = "Keep the servers and all hosts on NTP (chrony, systemd-timesyncd)."

// clock compares the server's clock with the one of this machine.
func clock(_ context.Context, _ *doctor, n *node) finding {
	if n.TimeErr != nil {
		return unknown("the server's clock", "+time", n.TimeErr)
	}
	off := n.Ahead.Abs()
	side := "ahead of"
	if n.Ahead < 0 {
		side = "behind"
	}
	switch {
	case off <= n.Give+time.Millisecond:
		return okay("the server's clock and this machine's agree within %s", cli.Roughly(max(off, n.Give)))
	case off < apart:
		return okay("the server's clock is %s %s this machine's", cli.Roughly(off), side)
	}
	f := note("the server's clock is %s %s this machine's", cli.Roughly(off), side).
		means("Who excludes whom does not depend on it: leases are counted by the server. But Java compares permits and " +
			"fair queues with its own clock, and ends them too soon or too late.").fix(ntp)
	if off >= farApart {
		f.Status = statusWarn
	}
	return f
}

// clocks compares the servers of a cluster with each other, replicas included.
func clocks(_ context.Context, d *doctor) finding {
	compared := slices.DeleteFunc(slices.Clone(d.nodes), func(n *node) bool { return n.err != nil || n.TimeErr != nil })
	if len(compared) < 2 {
		return finding{} // there is nothing to compare
	}
	slices.SortFunc(compared, func(a, b *node) int { return cmp.Compare(a.Ahead, b.Ahead) })
	first, last := compared[0], compared[len(compared)-1]
	between, give := last.Ahead-first.Ahead, first.Give+last.Give
	if between <= max(apart, give) {
		return okay("the clocks of %d servers agree within %s", len(compared), cli.Roughly(max(between, give)))
	}
	return warn("the clock of %s is %s ahead of that of %s", last.addr, cli.Roughly(between), first.addr).
		means("After a failover, or when a slot moves, permits and places in fair queues end that much too soon or late.").
		fix(ntp)
}

// latency compares a round trip with what a renewal may take.
func latency(_ context.Context, d *doctor, n *node) finding {
	const fraction, worrying = 6, 30
	if n.TimeErr != nil {
		return unknown("the latency", "+time", n.TimeErr)
	}
	limit, trip := d.q.lease/fraction, cli.Roughly(n.Trip)
	switch {
	case n.Trip >= limit:
		return fail("a round trip takes %s; with a lease of %s a session gives up after %s", trip, d.q.lease, limit).
			means("Renewals fail, and holders lose their locks.").
			fix("Move the program nearer to the server, see what slows it (LATENCY DOCTOR), or raise Options.Lease.")
	case n.Trip >= d.q.lease/worrying:
		return warn("a round trip takes %s; with a lease of %s a session gives up after %s", trip, d.q.lease, limit).
			means("A little slower still, and renewals fail.").
			fix("See what slows the server (SLOWLOG GET, LATENCY DOCTOR), or raise Options.Lease.")
	}
	return okay("a round trip takes %s, the median of %d; up to %s is fine", trip, survey.Samples, d.q.lease/worrying)
}
