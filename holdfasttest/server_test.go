package holdfasttest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/rlock"
)

func TestManyServersAtOnce(t *testing.T) {
	for i := range 50 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			l := rlock.New(holdfasttest.Open(t), "the same name", nil)
			hold, err := l.TryLock(t.Context())
			require.NoError(t, err)
			require.NoError(t, hold.Release())
			holdfasttest.AssertFree(t, l)
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	for b.Loop() {
		one := &fakeTest{TB: b}
		holdfasttest.Open(one)
		one.end()
	}
}

func TestTwoSessionsAreTwoPrograms(t *testing.T) {
	t.Parallel()
	server := holdfasttest.NewServer(t)
	assert.Equal(t, "redis://"+server.Addr(), server.URL())
	a, b := rlock.New(server.Open(nil), "x", nil), rlock.New(server.Open(nil), "x", nil)
	hold := mustLock(t, a.TryLock)
	_, err := b.TryLock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrBusy)
	got := inBackground(t.Context(), b.Lock)
	waiting(t, server, 1)
	require.NoError(t, hold.Release())
	require.NoError(t, within(t, got, "the lock").err)
}

func TestAStoppedServerComesBackWithItsKeys(t *testing.T) {
	t.Parallel()
	server := holdfasttest.NewServer(t)
	a, b := rlock.New(server.Open(nil), "x", nil), rlock.New(server.Open(nil), "x", nil)
	hold := mustLock(t, a.TryLock)
	server.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := b.Lock(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, hold.Err(), "it is trusted")

	server.Restart()
	_, err = b.TryLock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrBusy)
	require.NoError(t, hold.Release())
	mustLock(t, b.Lock)
	server.Restart() // it stops a running server first
	holdfasttest.AssertFree(t, rlock.New(server.Open(nil), "another", nil))
}

func TestAServerThatForgetsHasNoHolds(t *testing.T) {
	t.Parallel()
	server := holdfasttest.NewServer(t)
	a, b := rlock.New(server.Open(nil), "x", nil), rlock.New(server.Open(nil), "x", nil)
	hold := mustLock(t, a.TryLock)
	server.Stop()
	server.Forget()
	server.Restart()
	holdfasttest.AssertFree(t, b)
	eventually(t, "the loss: its session asks the server when it has connected again",
		func() bool { return hold.Err() != nil })
	require.ErrorIs(t, hold.Err(), holdfast.ErrLost)
}

func TestAPausedServerDoesNothing(t *testing.T) {
	t.Parallel()
	server := holdfasttest.NewServer(t)
	l := rlock.New(server.Open(nil), "x", nil)
	require.NoError(t, mustLock(t, l.TryLock).Release())

	server.Pause()
	server.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err := l.TryLock(ctx)
	require.ErrorIs(t, err, holdfast.ErrUnknown)
	server.Resume()
	mustLock(t, l.Lock) // what came late is given back by itself
}

func TestALostReplyIsUnknown(t *testing.T) {
	t.Parallel()
	server := holdfasttest.NewServer(t)
	l := rlock.New(server.Open(nil), "x", nil)
	require.NoError(t, mustLock(t, l.TryLock).Release())

	server.DropReplies()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err := l.TryLock(ctx)
	require.ErrorIs(t, err, holdfast.ErrUnknown)
	server.Resume()
	mustLock(t, l.Lock) // because the session gives back what it may have
}

func TestALostReplyOfARelease(t *testing.T) {
	t.Parallel()
	server := holdfasttest.NewServer(t)
	// Release waits for a third of this lease, and the lock must be had within it on a busy machine, too.
	l := rlock.New(server.Open(nil), "x", &rlock.Options{FixedLease: 3 * time.Second})
	hold := mustLock(t, l.TryLock)
	server.DropReplies()
	require.ErrorIs(t, hold.Release(), holdfast.ErrUnknown)
	server.Resume()
	holdfasttest.AssertFree(t, l) // the release was executed
}

func TestALostMessageIsMadeUpForByTime(t *testing.T) {
	t.Parallel()
	server := holdfasttest.NewServer(t)
	a, b := rlock.New(server.Open(nil), "x", nil), rlock.New(server.Open(nil), "x", nil)
	hold := mustLock(t, a.TryLock)
	got := inBackground(t.Context(), b.Lock)
	waiting(t, server, 1)

	server.DropMessages()
	require.NoError(t, hold.Release())
	server.Advance(5 * time.Second)
	require.NoError(t, within(t, got, "the lock").err)
}

func TestDropMessages(t *testing.T) {
	t.Parallel()
	server := holdfasttest.NewServer(t)
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true})
	require.NoError(t, err)
	defer client.Close()
	const channel = "redisson_lock__channel:{orders}" // Advance wakes only whoever listens to the toolkit's own
	publish := func(text string) {
		require.NoError(t, client.Do(t.Context(), client.B().Publish().Channel(channel).Message(text).Build()).Error())
	}
	heard := make(chan string, 9)
	listener, done := client.Dedicate()
	defer done()
	listener.SetPubSubHooks(rueidis.PubSubHooks{
		OnSubscription: func(s rueidis.PubSubSubscription) { heard <- s.Kind },
		OnMessage:      func(m rueidis.PubSubMessage) { heard <- m.Message },
	})
	require.NoError(t, listener.Do(t.Context(), listener.B().Subscribe().Channel(channel).Build()).Error())
	require.Equal(t, "subscribe", within(t, heard, "the confirmation"))
	publish("one")
	require.Equal(t, "one", within(t, heard, "a message"))

	server.DropMessages()
	publish("two")
	server.Advance(0)
	require.Contains(t, within(t, heard, "word of the time"), "clock")
	server.Resume()
	publish("three")
	require.Equal(t, "three", within(t, heard, "a message"))
}

// Cleanups are quick, in whatever state the server was left.
func TestNothingIsInTheWayOfTheEnd(t *testing.T) {
	for name, leave := range map[string]func(*holdfasttest.Server){
		"paused":           (*holdfasttest.Server).Pause,
		"stopped":          (*holdfasttest.Server).Stop,
		"without replies":  (*holdfasttest.Server).DropReplies,
		"without messages": (*holdfasttest.Server).DropMessages,
		"paused, stopped":  func(s *holdfasttest.Server) { s.Pause(); s.Stop() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var ending func() time.Duration
			t.Run("test", func(t *testing.T) {
				server := holdfasttest.NewServer(t)
				a, b := rlock.New(server.Open(nil), "x", nil), rlock.New(server.Open(nil), "x", nil)
				mustLock(t, a.TryLock)
				got := inBackground(context.WithoutCancel(t.Context()), b.Lock)
				waiting(t, server, 1)
				leave(server)
				ending = stopwatch()
				t.Cleanup(func() { assert.Empty(t, got) })
			})
			require.NotNil(t, ending)
			assert.Less(t, ending(), soon)
		})
	}
}
