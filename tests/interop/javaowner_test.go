package interop_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/tests/interop"
)

// javaOwner is an owner in Java: a thread.
type javaOwner struct {
	kind   kind
	thread *interop.Thread
	object *interop.Object
	suffix string // of the lock methods: those of a fenced lock return the token
	issued int64
}

func newJavaOwner(t *testing.T, f *fleet, k kind, lock string) owner {
	t.Helper()
	return newJavaThread(t, f.client, fmt.Sprint("thread ", f.threads.Add(1)), k, lock)
}

func newJavaThread(t *testing.T, client *interop.Client, name string, k kind, lock string) *javaOwner {
	t.Helper()
	return newJavaUser(client.Thread(t, name), k, lock)
}

func newJavaUser(thread *interop.Thread, k kind, lock string) *javaOwner {
	o := &javaOwner{kind: k, thread: thread, object: thread.Object(k.java, lock)}
	if k.fenced {
		o.suffix = "AndGetToken"
	}
	return o
}

func (o *javaOwner) with(_ *testing.T, k kind, lock string) owner {
	return newJavaUser(o.thread, k, lock)
}

// call is the call of a blocking lock method.
func (o *javaOwner) call() *interop.Call {
	if o.kind.lease > 0 {
		return o.object.Start("lock"+o.suffix, o.kind.lease)
	}
	return o.object.Start("lock" + o.suffix)
}

func (o *javaOwner) lock(t *testing.T) {
	t.Helper()
	o.issued = o.call().OK(t).Int()
}

func (o *javaOwner) start() *attempt {
	return begin(o.call(), func(answer interop.Answer) error {
		o.issued = answer.Int()
		return answer.Err
	})
}

func (o *javaOwner) startFor(wait time.Duration) *attempt {
	return begin(o.tryCall(wait), func(answer interop.Answer) error {
		if answer.Err == nil && !o.tried(answer) {
			return errGaveUp
		}
		return answer.Err
	})
}

// begin makes an attempt of a call; outcome takes in what came of it.
func begin(call *interop.Call, outcome func(answer interop.Answer) error) *attempt {
	a := &attempt{done: make(chan struct{})}
	go func() {
		defer close(a.done)
		answer := call.Answer()
		a.granted = time.Now()
		a.err = outcome(answer)
	}()
	return a
}

// tryCall is the call of a lock method that waits no longer than that.
func (o *javaOwner) tryCall(wait time.Duration) *interop.Call {
	lease := o.kind.lease
	if lease == 0 {
		lease = -time.Millisecond // Java's word for "renewed"
	}
	return o.object.Start("tryLock"+o.suffix, wait, lease)
}

// tried reports whether tryCall was granted.
func (o *javaOwner) tried(answer interop.Answer) bool {
	if o.suffix == "" {
		return answer.Bool()
	}
	o.issued = answer.Int()
	return answer.Value != "null"
}

func (o *javaOwner) tryLock(t *testing.T, wait time.Duration) bool {
	t.Helper()
	answer := o.tryCall(wait).Wait(t)
	if isHurried(answer.Err) { // so does a fenced lock say that it had no time to listen
		return false
	}
	require.NoError(t, answer.Err)
	return o.tried(answer)
}

func (o *javaOwner) lockAgain(t *testing.T) bool {
	t.Helper()
	answer := o.call().Wait(t)
	if answer.Err == nil {
		o.issued = answer.Int()
		return true
	}
	requireMonitorException(t, answer.Err)
	return false
}

func (o *javaOwner) unlock(t *testing.T) {
	t.Helper()
	o.object.Do(t, "unlock")
}

func (o *javaOwner) unlockLost(t *testing.T) {
	t.Helper()
	requireMonitorException(t, o.object.Try(t, "unlock").Err)
}

// requireMonitorException wants what Redisson throws at a thread that unlocks what it has not, or takes again what it
// may not.
func requireMonitorException(t *testing.T, err error) {
	t.Helper()
	var exception *interop.JavaError
	require.ErrorAs(t, err, &exception)
	require.Equal(t, "IllegalMonitorStateException", exception.Class)
}

func (o *javaOwner) forceUnlock(t *testing.T) bool {
	t.Helper()
	return o.object.Do(t, "forceUnlock").Bool()
}

func (o *javaOwner) locked(t *testing.T) bool {
	t.Helper()
	return o.object.Do(t, "isLocked").Bool()
}

func (o *javaOwner) held(t *testing.T) bool {
	t.Helper()
	return o.object.Do(t, "isHeldByCurrentThread").Bool()
}

func (o *javaOwner) holdCount(t *testing.T) int {
	t.Helper()
	return int(o.object.Do(t, "getHoldCount").Int())
}

func (o *javaOwner) remaining(t *testing.T) time.Duration {
	t.Helper()
	return time.Duration(o.object.Do(t, "remainTimeToLive").Int()) * time.Millisecond
}

// asleep matters when a writer releases, whose message wakes only the threads that sleep already. Other messages are
// kept for a thread that is about to.
func (o *javaOwner) asleep(t *testing.T) bool {
	t.Helper()
	return !o.kind.half || o.thread.Asleep(t)
}

func (o *javaOwner) of() kind     { return o.kind }
func (o *javaOwner) id() string   { return o.thread.Owner() }
func (o *javaOwner) token() int64 { return o.issued }
