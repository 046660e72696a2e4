package doctor

import (
	"context"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
)

// version checks that the server knows the commands that the scripts use.
func version(_ context.Context, _ *doctor, n *node) finding {
	name, have, least := "Redis", n.info["redis_version"], "6.2"
	if have == "" { // HELLO tells, too
		text := n.hello["version"]
		have, _ = text.ToString()
	}
	if valkey := n.info["valkey_version"]; valkey != "" || n.info["server_name"] == "valkey" {
		name, least = "Valkey", "7.2"
		if valkey != "" {
			have = valkey
		}
	}
	switch {
	case have == "":
		return unknown("the version", "+info", n.infoErr)
	case !atLeast(have, least):
		return fail("%s %s is too old", name, have).
			means("Scripts use commands that it does not have: locks fail.").
			fix("Upgrade to %s %s or later.", name, least)
	}
	return okay("%s %s", name, have)
}

// atLeast compares versions, "6.2.14" and "6.2".
func atLeast(have, least string) bool {
	h, l := strings.Split(have, "."), strings.Split(least, ".")
	for i, text := range l {
		want, _ := strconv.Atoi(text)
		got := 0
		if i < len(h) {
			got, _ = strconv.Atoi(h[i])
		}
		if got != want {
			return got > want
		}
	}
	return true
}

// eviction checks that the server never throws a lock away to make room.
func eviction(_ context.Context, _ *doctor, n *node) finding {
	policy := n.info["maxmemory_policy"]
	limit, used := n.number("maxmemory"), n.number("used_memory")
	switch {
	case n.infoErr != nil || policy == "" || n.info["maxmemory"] == "":
		return unknown("the eviction policy", "+info", n.infoErr)
	case limit == 0 && policy != "noeviction":
		return okay("memory has no limit, so nothing is evicted; with one, %s would evict locks, or the permits of semaphores", policy)
	case limit == 0:
		return okay("memory has no limit, and nothing is evicted")
	case policy != "noeviction":
		which, also := "any key", " Permits with leases never come back if the key of those that are taken is evicted, until SetPermits says how many there are."
		if strings.HasPrefix(policy, "volatile-") {
			which, also = "keys with a time to live, as all locks have,", ""
		}
		return fail("maxmemory-policy is %s, with maxmemory %s", policy, size(limit)).
			means("When memory is full the server throws %s away. A lock that is evicted is free while somebody holds it.%s", which, also).
			fix("CONFIG SET maxmemory-policy noeviction, and the same in redis.conf; give a cache a server of its own.")
	case used > limit/10*9:
		return warn("%s of %s of memory are used, and nothing is evicted", size(used), size(limit)).
			means("When it is full the server refuses writes: no lock can be taken. What is held is kept, and can be given back.").
			fix("Raise maxmemory, or find out what fills it: redis-cli --bigkeys.")
	}
	return okay("maxmemory-policy is noeviction; %s of %s are used", size(used), size(limit))
}

// persistence says what a restart forgets.
func persistence(_ context.Context, _ *doctor, n *node) finding {
	if n.infoErr != nil || n.info["aof_enabled"] == "" {
		return unknown("what it writes to disk", "+info", n.infoErr)
	}
	if n.info["aof_enabled"] == "1" {
		return n.appendOnly()
	}
	const atRestart = "Whoever held one then still believes it, and somebody else gets it. Fencing tokens go back, too."
	const better = "With appendfsync always nothing is lost; RedLock on independent servers bears the loss of one."
	save, known := n.config["save"]
	switch {
	case n.info["rdb_last_bgsave_status"] == "err" && n.config["stop-writes-on-bgsave-error"] != "no":
		return fail("the last snapshot could not be written to disk").
			means("The server refuses all writes: no lock can be taken.").
			fix("See the server's log: mostly the disk is full, or vm.overcommit_memory is not 1.")
	case known && save == "":
		return warn("nothing is written to disk").
			means("A restart forgets all locks, semaphores, latches and fencing tokens. %s", atRestart).
			fix("CONFIG SET appendonly yes, and in redis.conf. %s", better)
	case known:
		return note("snapshots are written to disk, with save %q, and no append-only file", save).
			means("A restart forgets the locks that were taken since the last snapshot. %s", atRestart).
			fix("If that is too much: CONFIG SET appendonly yes, and in redis.conf. %s", better)
	}
	return note("there is no append-only file; whether snapshots are written is not known: CONFIG GET %s", n.withheld()).
		means("A restart forgets locks that were taken lately, or all. %s", atRestart).
		fix("Run the doctor as an administrator, or grant +config|get. %s", better)
}

// appendOnly is persistence of a server that has an append-only file.
func (n *node) appendOnly() finding {
	if n.info["aof_last_write_status"] == "err" {
		return fail("the append-only file could not be written").
			means("The server refuses all writes: no lock can be taken.").
			fix("See the server's log: mostly the disk is full.")
	}
	lost := "about the last second"
	switch n.config["appendfsync"] {
	case "always":
		return okay("the append-only file is written with appendfsync always: a restart forgets no lock")
	case "everysec":
	case "no":
		lost = "what the system has not written to disk, some 30 s"
	default:
		return note("there is an append-only file; how often it is written is not known: CONFIG GET %s", n.withheld()).
			means("A restart may forget the locks taken in the last second, or more.").
			fix("Run the doctor as an administrator, or grant +config|get.")
	}
	return note("the append-only file is written with appendfsync %s", n.config["appendfsync"]).
		means("If the machine fails, a restart forgets %s: a lock granted then can be granted again. If only the process does, nothing.", lost).
		fix("If that is too much: CONFIG SET appendfsync always, and in redis.conf; or let the resource compare fencing tokens.")
}

// replicas says what a failover can forget.
func replicas(_ context.Context, _ *doctor, n *node) finding {
	if n.infoErr != nil || n.info["role"] == "" || n.info["role"] == "master" && n.info["connected_slaves"] == "" {
		return unknown("whether there are replicas", "+info", n.infoErr)
	}
	if n.info["role"] != "master" {
		return finding{} // the topology says so
	}
	count := n.number("connected_slaves")
	wanted, known := n.setting("min-replicas-to-write")
	if lagging, _ := strconv.ParseInt(n.info["min_slaves_good_slaves"], 10, 64); known && wanted > lagging {
		return fail("min-replicas-to-write is %d, and %d replicas are in step", wanted, lagging).
			means("The server refuses all writes: no lock can be taken.").
			fix("Bring replicas back; until then CONFIG SET min-replicas-to-write %d lets it work.", lagging)
	}
	const forgets = "Replicas hear of a lock after its holder does, so a failover in between forgets it, and somebody else gets it."
	const bear = "What bears it: fencing tokens that the resource compares, or RedLock on independent servers."
	switch {
	case count == 0:
		return note("it has no replica").
			means("When it fails, nobody takes over: locks wait until it is back. Nothing is forgotten by a failover.").
			fix("If waiting is too long, add a replica and Sentinel; or use RedLock on independent servers.")
	case known && wanted > 0:
		lag, _ := n.setting("min-replicas-max-lag")
		return note("it has %s, and refuses writes without %d of them within %d s", cli.Plural(count, "replica"), wanted, lag).
			means("%s min-replicas-to-write bounds for how long a master that is cut off goes on granting.", forgets).
			fix("%s", bear)
	case !known:
		return note("it has %s; whether it waits for any is not known: CONFIG GET %s", cli.Plural(count, "replica"), n.withheld()).
			means(forgets).fix("Run the doctor as an administrator, or grant +config|get. %s", bear)
	}
	return warn("it has %s, and grants locks without any", cli.Plural(count, "replica")).
		means("%s A master that is cut off goes on granting locks, to all who still reach it.", forgets).
		fix("CONFIG SET min-replicas-to-write 1 and CONFIG SET min-replicas-max-lag 10, and in redis.conf, bound that. %s", bear)
}
