package locks

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/setlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

const heldForLong = "holdfast: held for long"

// takeLong takes a lock: it is a place of its own.
func takeLong(ctx context.Context, l holdfast.Locker) (*holdfast.Hold, error) { return l.Lock(ctx) }

func TestWhatIsHeldForLongIsLoggedOnce(t *testing.T) {
	t.Parallel()
	const long = 400 * time.Millisecond
	fixed := time.Minute
	takers := map[string]func(ctx context.Context, s *holdfast.Session, name string) (*holdfast.Hold, error){
		"rlock": func(ctx context.Context, s *holdfast.Session, name string) (*holdfast.Hold, error) {
			return takeLong(ctx, rlock.New(s, name, nil))
		},
		"rlock with a fixed lease": func(ctx context.Context, s *holdfast.Session, name string) (*holdfast.Hold, error) {
			return takeLong(ctx, rlock.New(s, name, &rlock.Options{FixedLease: fixed}))
		},
		"fairlock": func(ctx context.Context, s *holdfast.Session, name string) (*holdfast.Hold, error) {
			return takeLong(ctx, fairlock.New(s, name, nil))
		},
		"rwlock.Read": func(ctx context.Context, s *holdfast.Session, name string) (*holdfast.Hold, error) {
			return takeLong(ctx, rwlock.New(s, name, nil).Read())
		},
		"setlock": func(ctx context.Context, s *holdfast.Session, name string) (*holdfast.Hold, error) {
			return takeLong(ctx, setlock.New(s, name, nil))
		},
		"rlock of a multilock": func(ctx context.Context, s *holdfast.Session, name string) (*holdfast.Hold, error) {
			return takeLong(ctx, multilock.New(rlock.New(s, name, nil), rlock.New(s, name+" too", nil)))
		},
		"semaphore.Expirable": func(ctx context.Context, s *holdfast.Session, name string) (*holdfast.Hold, error) {
			permits := semaphore.NewExpirable(s, name, nil)
			if err := permits.SetPermits(ctx, 1); err != nil {
				return nil, err
			}
			return permits.Acquire(ctx)
		},
	}
	for _, anonymous := range []bool{false, true} {
		srv, log := redistest.Start(t), &kit.Journal{}
		s := kit.Open(t, srv.Addr(), &holdfast.Options{
			LongHold: long, Places: true, Anonymous: anonymous, Logger: log.JsonLogger(),
		})
		for name, take := range takers {
			h, err := take(holdfast.WithNote(t.Context(), "request 42"), s, name)
			require.NoError(t, err, name)
			defer func() { require.NoError(t, h.Release()) }()
		}
		for name := range takers {
			kit.Await(t, "a line about "+name, func() bool { return len(log.EntriesOf(t, heldForLong, name)) > 0 })
			e := log.EntriesOf(t, heldForLong, name)[0]
			assert.Equal(t, "WARN", e["level"], name)
			assert.Contains(t, name, e["kind"])
			assert.Equal(t, "request 42", e["note"], name)
			assert.Contains(t, e["taken_at"], "longhold_test.go", name)
			between(t, long, time.Minute)(e["held"])
		}
		// What comes later is logged later: what has been logged by then is not logged again.
		later := kit.Lock(t, t.Context(), rlock.New(s, "later", nil))
		kit.Await(t, "a line about what came later", func() bool { return len(log.EntriesOf(t, heldForLong, "later")) > 0 })
		require.NoError(t, later.Release())
		assert.Empty(t, log.EntriesOf(t, heldForLong, "later")[0]["note"])
		assert.Len(t, log.Entries(t, heldForLong), len(takers)+2, "a multilock has two members")
	}
}

// Of nested holds it is the outermost that counts; what was released or detached in time is not logged.
func TestOnlyWhatIsHeldForLongIsLogged(t *testing.T) {
	t.Parallel()
	srv, log := redistest.Start(t), &kit.Journal{}
	s := kit.Open(t, srv.Addr(), &holdfast.Options{LongHold: time.Second, Logger: log.JsonLogger()})
	require.NoError(t, kit.Lock(t, t.Context(), rlock.New(s, "released", nil)).Release())
	require.NoError(t, kit.Lock(t, t.Context(), rlock.New(s, "detached", nil)).Detach())
	outer := kit.Lock(t, t.Context(), rwlock.New(s, "outer", nil).Write())
	inner := kit.Lock(t, outer.Context(t.Context()), rwlock.New(s, "outer", nil).Write())
	kit.Await(t, "a line", func() bool { return len(log.Entries(t, heldForLong)) > 0 })

	last := kit.Lock(t, t.Context(), rlock.New(s, "last", nil))
	kit.Await(t, "the last line", func() bool { return len(log.EntriesOf(t, heldForLong, "last")) > 0 })
	for _, h := range []*holdfast.Hold{inner, outer, last} {
		require.NoError(t, h.Release())
	}
	entries := log.Entries(t, heldForLong)
	require.Len(t, entries, 2)
	assert.Equal(t, "outer", entries[0]["name"])
	assert.Equal(t, "rwlock.Write", entries[0]["kind"])
	assert.Contains(t, entries[0]["taken_at"], "Options.Places")
	between(t, time.Second, time.Minute)(entries[0]["held"])
}
