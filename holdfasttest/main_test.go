package holdfasttest_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// TestMain fails the run when a goroutine is left behind.
func TestMain(m *testing.M) {
	code := m.Run()
	if left := goroutinesLeft(5 * time.Second); code == 0 && left != "" {
		fmt.Fprintf(os.Stderr, "goroutines left behind:\n%s\n", left)
		code = 1
	}
	os.Exit(code)
}

// goroutinesLeft waits for all goroutines but this one to end, and describes those that do not.
func goroutinesLeft(within time.Duration) string {
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(within); ; <-look.C {
		var left []string
		buf := make([]byte, 1<<20)
		for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if !strings.Contains(stack, "goroutinesLeft") && !strings.Contains(stack, "os/signal.") {
				left = append(left, stack)
			}
		}
		if len(left) == 0 || time.Now().After(end) {
			return strings.Join(left, "\n\n")
		}
	}
}

// soon bounds what happens at once.
const soon = 2 * time.Second // less than the 4 s after which a waiter looks by itself

// eventually waits until the condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(10 * time.Second); !holds(); <-look.C {
		require.True(t, time.Now().Before(end), what)
	}
}

// within receives from c. A moment in which the process stands still counts as one beat.
func within[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	for range soon / beat {
		select {
		case v := <-c:
			return v
		case <-time.After(beat):
		}
	}
	require.FailNow(t, what+" has not come")
	panic("unreachable")
}

const beat = 50 * time.Millisecond

// stopwatch returns what ends it and tells the time since, of which it counts no more than a beat for a moment in which
// the process stood still.
func stopwatch() (end func() time.Duration) {
	over, elapsed := make(chan struct{}), make(chan time.Duration)
	go func() {
		var sum time.Duration
		for last, ended := time.Now(), false; !ended; {
			select {
			case <-over:
				ended = true
			case <-time.After(beat / 5):
			}
			now := time.Now()
			sum, last = sum+min(now.Sub(last), beat), now
		}
		elapsed <- sum
	}()
	return func() time.Duration {
		close(over)
		return <-elapsed
	}
}

type result struct {
	hold *holdfast.Hold
	err  error
}

// inBackground calls take.
func inBackground(ctx context.Context, take func(context.Context) (*holdfast.Hold, error)) <-chan result {
	c := make(chan result, 1)
	go func() {
		hold, err := take(ctx)
		c <- result{hold, err}
	}()
	return c
}

// mustLock takes a lock that is free.
func mustLock(t *testing.T, take func(context.Context) (*holdfast.Hold, error)) *holdfast.Hold {
	t.Helper()
	r := within(t, inBackground(t.Context(), take), "the lock")
	require.NoError(t, r.err)
	return r.hold
}

// waiting waits until n channels of the server are subscribed to.
func waiting(t *testing.T, server *holdfasttest.Server, n int) {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true})
	require.NoError(t, err)
	defer client.Close()
	eventually(t, "a subscription", func() bool {
		channels, err := client.Do(t.Context(), client.B().PubsubChannels().Build()).AsStrSlice()
		require.NoError(t, err)
		return len(channels) >= n
	})
}
