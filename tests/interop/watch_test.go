package interop_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/tests/interop"
	"github.com/holdfast-go/holdfast/tests/kit"
)

// lookSoon is by when a watcher looks that is told nothing, on a machine that has other work.
const lookSoon = kit.LongestWait + 5*time.Second

// What Redisson does to a lock is told to who watches it here: a release at once if Redisson publishes it, and what it
// does not publish by the next look.
func TestAWatcherIsToldWhatJavaDoes(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetOptions{})
	type watched struct {
		watcher   kit.Watchable
		published bool
		theirs    javaUser
		watch     <-chan string
	}
	watch := func(kind interop.Kind, published bool, of func(name string) kit.Watchable) *watched {
		name := unique("w")
		return &watched{of(name), published, newJavaUserOf(t, f, kind, name), nil}
	}
	plain := func(name string) kit.Watchable { return rlock.New(f.session, name, nil) }
	all := []*watched{
		watch(interop.RLock, true, plain),
		watch(interop.Spin, false, plain),
		watch(interop.Fair, false, func(name string) kit.Watchable { return fairlock.New(f.session, name, nil) }),
		watch(interop.ReadLock, true, func(name string) kit.Watchable { return rwlock.New(f.session, name, nil).Read() }),
		watch(interop.WriteLock, true, func(name string) kit.Watchable { return rwlock.New(f.session, name, nil).Write() }),
	}
	each := func(do func(w *watched)) {
		for _, w := range all {
			do(w)
		}
	}
	requireTold := func(within time.Duration, want holdfast.State) {
		t.Helper()
		each(func(w *watched) {
			require.Equal(t, want.String(), kit.Within(t, within, w.watch, want.String()))
		})
	}
	each(func(w *watched) { w.watch = statesOf(t, w.watcher) })
	requireTold(lookSoon, holdfast.Free)
	each(func(w *watched) { w.theirs.object.Do(t, "lock") })
	requireTold(lookSoon, holdfast.Held)
	each(func(w *watched) {
		w.theirs.object.Do(t, "unlock")
		if w.published {
			require.Equal(t, "free", kit.Within(t, 3*time.Second, w.watch, "the release"))
		}
	})
	each(func(w *watched) {
		if !w.published {
			require.Equal(t, "free", kit.Within(t, lookSoon, w.watch, "the release"))
		}
	})
	each(func(w *watched) {
		w.theirs.object.Do(t, "lock", 5*time.Second)
		w.watch = statesOf(t, w.watcher)
	})
	requireTold(lookSoon, holdfast.Held)
	requireTold(lookSoon, holdfast.Expired)
}

// statesOf are the states that a watcher is told.
func statesOf(t *testing.T, l kit.Watchable) <-chan string {
	t.Helper()
	states := make(chan string, 10)
	go func() {
		for state, err := range l.Watch(t.Context()) {
			if err != nil {
				return
			}
			states <- state.String()
		}
	}()
	return states
}
