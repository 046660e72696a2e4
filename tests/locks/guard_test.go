package locks

import (
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/setlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

const setStock = `return redis.call('SET', KEYS[1], ARGV[1])`

// guardsOf are both ways to write stock under a hold.
func guardsOf(b func() rueidis.Builder) map[string]func(ctx context.Context, h *holdfast.Hold, value string) error {
	return map[string]func(ctx context.Context, h *holdfast.Hold, value string) error{
		"commands": func(ctx context.Context, h *holdfast.Hold, value string) error {
			return kit.ErrorOf(h.Guard(ctx, b().Set().Key("stock").Value(value).Build()))
		},
		"script": func(ctx context.Context, h *holdfast.Hold, value string) error {
			return kit.ErrorOf(h.GuardScript(ctx, setStock, []string{"stock"}, value))
		},
	}
}

// guards reports whether holds of the kind guard anything.
func guards(k kit.Kind) bool { return !k.Several && !strings.HasPrefix(k.Name, "rwlock read") }

func TestOnlyAHolderWrites(t *testing.T) {
	kit.EveryKindCounted(t, func(t *testing.T, k kit.Kind, srv *redistest.Server) {
		s, other := kit.Open(t, srv.Addr(), nil), kit.Open(t, srv.Addr(), nil)
		client := kit.NewClient(t, srv.Addr())
		for name, write := range guardsOf(client.B) {
			hold := kit.Lock(t, t.Context(), k.Make(s, t.Name(), 0))
			if !guards(k) {
				taken := func() bool { return len(srv.Keyspace(t)) > 0 }
				kit.Await(t, "the last member of a RedLock, too", taken)
				calls := srv.CommandStats(t)["evalsha"]
				require.ErrorContains(t, write(t.Context(), hold, "1"), "guard: ", name)
				require.Equal(t, calls, srv.CommandStats(t)["evalsha"])
				require.NoError(t, hold.Err())
				require.NoError(t, hold.Release())
				kit.Await(t, "its release there", func() bool { return !taken() })
				continue
			}
			require.NoError(t, write(t.Context(), hold, "1"), name)
			require.Equal(t, "1", srv.Str(t, "GET", "stock"))

			// It is stopped, does not know that somebody else has the lock, and writes.
			k.Wipe(t, srv, t.Name())
			theirs := kit.Lock(t, t.Context(), k.Rival(other, t.Name(), 0))
			require.NoError(t, hold.Err())
			err := write(t.Context(), hold, "2")
			require.ErrorIs(t, err, holdfast.ErrLost, name)
			require.ErrorContains(t, err, "guard: ")
			require.ErrorIs(t, hold.Err(), holdfast.ErrLost)
			require.Equal(t, "1", srv.Str(t, "GET", "stock"))
			require.NoError(t, write(t.Context(), theirs, "3"))
			require.NoError(t, theirs.Release())

			// What has ended sends nothing, though the server may have it still.
			hold = kit.Lock(t, t.Context(), k.Make(s, t.Name(), 0))
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			calls := srv.CommandStats(t)["evalsha"]
			require.ErrorIs(t, write(ended, hold, "4"), context.Canceled, name)
			require.Equal(t, calls, srv.CommandStats(t)["evalsha"])
			require.NoError(t, hold.Release())
			calls = srv.CommandStats(t)["evalsha"]
			require.ErrorIs(t, write(t.Context(), hold, "4"), holdfast.ErrNotHeld, name)
			require.Equal(t, calls, srv.CommandStats(t)["evalsha"])
			require.Equal(t, "3", srv.Str(t, "GET", "stock"))
		}
	})
}

// Nested holds guard alike, and a detached one no longer.
func TestNestedAndDetachedHoldsGuard(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s, client := kit.Open(t, srv.Addr(), nil), kit.NewClient(t, srv.Addr())
	l := rlock.New(s, "x", nil)
	outer := kit.Lock(t, t.Context(), l)
	inner := kit.Lock(t, outer.Context(t.Context()), l)
	for _, h := range []*holdfast.Hold{inner, outer} {
		require.NoError(t, kit.ErrorOf(h.Guard(t.Context(), client.B().Incr().Key("n").Build())))
	}
	require.NoError(t, inner.Detach())
	require.ErrorIs(t, kit.ErrorOf(inner.Guard(t.Context(), client.B().Incr().Key("n").Build())), holdfast.ErrNotHeld)
	require.NoError(t, s.Close())
	require.ErrorIs(t, kit.ErrorOf(outer.Guard(t.Context(), client.B().Incr().Key("n").Build())), holdfast.ErrClosed)
	require.Equal(t, "2", srv.Str(t, "GET", "n"))
}

func TestWhatGuardedCommandsReply(t *testing.T) {
	kit.OnEither(t, func(t *testing.T, srv *redistest.Server) {
		client := kit.NewClient(t, srv.Addr())
		b := client.B
		hold := kit.Lock(t, t.Context(), rlock.New(kit.Open(t, srv.Addr(), nil), "x", nil))
		replies, err := hold.Guard(t.Context())
		require.NoError(t, err)
		require.Empty(t, replies)

		replies, err = hold.Guard(t.Context(),
			b().Set().Key("s").Value("v\r\n\x00").Build(), b().Get().Key("s").Build(), b().Get().Key("none").Build(),
			b().Incr().Key("n").Build(), b().Hset().Key("h").FieldValue().FieldValue("f", "1").Build(),
			b().Hgetall().Key("h").Build(), b().Mget().Key("none", "n").Build())
		require.NoError(t, err)
		require.Len(t, replies, 7)
		require.Equal(t, "OK", valueOf(replies[0].ToString()))
		require.Equal(t, "v\r\n\x00", valueOf(replies[1].ToString()))
		require.True(t, replies[2].IsNil())
		require.EqualValues(t, 1, valueOf(replies[3].AsInt64()))
		require.Equal(t, map[string]string{"f": "1"}, valueOf(replies[5].AsStrMap()))
		several, err := replies[6].ToArray()
		require.NoError(t, err)
		require.True(t, several[0].IsNil())
		require.Equal(t, "1", valueOf(several[1].ToString()))

		replies, err = hold.Guard(t.Context(),
			b().Set().Key("a").Value("1").Build(), b().Incr().Key("h").Build(), b().Set().Key("z").Value("1").Build())
		require.ErrorContains(t, err, `rlock "x": guard: command 2, INCR: `)
		require.ErrorContains(t, err, "WRONGTYPE")
		_, ok := rueidis.IsRedisErr(errors.Unwrap(errors.Unwrap(err)))
		require.True(t, ok)
		require.Len(t, replies, 1)
		require.Equal(t, "1", srv.Str(t, "GET", "a"))
		require.Zero(t, srv.Do(t, "EXISTS", "z"), "none after the one that failed")
		require.NoError(t, hold.Err())

		for _, words := range []int{4000, 4001} {
			push := b().Rpush().Key("list").Element(slices.Repeat([]string{"e"}, words-2)...).Build()
			if _, err = hold.Guard(t.Context(), push); words == 4000 {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, "command 1, RPUSH: it has 4001 words")
			}
			require.EqualValues(t, 3998, srv.Do(t, "LLEN", "list"))
		}
	})
}

func TestWhatGuardedScriptsReply(t *testing.T) {
	kit.OnEither(t, func(t *testing.T, srv *redistest.Server) {
		hold := kit.Lock(t, t.Context(), rlock.New(kit.Open(t, srv.Addr(), nil), "x", nil))
		for source, want := range map[string]any{
			"return 0":                               int64(0),
			"return":                                 nil,
			"return nil":                             nil,
			"-- a comment":                           nil,
			"return false":                           nil,
			"return {}":                              []any{},
			"return {0}":                             []any{int64(0)},
			"return {ok = 'FINE'}":                   "FINE",
			"return #KEYS + 10 * #ARGV":              int64(32),
			"return KEYS[1] .. ARGV[3]":              "k1a3",
			"local a = {...} return #a":              "error: '...'",
			"return redis.call('INCR','n')":          int64(1),
			"return redis.error_reply('MINE it is')": "error: MINE it is",
			"return redis.pcall('NOSUCH')":           "error: nown",
			"redis.call('INCR', 'i') error('mine')":  "error: mine",
			"error({1})":                             "error: ",
			"error({err = 'MINE it is'})":            "error: MINE it is",
			"redis.call('INCR', 'i') redis.call('INCR', 'x')": "error: WRONGTYPE",
			"this is no Lua": "error: ",
			"#!lua":          "error: #!",
		} {
			reply, err := hold.GuardScript(t.Context(), source, []string{"k1", "k2"}, "a1", "a2", "a3")
			if text, fails := want.(string); fails && strings.HasPrefix(text, "error: ") {
				require.ErrorContains(t, err, strings.TrimPrefix(text, "error: "), source)
				require.ErrorContains(t, err, `rlock "x": guard: `)
				require.NotErrorIs(t, err, holdfast.ErrLost)
				continue
			}
			require.NoError(t, err, source)
			got, err := reply.ToAny()
			if want == nil {
				require.True(t, reply.IsNil(), source)
				continue
			}
			require.NoError(t, err, source)
			require.Equal(t, want, got, source)
		}
		require.Equal(t, "2", srv.Str(t, "GET", "i"), "what was done before the error")
		require.NoError(t, hold.Err())
		require.NoError(t, hold.Release())
	})
}

// A permit guards until its lease is over by the server's clock, not until somebody takes it out.
func TestAPermitGuardsForItsLease(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s, client := kit.Open(t, srv.Addr(), nil), kit.NewClient(t, srv.Addr())
	e := kit.NewExports(t, s, 2, semaphore.Forever)
	first, err := e.Acquire(t.Context())
	require.NoError(t, err)
	second, err := e.Acquire(t.Context())
	require.NoError(t, err)
	set := func(h *holdfast.Hold, value string) error {
		return kit.ErrorOf(h.Guard(t.Context(), client.B().Set().Key("stock").Value(value).Build()))
	}
	require.NoError(t, set(first, "1"))
	require.NoError(t, set(second, "2"))
	permit, err := hex.DecodeString(first.ID())
	require.NoError(t, err)
	srv.Do(t, "ZADD", "{exports}:timeout", strconv.FormatInt(time.Now().UnixMilli()-1000, 10), string(permit))
	require.ErrorIs(t, set(first, "3"), holdfast.ErrLost)
	require.NoError(t, set(second, "4"))
	require.Equal(t, "4", srv.Str(t, "GET", "stock"))
}

// A hold whose trust has run out sends nothing, also if nobody has noticed, and the server has it still.
func TestAHoldThatHasRunOutGuardsNothing(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s, client := kit.Open(t, srv.Addr(), nil), kit.NewClient(t, srv.Addr())
	hold := kit.Lock(t, t.Context(), rlock.New(s, "x", &rlock.Options{FixedLease: 100 * time.Millisecond}))
	srv.Do(t, "PERSIST", "x")
	kit.SleepUntil(hold.Deadline())
	require.ErrorIs(t, kit.ErrorOf(hold.Guard(t.Context(), client.B().Incr().Key("n").Build())), holdfast.ErrLost)
	require.Zero(t, srv.Do(t, "EXISTS", "n"))
}

// A server that refuses to tell who has the lock has executed nothing, and nothing is lost.
func TestAKeyOfAnotherTypeGuardsNothing(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s, client := kit.Open(t, srv.Addr(), nil), kit.NewClient(t, srv.Addr())
	hold := kit.Lock(t, t.Context(), rlock.New(s, "x", nil))
	srv.Do(t, "SET", "x", "other")
	err := kit.ErrorOf(hold.Guard(t.Context(), client.B().Set().Key("stock").Value("1").Build()))
	require.ErrorContains(t, err, "the key holds something else")
	require.NoError(t, hold.Err())
	require.Zero(t, srv.Do(t, "EXISTS", "stock"))
}

func TestAGuardWithoutAReplyIsUnknown(t *testing.T) {
	t.Parallel()
	srv, proxied := kit.StartProxied(t)
	s, client := kit.Open(t, proxied.Addr(), nil), kit.NewClient(t, srv.Addr())
	hold := kit.Lock(t, t.Context(), rlock.New(s, "x", nil))
	incr := func(ctx context.Context) error {
		return kit.ErrorOf(hold.Guard(ctx, client.B().Incr().Key("n").Build()))
	}
	lost := proxied.On(kit.ScriptNamed("guard_commands"), proxy.DropReply, proxy.First)
	require.ErrorIs(t, incr(t.Context()), holdfast.ErrUnknown)
	require.Equal(t, "1", srv.Str(t, "GET", "n"), "it is not sent again")
	require.Equal(t, 1, lost.Matched())
	lost.Remove()

	held := proxied.On(kit.ScriptNamed("guard_commands"), proxy.HoldReply, proxy.EveryTime)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-held.Fired()
		cancel()
	}()
	err := incr(ctx)
	require.ErrorIs(t, err, holdfast.ErrUnknown)
	require.ErrorIs(t, err, context.Canceled)
	held.Remove()
	require.NoError(t, incr(t.Context()))
	require.Equal(t, "3", srv.Str(t, "GET", "n"))
	require.NoError(t, hold.Release())
}

// A call that the network has kept is executed for nobody else: neither for the next holder on the server, nor for one
// to whom the lock passes inside the session, under the same wire owner.
func TestALateGuardIsExecutedForNobodyElse(t *testing.T) {
	t.Parallel()
	srv, proxied := kit.StartProxied(t)
	s := kit.Open(t, proxied.Addr(), &holdfast.Options{Lease: 6 * time.Second})
	client := kit.NewClient(t, srv.Addr())
	l := rlock.New(s, "x", nil)
	hold := kit.Lock(t, t.Context(), l)
	next := kit.GoLock(t.Context(), l.Lock)
	kit.Waiting(t, kit.KindOf("rlock"), srv)

	stalled := proxied.On(kit.ScriptNamed("guard_commands"), proxy.Stall, proxy.First)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-stalled.Fired()
		cancel()
	}()
	require.ErrorIs(t, kit.ErrorOf(hold.Guard(ctx, client.B().Set().Key("stock").Value("late").Build())),
		holdfast.ErrUnknown)
	_ = hold.Release() // over a new connection, when the client has given up the old one
	second := kit.Granted(t, kit.LongestWait, next, "the next call")
	require.NotEqual(t, hold.ID(), second.ID(), "no hand-over under the same wire owner")
	require.NoError(t, kit.ErrorOf(second.Guard(t.Context(), client.B().Set().Key("stock").Value("second").Build())))
	stalled.Release()
	stalled.WaitAnswered(t, 1)
	require.Equal(t, "second", srv.Str(t, "GET", "stock"))
	require.NoError(t, second.Err())
	require.NoError(t, second.Release())
}

// A late copy of the acquisition brings the wire owner back, after the hold was released.
func TestALateGuardIsNotExecutedBehindALateAcquisition(t *testing.T) {
	t.Parallel()
	srv, proxied := kit.StartProxied(t)
	s := kit.Open(t, proxied.Addr(), &holdfast.Options{Lease: 4 * time.Second})
	client := kit.NewClient(t, srv.Addr())
	l := rlock.New(s, "x", &rlock.Options{FixedLease: 30 * time.Second})
	require.NoError(t, kit.Lock(t, t.Context(), l).Release()) // the session knows the server's clock

	acquire := proxied.On(kit.ScriptNamed("rlock_acquire"), proxy.Stall, proxy.First)
	hold := kit.Lock(t, t.Context(), l) // over a new connection, when the client has given up the old one
	guard := proxied.On(kit.ScriptNamed("guard_commands"), proxy.Stall, proxy.First)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	require.Error(t, kit.ErrorOf(hold.Guard(ctx, client.B().Set().Key("stock").Value("late").Build())))
	require.NoError(t, hold.Release())
	other := kit.Lock(t, t.Context(), rlock.New(kit.Open(t, srv.Addr(), nil), "x", nil))
	require.NoError(t, kit.ErrorOf(other.Guard(t.Context(), client.B().Set().Key("stock").Value("second").Build())))
	require.NoError(t, other.Release())

	acquire.Release()
	acquire.WaitAnswered(t, 1)
	if guard.Matched() > 0 {
		guard.Release()
		guard.WaitAnswered(t, 1)
	}
	require.Equal(t, "second", srv.Str(t, "GET", "stock"))
}

// While copies of the acquisition may come, a guard waits, and is then executed.
func TestAGuardBehindAnAcquisitionWhoseReplyWasLostWaits(t *testing.T) {
	t.Parallel()
	srv, proxied := kit.StartProxied(t)
	s := kit.Open(t, proxied.Addr(), &holdfast.Options{Lease: 6 * time.Second})
	client := kit.NewClient(t, srv.Addr())
	l := rlock.New(s, "x", nil)
	require.NoError(t, kit.Lock(t, t.Context(), l).Release())
	sent := time.Now()
	proxied.On(kit.ScriptNamed("rlock_acquire"), proxy.DropReply, proxy.First)
	hold := kit.Lock(t, t.Context(), l)
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err := kit.ErrorOf(hold.Guard(short, client.B().Set().Key("stock").Value("0").Build()))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Less(t, time.Since(sent), 1900*time.Millisecond, "it waits on although its ctx has ended")
	require.NoError(t, kit.ErrorOf(hold.Guard(t.Context(), client.B().Set().Key("stock").Value("1").Build())))
	require.Greater(t, time.Since(sent), 1900*time.Millisecond)
	require.NoError(t, hold.Release())
}

// A guard that was answered keeps nobody from handing the lock over.
func TestAGuardedLockIsHandedOver(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s, client := kit.Open(t, srv.Addr(), nil), kit.NewClient(t, srv.Addr())
	l := rlock.New(s, "x", nil)
	hold := kit.Lock(t, t.Context(), l)
	next := kit.GoLock(t.Context(), l.Lock)
	kit.Waiting(t, kit.KindOf("rlock"), srv)
	require.NoError(t, kit.ErrorOf(hold.Guard(t.Context(), client.B().Incr().Key("n").Build())))
	require.NoError(t, hold.Release())
	second := kit.Granted(t, kit.LongestWait, next, "the next call")
	require.Equal(t, hold.ID(), second.ID())
	require.NoError(t, kit.ErrorOf(second.Guard(t.Context(), client.B().Incr().Key("n").Build())))
	require.ErrorIs(t, kit.ErrorOf(hold.Guard(t.Context(), client.B().Incr().Key("n").Build())), holdfast.ErrNotHeld)
	require.Equal(t, "2", srv.Str(t, "GET", "n"))
}

func TestInAClusterAGuardWantsTheSlotOfTheLock(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 2)
	s := kit.OpenCluster(t, c, &holdfast.Options{
		Lease:   10 * time.Minute, // nothing is renewed while calls are counted
		MapName: func(name string) string { return "app:" + name },
	})
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: c.Addrs(), DisableCache: true})
	require.NoError(t, err)
	defer client.Close()
	single := kit.NewClient(t, c.Nodes[0].Addr())
	for name := range strings.SplitSeq("a b c d e f g h", " ") { // on both nodes: a session looks at one that it meets
		require.NoError(t, kit.Lock(t, t.Context(), rlock.New(s, name, nil)).Release())
	}
	hold := kit.Lock(t, t.Context(), rlock.New(s, "orders", nil))

	const right = "{app:orders}:stock"
	calls := func() (n int64) {
		for _, node := range c.Nodes {
			n += node.CommandStats(t)["evalsha"]
		}
		return n
	}
	replies, err := hold.Guard(t.Context(), client.B().Set().Key(right).Value(right).Build(),
		client.B().Publish().Channel("told").Message("1").Build(),
		client.B().Set().Key("{app:orders}:sold").Value("1").Build())
	require.NoError(t, err)
	require.Len(t, replies, 3)
	reply, err := hold.GuardScript(t.Context(), "return redis.call('GET', KEYS[1])", []string{right})
	require.NoError(t, err)
	require.Equal(t, right, valueOf(reply.ToString()))

	settled()
	before := calls()
	const says = `key "stock:1" is not in the slot of "app:orders": ` +
		`in a cluster it must have the same hash tag, "{app:orders}"`
	for name, err := range map[string]error{
		"command": kit.ErrorOf(hold.Guard(t.Context(), client.B().Incr().Key(right).Build(),
			client.B().Mset().KeyValue().KeyValue("stock:1", "1").Build())),
		"script": kit.ErrorOf(hold.GuardScript(t.Context(), setStock, []string{right, "stock:1"}, "1")),
	} {
		require.ErrorContains(t, err, says, name)
		require.ErrorContains(t, err, `rlock "orders": guard: `)
	}
	err = kit.ErrorOf(hold.Guard(t.Context(), single.B().Set().Key(right).Value("1").Build()))
	require.ErrorContains(t, err, "command 1, SET: it was not built by the client of a cluster")
	require.Equal(t, before, calls())
	require.NoError(t, hold.Err())
}

// While a slot moves the server refuses a guarded call whose keys are on both nodes, and executes nothing.
func TestAGuardWhoseKeysAreOnTwoNodesDoesNothing(t *testing.T) {
	t.Parallel()
	r := newResharding(t)
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: r.Addrs(), DisableCache: true, DisableRetry: true,
	})
	require.NoError(t, err)
	defer client.Close()
	name := r.name(t, "moving")
	hold := kit.Lock(t, t.Context(), rlock.New(r.mine, name, nil))
	first, second := "{"+name+"}:a", "{"+name+"}:b"
	require.NoError(t, client.Do(t.Context(), client.B().Set().Key(first).Value("0").Build()).Error())
	require.NoError(t, client.Do(t.Context(), client.B().Set().Key(second).Value("0").Build()).Error())
	move := r.open(t, name, 1, second)
	incr := func() error {
		return kit.ErrorOf(hold.Guard(t.Context(), client.B().Incr().Key(first).Build(),
			client.B().Incr().Key(second).Build()))
	}
	require.Error(t, incr())
	require.NoError(t, hold.Err())
	move.Finish(t)
	require.NoError(t, incr())
	replies, err := hold.Guard(t.Context(), client.B().Mget().Key(first, second).Build())
	require.NoError(t, err)
	require.Equal(t, []string{"1", "1"}, valueOf(replies[0].AsStrSlice()))
}

// The rights of the guide suffice for a guard besides those of the user's own commands.
func TestTheACLOfTheGuideIsEnoughForAGuard(t *testing.T) {
	t.Parallel()
	servers := kit.StartServers(t, 1)
	opt := aclGrant(t, servers, aclSingle())
	s := kit.OpenWith(t, opt, nil)
	client := kit.NewClient(t, servers[0].Addr())
	for name, l := range map[string]holdfast.Locker{
		"rlock": rlock.New(s, "app:x", nil), "setlock": setlock.New(s, "app:y", nil),
	} {
		hold := kit.Lock(t, t.Context(), l)
		require.NoError(t, kit.ErrorOf(hold.Guard(t.Context(), client.B().Set().Key("app:stock").Value("1").Build())), name)
		require.NoError(t, kit.ErrorOf(hold.GuardScript(t.Context(), setStock, []string{"app:stock"}, "2")), name)
		for command, refused := range map[string]rueidis.Completed{
			"SET":    client.B().Set().Key("other:stock").Value("1").Build(),
			"APPEND": client.B().Append().Key("app:stock").Value("1").Build(),
		} {
			err := kit.ErrorOf(hold.Guard(t.Context(), refused))
			require.ErrorContains(t, err, "command 1, "+command, name)
			require.Regexp(t, aclNo, err.Error())
		}
		require.NoError(t, hold.Release())
	}
	assert.Equal(t, "2", servers[0].Str(t, "GET", "app:stock"))
}

// valueOf returns the result of a call that cannot fail.
func valueOf[T any](value T, err error) T {
	kit.Must(err)
	return value
}
