package interop_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/tests/interop"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
	"github.com/holdfast-go/holdfast/tests/worker"
)

// These tests use no Go lock: they check that the driver drives, by what Redis has to say.

func connect(t *testing.T, java *interop.Java, server *redistest.Server) *interop.Client {
	t.Helper()
	return java.Connect(t, interop.Config{Addresses: []string{server.Addr()}})
}

func TestDriverLocksAsTheThread(t *testing.T) {
	server := redistest.Start(t)
	client := connect(t, sharedJava(t), server)
	thread := client.Thread(t, "worker")
	for _, kind := range []interop.Kind{
		interop.RLock, interop.Fenced, interop.NonReentrant, interop.Spin, interop.Fair, interop.NonReentrantFair,
		interop.ReadLock,
	} {
		lock := thread.Object(kind, "a lock, "+string(kind))
		lock.Do(t, "lock")
		require.Equal(t, "1", server.Str(t, "HGET", "a lock, "+string(kind), thread.Owner()))
		require.True(t, lock.Do(t, "isHeldByCurrentThread").Bool())
		require.EqualValues(t, 1, lock.Do(t, "getHoldCount").Int())
		lock.Do(t, "unlock")
		require.False(t, lock.Do(t, "isLocked").Bool())
	}
}

func TestDriverPassesTimes(t *testing.T) {
	server := redistest.Start(t)
	lock := connect(t, sharedJava(t), server).Thread(t, "worker").Object(interop.RLock, "x")
	require.True(t, lock.Do(t, "tryLock", time.Second, 20*time.Second).Bool())
	ttl := server.Int(t, "PTTL", "x")
	require.Greater(t, ttl, int64(10_000))
	require.LessOrEqual(t, ttl, int64(20_000))
}

func TestDriverThreadsWaitBesideEachOther(t *testing.T) {
	server := redistest.Start(t)
	client := connect(t, sharedJava(t), server)
	holder := client.Thread(t, "holder").Object(interop.RLock, "x")
	holder.Do(t, "lock")
	waiting := client.Thread(t, "waiter").Object(interop.RLock, "x").Start("lock")
	busy := client.Thread(t, "third").Object(interop.RLock, "x").Do(t, "tryLock", 200*time.Millisecond, -time.Millisecond)

	require.False(t, busy.Bool())
	require.Greater(t, busy.Took, 100*time.Millisecond) // Redisson counts in whole milliseconds
	select {
	case <-waiting.Done():
		t.Fatal("a lock that is held was granted")
	default:
	}
	released := time.Now().Truncate(time.Millisecond)
	holder.Do(t, "unlock")
	granted := waiting.OK(t)
	require.False(t, granted.At.Before(released), "granted at %v, released at %v", granted.At, released)
}

func TestDriverReportsExceptions(t *testing.T) {
	client := connect(t, sharedJava(t), redistest.Start(t))
	lock := client.Thread(t, "worker").Object(interop.RLock, "x")

	var exception *interop.JavaError
	require.ErrorAs(t, lock.Try(t, "unlock").Err, &exception)
	require.Equal(t, "IllegalMonitorStateException", exception.Class)
	require.Contains(t, exception.Message, client.ID())
}

func TestDriverInterrupts(t *testing.T) {
	server := redistest.Start(t)
	client := connect(t, sharedJava(t), server)
	client.Thread(t, "holder").Object(interop.RLock, "x").Do(t, "lock")
	waiter := client.Thread(t, "waiter")
	waiting := waiter.Object(interop.RLock, "x").Start("lockInterruptibly")
	kit.Await(t, "the waiter listens", func() bool {
		reply := server.Do(t, "PUBSUB", "NUMSUB", lockChannel("x"))
		return reply.([]any)[1].(int64) == 1
	})
	waiter.Interrupt(t)

	// Which exception it is depends on whether the thread was asking Redis at that moment, or sleeping.
	var exception *interop.JavaError
	require.ErrorAs(t, waiting.Wait(t).Err, &exception)
}

func TestDriverKnowsWhoSleeps(t *testing.T) {
	client := connect(t, sharedJava(t), redistest.Start(t))
	holder, waiter := client.Thread(t, "holder"), client.Thread(t, "waiter")
	holder.Object(interop.RLock, "x").Do(t, "lock")
	require.False(t, waiter.Asleep(t), "a thread without work")
	waiting := waiter.Object(interop.RLock, "x").Start("lock")
	kit.Await(t, "the waiter sleeps", func() bool { return waiter.Asleep(t) })
	holder.Object(interop.RLock, "x").Do(t, "unlock")
	waiting.OK(t)
	require.False(t, waiter.Asleep(t))
	require.False(t, holder.Asleep(t))
}

func TestDriverPausesAndKills(t *testing.T) {
	server := redistest.Start(t)
	java := ownJava(t)
	client := connect(t, java, server)
	lock := client.Thread(t, "worker").Object(interop.RLock, "x")
	lock.Do(t, "lock")

	java.Pause()
	unlocking := lock.Start("unlock")
	select {
	case <-unlocking.Done():
		t.Fatal("a paused JVM has answered")
	case <-time.After(50 * time.Millisecond):
	}
	java.Resume()
	unlocking.OK(t)

	lock.Do(t, "lock")
	waiting := client.Thread(t, "waiter").Object(interop.RLock, "x").Start("lock")
	java.Kill()
	require.ErrorIs(t, waiting.Wait(t).Err, interop.ErrDied)
	require.ErrorIs(t, lock.Try(t, "isLocked").Err, interop.ErrDied)
	require.EqualValues(t, 1, server.Int(t, "EXISTS", "x"), "a killed JVM has released its lock")
}

// What Java and Go have done can be put in order.
func TestJavaHasTheClockOfTheMachine(t *testing.T) {
	java := sharedJava(t)
	before := worker.Now()
	require.Greater(t, java.Clock(t), before)
	require.Less(t, java.Clock(t), worker.Now())
}
