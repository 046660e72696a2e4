package doctor

import (
	"crypto/rand"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/wire"
)

// A right is one rule of the ACL and a command that needs it.
type right struct {
	rule string
	kind string // of locks that need it; "": all
	how  how
	args []string
}

// how a right is tried where ACL DRYRUN cannot be asked.
type how int

const (
	inScript how = iota // as locks do
	directly
	subscribing
)

// commands are what all sessions send, and what scripts call, each with arguments that do no harm to the key:
// it is there for the first ones, and then a text, which is of the wrong type for most. The last removes it.
func commands(key string) (all []right) {
	for _, args := range [][]string{
		{"PEXPIRE", key, "1"},
		{"DEL", key},
		{"SET", key, "x", "PX", "1000"},
		{"TIME"},
		{"GET", key},
		{"GETEX", key},
		{"PTTL", key},
		{"INCR", key},
		{"INCRBY", key, "1"},
		{"DECR", key},
		{"DECRBY", key, "1"},
		{"HGET", key, "f"},
		{"HSET", key, "f", "v"},
		{"HDEL", key, "f"},
		{"HLEN", key},
		{"HEXISTS", key, "f"},
		{"HMGET", key, "f"},
		{"HGETALL", key},
		{"HSCAN", key, "0"},
		{"LINDEX", key, "0"},
		{"LLEN", key},
		{"LRANGE", key, "0", "0"},
		{"LPOS", key, "e"},
		{"LREM", key, "0", "e"},
		{"LINSERT", key, "BEFORE", "e", "e"},
		{"LPUSH", key, "e"},
		{"RPUSH", key, "e"},
		{"ZADD", key, "0", "m"},
		{"ZREM", key, "m"},
		{"ZSCORE", key, "m"},
		{"ZCARD", key},
		{"ZCOUNT", key, "0", "0"},
		{"ZRANGE", key, "0", "0"},
		{"ZRANGEBYSCORE", key, "0", "0"},
		{"ZREMRANGEBYSCORE", key, "0", "0"},
		{"ZREMRANGEBYRANK", key, "0", "0"},
	} {
		all = append(all, right{rule: "+" + strings.ToLower(args[0]), args: args})
	}
	return append(all,
		right{rule: "+eval", how: directly, args: []string{"EVAL", "return 1", "0"}},
		right{rule: "+evalsha", how: directly, args: []string{"EVALSHA", strings.Repeat("0", 40), "0"}})
}

// keys are the keys of a name, with the rules for all names that begin with the prefix.
func keys(prefix, name string) []right {
	owner := rand.Text()
	prefix = literal(prefix)
	return []right{
		pattern("~"+prefix+"*", "", name),
		pattern("~"+wire.TokenKey(prefix+"*"), "rlock", wire.TokenKey(name)),
		pattern("~"+wire.FairQueue(prefix+"*"), "fairlock", wire.FairQueue(name)),
		pattern("~"+wire.FairDue(prefix+"*"), "fairlock", wire.FairDue(name)),
		pattern("~"+wire.FairOurs(prefix+"*"), "fairlock", wire.FairOurs(name)),
		pattern("~"+wire.FairAlive(prefix+"*"), "fairlock", wire.FairAlive(name)),
		pattern("~"+wire.Suffix(prefix+"*", "*:rwlock_timeout:*"), "rwlock", wire.Suffix(name, owner+":rwlock_timeout:1")),
		pattern("~"+wire.RWWriters(prefix+"*"), "rwlock", wire.RWWriters(name)),
		pattern("~"+wire.PermitsKey(prefix+"*"), "semaphore", wire.PermitsKey(name)),
	}
}

// literal is a prefix as it stands in a rule of the ACL, which is a glob. What no rule can have, or the prompt
// of redis-cli does not take as it is, stands as a character that may be any.
func literal(prefix string) string {
	var b strings.Builder
	for _, c := range []byte(prefix) {
		switch {
		case c <= ' ' || c >= 0x7f || c == '"' || c == '\'':
			c = '?'
		case strings.IndexByte(`*?[]\`, c) >= 0:
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}

// pattern is the right to read and write a key.
func pattern(rule, kind, key string) right {
	return right{rule: rule, kind: kind, args: []string{"PEXPIRE", key, "1"}}
}

// messages are the channels of a name, and the commands for them.
func messages(publish, subscribe, prefix, name string) (all []right) {
	owner := rand.Text()
	prefix = literal(prefix)
	for _, c := range []struct{ kind, rule, channel string }{
		{"rlock", wire.LockChannel(prefix + "*"), wire.LockChannel(name)},
		{"fairlock", wire.LockChannel(prefix+"*") + ":*", wire.FairChannel(name) + owner},
		{"rwlock", wire.RWChannel(prefix + "*"), wire.RWChannel(name)},
		{"setlock", wire.SetChannel(prefix + "*"), wire.SetChannel(name)},
		{"semaphore", wire.SemaphoreChannel(prefix + "*"), wire.SemaphoreChannel(name)},
		{"latch", wire.LatchChannel(prefix + "*"), wire.LatchChannel(name)},
	} {
		all = append(all, right{rule: "&" + c.rule, kind: c.kind, args: []string{publish, c.channel, "0"}})
	}
	channel := wire.LockChannel(name)
	return append(all,
		right{rule: "+" + strings.ToLower(publish), args: []string{publish, channel, "0"}},
		right{rule: "+" + strings.ToLower(subscribe), how: subscribing, args: []string{subscribe, channel}})
}

// needed are all rights that a program with locks of these kinds needs on a server.
func (d *doctor) needed(kinds []string, name string, sharded bool) (all []right) { //nolint:revive // what the server has
	publish, subscribe := "PUBLISH", "SUBSCRIBE"
	if sharded {
		publish, subscribe = "SPUBLISH", "SSUBSCRIBE"
	}
	all = slices.Concat(commands(name), keys(d.q.prefix, name), messages(publish, subscribe, d.q.prefix, name))
	switch {
	case d.cluster():
		all = append(all, right{rule: "+cluster|slots", how: directly, args: []string{"CLUSTER", "SLOTS"}})
		if sharded {
			all = append(all, right{rule: "+pubsub|shardnumsub", how: directly, args: []string{"PUBSUB", "SHARDNUMSUB", "0"}})
		}
	case d.sentinel():
		all = append(all, right{rule: "+role", how: directly, args: []string{"ROLE"}})
	}
	return slices.DeleteFunc(all, func(r right) bool { return r.kind != "" && !slices.Contains(kinds, r.kind) })
}

// probe is a name that nobody uses, in a slot that the server serves; "" if there is none with the prefix.
func (d *doctor) probe(n *node) string {
	const tries = 100_000
	for range tries {
		name := d.q.prefix + "holdfast_doctor:" + rand.Text()
		if !d.cluster() || d.slots.covers(n.addr, int64(wire.Slot(name))) {
			return name
		}
	}
	return ""
}
