package faults

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// crossing releases a read hold of the story's writer while another call of the same owner, which asks for a read
// hold, has its turn first. So the release is sent when there is a newer hold. Its result comes on released.
func (s *nestedStory) crossing(old *holdfast.Hold) (newer *holdfast.Hold, released <-chan error) {
	s.Helper()
	turn := s.proxy.On(kit.ScriptOf(kit.KindOf("rwlock write"), "acquire"), proxy.HoldReply, proxy.First)
	again := kit.GoLock(s.ctx, s.rw.Write().Lock) // has the turn
	turn.Wait(s, 1)
	reading := kit.GoLock(s.ctx, s.rw.Read().Lock) // is next
	kit.SleepUntil(time.Now().Add(50 * time.Millisecond))
	result := make(chan error, 1)
	go func() { result <- old.Release() }() // waits behind it
	kit.SleepUntil(time.Now().Add(50 * time.Millisecond))
	turn.Release()
	write := kit.Within(s, 5*time.Second, again, "another write hold")
	require.NoError(s, write.Err)
	read := kit.Within(s, 5*time.Second, reading, "another read hold")
	require.NoError(s, read.Err)
	require.NoError(s, write.Hold.Release())
	return read.Hold, result
}

func TestAReleaseThatIsMadeUpForTakesNothingNewer(t *testing.T) {
	t.Parallel()
	s := newNestedStory(t)
	old := kit.Lock(s, s.ctx, s.rw.Read())
	lost := s.proxy.On(kit.ScriptOf(kit.KindOf("rwlock read"), "release"), proxy.DropReply, proxy.EveryTime)
	newer, released := s.crossing(old)
	require.ErrorIs(t, kit.Within(t, 10*time.Second, released, "the release"), holdfast.ErrUnknown)
	returns := s.proxy.On(kit.ScriptOf(kit.KindOf("rwlock read"), "release"), proxy.Pass, proxy.EveryTime)
	lost.Remove()
	returns.WaitAnswered(t, 1)
	s.readsOn(newer)
	s.ends()
}

// A release that ends two grants at once leaves work behind: a copy of the first grant's acquisition must be undone.
func TestALateCopyIsGivenBackThoughAnotherHoldWasReleasedWithIt(t *testing.T) {
	t.Parallel()
	s := newNestedStory(t)
	late := s.on("acquire", proxy.Stall)
	old := kit.Lock(s, s.ctx, s.rw.Read()) // granted to a second copy
	late.Wait(t, 1)
	newer, released := s.crossing(old)
	require.NoError(t, kit.Within(t, 5*time.Second, released, "the release"))
	require.NoError(t, newer.Release())
	s.deliver(late)
	require.NoError(t, s.write.Release())
	s.ends()
}

// A number that was asked for in vain is not asked for again while a release that knows it is in flight.
func TestANumberThatIsInDoubtIsNotAskedForAgain(t *testing.T) {
	t.Parallel()
	s := newNestedStory(t)
	acquire := kit.ScriptOf(kit.KindOf("rwlock read"), "acquire")
	vain := s.proxy.On(func(c []string) bool { return acquire(c) && slices.Contains(c, "20000") },
		proxy.Answer(kit.LoadingReply), proxy.EveryTime)
	waiting := kit.GoLock(s.ctx, kit.OrdersRW(s.session, 20*time.Second).Read().Lock)
	vain.Wait(t, 3)
	other := kit.Lock(t, s.ctx, s.rw.Read())
	late := s.on("release", proxy.Stall)
	require.NoError(t, other.Release()) // executed by a second copy
	vain.Remove()
	r := kit.Within(t, 5*time.Second, waiting, "the read hold")
	require.NoError(t, r.Err)
	s.deliver(late)
	s.readsOn(r.Hold)
	s.ends()
}

// A number that a call has asked for without a reply is no other call's: what the first one may have left is given
// back.
func TestANumberWithoutAReplyIsNoOtherCalls(t *testing.T) {
	t.Parallel()
	s := newNestedStory(t)
	acquire := kit.ScriptOf(kit.KindOf("rwlock read"), "acquire")
	first := func(c []string) bool { return acquire(c) && slices.Contains(c, "20000") }
	lost := s.proxy.On(first, proxy.DropReply, proxy.First)
	vain := s.proxy.On(first, proxy.Answer(kit.LoadingReply), proxy.EveryTime)
	ctx, cancel := context.WithCancel(s.ctx)
	waiting := kit.GoLock(ctx, kit.OrdersRW(s.session, 20*time.Second).Read().Lock)
	lost.Wait(t, 1)
	vain.Wait(t, 1)
	given := s.proxy.On(kit.ScriptOf(kit.KindOf("rwlock read"), "release"), proxy.Pass, proxy.EveryTime)
	read := kit.Lock(t, s.ctx, s.rw.Read()) // so the first call would re-enter, and gives up what it has asked for
	given.WaitAnswered(t, 1)
	cancel()
	require.Error(t, kit.Within(t, 5*time.Second, waiting, "the end of the first call").Err)
	s.readsOn(read)
	s.ends()
}

// After the release of one of several holds, no older release finds a count at which it would take the others.
func TestALateReleaseFindsNoCountThatItKnowsOf(t *testing.T) {
	t.Parallel()
	s := newNestedStory(t)
	first := kit.Lock(t, s.ctx, s.rw.Read())
	late := s.on("release", proxy.Stall)
	require.NoError(t, first.Release()) // executed by a second copy
	stays, goes := kit.Lock(t, s.ctx, s.rw.Read()), kit.Lock(t, s.ctx, s.rw.Read())
	require.NoError(t, goes.Release())
	s.deliver(late)
	s.readsOn(stays)
	s.ends()
}

// A release that the server refused for a while does not know of a later extension, and leaves it alone.
func TestAReleaseThatWasPutOffShortensNoExtension(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := proxy.Start(t, srv.Addr())
	s := kit.Open(t, p.Addr(), &holdfast.Options{Lease: 20 * time.Second})
	require.NoError(t, kit.Lock(t, t.Context(), kit.OrdersRW(s, 0).Read()).Release())
	ctx := holdfast.NewOwner(t.Context())
	short := kit.Lock(t, ctx, kit.OrdersRW(s, 300*time.Millisecond).Read())
	outer := kit.Lock(t, ctx, kit.OrdersRW(s, 4*time.Second).Read())
	kit.Await(t, "the end of the short one",
		func() bool { return srv.Int(t, "EXISTS", kit.OrdersReadHold(short.ID(), 1)) == 0 })
	require.ErrorIs(t, short.Err(), holdfast.ErrLost)
	inner := kit.Lock(t, ctx, kit.OrdersRW(s, 15*time.Second).Read())
	refused := p.On(kit.ScriptOf(kit.KindOf("rwlock read"), "release"), proxy.Answer(kit.LoadingReply), proxy.EveryTime)
	released := make(chan error, 1)
	go func() { released <- inner.Release() }()
	refused.Wait(t, 1)
	require.NoError(t, outer.Extend(t.Context(), time.Hour))
	refused.Remove()
	require.NoError(t, kit.Within(t, 5*time.Second, released, "the release"))
	require.NoError(t, outer.Err())
	require.Greater(t, srv.TTLs(t)[kit.Orders], time.Until(outer.Deadline()))
}

// A lost reply does not make the reads that follow more expensive.
func TestReadsUnderWritingStayCheapAfterALostReply(t *testing.T) {
	t.Parallel()
	s := newNestedStory(t)
	require.NoError(t, s.write.Extend(t.Context(), time.Minute))
	s.on("release", proxy.DropReply)
	require.NoError(t, kit.Lock(t, s.ctx, s.rw.Read()).Release())
	s.srv.ResetStats(t)
	const reads = 200
	for range reads {
		require.NoError(t, kit.Lock(t, s.ctx, s.rw.Read()).Release())
	}
	commands := int64(0)
	for name, calls := range s.srv.CommandStats(t) {
		if name != "evalsha" && name != "ping" {
			commands += calls
		}
	}
	require.Less(t, commands, int64(reads*20))
	require.NoError(t, s.write.Release())
	s.ends()
}

// A detached hold whose lease has ended does not keep a lock from becoming free.
func TestADetachedHoldThatIsOverKeepsNothing(t *testing.T) {
	t.Parallel()
	for _, k := range []kit.Kind{
		kit.KindOf("rlock"), kit.KindOf("fairlock"), kit.KindOf("rwlock write"),
		kit.KindOf("rwlock read"),
	} {
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			s := kit.Open(t, srv.Addr(), nil)
			outer := kit.Lock(t, t.Context(), k.Make(s, kit.Orders, 0))
			inner := kit.Lock(t, context.WithoutCancel(outer.Context(t.Context())),
				k.Make(s, kit.Orders, 300*time.Millisecond))
			require.NoError(t, inner.Detach())
			kit.SleepUntil(inner.Deadline().Add(350 * time.Millisecond)) // or it was executed late
			require.NoError(t, outer.Release())
			require.NotContains(t, srv.Keyspace(t), kit.Orders)
		})
	}
}

// Whoever writes inside one of Redisson's transactions is a writer.
func TestAWriterInATransactionOfRedissonsIsSeen(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	srv.Do(t, "HSET", kit.Orders, "mode", "write", "u:1:write:tx", "1")
	srv.Do(t, "EXPIRE", kit.Orders, "10")
	rw := rwlock.New(kit.Open(t, srv.Addr(), nil), kit.Orders, nil)
	locked, err := rw.Write().Locked(t.Context())
	require.NoError(t, err)
	require.True(t, locked)
	locked, err = rw.Read().Locked(t.Context())
	require.NoError(t, err)
	require.False(t, locked)
	_, err = rw.Read().TryLock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrBusy)
}
