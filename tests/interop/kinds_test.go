package interop_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/setlock"
	"github.com/holdfast-go/holdfast/tests/interop"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A javaUse is how Java uses a kind: it makes one be there under a name, and finishes with it.
type javaUse struct {
	kind   interop.Kind
	make   func(t *testing.T, o *interop.Object) (finish func())
	asked  string // what becomes of the calls of goAsks, in their order, as in docs/guarantees.md
	queued bool   // another thread waits, too
}

func javaLock(t *testing.T, o *interop.Object) (finish func()) {
	t.Helper()
	o.Do(t, "lock")
	return func() { o.Do(t, "unlock") }
}

var (
	javaUses = map[string]javaUse{
		"a lock":            {interop.RLock, javaLock, "bbKKKKKK", false},
		"a fenced lock":     {interop.Fenced, javaLock, "bbKKKKKK", false},
		"a fair lock":       {interop.Fair, javaLock, "bbKKKKKK", false},
		"a fair queue":      {interop.Fair, javaLock, "bbKKKKKK", true},
		"a reader":          {interop.ReadLock, javaLock, "KK+bKKKK", false},
		"a writer":          {interop.WriteLock, javaLock, "KKbbKKKK", false},
		"a semaphore":       {interop.Semaphore, javaSemaphore, "KKKKK+++", false},
		"leased permits":    {interop.Expirable, javaPermits, "KKKKK+++", false},
		"a countdown latch": {interop.Latch, javaLatch, "KKKKK+++", false},
	}
	goAsks = []func(ctx context.Context, s *holdfast.Session, name string) error{
		func(ctx context.Context, s *holdfast.Session, name string) error {
			return kit.ErrorOf(rlock.New(s, name, nil).TryLock(ctx))
		},
		func(ctx context.Context, s *holdfast.Session, name string) error {
			return kit.ErrorOf(fairlock.New(s, name, nil).TryLock(ctx))
		},
		func(ctx context.Context, s *holdfast.Session, name string) error {
			return kit.ErrorOf(rwlock.New(s, name, nil).Read().TryLock(ctx))
		},
		func(ctx context.Context, s *holdfast.Session, name string) error {
			return kit.ErrorOf(rwlock.New(s, name, nil).Write().TryLock(ctx))
		},
		func(ctx context.Context, s *holdfast.Session, name string) error {
			return kit.ErrorOf(setlock.New(s, name, nil).TryLock(ctx))
		},
		func(ctx context.Context, s *holdfast.Session, name string) error {
			return semaphore.New(s, name).TryAcquire(ctx, 1)
		},
		func(ctx context.Context, s *holdfast.Session, name string) error {
			return kit.ErrorOf(semaphore.NewExpirable(s, name, nil).TryAcquire(ctx))
		},
		func(ctx context.Context, s *holdfast.Session, name string) error {
			return latch.New(s, name).CountDown(ctx)
		},
	}
)

func javaSemaphore(t *testing.T, o *interop.Object) (finish func()) {
	t.Helper()
	require.True(t, o.Do(t, "trySetPermits", 3).Bool())
	o.Do(t, "acquire")
	return func() { o.Do(t, "release") }
}

func javaPermits(t *testing.T, o *interop.Object) (finish func()) {
	t.Helper()
	require.True(t, o.Do(t, "trySetPermits", 3).Bool())
	id := o.Do(t, "acquire").Value
	return func() { o.Do(t, "release", id) }
}

func javaLatch(t *testing.T, o *interop.Object) (finish func()) {
	t.Helper()
	require.True(t, o.Do(t, "trySetCount", 3).Bool())
	return func() { o.Do(t, "countDown") }
}

// Where Java uses a name, Go's calls of all kinds get the answers that the guarantees list. One that is refused changes
// nothing, and Java goes on undisturbed.
func TestGoTellsOfWhichKindANameIsThatJavaUses(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetOptions{})
	for there, java := range javaUses {
		for i, ask := range goAsks {
			name := unique("k")
			object := newJavaUserOf(t, f, java.kind, name).object
			finish := java.make(t, object)
			var next javaUser
			var waiting *interop.Call
			if java.queued {
				next = newJavaUserOf(t, f, java.kind, name)
				waiting = next.object.Start("lock")
				kit.Await(t, "a waiter", func() bool { return f.nodes[0].Int(t, "LLEN", "redisson_lock_queue:{"+name+"}") == 1 })
			}
			before := keysAbout(t, f.nodes[0], name)
			got, err := "b", ask(t.Context(), f.session, name)
			switch {
			case err == nil:
				got = "+"
			case errors.Is(err, holdfast.ErrWrongKind):
				got = "K"
			default:
				require.ErrorIs(t, err, holdfast.ErrBusy)
			}
			assert.Equal(t, java.asked[i:i+1], got, "%s, call %d: %v", there, i, err)
			if err != nil {
				assert.Equal(t, before, keysAbout(t, f.nodes[0], name), "%s, call %d", there, i)
			}
			finish()
			if java.queued {
				require.NoError(t, waiting.Wait(t).Err)
				next.object.Do(t, "unlock")
			}
		}
	}
}

// keysAbout is what the server has of a name.
func keysAbout(t *testing.T, srv *redistest.Server, name string) map[string]redistest.Value {
	t.Helper()
	all := srv.Keyspace(t)
	maps.DeleteFunc(all, func(key string, _ redistest.Value) bool { return !strings.Contains(key, name) })
	return all
}

// A call for an rlock that waits where Java's threads stand in a fair lock's queue is told, and the queue goes on.
func TestGoDoesNotOvertakeJavasFairQueue(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetOptions{})
	name := unique("k")
	holder, next := newJavaUserOf(t, f, interop.Fair, name), newJavaUserOf(t, f, interop.Fair, name)
	holder.object.Do(t, "lock")
	waiting := next.object.Start("lock")
	queue := "redisson_lock_queue:{" + name + "}"
	kit.Await(t, "a waiter", func() bool { return f.nodes[0].Int(t, "LLEN", queue) == 1 })
	plain := kit.GoLock(t.Context(), rlock.New(f.session, name, nil).Lock)
	err := kit.Within(t, time.Minute, plain, "an error").Err
	require.ErrorIs(t, err, holdfast.ErrWrongKind)
	require.ErrorContains(t, err, "the name is that of a fairlock")
	require.EqualValues(t, 1, f.nodes[0].Int(t, "LLEN", queue))
	holder.object.Do(t, "unlock")
	require.NoError(t, waiting.Wait(t).Err)
	next.object.Do(t, "unlock")
}
