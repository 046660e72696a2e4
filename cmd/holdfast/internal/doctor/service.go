package doctor

import (
	"context"
	"strconv"
	"strings"
)

// scripts checks that scripts run at all. Which commands they may call is a question of rights.
func scripts(ctx context.Context, _ *doctor, n *node) finding {
	err := n.do(ctx, "EVAL", "return 1", "0").Error()
	switch {
	case err == nil:
	case denied(err):
		return finding{} // the rights say so
	case refused(err) && strings.HasPrefix(plain(err), "BUSY"):
		return fail("a script has been running for too long: %s", plain(err)).
			means("Nothing else is served meanwhile: no lock can be taken, renewed or released.").
			fix("SCRIPT KILL ends it if it has written nothing; then find whose it was.")
	case refused(err):
		return fail("scripts do not run: %s", plain(err)).
			means("All locks are scripts: none can be taken.").
			fix("EVAL, EVALSHA and SCRIPT must be neither renamed nor switched off: see rename-command in redis.conf.")
	default:
		return unknown("whether scripts run", "+eval", err)
	}
	const least = 1000
	if limit, known := n.setting("lua-time-limit"); known && limit > 0 && limit < least {
		return note("scripts run; others get BUSY after %d ms of one", limit).
			means("The scripts of locks are far shorter. But a long one of others has renewals refused instead of delayed.").
			fix("CONFIG SET busy-reply-threshold 5000, which is lua-time-limit before Redis 7, and in redis.conf.")
	}
	return okay("scripts run")
}

// channels are those of locks, whatever the name.
var channels = []string{
	"redisson_lock__channel*", "redisson_rwlock*", "redisson_sc*", "redisson_countdownlatch__channel__*", "holdfast_setlock*",
}

// pubsub says which messages are used, and whether all listen to the same.
func pubsub(ctx context.Context, d *doctor) finding {
	if !d.cluster() {
		return okay("plain messages, as everywhere but in clusters")
	}
	n := d.masters()[0]
	err := n.do(ctx, "PUBSUB", "SHARDNUMSUB", "0").Error()
	switch {
	case denied(err):
		return fail("the user may not ask whether there are sharded messages").
			means("Go refuses to open a session, and Java takes it for a no and uses plain messages, which others do not hear.").
			fix("ACL SETUSER %s +pubsub|shardnumsub on each server, or set Options.PubSub and Java's shardedSubscriptionMode.", d.who(n))
	case err != nil && !refused(err):
		return unknown("whether there are sharded messages", "+pubsub|shardnumsub", err)
	}
	plainly, sharded := 0, 0
	for _, n := range d.masters() {
		for _, pattern := range channels {
			plainly += heard(ctx, n, "CHANNELS", pattern)
			sharded += heard(ctx, n, "SHARDCHANNELS", pattern)
		}
	}
	switch {
	case err != nil:
		return okay("plain messages: these servers have no sharded ones, which Go and Java find out by themselves")
	case plainly > 0 && sharded > 0:
		return warn("some programs listen to sharded messages, others to plain ones: %d and %d channels", sharded, plainly).
			means("They exclude each other, but do not wake each other: waits go by timers, and in Java some do not end.").
			fix("Set the same everywhere: Options.PubSub in Go, shardedSubscriptionMode in Java. AUTO is sharded here.")
	case plainly > 0:
		return note("the servers have sharded messages, but programs listen to plain ones, on %d channels", plainly).
			means("That is right if all are told to: PubSubPlain in Go, shardedSubscriptionMode OFF in Java. One with the default would not hear them.").
			fix("Set the same everywhere: Options.PubSub in Go, shardedSubscriptionMode in Java.")
	}
	return okay("sharded messages, which Go and Java use by themselves")
}

// heard counts the channels like that to which somebody listens; 0 if it may not be asked.
func heard(ctx context.Context, n *node, list, pattern string) int {
	found, err := n.do(ctx, "PUBSUB", list, pattern).AsStrSlice()
	if err != nil {
		return 0
	}
	return len(found)
}

// connections looks at settings by which the server closes connections.
func connections(_ context.Context, d *doctor, n *node) finding {
	if n.configErr != nil {
		return unknown("when it closes connections", "+config|get", n.configErr)
	}
	// What goes over a session's connection when nothing is held: a PING each so often.
	ping := d.q.lease / 12
	idle, told := n.setting("timeout")
	limit, bounded := n.setting("maxclients")
	if !told && !bounded {
		return unknown("when it closes connections", "+config|get", nil)
	}
	have := n.number("connected_clients")
	switch hard, soft := pubsubBuffer(n.config["client-output-buffer-limit"]); {
	case limit > 0 && have > limit/10*9:
		return warn("%d of %d connections are in use", have, limit).
			means("When all are, a program that reconnects is refused, and loses its locks.").
			fix("CONFIG SET maxclients %d, and in redis.conf; or find who opens so many: CLIENT LIST.", 2*limit)
	case tight(hard) || tight(soft):
		return warn("client-output-buffer-limit pubsub is small: %s hard, %s soft", size(hard), size(soft)).
			means("Whoever waits for many locks is cut off and subscribes anew; meanwhile waits go by timers.").
			fix(`CONFIG SET client-output-buffer-limit "pubsub 32mb 8mb 60", and in redis.conf.`)
	case idle > 0 && float64(idle) < 2*ping.Seconds():
		return warn("timeout is %d s: connections that are idle for so long are closed", idle).
			means("A session with a lease of %s sends something every %s at least, so its connection may be closed, and a call fail.", d.q.lease, ping).
			fix("CONFIG SET timeout 0, and in redis.conf; tcp-keepalive finds connections of the dead.")
	case n.config["tcp-keepalive"] == "0":
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
	words := strings.Fields(text)
	for i, word := range words {
		if word == "pubsub" && i+2 < len(words) {
			hard, _ = strconv.ParseInt(words[i+1], 10, 64)
			soft, _ = strconv.ParseInt(words[i+2], 10, 64)
		}
	}
	return hard, soft
}
