package several

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A server that comes back without its memory grants the lock to nobody while somebody may trust what it has
// forgotten. The second case is the same with servers that are declared to forget nothing: it shows that without the
// rule two callers would have the lock.
func TestAServerThatHasForgottenARedLockDoesNotCountForALease(t *testing.T) {
	t.Parallel()
	trusting := *kit.Careful
	trusting.TrustRestarted = true
	for name, c := range map[string]struct {
		opts   *multilock.RedLockOptions
		length time.Duration // of the lease; the first one trusts it until the end of the second case
		two    bool          // two have it
	}{"careful": {kit.Careful, 4 * time.Second, false}, "trusting": {&trusting, 10 * time.Second, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			length := c.length
			opts := &holdfast.Options{Lease: length}
			f := kit.NewFleet(t, 5)
			f.Seasoned(length)
			mine, theirs := kit.RedLock(f.Near(opts), kit.Orders, kit.ReentrantMember, c.opts),
				kit.RedLock(f.Far(opts), kit.Orders, kit.ReentrantMember, c.opts)
			require.NoError(t, kit.Lock(t, t.Context(), theirs).Release())
			f.Empty()
			back := f.Strike(kit.Paused, 3, 4)
			h := kit.Lock(t, t.Context(), mine)
			f.Strike(kit.CutOff, 2, 3, 4) // it learns nothing more from them
			back()
			f.Servers[2].Restart()
			restarted := time.Now()
			next, err := theirs.Lock(t.Context())
			firstErr := h.Err()
			took := time.Since(restarted)
			require.NoError(t, err)
			if c.two {
				require.NoError(t, firstErr)
			} else {
				require.ErrorIs(t, firstErr, holdfast.ErrLost, "two have it")
				require.GreaterOrEqual(t, took, length-time.Second) // uptimes are in whole seconds
				require.Less(t, took, 2*length+4*time.Second, "it does not count again")
			}
			require.NoError(t, next.Release())
			_ = h.Release()
			f.Heal()
			f.Empty()
		})
	}
}

// A server need not tell its age again, which takes it as long as the grant, as long as its connection stands.
func TestAServerOfARedLockIsAskedForItsAgeOncePerConnection(t *testing.T) {
	t.Parallel()
	srv := kit.StartServers(t, 3)
	var sessions []*holdfast.Session
	for _, one := range srv {
		sessions = append(sessions, kit.Open(t, one.Addr(), &holdfast.Options{Lease: 2 * time.Second}))
	}
	for _, member := range []func(*holdfast.Session, string) holdfast.Locker{kit.ReentrantMember, kit.PlainMember} {
		l := kit.RedLock(sessions, "orders", member, kit.Careful)
		require.NoError(t, kit.Lock(t, t.Context(), l).Release()) // when they have been up for a lease
		// A busy machine may break a connection, since the lease is short. Then a server may be another one.
		var before [][]int64 // the sessions' connections at each call so far
		asked := func() (all int64) {
			var now []int64
			for _, s := range sessions {
				now = append(now, (*session.Session)(s).Connections())
			}
			before = append(before, now)
			for range 20 {
				require.NoError(t, kit.Lock(t, t.Context(), l).Release())
			}
			for i, one := range srv {
				info := one.CommandStats(t)["info"]
				one.ResetStats(t)
				if n := len(before); n > 1 { // the first time, each has been asked just before
					require.Less(t, info, int64(10), i)
					if (*session.Session)(sessions[i]).Connections() == before[n-2][i] {
						require.Zero(t, info, i)
					}
				}
				all += info
			}
			return all
		}
		for range 3 {
			asked()
		}
		srv[0].Do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		require.Positive(t, asked(), "another server may be there by now")
	}
}

// A tally counts the lines of a log that contain a text.
type tally struct {
	says string
	n    atomic.Int64
}

func (c *tally) Write(line []byte) (int, error) {
	if strings.Contains(string(line), c.says) {
		c.n.Add(1)
	}
	return len(line), nil
}

// A server that does not tell how long it has been up counts, and each session logs that once.
func TestAServerThatDoesNotTellItsAgeCounts(t *testing.T) {
	t.Parallel()
	const rounds = 3
	f := kit.NewFleet(t, 3) // all of them are younger than a lease
	client := rueidis.ClientOption{Username: "limited", Password: redistest.Password}
	var told, limited []*holdfast.Session
	var logs []*tally
	for _, srv := range f.Servers {
		srv.Grant(t, client.Username, "~*", "&*", "+@all", "-info")
		log := &tally{says: "does not tell how long it has been up"}
		client.InitAddress = []string{srv.Addr()}
		limited = append(limited, kit.OpenWith(t, client,
			&holdfast.Options{Lease: 30 * time.Second, Logger: slog.New(slog.NewTextHandler(log, nil))}))
		told = append(told, kit.Open(t, srv.Addr(), &holdfast.Options{Lease: 30 * time.Second}))
		logs = append(logs, log)
	}
	_, err := kit.RedLock(told, kit.Orders, kit.ReentrantMember, kit.Careful).TryLock(t.Context())
	require.ErrorContains(t, err, "0 of 3 servers granted it")
	require.ErrorContains(t, err, "has started within a lease")
	f.Empty()
	for range rounds {
		for name, member := range map[string]func(*holdfast.Session,
			string) holdfast.Locker{kit.Orders: kit.ReentrantMember, "returns": kit.PlainMember} {
			h, err := kit.RedLock(limited, name, member, kit.Careful).TryLockFor(t.Context(), 5*time.Second)
			require.NoError(t, err)
			kit.Await(t, "all servers", func() bool { return kit.KeysLeft(t, f.Servers) == 3 })
			require.NoError(t, h.Release())
			f.Empty()
		}
	}
	for _, log := range logs {
		require.EqualValues(t, 1, log.n.Load())
	}
}

// An extension needs the servers that count, however fast another one answers that does not count yet.
func TestARedLockIsExtendedByServersThatCount(t *testing.T) {
	t.Parallel()
	const length = 9 * time.Second
	f := kit.NewFleet(t, 3)
	near := f.Near(&holdfast.Options{Lease: length})
	l := kit.RedLock(near, kit.Orders, kit.ReentrantMember,
		&multilock.RedLockOptions{ServerTimeout: kit.Patient.ServerTimeout}) // it must be the one whose replies are lost
	f.Seasoned(length)
	require.NoError(t, kit.Lock(t, t.Context(), l).Release()) // now the sessions know the servers' clocks
	f.Servers[0].Restart()
	h := kit.Lock(t, t.Context(), l)
	f.Has(near, 1, 1, 1)
	remove := f.OnEach(kit.AnyScript, proxy.Delay(100*time.Millisecond), proxy.EveryTime, 2)
	began := time.Now()
	require.NoError(t, h.Extend(t.Context(), length))
	require.Greater(t, h.Deadline().Sub(began), length-time.Second)
	remove()

	remove = f.OnEach(kit.AnyScript, proxy.DropReply, proxy.EveryTime, 2)
	err := h.Extend(t.Context(), length)
	require.ErrorIs(t, err, holdfast.ErrUnknown)
	require.NotErrorIs(t, err, holdfast.ErrLost)
	require.ErrorContains(t, err, "has started within a lease")
	remove()
	require.NoError(t, h.Err())
	require.NoError(t, h.Release())
	f.Empty()
}

// If servers have lost the lock that are not needed, the hold lives on: its calls return ErrLost only when it is
// lost.
func TestARedLockThatIsHeldIsNotCalledLost(t *testing.T) {
	t.Parallel()
	const length = 6 * time.Second
	f := kit.NewFleet(t, 5)
	near := f.Near(&holdfast.Options{Lease: length})
	l := kit.RedLock(near, kit.Orders, kit.ReentrantMember, kit.Patient)
	h := f.Everywhere(l.Lock)
	f.Cut(0)
	f.Cut(1)
	kit.SleepUntil(time.Now().Add(length * 5 / 4)) // these are lost
	f.Cut(2)
	require.NoError(t, h.Err())
	err := h.Extend(t.Context(), length)
	require.NoError(t, h.Err())
	require.Error(t, err)
	require.NotErrorIs(t, err, holdfast.ErrLost)
	f.Heal()
	f.Has(near, 1, 1, 1, 1, 1)
	require.NoError(t, h.Release())
	f.Empty()

	everywhere := func(context.Context) (*holdfast.Hold, error) { return f.Everywhere(l.Lock), nil }
	require.NoError(t, holdfast.Do(t.Context(), everywhere, func(ctx context.Context) error {
		f.Cut(0)
		f.Cut(1)
		kit.SleepUntil(time.Now().Add(length * 5 / 4))
		f.Cut(2)
		return ctx.Err()
	}), "it was protected throughout")
	f.Heal()
	f.Empty()
}

// A release that finds that most servers have forgotten the lock reports it.
func TestARedLockThatMostHaveForgottenIsCalledLost(t *testing.T) {
	t.Parallel()
	f := kit.NewFleet(t, 3)
	near := f.Near(&holdfast.Options{Lease: time.Minute})
	l := kit.RedLock(near, kit.Orders, kit.ReentrantMember, kit.Patient)
	for forget, lost := range []bool{false, false, true, true} {
		h := f.Everywhere(l.Lock)
		for _, srv := range f.Servers[:forget] {
			srv.Do(t, "DEL", kit.Orders)
		}
		if err := h.Release(); lost {
			require.ErrorIs(t, err, holdfast.ErrLost, forget)
		} else {
			require.NoError(t, err, forget)
		}
		f.Empty()
	}
}
