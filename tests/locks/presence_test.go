package locks

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// at connects a client to a server.
func at(addrs ...string) rueidis.ClientOption { return rueidis.ClientOption{InitAddress: addrs} }

// sessionKey is the key under which a session publishes which process it is.
func sessionKey(s *holdfast.Session) string { return "holdfast_session:{" + s.ID() + "}" }

// requireThisProcess checks what was published about this test's process.
func requireThisProcess(t *testing.T, host string, pid int, program, label string, started time.Time) {
	t.Helper()
	name, err := os.Hostname()
	require.NoError(t, err)
	require.Equal(t, name, host)
	require.Equal(t, os.Getpid(), pid)
	require.Equal(t, filepath.Base(os.Args[0]), program)
	require.Equal(t, "checkout of «eu»", label)
	require.WithinDuration(t, time.Now(), started, time.Minute)
}

func TestHoldersAndWaitersTellTheirProcess(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.OpenKnown(t, at(srv.Addr()), &holdfast.Options{Lease: 6 * time.Second, Label: "checkout of «eu»"})
	looker := kit.OpenKnown(t, at(srv.Addr()), &holdfast.Options{Lease: 6 * time.Second})
	f := fairlock.New(s, "queue", nil)
	hold := kit.Lock(t, t.Context(), f)
	defer hold.Release()
	next := kit.GoLock(t.Context(), f.Lock)
	seen := fairlock.New(looker, "queue", nil)
	kit.Await(t, "a known holder", func() bool {
		holders, err := seen.Holders(t.Context())
		require.NoError(t, err)
		waiters, err := seen.Waiters(t.Context())
		require.NoError(t, err)
		return holders[0].PID != 0 && len(waiters) == 1
	})
	holders, err := seen.Holders(t.Context())
	require.NoError(t, err)
	h := holders[0]
	require.Equal(t, hold.ID(), h.ID)
	requireThisProcess(t, h.Host, h.PID, h.Program, h.Label, h.Started)
	waiters, err := seen.Waiters(t.Context())
	require.NoError(t, err)
	require.Len(t, waiters, 1)
	w := waiters[0]
	requireThisProcess(t, w.Host, w.PID, w.Program, w.Label, w.Started)

	ttl := srv.TTLs(t)[sessionKey(s)]
	require.Greater(t, ttl, 6*time.Second-100*time.Millisecond)
	require.LessOrEqual(t, ttl, 8*time.Second)
	kit.Await(t, "a renewal", func() bool { return srv.TTLs(t)[sessionKey(s)] != ttl })

	require.NoError(t, hold.Release())
	require.NoError(t, kit.Granted(t, kit.Told, next, "the next").Release())
	require.NoError(t, s.Close())
	require.NotContains(t, srv.Keyspace(t), sessionKey(s))
}

// A connection that ends while the session is closed does not leave what it has told on the server.
func TestAServerForgetsAClosedSessionAllTheSame(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := proxy.Start(t, srv.Addr())
	s := kit.OpenKnown(t, at(p.Addr()), nil)
	hold := kit.Lock(t, t.Context(), rlock.New(s, "orders", nil))
	kit.Await(t, "a session that is known", func() bool { return srv.Int(t, "EXISTS", sessionKey(s)) == 1 })
	require.NoError(t, hold.Release())
	p.On(proxy.Command("DEL").With(sessionKey(s)), proxy.ResetBefore, proxy.First)
	require.NoError(t, s.Close())
	require.Empty(t, srv.Keyspace(t))
}

// Redisson's holders publish nothing, and foreign values in a session's key are ignored.
func TestHoldersThatTellNothing(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.OpenKnown(t, at(srv.Addr()), &holdfast.Options{Lease: kit.Lease})
	id := "8743c9c0-0795-4907-87fd-6c719a6b4586"
	srv.Do(t, "HSET", "java", id+":7", "2")
	srv.Do(t, "PEXPIRE", "java", "30000")
	l := rlock.New(s, "java", nil)
	for _, told := range []string{"", "{", `{"pid":"x"}`, "[]"} {
		if told != "" {
			srv.Do(t, "SET", "holdfast_session:{"+id+"}", told)
		}
		holders, err := l.Holders(t.Context())
		require.NoError(t, err)
		require.Len(t, holders, 1)
		require.InDelta(t, 30*time.Second, holders[0].Lease, float64(10*time.Second))
		require.Equal(t, holdfast.Holder{ID: id + ":7", Count: 2, Lease: holders[0].Lease}, holders[0])
	}
	srv.Do(t, "DEL", "holdfast_session:{"+id+"}")
	srv.Do(t, "HSET", "holdfast_session:{"+id+"}", "not", "a string")
	holders, err := l.Holders(t.Context())
	require.NoError(t, err)
	require.Zero(t, holders[0].PID)
}

// A hold of only a moment costs no extra command, and a longer one at most one in each renewal period.
func TestWhatTellingTheProcessCosts(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.OpenKnown(t, at(srv.Addr()), &holdfast.Options{Lease: 6 * time.Second})
	l := rlock.New(s, "orders", nil)
	kit.Await(t, "a hold of only a moment", func() bool { // on a busy machine it may be longer
		kit.Await(t, "an empty server", func() bool { return len(srv.Keyspace(t)) == 0 })
		asked := time.Now()
		require.NoError(t, kit.Lock(t, t.Context(), l).Release())
		return time.Since(asked) < 200*time.Millisecond
	})
	time.Sleep(500 * time.Millisecond) // time for what must not happen
	require.Empty(t, srv.Keyspace(t))

	srv.ResetStats(t)
	busy := kit.Lock(t, t.Context(), rlock.New(s, "long", nil))
	began, running := time.Now(), kit.Stopwatch()
	for running() < 7*time.Second {
		require.NoError(t, kit.Lock(t, t.Context(), l).Release())
		kit.SleepUntil(time.Now().Add(50 * time.Millisecond))
	}
	require.NoError(t, busy.Release())
	sets := srv.CommandStats(t)["set"]
	require.GreaterOrEqual(t, sets, int64(3))
	require.LessOrEqual(t, sets, int64(time.Since(began)/(2*time.Second))+1)
	require.NoError(t, s.Close())
	require.Empty(t, srv.Keyspace(t))
}

func TestAnAnonymousSessionTellsNothing(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.OpenKnown(t, at(srv.Addr()), &holdfast.Options{Lease: 6 * time.Second, Anonymous: true})
	l := rlock.New(s, "orders", nil)
	hold := kit.Lock(t, t.Context(), l)
	before := hold.Deadline()
	kit.Await(t, "a renewal", func() bool { return hold.Deadline().After(before) })
	time.Sleep(100 * time.Millisecond)
	require.Len(t, srv.Keyspace(t), 1)
	holders, err := l.Holders(t.Context())
	require.NoError(t, err)
	require.Zero(t, holders[0].PID)
	require.NoError(t, hold.Release())
}

// A user without rights to these keys can use locks all the same, and the session tries in vain only once.
func TestASessionThatMayNotTellItsProcess(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	srv.Do(t, "ACL", "SETUSER", "app", "on", "nopass", "~orders", "~*:{orders}", "&*", "+@all")
	client := at(srv.Addr())
	client.Username = "app"
	log := &kit.Journal{}
	s := kit.OpenKnown(t, client, &holdfast.Options{Lease: 6 * time.Second, Logger: log.Logger()})
	l := rlock.New(s, "orders", nil)
	hold := kit.Lock(t, t.Context(), l)
	kit.Await(t, "a word", func() bool {
		return strings.Contains(log.String(), "the server is not told which process")
	})
	before := hold.Deadline()
	kit.Await(t, "renewals", func() bool { return hold.Deadline().Sub(before) > 2*time.Second })
	require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
	holders, err := l.Holders(t.Context())
	require.NoError(t, err)
	require.Len(t, holders, 1)
	require.NoError(t, hold.Release())
	require.NoError(t, s.Close())
}

// awaitKnown waits until the only holder of a lock is known to be this process.
func awaitKnown(t *testing.T, l *rlock.Mutex) {
	t.Helper()
	kit.Await(t, "a known holder", func() bool {
		holders, err := l.Holders(t.Context())
		require.NoError(t, err)
		return len(holders) == 1 && holders[0].PID == os.Getpid()
	})
}

func TestTheRightsToTellAProcess(t *testing.T) {
	t.Parallel()
	servers := kit.StartServers(t, 1)
	opt := aclGrant(t, servers, append(aclSingle(), "~holdfast_session:*"))
	log := &kit.Journal{}
	s := kit.OpenKnown(t, opt, &holdfast.Options{Lease: kit.Lease, Logger: log.Logger()})
	l := rlock.New(s, "app:orders", nil)
	hold := kit.Lock(t, t.Context(), l)
	awaitKnown(t, l)
	require.NoError(t, hold.Release())
	require.NoError(t, s.Close())
	require.Empty(t, servers[0].Keyspace(t))
	require.Empty(t, log.String())
}

func TestProcessesInACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	s := kit.OpenKnown(t, at(cluster.Addrs()...), &holdfast.Options{Lease: kit.Lease})
	l := rlock.New(s, "orders", nil)
	hold := kit.Lock(t, t.Context(), l)
	awaitKnown(t, l)
	require.NoError(t, hold.Release())
	require.NoError(t, s.Close())
	require.Empty(t, cluster.Keyspace(t))
}

// A silent server does not keep a session from closing in time.
func TestCloseDoesNotWaitToTakeItsProcessBack(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.OpenKnown(t, at(srv.Addr()), &holdfast.Options{Lease: 3 * time.Second})
	hold := kit.Lock(t, t.Context(), rlock.New(s, "orders", nil))
	kit.Await(t, "its word", func() bool { return srv.Int(t, "EXISTS", sessionKey(s)) == 1 })
	require.NoError(t, hold.Release())
	srv.Pause()
	took := kit.Stopwatch()
	require.NoError(t, s.Close())
	require.Less(t, took(), 3*time.Second)
	srv.Resume()
}

// What sessions tell is a help for people: whoever asks waits for it no longer than their ctx lasts, also while the
// client connects anew, and not for as long as the server is away.
func TestNobodyWaitsForWhatSessionsTell(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(ctx context.Context, l *fairlock.Mutex) (int, error){
		"Holders": func(ctx context.Context, l *fairlock.Mutex) (int, error) {
			h, err := l.Holders(ctx)
			return len(h), err
		},
		"Waiters": func(ctx context.Context, l *fairlock.Mutex) (int, error) {
			w, err := l.Waiters(ctx)
			return len(w), err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const patience = 300 * time.Millisecond
			_, p := kit.StartProxied(t)
			s := kit.OpenKnown(t, at(p.Addr()), &holdfast.Options{Lease: kit.Lease})
			l := fairlock.New(s, "queue", nil)
			hold := kit.Lock(t, t.Context(), l)
			next := kit.GoLock(t.Context(), l.Lock)
			kit.Await(t, "a waiter", func() bool { return len(valueOf(l.Waiters(t.Context()))) == 1 })

			cut := p.On(proxy.Command("GET"), proxy.ResetBefore, proxy.First)
			p.StallNew(true)
			ctx, cancel := context.WithCancel(t.Context())
			ended, n := make(chan error, 1), 0
			go func() {
				var err error
				n, err = ask(ctx, l)
				ended <- err
			}()
			cut.Wait(t, 1) // those who hold or wait are known
			kit.SleepUntil(time.Now().Add(patience))
			cancel()
			require.NoError(t, kit.Within(t, 2*patience, ended, name))
			require.Equal(t, 1, n)
			p.StallNew(false)
			p.ResumeAll()
			cut.Remove()
			p.On(proxy.Command("GET"), proxy.Answer(kit.LoadingReply), proxy.EveryTime)
			asked := make(chan error, 1)
			go func() { asked <- kit.ErrorOf(ask(t.Context(), l)) }()
			require.NoError(t, kit.Within(t, kit.Lease/2, asked, name))
			require.NoError(t, hold.Release())
			require.NoError(t, kit.Granted(t, kit.LongestWait, next, "the lock").Release())
		})
	}
}
