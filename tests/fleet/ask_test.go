package fleet

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/setlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/proxy"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// An asker is a lock that others can be asked for.
type asker interface {
	holdfast.Locker
	Ask(ctx context.Context) (int, error)
}

// locks make the lock of a name, of each kind.
var locks = map[string]func(s *holdfast.Session, name string) asker{
	"rlock":    func(s *holdfast.Session, name string) asker { return rlock.New(s, name, nil) },
	"fairlock": func(s *holdfast.Session, name string) asker { return fairlock.New(s, name, nil) },
	"setlock":  func(s *holdfast.Session, name string) asker { return setlock.New(s, name, nil) },
	"reader":   func(s *holdfast.Session, name string) asker { return rwlock.New(s, name, nil).Read() },
	"writer":   func(s *holdfast.Session, name string) asker { return rwlock.New(s, name, nil).Write() },
}

func requireAsked(t *testing.T, l asker, holders int) {
	t.Helper()
	n, err := l.Ask(t.Context())
	require.NoError(t, err)
	require.Equal(t, holders, n)
}

// Whoever holds a lock hears that somebody wants it, and the next holder does not.
func TestAHolderHearsThatSomebodyAsks(t *testing.T) {
	t.Parallel()
	for kind, lock := range locks {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			mine := lock(kit.Open(t, srv.Addr(), nil), kit.Orders)
			theirs := lock(kit.Open(t, srv.Addr(), nil), kit.Orders)
			requireAsked(t, theirs, 0)
			hold := kit.Lock(t, t.Context(), mine)
			asked := hold.Asked()
			require.Equal(t, asked, hold.Asked())
			kit.Await(t, "a subscription", func() bool {
				return srv.Int(t, "PUBLISH", "holdfast_asked:{orders}", "") > 0
			})
			require.False(t, kit.Closed(asked))
			requireAsked(t, theirs, 1)
			kit.Within(t, kit.LongestWait, asked, "to be asked")
			require.NoError(t, hold.Release())
			next := kit.Lock(t, t.Context(), theirs)
			before := srv.CommandStats(t)["hget"]
			other := next.Asked()
			kit.Await(t, "the look of the next holder", func() bool { return srv.CommandStats(t)["hget"] > before })
			require.False(t, kit.Closed(other), "the note was for the one before")
			require.NoError(t, next.Release())
		})
	}
}

// A holder that begins to listen later, or misses the message, finds the note.
func TestAHolderThatMissesTheMessageFindsTheNote(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := proxy.Start(t, srv.Addr())
	mine, theirs := kit.Open(t, p.Addr(), nil), kit.Open(t, srv.Addr(), nil)
	l := rlock.New(theirs, kit.Orders, nil)
	hold := kit.Lock(t, t.Context(), rlock.New(mine, kit.Orders, nil))
	requireAsked(t, l, 1)
	kit.Within(t, kit.LongestWait, hold.Asked(), "the note")
	require.NoError(t, hold.Release())

	hold = kit.Lock(t, t.Context(), rlock.New(mine, kit.Orders, nil))
	asked := hold.Asked()
	kit.Await(t, "a subscription", func() bool { return srv.Int(t, "PUBLISH", "holdfast_asked:{orders}", "") > 0 })
	p.LoseMessages(true)
	requireAsked(t, l, 1)
	kit.Within(t, kit.LongestWait, asked, "the note, without a message")
	kit.Await(t, "the loss of the message", func() bool { return p.LostMessages() > 0 }) // the note may be found before
	require.NoError(t, hold.Release())
	require.False(t, kit.Closed(kit.Lock(t, t.Context(), l).Asked()))
}

// A lock that passes on inside a session keeps its wire owner. The next holder is not asked by what the former was
// asked, perhaps by the next holder itself, but by what comes later.
func TestWhoAskedIsNotAskedByItself(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	waits := make(chan struct{}, 2)
	l := rlock.New(kit.Open(t, srv.Addr(), &holdfast.Options{Observer: &holdfast.Observer{
		Wait: func(holdfast.Subject) func() {
			waits <- struct{}{}
			return func() {}
		},
	}}), kit.Orders, nil)
	other := rlock.New(kit.Open(t, srv.Addr(), nil), kit.Orders, nil)
	for _, listens := range []bool{false, true} {
		hold := kit.Lock(t, t.Context(), l)
		next := kit.GoLock(t.Context(), l.Lock)
		kit.Within(t, kit.LongestWait, waits, "a wait")
		if listens {
			asked := hold.Asked()
			requireAsked(t, l, 1)
			kit.Within(t, kit.LongestWait, asked, "to be asked")
		} else {
			requireAsked(t, l, 1)
		}
		require.NoError(t, hold.Release())
		r := kit.Within(t, kit.LongestWait, next, "the lock")
		require.NoError(t, r.Err)
		require.Equal(t, hold.ID(), r.Hold.ID(), "it has passed on inside the session")
		asked := r.Hold.Asked()
		kit.Await(t, "a subscription", func() bool { return srv.Int(t, "PUBLISH", "holdfast_asked:{orders}", "") > 0 })
		require.Never(t, func() bool { return kit.Closed(asked) }, 200*time.Millisecond, 10*time.Millisecond)
		requireAsked(t, other, 1)
		kit.Within(t, kit.LongestWait, asked, "to be asked by another one")
		require.NoError(t, r.Hold.Release())
	}
}

// All readers are asked, and a hold of several locks is asked for any of them.
func TestAllHoldersAreAsked(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s, other := kit.Open(t, srv.Addr(), nil), kit.Open(t, srv.Addr(), nil)
	readers := rwlock.New(s, kit.Orders, nil).Read()
	first, second := kit.Lock(t, t.Context(), readers), kit.Lock(t, t.Context(), readers)
	requireAsked(t, rwlock.New(other, kit.Orders, nil).Write(), 2)
	kit.Within(t, kit.LongestWait, first.Asked(), "to be asked")
	kit.Within(t, kit.LongestWait, second.Asked(), "to be asked, too")

	members := []holdfast.Locker{rlock.New(s, "a", nil), fairlock.New(s, "b", nil)}
	both := kit.Lock(t, t.Context(), multilock.New(members...))
	asked := both.Asked()
	requireAsked(t, fairlock.New(other, "b", nil), 1)
	kit.Within(t, kit.LongestWait, asked, "to be asked for one of two")
	require.NoError(t, both.Release())

	permits := semaphore.NewExpirable(s, "pool", nil)
	_, err := permits.TrySetPermits(t.Context(), 1)
	require.NoError(t, err)
	permit, err := permits.Acquire(t.Context())
	require.NoError(t, err)
	require.False(t, kit.Closed(permit.Asked()))
	require.NoError(t, permit.Release())
}

// An ask that the server refuses is an error; a holder that may not look is told so in the log, and keeps the lock.
func TestAsksThatAreRefused(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	log := &kit.Journal{}
	s := kit.Open(t, srv.Addr(), &holdfast.Options{Logger: log.JsonLogger()})
	l := rlock.New(s, kit.Orders, nil)
	hold := kit.Lock(t, t.Context(), l)
	srv.Do(t, "SET", "holdfast_asked:{orders}", "something else")
	asked := hold.Asked()
	kit.Await(t, "a warning", func() bool { return len(log.Entries(t, "holdfast: is not told who asks")) == 1 })
	require.False(t, kit.Closed(asked))
	_, err := l.Ask(t.Context())
	require.ErrorContains(t, err, "WRONGTYPE")
	require.NoError(t, hold.Release())
	srv.Do(t, "SET", "number", "1")
	_, err = rlock.New(s, "number", nil).Ask(t.Context())
	require.ErrorIs(t, err, holdfast.ErrWrongKind)
}

// Nothing is asked for a hold of which nobody wants to know, and nothing is left behind.
func TestNobodyPaysForAsks(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	l := rlock.New(s, kit.Orders, nil)
	for range 3 {
		hold := kit.Lock(t, t.Context(), l)
		_ = hold.Asked()
		require.NoError(t, hold.Release())
	}
	require.NoError(t, s.Close())
	require.Empty(t, srv.Keyspace(t))
}

// The note is gone a minute after the last one has asked.
func TestANoteExpires(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	l := rlock.New(kit.Open(t, srv.Addr(), nil), kit.Orders, nil)
	hold := kit.Lock(t, t.Context(), l)
	requireAsked(t, l, 1)
	require.Greater(t, time.Duration(srv.Int(t, "PTTL", "holdfast_asked:{orders}"))*time.Millisecond, 30*time.Second)
	require.NoError(t, hold.Release())
}

// A hold under a token that was used before is not asked by what the former hold was asked.
func TestATokenThatIsUsedAgainIsNotAskedAgain(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.Open(t, srv.Addr(), nil)
	l := setlock.New(s, kit.Orders, &setlock.Options{Token: "mine"})
	hold := kit.Lock(t, t.Context(), l)
	requireAsked(t, l, 1)
	require.NoError(t, hold.Release())
	next := kit.Lock(t, t.Context(), l)
	before := srv.CommandStats(t)["hget"]
	asked := next.Asked()
	kit.Await(t, "a look", func() bool { return srv.CommandStats(t)["hget"] > before })
	require.Never(t, func() bool { return kit.Closed(asked) }, 200*time.Millisecond, 10*time.Millisecond)
	requireAsked(t, l, 1)
	kit.Within(t, kit.LongestWait, asked, "to be asked")
	require.NoError(t, next.Release())
}
