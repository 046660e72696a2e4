package locks

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// requireKeys checks what the server has: the fields of orders, and how long each key lasts, within 15 s.
func requireKeys(t *testing.T, srv *redistest.Server, fields map[string]string, lasts map[string]time.Duration) {
	t.Helper()
	keys := srv.Keyspace(t)
	if fields == nil {
		require.NotContains(t, keys, kit.Orders)
	} else {
		require.Equal(t, fields, keys[kit.Orders].Content)
	}
	ttls := srv.TTLs(t)
	for key, want := range lasts {
		require.InDelta(t, want, ttls[key], float64(15*time.Second), key)
	}
	for key := range keys {
		if _, wanted := lasts[key]; !wanted && key != kit.Orders {
			t.Errorf("%s exists", key)
		}
	}
}

func TestManyReadOrOneWrites(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	a, b := kit.OrdersRW(kit.Open(t, srv.Addr(), nil), 0), kit.OrdersRW(kit.Open(t, srv.Addr(), nil), 0)
	var readers []*holdfast.Hold
	for range 3 {
		readers = append(readers, kit.Lock(t, t.Context(), a.Read()), kit.Lock(t, t.Context(), b.Read()))
	}
	holders, err := b.Read().Holders(t.Context())
	require.NoError(t, err)
	require.Len(t, holders, 6)
	for _, rw := range []*rwlock.RWMutex{a, b} {
		_, err := rw.Write().TryLock(t.Context())
		require.ErrorIs(t, err, holdfast.ErrBusy)
		locked, err := rw.Write().Locked(t.Context())
		require.NoError(t, err)
		require.False(t, locked, "nobody holds this half")
		left, err := rw.Write().RemainingLease(t.Context())
		require.NoError(t, err)
		require.Zero(t, left)
	}
	for _, h := range readers {
		require.NoError(t, h.Release())
	}
	require.Empty(t, srv.Keyspace(t))

	writer := kit.Lock(t, t.Context(), a.Write())
	for _, half := range []*rwlock.Half{a.Read(), b.Read(), a.Write(), b.Write()} {
		_, err := half.TryLock(t.Context())
		require.ErrorIs(t, err, holdfast.ErrBusy)
	}
	locked, err := b.Read().Locked(t.Context())
	require.NoError(t, err)
	require.False(t, locked)
	require.NoError(t, writer.Release())
}

// These are the states that Redisson leaves, with two leases that it would add up or shorten.
func TestBothHalvesOfOneOwnerOnTheServer(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	messages := srv.Messages(t, "*")
	short, long := kit.OrdersRW(s, 100*time.Second), kit.OrdersRW(s, 300*time.Second)

	write := kit.Lock(t, t.Context(), long.Write())
	ctx := context.WithoutCancel(write.Context(t.Context()))
	u := write.ID()
	require.NotContains(t, u, "write")
	again := kit.Lock(t, ctx, short.Write())
	requireKeys(t, srv, map[string]string{"mode": "write", u + ":write": "2"},
		map[string]time.Duration{kit.Orders: 300 * time.Second})

	read := kit.Lock(t, ctx, short.Read())
	require.Equal(t, u, read.ID())
	inner := kit.Lock(t, ctx, short.Read())
	requireKeys(t, srv, map[string]string{"mode": "write", u + ":write": "2", u: "2"}, map[string]time.Duration{
		kit.Orders: 300 * time.Second, kit.OrdersReadHold(u, 1): 100 * time.Second,
		kit.OrdersReadHold(u, 2): 100 * time.Second,
	})
	for half, want := range map[*rwlock.Half]int{short.Read(): 2, short.Write(): 2} {
		n, err := half.HoldCount(ctx)
		require.NoError(t, err)
		require.Equal(t, want, n)
		holders, err := half.Holders(ctx)
		require.NoError(t, err)
		require.Len(t, holders, 1)
		require.Equal(t, u, holders[0].ID)
	}
	left, err := short.Read().RemainingLease(ctx)
	require.NoError(t, err)
	require.InDelta(t, 100*time.Second, left, float64(15*time.Second))

	require.NoError(t, inner.Release())
	requireKeys(t, srv, map[string]string{"mode": "write", u + ":write": "2", u: "1"}, map[string]time.Duration{
		kit.Orders: 300 * time.Second, kit.OrdersReadHold(u, 1): 100 * time.Second,
	})
	require.NoError(t, write.Release())
	require.Empty(t, messages.Drain(t))
	require.NoError(t, again.Release())
	requireKeys(t, srv, map[string]string{"mode": "read", u: "1"}, map[string]time.Duration{
		kit.Orders: 100 * time.Second, kit.OrdersReadHold(u, 1): 100 * time.Second,
	})
	require.Equal(t, []redistest.Message{{Channel: "redisson_rwlock:{orders}", Payload: "1"}}, messages.Drain(t))
	require.NoError(t, read.Release())
	require.Empty(t, srv.Keyspace(t))
	require.Equal(t, []redistest.Message{{Channel: "redisson_rwlock:{orders}", Payload: "0"}}, messages.Drain(t))
}

// The server numbers an owner's read holds and cannot tell them apart: whichever is released first, the others keep
// their leases.
func TestAReadHoldKeepsItsLeaseWhoeverGoesFirst(t *testing.T) {
	t.Parallel()
	const long, middle, short = 60 * time.Second, 20 * time.Second, 10 * time.Second
	leases := []time.Duration{long, middle, short}
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	for _, taken := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		for _, released := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
			t.Run(fmt.Sprint(taken, released), func(t *testing.T) {
				ctx := holdfast.NewOwner(t.Context())
				holds, began := map[int]*holdfast.Hold{}, time.Now()
				for _, i := range taken {
					holds[i] = kit.Lock(t, ctx, kit.OrdersRW(s, leases[i]).Read())
				}
				busy := time.Since(began) // leases count from when they were asked for, or granted
				for n, i := range released {
					u, release := holds[i].ID(), time.Now()
					require.NoError(t, holds[i].Release())
					left := slices.Max(append([]time.Duration{0}, remaining(leases, released[n+1:])...))
					if left == 0 {
						require.Empty(t, srv.Keyspace(t))
						break
					}
					kit.AwaitFor(t, 5*time.Second, "the lock to be trimmed", func() bool {
						return srv.TTLs(t)[kit.Orders] <= left+time.Second
					})
					busy += time.Since(release)
					kit.Await(t, "the lock to follow its longest hold", func() bool {
						ttls := srv.TTLs(t) // the keys are read one after the other, and may be trimmed meanwhile
						require.GreaterOrEqual(t, ttls[kit.Orders], left-time.Second-time.Since(began))
						apart := ttls[kit.Orders] - longest(ttls, u)
						return apart.Abs() <= 100*time.Millisecond+busy
					})
					for _, i := range released[n+1:] {
						require.NoError(t, holds[i].Err())
					}
				}
			})
		}
	}
}

func remaining(leases []time.Duration, of []int) (left []time.Duration) {
	for _, i := range of {
		left = append(left, leases[i])
	}
	return left
}

// longest returns how long an owner's longest read hold lasts.
func longest(ttls map[string]time.Duration, owner string) (most time.Duration) {
	for key, ttl := range ttls {
		if strings.Contains(key, owner) {
			most = max(most, ttl)
		}
	}
	return most
}

func TestNothingShortensWriting(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	write := kit.Lock(t, t.Context(), kit.OrdersRW(s, time.Minute).Write())
	ctx := write.Context(t.Context())
	atLeast := func() {
		t.Helper()
		require.Greater(t, srv.TTLs(t)[kit.Orders], 30*time.Second) // and not ten
	}
	for range 3 {
		read := kit.Lock(t, ctx, kit.OrdersRW(s, 10*time.Second).Read())
		inner := kit.Lock(t, ctx, kit.OrdersRW(s, 10*time.Second).Read())
		again := kit.Lock(t, ctx, kit.OrdersRW(s, 10*time.Second).Write())
		atLeast()
		for _, h := range []*holdfast.Hold{read, inner, again} {
			require.NoError(t, h.Release())
			atLeast()
		}
	}
	require.NoError(t, write.Release())
}

// What the writer reads is freed with the write half alone, as in Redisson.
func TestReadsUnderWritingAreFreedWithTheWriting(t *testing.T) {
	t.Parallel()
	orders := kit.OrdersRW(kit.Open(t, redistest.Start(t).Addr(), nil), 0)
	writing := kit.Lock(t, t.Context(), orders.Write())
	reading := kit.Lock(t, writing.Context(t.Context()), orders.Read())
	was, err := orders.Read().ForceUnlock(t.Context())
	require.NoError(t, err)
	require.False(t, was)
	require.NoError(t, reading.Err())
	was, err = orders.Write().ForceUnlock(t.Context())
	require.NoError(t, err)
	require.True(t, was)
	locked, err := orders.Read().Locked(t.Context())
	require.NoError(t, err)
	require.False(t, locked)
	require.ErrorIs(t, reading.Release(), holdfast.ErrLost)
	require.ErrorIs(t, writing.Release(), holdfast.ErrLost)
}

func TestAReaderCannotWrite(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	rw := kit.OrdersRW(s, 0)
	read := kit.Lock(t, t.Context(), rw.Read())
	ctx := read.Context(t.Context())
	srv.ResetStats(t)
	for _, take := range []func(context.Context) (*holdfast.Hold, error){
		rw.Write().Lock, rw.Write().TryLock,
		func(ctx context.Context) (*holdfast.Hold, error) { return rw.Write().TryLockFor(ctx, time.Hour) },
	} {
		_, err := take(ctx)
		require.ErrorIs(t, err, holdfast.ErrAlreadyHeld)
		require.ErrorContains(t, err, `rwlock.Write "orders": `)
	}
	require.Zero(t, srv.CommandStats(t)["evalsha"])
	require.NoError(t, read.Release())
	require.NoError(t, kit.Lock(t, holdfast.NewOwner(t.Context()), rw.Write()).Release())
}

// If an owner waits to write when another of its calls begins to read, the waiting call fails at once, and not when a
// timer fires.
func TestAWriterIsToldThatItsOwnerReads(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	a, b := kit.OrdersRW(kit.Open(t, srv.Addr(), nil), 0), kit.OrdersRW(kit.Open(t, srv.Addr(), nil), 0)
	other := kit.Lock(t, t.Context(), b.Read())
	ctx := holdfast.NewOwner(t.Context())
	writer := kit.GoLock(ctx, a.Write().Lock)
	kit.Await(t, "the writer", func() bool { return len(srv.Strs(t, "PUBSUB", "CHANNELS")) > 0 })
	read := kit.Lock(t, ctx, a.Read())
	require.ErrorIs(t, kit.Within(t, kit.Told, writer, "the error").Err, holdfast.ErrAlreadyHeld)
	require.NoError(t, read.Release())
	require.NoError(t, other.Release())
}

// A read hold that nobody has looked at since its lease ended delays nobody.
func TestAnExpiredReadHoldLetsItsOwnerWrite(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	ctx := holdfast.NewOwner(t.Context())
	read := kit.Lock(t, ctx, kit.OrdersRW(s, 200*time.Millisecond).Read())
	kit.SleepUntil(read.Deadline())
	write := kit.Lock(t, ctx, kit.OrdersRW(s, 0).Write())
	require.ErrorIs(t, read.Release(), holdfast.ErrLost)
	require.NoError(t, write.Err())
	require.NoError(t, write.Release())
}

// When a writer goes on reading, all waiting readers enter at once, each with one attempt, and no writer does.
func TestADowngradeLetsReadersIn(t *testing.T) {
	t.Parallel()
	const waiting = 20
	srv := redistest.Start(t)
	opts := &holdfast.Options{Lease: time.Minute} // no renewal is among the calls that are counted
	a, b := kit.OrdersRW(kit.Open(t, srv.Addr(), opts), 0), kit.OrdersRW(kit.Open(t, srv.Addr(), opts), 0)
	for _, half := range []*rwlock.Half{a.Read(), a.Write()} { // now the scripts are known
		require.NoError(t, kit.Lock(t, t.Context(), half).Release())
	}
	for name, downgrade := range map[string]bool{"it goes on reading": true, "it does not": false} {
		t.Run(name, func(t *testing.T) {
			// If a connection has ended, this learns the server's time again.
			write := kit.Lock(t, t.Context(), a.Write())
			srv.ResetStats(t)
			ctx := context.WithoutCancel(write.Context(t.Context()))
			var readers []<-chan kit.Result
			for i := range waiting {
				rw := []*rwlock.RWMutex{a, b}[i%2]
				readers = append(readers, kit.GoLock(t.Context(), rw.Read().Lock))
			}
			// One look comes at the start, and one after subscribing.
			kit.Await(t, "the readers", func() bool { return listeners(t, srv) == 2 && attempts(t, srv) == 2*waiting })
			var read *holdfast.Hold
			if downgrade {
				read = kit.Lock(t, ctx, a.Read())
			}
			srv.ResetStats(t)
			released := time.Now()
			require.NoError(t, write.Release())
			for _, r := range readers {
				r := kit.Within(t, kit.Told, r, "a reader")
				require.NoError(t, r.Err)
				defer r.Hold.Release()
			}
			t.Logf("%d readers came in within %v", waiting, time.Since(released))
			require.EqualValues(t, waiting+1, srv.CommandStats(t)["evalsha"])
			_, err := b.Write().TryLock(t.Context())
			require.ErrorIs(t, err, holdfast.ErrBusy)
			if downgrade {
				require.NoError(t, read.Err())
				require.NoError(t, read.Release())
			}
		})
		kit.Await(t, "an end of it", func() bool { return listeners(t, srv) == 0 && len(srv.Keyspace(t)) == 0 })
	}
}

// listeners counts the clients that wait for orders.
func listeners(t *testing.T, srv *redistest.Server) int64 {
	t.Helper()
	return srv.Do(t, "PUBSUB", "NUMSUB", "redisson_rwlock:{orders}").([]any)[1].(int64)
}

func attempts(t *testing.T, srv *redistest.Server) int64 {
	t.Helper()
	return srv.CommandStats(t)["evalsha"]
}

// The last of many readers wakes a writer, and no earlier one does.
func TestTheLastReaderWakesAWriter(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	a, b := kit.OrdersRW(kit.Open(t, srv.Addr(), nil), 0), kit.OrdersRW(kit.Open(t, srv.Addr(), nil), 0)
	var readers []*holdfast.Hold
	for range 5 {
		readers = append(readers, kit.Lock(t, t.Context(), a.Read()))
	}
	got := kit.AnyOf(kit.GoLock(t.Context(), b.Write().Lock), kit.GoLock(t.Context(), b.Write().Lock))
	kit.Await(t, "the writers", func() bool { return listeners(t, srv) == 1 })
	messages := srv.Messages(t, "*")
	for _, h := range readers[:4] {
		require.NoError(t, h.Release())
		require.Empty(t, messages.Drain(t))
	}
	require.NoError(t, readers[4].Release())
	for range 2 {
		require.NoError(t, kit.Granted(t, kit.Told, got, "the lock for one of them").Release())
	}
}

// A detached read hold no longer belongs to its owner, but still protects: nothing that the owner does under its
// write hold removes it.
func TestADetachedReadHoldSurvivesOthersOfItsOwner(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	write := kit.Lock(t, t.Context(), kit.OrdersRW(s, 0).Write())
	ctx := context.WithoutCancel(write.Context(t.Context()))
	detached := kit.Lock(t, ctx, kit.OrdersRW(s, 2*time.Second).Read())
	require.NoError(t, detached.Detach())
	require.NoError(t, kit.Lock(t, ctx, kit.OrdersRW(s, 0).Read()).Release())
	require.NoError(t, write.Release())
	_, err := kit.OrdersRW(s, 0).Write().TryLock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrBusy)
	took := kit.Stopwatch()
	require.NoError(t, kit.Lock(t, t.Context(), kit.OrdersRW(s, 0).Write()).Release())
	require.Less(t, took(), 3*time.Second)
}

// A half that an owner has given back, but for a detached hold whose lease is over, is no longer the owner's, although
// the other half goes on. So a later call does not re-enter it.
func TestAHalfIsGivenBackWithADetachedHoldThatIsOver(t *testing.T) {
	t.Parallel()
	const short = 300 * time.Millisecond
	// begin returns an owner who writes, and has detached a hold of a half whose lease is over.
	begin := func(t *testing.T, s *holdfast.Session, half func(rw *rwlock.RWMutex) *rwlock.Half) (
		ctx context.Context, write *holdfast.Hold, then func() *holdfast.Hold,
	) {
		ctx = holdfast.NewOwner(t.Context())
		write = kit.Lock(t, ctx, kit.OrdersRW(s, 0).Write())
		require.NoError(t, kit.Lock(t, ctx, half(kit.OrdersRW(s, short))).Detach())
		took := kit.Stopwatch()
		return ctx, write, func() *holdfast.Hold {
			read := kit.Lock(t, ctx, kit.OrdersRW(s, 0).Read())
			kit.Await(t, "the end of the lease", func() bool { return took() > 3*short })
			return read
		}
	}
	t.Run("a reader may not write", func(t *testing.T) {
		t.Parallel()
		s := kit.Open(t, redistest.Start(t).Addr(), nil)
		ctx, write, then := begin(t, s, (*rwlock.RWMutex).Write)
		read := then()
		require.NoError(t, write.Release())
		_, err := kit.OrdersRW(s, 0).Write().TryLock(ctx)
		require.ErrorIs(t, err, holdfast.ErrAlreadyHeld)
		require.NoError(t, read.Release())
	})
	t.Run("a read hold that is lost", func(t *testing.T) {
		t.Parallel()
		srv := redistest.Start(t)
		s := kit.Open(t, srv.Addr(), nil)
		ctx, _, then := begin(t, s, (*rwlock.RWMutex).Read)
		require.NoError(t, then().Release())
		read := kit.Lock(t, ctx, kit.OrdersRW(s, 0).Read())
		was, err := kit.OrdersRW(kit.Open(t, srv.Addr(), nil), 0).Write().ForceUnlock(t.Context())
		require.NoError(t, err)
		require.True(t, was)
		require.ErrorIs(t, read.Release(), holdfast.ErrLost)
	})
	t.Run("a read hold of which no reply came", func(t *testing.T) {
		t.Parallel()
		srv, p := kit.StartProxied(t)
		s := kit.Open(t, p.Addr(), nil)
		ctx, write, then := begin(t, s, (*rwlock.RWMutex).Read)
		require.NoError(t, then().Release())
		lost := p.On(kit.ScriptOf(kit.KindOf("rwlock read"), "acquire"), proxy.DropReply, proxy.EveryTime)
		brief, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		_, err := kit.OrdersRW(s, time.Hour).Read().TryLock(brief)
		require.ErrorIs(t, err, holdfast.ErrUnknown)
		lost.Remove()
		require.NoError(t, write.Release())
		other := kit.OrdersRW(kit.Open(t, srv.Addr(), nil), 0).Write()
		require.NoError(t, kit.Granted(t, 5*time.Second, kit.GoLock(t.Context(), other.Lock), "the lock").Release())
	})
}
