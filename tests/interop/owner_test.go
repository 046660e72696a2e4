package interop_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/tests/kit"
)

// owner is one user of a lock, in one of the languages: a Java thread, or what Go has in its place. It makes a test
// read the same in both directions. What cannot fail unless the lock is broken fails the test.
type owner interface {
	waiter
	lock(t *testing.T)
	startFor(wait time.Duration) *attempt // begins to wait, and gives up after that time: [errGaveUp]
	tryLock(t *testing.T, wait time.Duration) bool
	unlockLost(t *testing.T)     // gives back a hold that has been taken away, and is told so
	lockAgain(t *testing.T) bool // takes a lock that it has; false if the lock refuses that

	with(t *testing.T, k kind, lock string) owner // the same one, with another lock

	forceUnlock(t *testing.T) bool
	locked(t *testing.T) bool
	held(t *testing.T) bool
	holdCount(t *testing.T) int
	remaining(t *testing.T) time.Duration

	id() string   // how it is written in Redis; known once it has held the lock
	token() int64 // of its last grant
}

// waiter is the part of an owner that waits.
type waiter interface {
	of() kind
	start() *attempt          // begins to wait for the lock
	asleep(t *testing.T) bool // misses no message from now on, once it has subscribed and tried again
	unlock(t *testing.T)
}

// errGaveUp is how an attempt ends that was given up.
var errGaveUp = errors.New("gave up")

// attempt is a wait for a lock.
type attempt struct {
	done    chan struct{} // closed at the end of the wait
	granted time.Time
	err     error
}

// promptly is far longer than a message takes on a busy machine, and shorter than the timers that wake a waiter without
// one: 4 s in Go, 5 s for a fair lock, the lease of 30 s in Java.
const promptly = kit.Told

// await waits until the lock is granted, no longer than limit.
func (a *attempt) await(t *testing.T, limit time.Duration) {
	t.Helper()
	kit.Within(t, limit, a.done, "the end of the wait for a lock that is free")
	require.NoError(t, a.err)
}
