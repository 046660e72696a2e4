package faults

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A story about one wire owner that lives on: under its write hold, read holds come and go, while scripts are
// executed long after they were sent. At its end the writer goes on reading, and nobody may write as long as it does.
type nestedStory struct {
	*testing.T
	srv     *redistest.Server
	proxy   *proxy.Proxy
	session *holdfast.Session
	rw      *rwlock.RWMutex
	other   *rwlock.RWMutex
	write   *holdfast.Hold
	ctx     context.Context // the writer's
}

// The lease of a story's holds, whose releases have five seconds, and for how long its scripts may be executed.
const (
	storyLease    = 15 * time.Second
	storyNotAfter = storyLease / 3
)

func newNestedStory(t *testing.T) *nestedStory {
	srv := redistest.Start(t)
	p := proxy.Start(t, srv.Addr())
	// A stalled reply is given up within a share of the lease, so that a release of these holds is repeated in time.
	session := kit.Open(t, p.Addr(), &holdfast.Options{Lease: 4 * time.Second})
	rw := kit.OrdersRW(session, storyLease)
	s := &nestedStory{
		T: t, srv: srv, proxy: p, session: session, rw: rw,
		other: kit.OrdersRW(kit.Open(t, srv.Addr(), nil), 0),
	}
	for _, half := range []*rwlock.Half{rw.Read(), rw.Write()} { // now the scripts and the server's clock are known
		require.NoError(t, kit.Lock(t, t.Context(), half).Release())
	}
	s.write = kit.Lock(t, t.Context(), rw.Write())
	s.ctx = context.WithoutCancel(s.write.Context(t.Context()))
	return s
}

// on applies an action to the next execution of a script of the read half.
func (s *nestedStory) on(verb string, a proxy.Action) *proxy.Rule {
	return s.proxy.On(kit.ScriptOf(kit.KindOf("rwlock read"), verb), a, proxy.First)
}

// try makes one attempt to read, which is given up when it is stalled.
func (s *nestedStory) try(stalled *proxy.Rule) error {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	try := kit.GoLock(ctx, s.rw.Read().TryLock)
	stalled.Wait(s, 1)
	cancel()
	return kit.Within(s, 5*time.Second, try, "the end of the attempt").Err
}

// deliver lets stalled commands reach the server, and waits until they have been executed.
func (s *nestedStory) deliver(r *proxy.Rule) {
	s.Helper()
	r.Release()
	r.WaitAnswered(s, 1)
}

// readsOn ends the write hold and checks that a read hold still protects.
func (s *nestedStory) readsOn(read *holdfast.Hold) {
	s.Helper()
	require.NoError(s, s.write.Release())
	require.NoError(s, read.Err())
	_, err := s.other.Write().TryLock(s.Context())
	require.ErrorIs(s, err, holdfast.ErrBusy)
	require.NoError(s, read.Err())
	require.NoError(s, read.Release())
}

// ends checks that nothing is left on the server.
func (s *nestedStory) ends() {
	s.Helper()
	free := kit.GoLock(s.Context(), s.other.Write().Lock)
	require.NoError(s, kit.Granted(s, storyNotAfter+time.Second, free, "the lock for others").Release())
	kit.Await(s, "an empty server", func() bool { return len(s.srv.Keyspace(s)) == 0 })
}

func TestReadHoldsUnderWritingAndScriptsExecutedLate(t *testing.T) {
	t.Parallel()
	for name, play := range map[string]func(s *nestedStory){
		"the release of one comes when there is another": func(s *nestedStory) {
			read := kit.Lock(s, s.ctx, s.rw.Read())
			late := s.on("release", proxy.Stall)
			require.NoError(s, read.Release()) // executed by a second copy
			read = kit.Lock(s, s.ctx, s.rw.Read())
			s.deliver(late)
			s.readsOn(read)
		},
		"the release of one comes when it has been nested": func(s *nestedStory) {
			outer, inner := kit.Lock(s, s.ctx, s.rw.Read()), kit.Lock(s, s.ctx, s.rw.Read())
			late := s.on("release", proxy.Stall)
			require.NoError(s, inner.Release())
			inner = kit.Lock(s, s.ctx, s.rw.Read())
			require.NoError(s, outer.Release())
			s.deliver(late)
			s.readsOn(inner)
		},
		"the release of one comes after the writing": func(s *nestedStory) {
			read := kit.Lock(s, s.ctx, s.rw.Read())
			late := s.on("release", proxy.Stall)
			require.NoError(s, read.Release())
			read = kit.Lock(s, s.ctx, s.rw.Read())
			require.NoError(s, s.write.Release())
			s.deliver(late)
			require.NoError(s, read.Err())
			_, err := s.other.Write().TryLock(s.Context())
			require.ErrorIs(s, err, holdfast.ErrBusy)
			require.NoError(s, read.Release())
		},
		"one that was given up is given back when there is another": func(s *nestedStory) {
			late, given := s.on("acquire", proxy.Stall), s.on("release", proxy.Stall)
			require.ErrorIs(s, s.try(late), holdfast.ErrUnknown)
			given.Wait(s, 1) // the session sends it at once
			read := kit.Lock(s, s.ctx, s.rw.Read())
			s.deliver(late)
			s.deliver(given)
			kit.SleepUntil(time.Now().Add(storyNotAfter + 200*time.Millisecond)) // it gives back once more in this time
			s.readsOn(read)
		},
		"one that was given up comes when nobody reads": func(s *nestedStory) {
			late := s.on("acquire", proxy.Stall)
			require.ErrorIs(s, s.try(late), holdfast.ErrUnknown)
			s.deliver(late)
			require.NoError(s, s.write.Release())
		},
		"one that was granted to a copy comes when it is released": func(s *nestedStory) {
			late := s.on("acquire", proxy.Stall)
			read := kit.Lock(s, s.ctx, s.rw.Read())
			late.Wait(s, 1)
			require.NoError(s, read.Release())
			s.deliver(late)
			require.NoError(s, s.write.Release())
		},
		"one that was granted to a copy comes when there is another": func(s *nestedStory) {
			late := s.on("acquire", proxy.Stall)
			read := kit.Lock(s, s.ctx, s.rw.Read())
			late.Wait(s, 1)
			require.NoError(s, read.Release())
			read = kit.Lock(s, s.ctx, s.rw.Read())
			s.deliver(late)
			// By then the session has given the first one back once more.
			kit.SleepUntil(time.Now().Add(storyNotAfter + 200*time.Millisecond))
			s.readsOn(read)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newNestedStory(t)
			play(s)
			s.ends()
		})
	}
}

// What a lost hold may have left on the server is given back as soon as the server accepts it, without what was taken
// since.
func TestALostReadHoldIsGivenBackWithoutANewerOne(t *testing.T) {
	t.Parallel()
	s := newNestedStory(t)
	lost := kit.Lock(t, s.ctx, kit.OrdersRW(s.session, 2*time.Second).Read())
	renew := s.on("renew", proxy.DropReply)
	require.ErrorIs(t, lost.Extend(t.Context(), time.Hour), holdfast.ErrUnknown)
	renew.Wait(t, 1)
	release := kit.ScriptOf(kit.KindOf("rwlock read"), "release")
	returns := s.proxy.On(release, proxy.Answer(kit.LoadingReply), proxy.EveryTime)
	after := s.proxy.On(release, proxy.Pass, proxy.EveryTime)
	kit.Within(t, 5*time.Second, lost.Context(t.Context()).Done(), "the loss")
	returns.Wait(t, 1)
	read := kit.Within(t, 5*time.Second, kit.GoLock(s.ctx, s.rw.Read().Lock), "another")
	require.NoError(t, read.Err)
	returns.Remove()
	after.WaitAnswered(t, 1)
	s.readsOn(read.Hold)
	s.ends()
}

// A re-entry may be granted when the hold that it entered has just been lost. It goes on with the same wire owner and
// with what is known of its numbers.
func TestAReadHoldThatOutlivesWhatItEnteredKeepsItsNumbers(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := proxy.Start(t, srv.Addr())
	s := kit.Open(t, p.Addr(), &holdfast.Options{Lease: 30 * time.Second}) // so that no connection is given up
	rw := kit.OrdersRW(s, lateLease)
	require.NoError(t, kit.Lock(t, t.Context(), rw.Read()).Release())
	ctx := holdfast.NewOwner(t.Context())
	short := kit.Lock(t, ctx, kit.OrdersRW(s, 3*time.Second).Read())
	inner := kit.Lock(t, ctx, rw.Read())
	p.On(kit.ScriptOf(kit.KindOf("rwlock read"), "release"), proxy.DropReply, proxy.First)
	require.NoError(t, inner.Release())

	held := p.On(kit.ScriptOf(kit.KindOf("rwlock read"), "acquire"), proxy.HoldReply, proxy.First)
	entering := kit.GoLock(ctx, rw.Read().Lock)
	held.Wait(t, 1)
	kit.SleepUntil(short.Deadline())
	require.ErrorIs(t, short.Err(), holdfast.ErrLost)
	held.Release()
	outer := kit.Within(t, time.Second, entering, "the re-entry")
	require.NoError(t, outer.Err)
	require.Equal(t, short.ID(), outer.Hold.ID())
	require.NoError(t, kit.Lock(t, ctx, rw.Read()).Release())
	// The hold has the number 3, since a copy of the release of 2 may be in flight, and the nested one had 4.
	require.Equal(t, map[string]string{"mode": "read", short.ID(): "3"}, srv.Keyspace(t)[kit.Orders].Content)
	require.Zero(t, srv.Int(t, "EXISTS", kit.OrdersReadHold(short.ID(), 2), kit.OrdersReadHold(short.ID(), 4)))
	require.NoError(t, outer.Hold.Release())
	require.Empty(t, srv.Keyspace(t))
}

// Nothing of a nested read hold is left behind, whatever happens to its scripts, and the count is what the session
// believes.
func TestReadHoldsUnderWritingAndLostReplies(t *testing.T) {
	t.Parallel()
	for name, action := range map[string]proxy.Action{
		"reply lost":     proxy.DropReply,
		"never executed": proxy.ResetBefore,
	} {
		for _, verb := range []string{"acquire", "release"} {
			t.Run(verb+" "+name, func(t *testing.T) {
				t.Parallel()
				s := newNestedStory(t)
				for range 3 {
					rule := s.on(verb, action)
					read := kit.Lock(s, s.ctx, s.rw.Read())
					require.Equal(t, s.write.ID(), read.ID())
					n, err := s.rw.Read().HoldCount(s.ctx)
					require.NoError(t, err)
					require.Equal(t, 1, n)
					require.NoError(t, read.Release())
					rule.Wait(t, 1)
				}
				require.Equal(t, map[string]string{"mode": "write", s.write.ID() + ":write": "1"},
					s.srv.Keyspace(t)[kit.Orders].Content)
				s.readsOn(kit.Lock(s, s.ctx, s.rw.Read()))
				s.ends()
			})
		}
	}
}
