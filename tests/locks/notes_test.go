package locks

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
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

// A noted is a lock whose holders are told.
type noted interface {
	holdfast.Locker
	Holders(ctx context.Context) ([]holdfast.Holder, error)
}

// noteOf is the note of the lock's only holder.
func noteOf(t *testing.T, l noted) string {
	t.Helper()
	all, err := l.Holders(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)
	return all[0].Note
}

func TestHoldersTellTheNotesOfHolds(t *testing.T) {
	t.Parallel()
	locks := map[string]func(s *holdfast.Session) noted{
		"rlock":        func(s *holdfast.Session) noted { return rlock.New(s, "orders", nil) },
		"fairlock":     func(s *holdfast.Session) noted { return fairlock.New(s, "queue", nil) },
		"rwlock.Read":  func(s *holdfast.Session) noted { return rwlock.New(s, "read", nil).Read() },
		"rwlock.Write": func(s *holdfast.Session) noted { return rwlock.New(s, "write", nil).Write() },
		"setlock":      func(s *holdfast.Session) noted { return setlock.New(s, "set", nil) },
	}
	for name, lock := range locks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			s, other := kit.OpenKnown(t, at(srv.Addr()), nil), kit.OpenKnown(t, at(srv.Addr()), nil)
			mine, theirs := lock(s), lock(other)
			ctx := holdfast.WithNote(t.Context(), "request «42» of "+name)
			h := kit.Lock(t, ctx, mine)
			kit.Await(t, "the note", func() bool { return noteOf(t, theirs) == "request «42» of "+name })

			nested := kit.Lock(t, holdfast.WithNote(h.Context(t.Context()), "a step of it"), rlock.New(s, "in "+name, nil))
			kit.Await(t, "its note", func() bool { return noteOf(t, rlock.New(other, "in "+name, nil)) == "a step of it" })
			require.NoError(t, nested.Release())
			require.NoError(t, h.Release())

			h = kit.Lock(t, holdfast.WithNote(ctx, ""), mine)
			require.Empty(t, noteOf(t, theirs))
			require.NoError(t, h.Release())
		})
	}
}

// The note of a permit is told under its id.
func TestASessionTellsTheNotesOfPermits(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.OpenKnown(t, at(srv.Addr()), nil)
	permits := semaphore.NewExpirable(s, "exports", nil)
	require.NoError(t, permits.SetPermits(t.Context(), 1))
	h, err := permits.Acquire(holdfast.WithNote(t.Context(), "request 42"))
	require.NoError(t, err)
	var told struct{ Notes map[string]string }
	kit.Await(t, "the note", func() bool {
		_ = json.Unmarshal([]byte(srv.Str(t, "GET", sessionKey(s))), &told)
		return len(told.Notes) > 0
	})
	require.Equal(t, map[string]string{h.ID(): "request 42"}, told.Notes)
	require.NoError(t, h.Release())
}

// A note goes when its hold does, however that ends; and of a lock of several each has it.
func TestANoteEndsWithItsHold(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.OpenKnown(t, at(srv.Addr()), &holdfast.Options{Lease: 5 * time.Second})
	kept := kit.Lock(t, t.Context(), rlock.New(s, "kept", nil))
	told := func() string { return srv.Str(t, "GET", sessionKey(s)) }
	has := func(note string) func() bool { return func() bool { return strings.Contains(told(), note) } }
	hasNot := func(note string) func() bool { return func() bool { return !strings.Contains(told(), note) } }
	ctx := holdfast.WithNote(t.Context(), "the note")
	for name, end := range map[string]func(h *holdfast.Hold){
		"released": func(h *holdfast.Hold) { require.NoError(t, h.Release()) },
		"detached": func(h *holdfast.Hold) { require.NoError(t, h.Detach()) },
		"lost": func(h *holdfast.Hold) {
			_, err := rlock.New(s, h.Name(), nil).ForceUnlock(t.Context())
			require.NoError(t, err)
		},
	} {
		h := kit.Lock(t, ctx, rlock.New(s, name, nil))
		kit.Await(t, "the note", has("the note"))
		end(h)
		kit.Await(t, "its end: "+name, hasNot("the note"))
	}
	a, b := rlock.New(s, "a", nil), rlock.New(s, "b", nil)
	several := kit.Lock(t, ctx, multilock.New(a, b))
	kit.Await(t, "the note on both", func() bool { return noteOf(t, a)+", "+noteOf(t, b) == "the note, the note" })
	require.NoError(t, several.Release())
	require.NoError(t, kept.Release())
}

func TestNotesAreBounded(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := kit.OpenKnown(t, at(srv.Addr()), nil)
	long := kit.Lock(t, holdfast.WithNote(t.Context(), strings.Repeat("x", 255)+"é"), rlock.New(s, "long", nil))
	kit.Await(t, "the note", func() bool { return noteOf(t, rlock.New(s, "long", nil)) == strings.Repeat("x", 255) })

	// What is held for a moment costs nothing. On a busy machine some are held for longer.
	srv.ResetStats(t)
	began, most := time.Now(), int64(2)
	for range 500 {
		asked := time.Now()
		h := kit.Lock(t, holdfast.WithNote(t.Context(), "short"), rlock.New(s, "short", nil))
		require.NoError(t, h.Release())
		if time.Since(asked) > 200*time.Millisecond {
			most += 2
		}
	}
	sets := srv.CommandStats(t)["set"]
	most += int64(time.Since(began) / (10 * time.Second)) // it is told anew each third of the lease
	assert.LessOrEqual(t, sets, most)

	var holds []*holdfast.Hold
	for i := range 70 {
		ctx := holdfast.WithNote(t.Context(), fmt.Sprint("number ", i))
		holds = append(holds, kit.Lock(t, ctx, rlock.New(s, fmt.Sprint("lock ", i), nil)))
	}
	kit.Await(t, "64 notes", func() bool { return strings.Count(srv.Str(t, "GET", sessionKey(s)), "number ") == 63 })
	for _, h := range append(holds, long) {
		require.NoError(t, h.Release())
	}
}
