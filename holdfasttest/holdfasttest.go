// Package holdfasttest is for tests of code that locks: an embedded server on which leases run out when
// the test says so, and which fails as the test wants it to.
//
// [Open] is enough for most tests: a session on a server of the test's own, which is gone when the test is
// over. Nothing has to be installed, nothing is shared, so tests may run in parallel. [NewServer] gives the
// server itself: several sessions, time that passes without sleeping, outages, lost replies and messages.
// [Lose] and [Server.Lose] make a hold lost, and [AssertFree], [AssertPermits] and [AssertCount] fail a test that has
// left something locked or taken, or a latch with another count.
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
	"slices"
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

const (
	losing = time.Second     // how long Lose tries to tell the server
	asking = 5 * time.Second // how long the assertions wait for it; a test's own context has ended in its cleanups
)

// Lose makes the hold lost, as if its renewals had failed for too long. When it returns, [holdfast.Hold.Err] is a
// *[holdfast.LostError], the hold's contexts have ended, and the server has given the lock up, so that others can take
// it. The holds nested with it are lost too, and so are all locks of a multilock. If the server does not answer, Lose
// returns after a second, and the session gives the lock back later if it can. Lose fails the test if the hold has
// ended already.
func Lose(t testing.TB, hold *holdfast.Hold) {
	t.Helper()
	if hold == nil {
		t.Fatalf("holdfasttest: Lose: the hold is nil")
	}
	ctx, cancel := context.WithTimeout(context.Background(), losing)
	defer cancel()
	tell, err := (*core.Hold)(hold).Inside().Lose(errOnPurpose)
	if err != nil {
		t.Fatalf("holdfasttest: Lose: the hold of %q has ended already: %v", hold.Name(), err)
	}
	tell(ctx)
}

// A Lock is something that can be locked: a lock of any kind, or one half of a read-write lock.
type Lock interface {
	Name() string
	Locked(ctx context.Context) (bool, error)
}

// AssertFree fails the test for each of the locks that anybody holds, and says who. For a multilock, pass the locks
// that it consists of; for semaphores and latches see [AssertPermits] and [AssertCount].
func AssertFree(t testing.TB, locks ...Lock) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), asking)
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

// title names a lock as errors do: rwlock.Read "catalog".
func title(l Lock) string {
	if l := core.LockOf(l); l != nil {
		return l.String()
	}
	return fmt.Sprintf("%T %q", l, l.Name())
}

// holders returns who has a lock, if that is known.
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
	all = introduced(ctx, all, asked.Holders)
	var who strings.Builder
	for _, h := range all {
		fmt.Fprintf(&who, "\n\tby %s, %d×, for another %v if it is not renewed", h.ID, h.Count,
			h.Lease.Round(time.Millisecond))
		if h.Label != "" {
			fmt.Fprintf(&who, ", label %q", h.Label)
		}
	}
	return who.String()
}

// introduced returns the holders once all of them have published who they are, which a session does when it has held
// something for a quarter of a second. It returns them as they are if that takes too long, or if they change.
func introduced(ctx context.Context, holders []holdfast.Holder,
	again func(context.Context) ([]holdfast.Holder, error),
) []holdfast.Holder {
	silent := func(h holdfast.Holder) bool { return h.Host == "" && h.Label == "" }
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(time.Second); slices.ContainsFunc(holders, silent) && time.Now().Before(end); <-look.C {
		now, err := again(ctx)
		if err != nil || !slices.EqualFunc(now, holders, func(a, b holdfast.Holder) bool { return a.ID == b.ID }) {
			break
		}
		holders = now
	}
	return holders
}

// Permits is a semaphore of either kind.
type Permits interface {
	Name() string
	AvailablePermits(ctx context.Context) (int, error)
}

// AssertPermits fails the test unless exactly free permits are free.
func AssertPermits(t testing.TB, of Permits, free int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), asking)
	defer cancel()
	switch n, err := of.AvailablePermits(ctx); {
	case err != nil:
		t.Errorf("holdfasttest: AssertPermits: cannot tell how many of %q are free: %v", of.Name(), err)
	case n == 1 && free != 1:
		t.Errorf("holdfasttest: AssertPermits: 1 permit of %q is free, not %d", of.Name(), free)
	case n != free:
		t.Errorf("holdfasttest: AssertPermits: %d permits of %q are free, not %d", n, of.Name(), free)
	}
}

// A Counter is a latch.
type Counter interface {
	Name() string
	Count(ctx context.Context) (int, error)
}

// AssertCount fails the test if the latch has another count; 0 is open.
func AssertCount(t testing.TB, of Counter, count int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), asking)
	defer cancel()
	switch n, err := of.Count(ctx); {
	case err != nil:
		t.Errorf("holdfasttest: AssertCount: cannot tell the count of %q: %v", of.Name(), err)
	case n != count:
		t.Errorf("holdfasttest: AssertCount: the count of %q is %d, not %d", of.Name(), n, count)
	}
}
