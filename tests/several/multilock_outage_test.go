package several

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A waiter for several locks waits while any one of the servers is away.
func TestAMultiLockWaitsOutAnOutage(t *testing.T) {
	t.Parallel()
	servers := kit.StartServers(t, 2)
	s := kit.OpenAll(t, servers, &holdfast.Options{Lease: 30 * time.Second})
	// the caller waits for one of them while it holds the other, or it tries it
	for _, names := range [][2]string{{"a", "b"}, {"c", "c"}} {
		m := multilock.New(rlock.New(s[0], names[0], nil), rlock.New(s[1], names[1], nil))
		require.NoError(t, kit.Lock(t, t.Context(), m).Release())
		for _, away := range servers {
			for name, take := range map[string]func(ctx context.Context) (*holdfast.Hold, error){
				"lock":         m.Lock,
				"try lock for": func(ctx context.Context) (*holdfast.Hold, error) { return m.TryLockFor(ctx, 20*time.Second) },
			} {
				for how, outage := range map[string]struct{ begin, end func() }{
					"gone":   {away.Stop, away.Restart},
					"silent": {away.Pause, away.Resume},
				} {
					outage.begin()
					got := kit.GoLock(t.Context(), take)
					kit.SleepUntil(time.Now().Add(1500 * time.Millisecond)) // longer than the others are held meanwhile
					outage.end()
					r := kit.Within(t, 20*time.Second, got, name)
					require.NoError(t, r.Err, "%s, %s", name, how)
					require.NoError(t, r.Hold.Release(), "%s, %s", name, how)
				}
			}
		}
	}
}

// A call ends when its time is over, even if a server that has fallen silent still has some of what it took.
func TestAMultiLockWaitsForNoReleaseBeyondItsTime(t *testing.T) {
	t.Parallel()
	const patience = 2 * time.Second
	servers := kit.StartServers(t, 2)
	p, q := proxy.Start(t, servers[0].Addr()), proxy.Start(t, servers[1].Addr())
	opts := &holdfast.Options{Lease: 30 * time.Second}
	far, near := kit.Open(t, p.Addr(), opts), kit.Open(t, q.Addr(), opts)
	m := multilock.New(rlock.New(far, "a", nil), rlock.New(near, "b", nil))
	require.NoError(t, kit.Lock(t, t.Context(), m).Release())
	taken := kit.Lock(t, t.Context(), rlock.New(kit.Open(t, servers[1].Addr(), opts), "b", nil))
	for name, c := range map[string]struct {
		take func(ctx context.Context) (*holdfast.Hold, error)
		err  error
	}{
		"ctx": {m.Lock, context.DeadlineExceeded},
		"wait": {
			func(context.Context) (*holdfast.Hold, error) { return m.TryLockFor(t.Context(), patience) },
			holdfast.ErrBusy,
		},
	} {
		second := q.On(kit.ScriptOf(kit.KindOf("rlock"), "acquire"), proxy.Pass, proxy.First)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		took := kit.Stopwatch()
		got := kit.GoLock(ctx, c.take)
		second.WaitAnswered(t, 1) // so the reply of the first has arrived
		p.StallAll()
		require.EqualValues(t, 1, servers[0].Int(t, "EXISTS", "a"))
		r := kit.Within(t, 2*patience, got, name)
		require.ErrorIs(t, r.Err, c.err, name)
		require.Less(t, took(), patience+1500*time.Millisecond, name)
		cancel()
		p.ResumeAll()
		kit.Await(t, "a is given back", func() bool { return len(servers[0].Keyspace(t)) == 0 })
	}
	require.NoError(t, taken.Release())
}

// A caller that wants only the first lock does not wait while the multilock waits for one after the other of the
// rest.
func TestAMultiLockKeepsNobodyFromItsFirstForLong(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s, other := kit.Open(t, srv.Addr(), nil), kit.Open(t, srv.Addr(), nil)
	locks := []holdfast.Locker{rlock.New(s, "a", nil)}
	var taken []*holdfast.Hold
	for _, name := range []string{"b", "c", "d", "e"} {
		locks = append(locks, fairlock.New(s, name, nil))
		taken = append(taken, kit.Lock(t, t.Context(), fairlock.New(other, name, nil)))
	}
	got := kit.GoLock(t.Context(), multilock.New(locks...).Lock)
	kit.Await(t, "a", func() bool { return srv.Int(t, "EXISTS", "a") == 1 })
	a := kit.GoLock(t.Context(), rlock.New(other, "a", nil).Lock)
	for _, h := range taken {
		kit.SleepUntil(time.Now().Add(800 * time.Millisecond)) // also after the machine has stood still
		require.NoError(t, h.Release())
	}
	one := kit.Within(t, time.Second, a, "a, some time before")
	require.NoError(t, one.Err)
	require.NoError(t, one.Hold.Release())
	all := kit.Within(t, 20*time.Second, got, "all")
	require.NoError(t, all.Err)
	require.NoError(t, all.Hold.Release())
}

// oneNameOnTwo is a multilock of one name on two servers, the second of which is silent until the test resumes it.
func oneNameOnTwo(t *testing.T, lease time.Duration) (*multilock.MultiLock, []*redistest.Server) {
	t.Helper()
	servers := kit.StartServers(t, 2)
	s := kit.OpenAll(t, servers, &holdfast.Options{Lease: lease})
	m := multilock.New(rlock.New(s[0], kit.Orders, nil), rlock.New(s[1], kit.Orders, nil))
	require.NoError(t, kit.Lock(t, t.Context(), m).Release())
	servers[1].Pause()
	return m, servers
}

// One attempt for a member would wait for a third of the lease.
func TestAMultiLockWithASilentServerTakesNoLongerThanItMay(t *testing.T) {
	t.Parallel()
	m, servers := oneNameOnTwo(t, 30*time.Second)
	took := kit.Stopwatch()
	_, err := m.TryLockFor(t.Context(), 500*time.Millisecond)
	require.ErrorIs(t, err, holdfast.ErrUnknown)
	require.Less(t, took(), 5*time.Second)
	servers[1].Resume()
}

func TestAMultiLockWithASilentServerKeepsNobodyFromTheOther(t *testing.T) {
	t.Parallel()
	m, servers := oneNameOnTwo(t, 30*time.Second)
	got := kit.GoLock(t.Context(), m.Lock)
	kit.Await(t, "the first", func() bool { return servers[0].Int(t, "EXISTS", kit.Orders) == 1 })
	one := kit.GoLock(t.Context(), rlock.New(kit.Open(t, servers[0].Addr(), nil), kit.Orders, nil).Lock)
	require.NoError(t, kit.Granted(t, 5*time.Second, one, "the first, a second later").Release())
	servers[1].Resume()
	require.NoError(t, kit.Granted(t, 20*time.Second, got, "both").Release())
}

// The outage is longer than a call for a member waits for its reply.
func TestAMultiLockWaitsOutALongOutage(t *testing.T) {
	t.Parallel()
	const lease = 5 * time.Second
	m, servers := oneNameOnTwo(t, lease)
	got := kit.GoLock(t.Context(), m.Lock)
	time.Sleep(lease * 4 / 3)
	servers[1].Resume()
	require.NoError(t, kit.Granted(t, 20*time.Second, got, "both").Release())
}

// It takes no longer to find out whose name is of another kind if there are many locks.
func TestAMultiLockOfManyDoesNotAskForLongOfWhatKindTheyAre(t *testing.T) {
	t.Parallel()
	srv, p := kit.StartProxied(t)
	s := kit.Open(t, p.Addr(), &holdfast.Options{Lease: 30 * time.Second})
	var locks []holdfast.Locker
	for _, name := range "abcdefgh" {
		locks = append(locks, rlock.New(s, string(name), nil))
	}
	m := multilock.New(locks...)
	require.NoError(t, kit.Lock(t, t.Context(), m).Release())
	srv.Do(t, "SET", "h", "text")
	silent := p.On(kit.ScriptNamed("name_kind"), proxy.HoldReply, proxy.EveryTime)
	took := kit.Stopwatch()
	_, err := m.TryLockFor(t.Context(), 300*time.Millisecond)
	require.Less(t, took(), 2*time.Second) // a second for each of them would be eight
	require.ErrorContains(t, err, "WRONGTYPE")
	silent.Remove()
	silent.Release()
	kit.Await(t, "an answer of what kind it is", func() bool { // a machine that stands still for a second has none
		_, err = m.TryLock(t.Context())
		return errors.Is(err, holdfast.ErrWrongKind)
	})
	require.ErrorContains(t, err, `rlock "h"`)
}

// Members are taken in the order in which the server knows them, which is the same for everybody.
func TestAMultiLockFollowsMappedNames(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	swapped := kit.Open(t, srv.Addr(), &holdfast.Options{Lease: kit.Lease, MapName: func(name string) string {
		return map[string]string{"a": "z", "b": "y"}[name]
	}})
	rw := rwlock.New(swapped, "a", nil)
	require.Equal(t, "b, a", multilock.New(rlock.New(swapped, "a", nil), rlock.New(swapped, "b", nil)).Name())
	h := kit.Lock(t, t.Context(), multilock.New(rw.Read(), rw.Write())) // after reading it could not write
	require.NoError(t, h.Release())
}

// A round that was refused the read half of a lock alone begins anew with the write half.
func TestAMultiLockOfBothHalvesWaitsOutARefusal(t *testing.T) {
	t.Parallel()
	srv, p := kit.StartProxied(t)
	rw := rwlock.New(kit.Open(t, p.Addr(), nil), "a", nil)
	refused := p.On(kit.ScriptNamed("rwlock_acquire_read"), proxy.Answer("-LOADING for a moment"), proxy.First)
	require.NoError(t, kit.Lock(t, t.Context(), multilock.New(rw.Read(), rw.Write())).Release())
	require.Equal(t, 1, refused.Count())
	require.Empty(t, srv.Keyspace(t))
}

// A release names all members that were lost.
func TestAMultiLockNamesAllItsLosses(t *testing.T) {
	t.Parallel()
	s := kit.Open(t, redistest.Start(t).Addr(), nil)
	fixed := &rlock.Options{FixedLease: 2 * time.Second}
	// they end together
	h := kit.Lock(t, t.Context(), multilock.New(rlock.New(s, "a", fixed), rlock.New(s, "b", fixed)))
	kit.Within(t, 4*time.Second, h.Context(t.Context()).Done(), "the end")
	err := h.Release()
	require.ErrorContains(t, err, `lost "a"`)
	require.ErrorContains(t, err, `lost "b"`)
}

// A member's lease that ends while the call waits for others is lost, and no other is.
func TestAMultiLockWhoseFirstLeaseIsOver(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	p := proxy.Start(t, srv.Addr())
	slow := kit.Open(t, p.Addr(), nil)
	require.NoError(t, kit.Lock(t, t.Context(), rlock.New(slow, "b", nil)).Release())
	p.On(proxy.Command("EVALSHA"), proxy.Delay(time.Second), proxy.EveryTime)
	m := multilock.New(rlock.New(s, "a", &rlock.Options{FixedLease: 600 * time.Millisecond}), rlock.New(slow, "b", nil))
	_, err := m.TryLock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrLost)
	require.NotErrorIs(t, err, holdfast.ErrBusy)
	kit.Await(t, "nothing is left", func() bool { return len(srv.Keyspace(t)) == 0 })
}

// A wrapped lock is a program's own kind of lock, which has what a Locker must have.
type wrapped struct{ holdfast.Locker }

// Reluctant locks are rlocks that nobody can take: a program's own types, which hide a method of the lock inside.
type (
	reluctant     struct{ *rlock.Mutex }
	alsoReluctant struct{ holdfast.Mutex }
)

func (reluctant) TryLock(context.Context) (*holdfast.Hold, error) { return nil, holdfast.ErrBusy }

func (*alsoReluctant) TryLock(context.Context) (*holdfast.Hold, error) { return nil, holdfast.ErrBusy }

// What one command takes is not taken behind the back of such a type.
func TestAMultiLockCallsTheMethodsOfItsMembers(t *testing.T) {
	t.Parallel()
	s := kit.Open(t, kit.StartServers(t, 1)[0].Addr(), nil)
	for _, l := range []holdfast.Locker{
		reluctant{rlock.New(s, "b", nil)}, &reluctant{rlock.New(s, "b", nil)}, (*alsoReluctant)(rlock.New(s, "b", nil)),
	} {
		_, err := multilock.New(rlock.New(s, "a", nil), l).TryLock(t.Context())
		require.ErrorIs(t, err, holdfast.ErrBusy)
	}
}

// A server that does not answer is no other holder, whoever has made the lock.
func TestAMultiLockOfAnotherKindOfLockDoesNotCallASilentServerBusy(t *testing.T) {
	t.Parallel()
	srv := kit.StartServers(t, 1)[0]
	l := multilock.New(wrapped{kit.ReentrantMember(kit.Open(t, srv.Addr(), nil), t.Name())})
	require.NoError(t, kit.Lock(t, t.Context(), l).Release())
	srv.Pause()
	defer srv.Resume()
	_, err := l.TryLockFor(t.Context(), 3*time.Second) // a standstill before it is sent is shorter
	require.NotErrorIs(t, err, holdfast.ErrBusy)
	require.ErrorIs(t, err, holdfast.ErrUnknown)
}
