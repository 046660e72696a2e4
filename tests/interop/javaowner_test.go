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
	thread *interop.Thread
	object *interop.Object
	suffix string        // of the lock methods: those of a fenced lock return the token
	lease  time.Duration // 0: renewed by the watchdog
	issued int64
}

func newJavaOwner(t *testing.T, f *fleet, k kind, lock string) owner {
	t.Helper()
	f.threads++
	thread := f.client.Thread(t, fmt.Sprint("thread ", f.threads))
	o := &javaOwner{thread: thread, object: thread.Object(k.java, lock), lease: k.options.FixedLease}
	if k.java == interop.Fenced {
		o.suffix = "AndGetToken"
	}
	return o
}

// call is the call of a blocking lock method.
func (o *javaOwner) call() *interop.Call {
	if o.lease > 0 {
		return o.object.Start("lock"+o.suffix, o.lease)
	}
	return o.object.Start("lock" + o.suffix)
}

func (o *javaOwner) lock(t *testing.T) {
	t.Helper()
	o.issued = o.call().OK(t).Int()
}

func (o *javaOwner) start() *attempt {
	a := &attempt{done: make(chan struct{})}
	call := o.call()
	go func() {
		defer close(a.done)
		answer := call.Answer()
		a.granted = time.Now()
		a.err = answer.Err
		o.issued = answer.Int()
	}()
	return a
}

func (o *javaOwner) tryLock(t *testing.T, wait time.Duration) bool {
	t.Helper()
	lease := o.lease
	if lease == 0 {
		lease = -time.Millisecond // Java's word for "renewed"
	}
	answer := o.object.Do(t, "tryLock"+o.suffix, wait, lease)
	if o.suffix == "" {
		return answer.Bool()
	}
	o.issued = answer.Int()
	return answer.Value != "null"
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

func (o *javaOwner) id() string   { return o.thread.Owner() }
func (o *javaOwner) token() int64 { return o.issued }
