// Package holdfasttest is for tests of code that locks: an embedded server on which leases run out when
// the test says so, and which fails as the test wants it to.
//
// [Open] is enough for most tests: a session on a server of the test's own, which is gone when the test is
// over. Nothing has to be installed, nothing is shared, so tests may run in parallel. [NewServer] gives the
// server itself: several sessions, time that passes without sleeping, outages, lost replies and messages.
// [Lose] has a hold be lost, and [AssertFree] fails a test that has left something locked.
//
//	func TestShip(t *testing.T) {
//		t.Parallel()
//		orders := rlock.New(holdfasttest.Open(t), "orders:42", nil)
//		if err := ship(t.Context(), orders); err != nil {
//			t.Fatal(err)
//		}
//		holdfasttest.AssertFree(t, orders)
//	}
//
// The server is miniredis. The project's own conformance suite runs on it as it does on a real server; what
// differs is listed in docs/testing.md.
package holdfasttest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/core"
)

// Open returns a session with default options, on a server that nobody else uses. Both are closed when
// the test is over.
func Open(t testing.TB) *holdfast.Session {
	t.Helper()
	return NewServer(t).Open(nil)
}

// errOnPurpose is why a hold was lost.
var errOnPurpose = errors.New("holdfasttest.Lose")

// Lose has the hold be lost, as if its renewals had failed for too long: when it returns [holdfast.Hold.Err]
// is a *[holdfast.LostError], the hold's contexts have ended, and the server has given it up, so that others
// can have it. The holds that are nested with it are lost, too; of a multilock, all its locks are. If the
// server does not answer, Lose returns after a second, and the session gives back what it can later. Of a
// hold that has ended already Lose fails the test.
func Lose(t testing.TB, hold *holdfast.Hold) {
	t.Helper()
	if hold == nil {
		t.Fatalf("holdfasttest: Lose: the hold is nil")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := (*core.Hold)(hold).Lose(ctx, errOnPurpose); err != nil {
		t.Fatalf("holdfasttest: Lose: the hold of %q has ended already: %v", hold.Name(), err)
	}
}

// A Lock is what may be locked: a lock of any kind, or one half of a read-write lock.
type Lock interface {
	Name() string
	Locked(ctx context.Context) (bool, error)
}

// AssertFree fails the test for each of the locks that anybody holds, and says who. Of a multilock pass the
// locks that it consists of; a semaphore has its AcquiredPermits.
func AssertFree(t testing.TB, locks ...Lock) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second) // a test's own is over in its cleanups
	defer cancel()
	for _, l := range locks {
		locked, err := l.Locked(ctx)
		switch {
		case err != nil:
			t.Errorf("holdfasttest: AssertFree: cannot tell whether %s is free: %v", title(l), err)
		case locked:
			t.Errorf("holdfasttest: AssertFree: %s is held%s", title(l), holders(ctx, l))
		}
	}
}

// title says what a lock is, as errors do: rwlock.Read "catalog".
func title(l Lock) string {
	if l := core.LockOf(l); l != nil {
		return l.String()
	}
	return fmt.Sprintf("%T %q", l, l.Name())
}

// holders says who has a lock, if that can be told.
func holders(ctx context.Context, l Lock) string {
	asked, ok := l.(interface {
		Holders(ctx context.Context) ([]holdfast.Holder, error)
	})
	if !ok {
		return ""
	}
	all, err := asked.Holders(ctx)
	if err != nil {
		return fmt.Sprintf("; cannot tell by whom: %v", err)
	}
	var who strings.Builder
	for _, h := range all {
		fmt.Fprintf(&who, "\n\tby %s, %d×, for another %v if it is not renewed", h.ID, h.Count, h.Lease.Round(time.Millisecond))
		if h.Label != "" {
			fmt.Fprintf(&who, ", label %q", h.Label)
		}
	}
	return who.String()
}
