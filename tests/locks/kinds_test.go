package locks

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/setlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A usage is how a kind is used: what makes it be there under a name, and a call that does not wait.
type usage struct {
	kind string
	make func(ctx context.Context, s *holdfast.Session, name string) error
	try  func(ctx context.Context, s *holdfast.Session, name string) error
	java [][]string // what is there if Java has made it
}

func usageOf(kind string, l func(s *holdfast.Session, name string) holdfast.Locker, java ...[]string) usage {
	try := func(ctx context.Context, s *holdfast.Session, name string) error {
		return kit.ErrorOf(l(s, name).TryLock(ctx))
	}
	return usage{kind, try, try, java}
}

const javas = "8743c9c0-0795-4907-87fd-6c719a6b4586:1"

// expiring is a lock's key with fields or a value, and an expiry.
func expiring(command ...string) [][]string { return [][]string{command, {"PEXPIRE", "x", "30000"}} }

func fenced(s *holdfast.Session, name string) holdfast.Locker {
	return rlock.New(s, name, &rlock.Options{Fenced: true})
}

func reading(s *holdfast.Session, name string) holdfast.Locker {
	return rwlock.New(s, name, nil).Read()
}

func writing(s *holdfast.Session, name string) holdfast.Locker {
	return rwlock.New(s, name, nil).Write()
}

var usages = []usage{
	usageOf("rlock", func(s *holdfast.Session, name string) holdfast.Locker { return rlock.New(s, name, nil) },
		expiring("HSET", "x", javas, "1")...),
	usageOf("rlock fenced", fenced,
		append(expiring("HSET", "x", javas, "1"), []string{"SET", "redisson_lock_token:{x}", "7"})...),
	usageOf("fairlock", func(s *holdfast.Session, name string) holdfast.Locker { return fairlock.New(s, name, nil) },
		expiring("HSET", "x", javas, "1")...),
	usageOf("rwlock read", reading, append(expiring("HSET", "x", "mode", "read", javas, "1"),
		[]string{"SET", "{x}:" + javas + ":rwlock_timeout:1", "1", "PX", "30000"})...),
	usageOf("rwlock write", writing, expiring("HSET", "x", "mode", "write", javas+":write", "1")...),
	usageOf("setlock", func(s *holdfast.Session, name string) holdfast.Locker { return setlock.New(s, name, nil) },
		expiring("SET", "x", "0d3b1e12-63a5-4ef9")...),
	{
		"semaphore",
		func(ctx context.Context, s *holdfast.Session, name string) error {
			return kit.ErrorOf(semaphore.New(s, name).TrySetPermits(ctx, 2))
		},
		func(ctx context.Context, s *holdfast.Session, name string) error {
			return semaphore.New(s, name).TryAcquire(ctx, 1)
		},
		[][]string{{"SET", "x", "2"}},
	},
	{
		"permits",
		func(ctx context.Context, s *holdfast.Session, name string) error {
			e := semaphore.NewExpirable(s, name, nil)
			return errors.Join(kit.ErrorOf(e.TrySetPermits(ctx, 2)), kit.ErrorOf(e.TryAcquire(ctx)))
		},
		func(ctx context.Context, s *holdfast.Session, name string) error {
			return kit.ErrorOf(semaphore.NewExpirable(s, name, nil).TryAcquire(ctx))
		},
		[][]string{{"SET", "x", "1"}, {"ZADD", "{x}:timeout", "922337203685477", "0123456789abcdef"}},
	},
	{
		"latch",
		func(ctx context.Context, s *holdfast.Session, name string) error {
			return kit.ErrorOf(latch.New(s, name).TrySetCount(ctx, 2))
		},
		func(ctx context.Context, s *holdfast.Session, name string) error {
			return latch.New(s, name).CountDown(ctx)
		},
		[][]string{{"SET", "x", "2"}},
	},
}

// What becomes of a call of each kind, in the order of usages, where another kind is already.
//
//   - it is done: those two cannot be told apart   b  busy   K  refused with ErrWrongKind, and nothing was changed
var kindTable = map[string]string{
	"rlock":        "bbbKKKKKK",
	"rlock fenced": "bbbKKKKKK",
	"fairlock":     "bbbKKKKKK",
	"rwlock read":  "KKK+bKKKK",
	"rwlock write": "KKKbbKKKK",
	"setlock":      "KKKKKbKKK",
	"semaphore":    "KKKKKK+++",
	"permits":      "KKKKKK+++",
	"latch":        "KKKKKK+++",
}

const plainWords, countWords = "an rlock or a fairlock", "a semaphore or a latch"

// What an error says is there.
var kindWords = map[string]string{
	"rlock": plainWords, "rlock fenced": plainWords, "fairlock": plainWords,
	"rwlock read": "an rwlock", "rwlock write": "an rwlock", "setlock": "a setlock, or a text",
	"semaphore": countWords, "permits": "a semaphore of permits with leases", "latch": countWords,
}

func TestOneNameIsOfOneKind(t *testing.T) {
	t.Parallel()
	for _, there := range usages {
		for _, who := range []string{"Go", "Java"} {
			t.Run(there.kind+" of "+who, func(t *testing.T) {
				t.Parallel()
				srv := redistest.Start(t)
				opts := &holdfast.Options{Lease: time.Minute} // a renewal would change what permits have
				s, other := kit.Open(t, srv.Addr(), opts), kit.Open(t, srv.Addr(), nil)
				for i, asks := range usages {
					srv.Do(t, "FLUSHALL")
					if who == "Go" {
						require.NoError(t, there.make(t.Context(), s, "x"))
					}
					for _, command := range there.java {
						if who == "Java" {
							srv.Do(t, command...)
						}
					}
					before, what := srv.Keyspace(t), asks.kind+" where there is "+there.kind
					err := asks.try(t.Context(), other, "x")
					t.Log(what, ": ", err)
					got := "b"
					switch {
					case err == nil:
						got = "+"
					case !errors.Is(err, holdfast.ErrBusy):
						got = "K"
						assertWrongKind(t, err, kindWords[there.kind], what)
					}
					assert.Equal(t, string(kindTable[there.kind][i]), got, what)
					if err != nil {
						assert.Equal(t, before, srv.Keyspace(t), what)
					}
				}
			})
		}
	}
}

// assertWrongKind checks an error that says which kind is there.
func assertWrongKind(t *testing.T, err error, there, what string) {
	t.Helper()
	if assert.ErrorIs(t, err, holdfast.ErrWrongKind, what) {
		assert.Contains(t, err.Error(), `"x": `, what)
		assert.Contains(t, err.Error(), "holdfast: wrong kind: the name is that of "+there, what)
		assert.NotContains(t, err.Error(), "WRONGTYPE", what)
	}
}

// A call that would wait, one that frees by force and one that looks say the same as one that tries.
func TestAnotherKindIsToldByEveryCall(t *testing.T) {
	t.Parallel()
	for _, there := range usages {
		t.Run(there.kind, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			opts := &holdfast.Options{Lease: time.Minute} // a renewal would change what permits have
			s, other := kit.Open(t, srv.Addr(), opts), kit.Open(t, srv.Addr(), nil)
			require.NoError(t, there.make(t.Context(), s, "x"))
			before := srv.Keyspace(t)
			for i, k := range kit.Kinds {
				asks := slices.IndexFunc(usages, func(u usage) bool { return u.kind == k.Name })
				if asks < 0 || kindTable[there.kind][asks] != 'K' {
					continue
				}
				l := kit.Kinds[i].Make(other, "x", 0)
				for what, call := range map[string]func(ctx context.Context) error{
					"Lock":        func(ctx context.Context) error { return kit.ErrorOf(l.Lock(ctx)) },
					"TryLockFor":  func(ctx context.Context) error { return kit.ErrorOf(l.TryLockFor(ctx, time.Hour)) },
					"ForceUnlock": func(ctx context.Context) error { return kit.ErrorOf(l.ForceUnlock(ctx)) },
					"Holders":     func(ctx context.Context) error { return kit.ErrorOf(l.Holders(ctx)) },
				} {
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
					assertWrongKind(t, call(ctx), kindWords[there.kind], k.Name+"'s "+what)
					cancel()
				}
			}
			_ = other.Close() // what stood in a line cannot be taken out of it
			require.Equal(t, before, srv.Keyspace(t))
		})
	}
}

// A writer that waits when a lock of another kind comes is told.
func TestAKindThatComesWhileOthersWaitIsTold(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	for name, l := range map[string]holdfast.Locker{"read": reading(s, "x"), "write": writing(s, "x")} {
		h := kit.Lock(t, t.Context(), writing(kit.Open(t, srv.Addr(), nil), "x"))
		waiting := make(chan error, 1)
		go func() { waiting <- kit.ErrorOf(l.Lock(t.Context())) }()
		kit.Await(t, "a subscription", func() bool { return len(srv.Strs(t, "PUBSUB", "CHANNELS")) > 0 })
		srv.Do(t, "HSET", "another", javas, "1")
		srv.Do(t, "RENAME", "another", "x") // or the call might take it in between
		srv.Do(t, "PUBLISH", "redisson_rwlock:{x}", "1")
		assertWrongKind(t, kit.Within(t, 10*time.Second, waiting, "the error"), plainWords, name)
		require.ErrorIs(t, h.Release(), holdfast.ErrLost)
		srv.Do(t, "DEL", "x")
		kit.Await(t, "its end", func() bool { return len(srv.Strs(t, "PUBSUB", "CHANNELS")) == 0 })
	}
}

// Several rlocks that are taken by one call name the one.
func TestOneOfSeveralIsOfAnotherKind(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	srv.Do(t, "SET", "x", "2")
	_, err := multilock.New(rlock.New(s, "a", nil), rlock.New(s, "x", nil)).Lock(t.Context())
	assertWrongKind(t, err, countWords, "a multilock")
	require.ErrorContains(t, err, `rlock "x": `)
	require.Len(t, srv.Keyspace(t), 1)
}

// An rlock's call that waits while others stand in a fair lock's queue for the name is told, within the time of a look:
// nobody would wake it, and it would overtake them. They go on.
func TestWhoWouldOvertakeAFairQueueIsTold(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	fair := fairlock.New(kit.Open(t, srv.Addr(), nil), "x", nil)
	held := kit.Lock(t, t.Context(), fair)
	waiting := kit.GoLock(t.Context(), fairlock.New(kit.Open(t, srv.Addr(), nil), "x", nil).Lock)
	kit.Await(t, "a waiter", func() bool { return srv.Int(t, "LLEN", "redisson_lock_queue:{x}") == 1 })
	before := srv.Keyspace(t)
	for name, opts := range map[string]*rlock.Options{
		"rlock": nil, "fenced": {Fenced: true}, "polling": {Backoff: rlock.Exponential(100*time.Millisecond, time.Second)},
	} {
		plain := kit.GoLock(t.Context(), rlock.New(kit.Open(t, srv.Addr(), nil), "x", opts).Lock)
		assertWrongKind(t, kit.Within(t, time.Minute, plain, "an error").Err, "a fairlock", name)
	}
	kit.Await(t, "nothing left of them", func() bool {
		now := srv.Keyspace(t)
		const key = "redisson_lock_queue:{x}"
		return len(now) == len(before) && assert.ObjectsAreEqual(before[key], now[key])
	})
	require.NoError(t, held.Release())
	require.NoError(t, kit.Granted(t, time.Minute, waiting, "the waiter").Release())
}

// A fair lock that nobody waits for looks like an rlock, and its waiters that have died are nobody.
func TestAnRlockWaitsWhereNoFairQueueLives(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	held := kit.Lock(t, t.Context(), fairlock.New(kit.Open(t, srv.Addr(), nil), "x", nil))
	srv.Do(t, "ZADD", "redisson_lock_timeout:{x}", "1", javas)
	srv.Do(t, "RPUSH", "redisson_lock_queue:{x}", javas)
	s := kit.Open(t, srv.Addr(), nil)
	_, err := rlock.New(s, "x", nil).TryLockFor(t.Context(), kit.LongestWait+time.Second)
	require.ErrorIs(t, err, holdfast.ErrBusy)
	require.NotErrorIs(t, err, holdfast.ErrWrongKind)
	require.NoError(t, held.Release())
}

// Without the right to a fair lock's keys a session asks once.
func TestWhoMayNotLookForAFairQueueAsksOnce(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	srv.Grant(t, "somebody", "+@all", "~x", "~y", "~holdfast_line*", "~redisson_lock_token:*", "&*")
	s := kit.OpenWith(t, kit.ClientOption(srv.Addr(), kit.Login(redistest.Password)...), nil)
	for _, name := range []string{"x", "y"} {
		held := kit.Lock(t, t.Context(), rlock.New(kit.Open(t, srv.Addr(), nil), name, nil))
		_, err := rlock.New(s, name, nil).TryLockFor(t.Context(), kit.LongestWait+time.Second)
		require.ErrorIs(t, err, holdfast.ErrBusy)
		require.NoError(t, held.Release())
	}
	log, _ := srv.Do(t, "ACL", "LOG").([]any)
	require.Len(t, log, 1)
	require.Contains(t, log[0], "key")
}

// A waiter that looks whether the name is that of another kind returns when its ctx ends, though the server is silent.
func TestALookForAnotherKindDoesNotOutlastCtx(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := proxy.Start(t, srv.Addr())
	name := t.Name()
	kit.Lock(t, t.Context(), rlock.New(kit.Open(t, srv.Addr(), nil), name, nil))
	looks := p.On(kit.ScriptNamed("name_kind"), proxy.HoldReply, proxy.First)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := kit.GoLock(ctx, rlock.New(kit.Open(t, p.Addr(), nil), name, &rlock.Options{
		Backoff: func(int) time.Duration { return 100 * time.Millisecond },
	}).Lock)
	looks.Wait(t, 1)
	took := kit.Stopwatch()
	cancel()
	r := kit.Within(t, 10*time.Second, got, "the end of the call")
	require.ErrorIs(t, r.Err, context.Canceled)
	require.NotErrorIs(t, r.Err, holdfast.ErrBusy)
	require.Less(t, took(), 800*time.Millisecond) // it looks for a second at most
	looks.Release()
}

// So does a call that was refused and asks of what kind the name is, also if it may not wait for longer.
func TestTheSearchForTheKindDoesNotOutlastTheCall(t *testing.T) {
	t.Parallel()
	const limit = 100 * time.Millisecond
	mutex := func(s *holdfast.Session) *rlock.Mutex { return rlock.New(s, "x", nil) }
	for name, c := range map[string]func(ctx context.Context, s *holdfast.Session) (call func() error){
		"TryLock": func(ctx context.Context, s *holdfast.Session) func() error {
			return func() error { return kit.ErrorOf(mutex(s).TryLock(ctx)) }
		},
		"TryLockFor": func(_ context.Context, s *holdfast.Session) func() error {
			return func() error { return kit.ErrorOf(mutex(s).TryLockFor(context.Background(), limit)) }
		},
		"semaphore TryAcquireFor": func(_ context.Context, s *holdfast.Session) func() error {
			return func() error { return semaphore.New(s, "x").TryAcquireFor(context.Background(), 1, limit) }
		},
		"Extend": func(ctx context.Context, s *holdfast.Session) func() error {
			h, err := mutex(s).Lock(ctx)
			kit.Must(err)
			return func() error { return h.Extend(ctx, time.Hour) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, p := kit.StartProxied(t)
			s := kit.Open(t, p.Addr(), nil)
			require.NoError(t, kit.Lock(t, t.Context(), rlock.New(s, "warm", nil)).Release())
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			call := c(ctx, s)
			srv.Do(t, "DEL", "x")
			srv.Do(t, "RPUSH", "x", "precious")
			looks, ended := p.On(kit.ScriptNamed("name_kind"), proxy.HoldReply, proxy.First), make(chan error, 1)
			go func() { ended <- call() }()
			looks.Wait(t, 1)
			took := kit.Stopwatch()
			cancel() // those with a limit have another ctx
			require.ErrorContains(t, kit.Within(t, 10*time.Second, ended, "the end of the call"), "WRONGTYPE")
			require.Less(t, took(), 800*time.Millisecond) // it looks for a second at most
			looks.Release()
		})
	}
}
