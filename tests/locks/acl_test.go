package locks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// These are the fewest rights that a server's ACL must grant to a program whose names begin with "app:". The guide
// has the same lists.
var (
	aclScripts = []string{ // what a session sends, and what its scripts call
		"+eval", "+evalsha", aclExists, "+time", "+get", "+getex", "+set", "+del", "+pttl", "+pexpire", "+persist", "+incr",
		"+incrby", "+decr", "+decrby",
		"+hget", "+hset", "+hdel", "+hlen", "+hexists", "+hmget", "+hkeys", "+hgetall", "+hscan",
		"+lindex", "+llen", "+lrange", "+lpos", "+lrem", "+linsert", "+lpush", "+lpop", "+rpush",
		"+zadd", "+zrem", "+zscore", "+zcard", "+zcount", "+zrange", "+zrangebyscore", "+zremrangebyscore",
		"+zremrangebyrank",
	}
	aclPlain   = []string{"+publish", "+subscribe", aclCount}
	aclSharded = []string{"+spublish", "+ssubscribe"}
	// the second one shows whether messages are sharded
	aclCluster = []string{"+cluster|slots", "+pubsub|shardnumsub"}
	aclKeys    = []string{
		"~app:*", "~{app:*}:timeout", "~{app:*}:*:rwlock_timeout:*", "~redisson_lock_token:{app:*}",
		"~redisson_lock_queue:{app:*}",
		"~redisson_lock_timeout:{app:*}", "~holdfast_fair_queue:{app:*}", "~holdfast_fair_alive:{app:*}",
		"~holdfast_leader:{app:*}", "~holdfast_rwlock_writers:{app:*}",
		"~holdfast_line:{app:*}", "~holdfast_line_alive:{app:*}", "~holdfast_rwlock_line:{app:*}",
		"~holdfast_rwlock_alive:{app:*}",
		"~holdfast_rwlock_waiting:{app:*}", "~holdfast_barrier:{app:*}",
	}
	aclChannels = []string{
		"&redisson_lock__channel:{app:*}", "&redisson_lock__channel:{app:*}:*", "&redisson_rwlock:{app:*}",
		"&redisson_sc:{app:*}",
		"&redisson_countdownlatch__channel__{app:*}", "&holdfast_setlock:{app:*}", "&holdfast_line:{app:*}:*",
		"&holdfast_fair:{app:*}:*", "&holdfast_rwlock_line:{app:*}:*",
		"&holdfast_leader:{app:*}", "&holdfast_barrier:{app:*}",
	}
)

// aclCount is the right to ask whether others listen than those in line: a release that lacks it supposes so.
const aclCount = "+pubsub|numsub"

// aclExists is the right to ask for several keys at once: a script that lacks it asks for one after the other.
const aclExists = "+exists"

// aclSingle and aclSlots are the rights on a single server, and on the nodes of a cluster with sharded messages.
func aclSingle() []string { return slices.Concat(aclScripts, aclPlain, aclKeys, aclChannels) }

func aclSlots(cluster []string) []string {
	return slices.Concat(aclScripts, aclSharded, cluster, aclKeys, aclChannels)
}

// aclClusterOf is aclCluster for one server: from version 8 on the client reads the slots with another command.
func aclClusterOf(t *testing.T, srv *redistest.Server) []string {
	t.Helper()
	hello := srv.Do(t, "HELLO").([]any)
	version, major := hello[slices.Index(hello, any("version"))+1].(string), 0
	_, err := fmt.Sscanf(version, "%d.", &major)
	require.NoError(t, err)
	if major < 8 {
		return aclCluster
	}
	return append(without(aclCluster, "+cluster|slots"), "+cluster|shards")
}

// aclWords are how servers refuse a command, a key or a channel: the first form answers a call, the others come from
// inside a script. Those who wait look for them again and again, which is cheaper than with aclNo.
var (
	aclWords = []string{"NOPERM", "user executing the script can't", "ACL failure in script"}
	aclNo    = regexp.MustCompile(strings.Join(aclWords, "|"))
)

// aclMute is what happens without the right to publish. While somebody stands in its line, a lock is free then all the
// same, but nobody is told.
var aclMute = regexp.MustCompile(`the waiter was not woken|` + aclNo.String())

// denied returns the first line that says that the server has refused something; nil if there is none.
func denied(l *kit.Journal) error {
	for line := range strings.Lines(l.String()) {
		if slices.ContainsFunc(aclWords, func(words string) bool { return strings.Contains(line, words) }) {
			return errors.New(line)
		}
	}
	return nil
}

// aclGrant makes a user that has these rights and no others.
func aclGrant(t *testing.T, servers []*redistest.Server, rights []string) rueidis.ClientOption {
	t.Helper()
	opt := rueidis.ClientOption{Username: "app", Password: redistest.Password}
	for _, srv := range servers {
		srv.Do(t, "FLUSHALL")
		srv.Do(t, "SCRIPT", "FLUSH")
		srv.Grant(t, opt.Username, rights...)
		srv.Do(t, "ACL", "LOG", "RESET")
		opt.InitAddress = append(opt.InitAddress, srv.Addr())
	}
	return opt
}

func TestTheACLOfTheGuideIsEnough(t *testing.T) {
	t.Parallel()
	servers := kit.StartServers(t, 1)
	require.NoError(t, aclTour(t, servers, aclGrant(t, servers, aclSingle()), ""))

	// The client asks these on its own account, and can do without an answer.
	spare := []any{"client|setinfo", "cluster|slots", "cluster|shards", "cluster", "client", "ping", "exists"}
	require.Subset(t, spare, aclLog(t, servers[0]))
}

// Whatever right is taken away, some call fails, and the error has the server's reason.
func TestTheACLOfTheGuideHasNothingToSpare(t *testing.T) {
	t.Parallel()
	needed, stock := without(without(aclSingle(), aclCount), aclExists), kit.NewStock(t, 4)
	kit.InParallel(t, 4, needed, func(right string) string { return right }, func(t *testing.T, right string) {
		servers := []*redistest.Server{stock.Borrow(t)}
		err := aclTour(t, servers, aclGrant(t, servers, without(aclSingle(), right)), "")
		require.Error(t, err)
		if right == "~holdfast_rwlock_waiting:{app:*}" { // without it writers wait as if nobody knew the line
			require.ErrorContains(t, err, "it stands: not in time")
			return
		}
		if right == "+publish" {
			require.Regexp(t, aclMute, err.Error())
			require.Contains(t, aclLog(t, servers[0]), any("publish"))
			return
		}
		require.Regexp(t, aclNo, err.Error())
	})
}

// aclLog returns what the server has refused.
func aclLog(t *testing.T, srv *redistest.Server) (refused []any) {
	for _, entry := range srv.Do(t, "ACL", "LOG").([]any) {
		refused = append(refused, entry.([]any)[7])
	}
	return refused
}

// A release that may not count the listeners succeeds, and a writer that may not ask for several keys at once gets its
// lock.
func TestTheACLOfTheGuideWithoutWhatSavesTime(t *testing.T) {
	t.Parallel()
	for _, right := range []string{aclCount, aclExists} {
		servers := kit.StartServers(t, 1)
		require.NoError(t, aclTour(t, servers, aclGrant(t, servers, without(aclSingle(), right)), ""))
		right = strings.TrimPrefix(right, "+")
		command, _, _ := strings.Cut(right, "|") // Redis 6.2 tells of no subcommand
		refused := aclLog(t, servers[0])
		require.True(t, slices.Contains(refused, any(right)) || slices.Contains(refused, any(command)), refused)
	}
}

func without(rights []string, right string) []string {
	return slices.DeleteFunc(slices.Clone(rights), func(r string) bool { return r == right })
}

// Names with their own hash tag have other keys and channels.
func TestTheACLOfTheGuideForNamesWithATag(t *testing.T) {
	t.Parallel()
	rights := slices.DeleteFunc(aclSingle(), func(right string) bool {
		return strings.HasPrefix(right, "~{app:*}") || strings.HasSuffix(right, "__channel:{app:*}:*")
	})
	for i, right := range rights {
		if strings.Contains(right, "_line") || strings.Contains(right, "rwlock_alive") ||
			strings.Contains(right, "rwlock_waiting") || strings.Contains(right, "holdfast_fair:") ||
			strings.Contains(right, "holdfast_leader") || strings.Contains(right, "holdfast_barrier") {
			right = strings.Replace(right, ":", "::", 1)
		}
		rights[i] = strings.Replace(strings.Replace(right, "}:*", "}", 1), ":{app:*}", ":app:*", 1)
	}
	servers := kit.StartServers(t, 1)
	require.NoError(t, aclTour(t, servers, aclGrant(t, servers, rights), "{tag}:"))
}

func TestTheACLOfTheGuideInACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	cluster.NeedSharded(t)
	rights := aclClusterOf(t, cluster.Nodes[0])
	require.NoError(t, aclTour(t, cluster.Nodes, aclGrant(t, cluster.Nodes, aclSlots(rights)), ""))
	for _, right := range slices.Concat(aclSharded, rights) {
		err := aclTour(t, cluster.Nodes, aclGrant(t, cluster.Nodes, without(aclSlots(rights), right)), "")
		require.Error(t, err, right)
		reason := aclNo
		if right == "+spublish" {
			reason = aclMute
		}
		require.Regexp(t, reason, err.Error(), right)
	}
}

// A session whose messages nobody hears would be worse than one that does not open.
func TestASessionThatMayNotAskForShardedMessagesIsRefused(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	cluster.NeedSharded(t)
	opt := aclGrant(t, cluster.Nodes, without(aclSlots(aclClusterOf(t, cluster.Nodes[0])), "+pubsub|shardnumsub"))
	_, err := holdfast.Open(opt, nil)
	require.ErrorContains(t, err, "PubSubAuto needs the right to PUBSUB SHARDNUMSUB, or Options.PubSub: NOPERM")
	kit.OpenWith(t, opt, &holdfast.Options{PubSub: holdfast.PubSubSharded})
}

// Behind Sentinel the client also asks the server whether it is the master.
func TestTheACLOfTheGuideBehindSentinel(t *testing.T) {
	t.Parallel()
	set := redistest.StartSentinels(t)
	servers := []*redistest.Server{set.Master()}
	for _, role := range []string{"+role", "-role"} {
		opt := aclGrant(t, servers, append(aclSingle(), role))
		opt.InitAddress = set.SentinelAddrs()
		opt.Sentinel.MasterSet = set.MasterName
		err := aclTour(t, servers, opt, "")
		if role == "+role" {
			require.NoError(t, err)
			continue
		}
		require.Error(t, err)
		require.Regexp(t, aclNo, err.Error())
	}
}

// A RedLock asks for a server's age, and does without if it may not know.
func TestTheACLOfTheGuideForARedLock(t *testing.T) {
	t.Parallel()
	const lease = 6 * time.Second // servers that are younger are doubted
	for name, rights := range map[string][]string{"fewest": aclSingle(), "and info": append(aclSingle(), "+info")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sessions []*holdfast.Session
			log := &kit.Journal{}
			for _, srv := range kit.StartServers(t, 3) {
				sessions = append(sessions, kit.OpenWith(t, aclGrant(t, []*redistest.Server{srv}, rights),
					&holdfast.Options{Lease: lease, Logger: log.Logger()}))
			}
			for name, member := range map[string]func(*holdfast.Session, string) holdfast.Locker{
				"app:reentrant": kit.ReentrantMember, "app:plain": kit.PlainMember,
			} {
				l := kit.RedLock(sessions, name, member, kit.Careful)
				hold := kit.Lock(t, t.Context(), l)
				_, err := l.TryLock(t.Context())
				require.ErrorIs(t, err, holdfast.ErrBusy)
				next := kit.GoLock(t.Context(), l.Lock)
				require.NoError(t, hold.Extend(t.Context(), lease))
				require.NoError(t, hold.Release())
				taken := kit.Within(t, 5*time.Second, next, "the next one's turn")
				require.NoError(t, taken.Err)
				require.NoError(t, taken.Hold.Release())
			}
			for _, s := range sessions {
				require.NoError(t, s.Close())
			}
			told := strings.Count(log.String(), "does not tell how long it has been up")
			if slices.Contains(rights, "+info") {
				require.Zero(t, told)
			} else {
				require.Equal(t, len(sessions), told, "once in each session")
			}
		})
	}
}

// Whoever asks replicas needs some rights more.
func TestTheACLOfTheGuideForAcks(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	redistest.StartReplica(t, master)
	rights := append(aclSingle(), "+wait", "+info", "~holdfast_acked:{app:*}")
	try := func(rights []string) error {
		opt := aclGrant(t, []*redistest.Server{master}, rights)
		s, err := holdfast.Open(opt, acksOptions(holdfast.AcksAll, acksPatience))
		if err != nil {
			return err
		}
		defer s.Close()
		return holdfast.Do(t.Context(), rlock.New(s, "app:orders", nil).Lock, func(context.Context) error { return nil })
	}
	require.NoError(t, try(rights))
	require.ErrorContains(t, try(without(rights, "+wait")), "Options.Acks needs WAIT: NOPERM")
	require.ErrorContains(t, try(without(rights, "+info")), "Options.Acks needs INFO: NOPERM")
	err := try(without(rights, "~holdfast_acked:{app:*}"))
	_, _, why := notAcknowledged(t, err)
	require.ErrorContains(t, why, "NOPERM")
}

// The guide has the same rights as these tests.
func TestTheACLOfTheGuideIsThisOne(t *testing.T) {
	require.ElementsMatch(t, aclSingle(), redistest.GuideRights(t))
	guide, err := os.ReadFile("../../docs/redisson.md")
	require.NoError(t, err)
	for _, right := range slices.Concat(aclSharded, aclCluster,
		[]string{"+cluster|shards", "+info", "+role", "+wait", "~holdfast_acked:{app:*}", "~holdfast_session:*"}) {
		require.Contains(t, string(guide), "`"+right+"`")
	}
}
