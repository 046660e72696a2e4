package command

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/tests/redistest"
)

func grant(t testing.TB, srv *redistest.Server, user string, rights []string) (env []string) {
	t.Helper()
	srv.Grant(t, user, rights...)
	return []string{"HOLDFAST_REDIS_USER=" + user, "HOLDFAST_REDIS_PASSWORD=" + redistest.Password}
}

// With the guide's rights there is nothing to report. Without any one of them the doctor names that one, even if an
// administrator asks for the user.
func TestDoctorNamesTheMissingRight(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, durable...)
	rights := redistest.GuideRights(t)
	asked := []string{"--prefix", "app:", "--scan", "0"}
	found := examine(t, srv, grant(t, srv, "app", rights), asked...)
	expect(t, found, "acl", "ok", `app has all rights, for names that begin with "app:"`)
	for _, check := range []string{"eviction", "persistence", "replicas", "connections"} {
		expect(t, found, check, "note", "not known")
	}
	expect(t, examine(t, srv, nil, append(asked, "--acl-user", "app")...), "acl", "ok", "app has all rights")
	require.Empty(t, srv.Keyspace(t))

	for i, right := range rights {
		user := "app" + string(rune('A'+i%26)) + string(rune('a'+i/26))
		rest := slices.DeleteFunc(slices.Clone(rights), func(r string) bool { return r == right })
		t.Run(right, func(t *testing.T) {
			for _, found := range []map[string][]finding{
				examine(t, srv, grant(t, srv, user, rest), asked...),
				examine(t, srv, nil, append(asked, "--acl-user", user)...),
			} {
				f := found["acl"][0]
				require.Equal(t, "fail", f.Status)
				require.Contains(t, f.Fix+" ", " "+right+" ")
				require.True(t, strings.HasPrefix(f.Fix, "ACL SETUSER "+user+" "))
			}
		})
	}
	require.Empty(t, srv.Keyspace(t), "it left something")

	// A user without any rights is told all of them, in two rounds: rights to keys can only be checked with rights to
	// commands.
	nothing := append(asked, "--acl-user", "nothing")
	grant(t, srv, "nothing", nil)
	var told []string
	for range 2 {
		fix, _, _ := strings.Cut(examine(t, srv, nil, nothing...)["acl"][0].Fix, " and then run the doctor again")
		srv.Do(t, strings.Fields(fix)...)
		told = append(told, strings.Fields(fix)[3:]...)
	}
	require.ElementsMatch(t, rights, told)
	expect(t, examine(t, srv, nil, nothing...), "acl", "ok", "")
}

func TestDoctorAsksForTheRightsOfSomeKinds(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, durable...)
	var rights []string
	for _, right := range redistest.GuideRights(t) {
		if strings.HasPrefix(right, "+") || right == "~app:*" || strings.HasPrefix(right, "&redisson_countdownlatch") {
			rights = append(rights, right)
		}
	}
	env := grant(t, srv, "app", rights)
	expect(t, examine(t, srv, env, "--prefix", "app:", "--kinds", "latch"), "acl", "ok", "")
	expect(t, examine(t, srv, env, "--prefix", "app:"), "acl", "fail", "name them with --kinds")
	expect(t, examine(t, srv, env, "--prefix", "app:", "--kinds", ""), "acl", "fail", "name them with --kinds")
	expect(t, examine(t, srv, env, "--prefix", "app:", "--kinds", "latch,fairlock"), "acl", "fail",
		"~redisson_lock_queue:{app:*}")
	expect(t, examine(t, srv, env, "--prefix", "other:", "--kinds", "latch"), "acl", "fail", "~other:*")
	expect(t, examine(t, srv, env), "acl", "note", "--prefix app:")
	expect(t, examine(t, srv, env), "sessions", "note", "~holdfast_session:*")
	expect(t, examine(t, srv, env), "ttl", "note", "not known")
	expect(t, examine(t, srv, nil, "--acl-user", "app"), "sessions", "note", "Options.Anonymous")
	expect(t, examine(t, srv, nil, "--acl-user", "nobody"), "acl", "fail", "there is no user nobody")
	expect(t, examine(t, srv, env, "--acl-user", "default"), "acl", "note",
		"only a user with the right to ACL DRYRUN can ask")
	grant(t, srv, "free", []string{"+@all", "~*", "&*"})
	expect(t, examine(t, srv, nil, "--acl-user", "free"), "sessions", "ok", "")
}

// The rules hold for the prefix and for nothing that a rule can tell from it.
func TestDoctorWritesRulesForAnyPrefix(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, durable...)
	for i, prefix := range []string{
		"a[b]:", "x*y?:", `back\slash:`, "{tag}:", "two words:", "it's:",
		`"quoted":`, "ключ:",
	} {
		user := "app" + string(rune('a'+i))
		srv.Do(t, "ACL", "SETUSER", user, "reset", "on", "+@all")
		asked := []string{"--scan", "0", "--acl-user", user, "--prefix", prefix}
		fix := examine(t, srv, nil, asked...)["acl"][0].Fix
		srv.Do(t, strings.Fields(fix)...)
		expect(t, examine(t, srv, nil, asked...), "acl", "ok", "has all rights")
		if prefix == "x*y?:" {
			require.Contains(t, srv.Str(t, "ACL", "DRYRUN", user, "GET", "x1y2:name"), "no permissions")
		}
	}
}

// The doctor does not mistake what the user may not read for the absence of locks.
func TestDoctorTellsWhatItMayNotRead(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, durable...)
	const owner = "0f8fad5b-d9cb-469f-a165-70867728950e:42"
	srv.Do(t, "HSET", "orders", owner, "1")
	srv.Do(t, "RPUSH", "redisson_lock_queue:{orders}", owner)
	srv.Do(t, "ZADD", "redisson_lock_timeout:{orders}", "1000", owner)
	all := []string{"+@all", "&*"}
	less := func(rights ...string) map[string][]finding {
		return examine(t, srv, grant(t, srv, "app", append(rights, all...)))
	}
	without := func(command string) map[string][]finding {
		return examine(t, srv, grant(t, srv, "app", append(all, "~*", "-"+command)))
	}

	// Keys that its rules do not name are not its locks.
	found := less("~app:*")
	expect(t, found, "ttl", "note", "no lock without a time to live; 1 key could not be read for want of rights")
	expect(t, found, "ttl", "note", "are no locks of its own")
	expect(t, found, "waiters", "note",
		"no fair lock has waiters whose process is gone; 1 key could not be read for want of rights")
	for check, commands := range map[string][]string{"ttl": {"pttl", "hscan"}, "waiters": {"lrange", "zrange"}} {
		for _, command := range commands {
			found := without(command)
			expect(t, found, check, "note", "; 1 key could not be read for want of rights")
			expect(t, found, check, "note", "grant +"+command)
		}
	}
	expect(t, without("exists"), "ttl", "fail", "1 lock without a time to live: orders | ")

	// A failure comes first.
	srv.Do(t, "HSET", "app:orders", owner, "1")
	expect(t, less("~app:*"), "ttl", "fail",
		"1 lock without a time to live: app:orders; 1 key could not be read for want of rights")

	// The user may not ask whether Java's waiters listen.
	srv.Do(t, "ZADD", "redisson_lock_timeout:{orders}", "99999999999999", owner)
	expect(t, without("pubsub"), "waiters", "note", "grant +pubsub")
	expect(t, without("exists"), "waiters", "warn", "orders (1)")
}
