package interop_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/interop"
)

// shortLease is the lease of holds whose end is waited for.
const shortLease = 3 * time.Second

// The watchdog of one side keeps the other out for as long as the hold lives, here for three leases.
func TestWatchdogKeepsTheOtherSideOut(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetOptions{lease: shortLease})
	var waits sync.WaitGroup // all at once: they take their time
	for _, c := range cells(kinds...) {
		holder, other := c.first.owner(t, f, c.kind, c.name), c.second.owner(t, f, c.kind, c.name)
		holder.lock(t)
		waits.Go(func() {
			assert.False(t, other.tryLock(t, 3*shortLease), c.name)
			assert.True(t, holder.held(t), c.name)
			holder.unlock(t)
			assert.True(t, other.tryLock(t, 0), c.name)
			other.unlock(t)
		})
	}
	waits.Wait()
}

// A process that is killed while it holds a lock keeps the other side out until its lease has ended, and no longer.
func TestKilledHolderFreesTheOtherSide(t *testing.T) {
	t.Run("java killed", func(t *testing.T) {
		t.Parallel()
		victim := interop.Start(t)
		f := newFleet(t, fleetOptions{lease: shortLease, java: victim})
		java.owner(t, f, plain, "x").lock(t)
		requireFreedByLease(t, f, golang, victim.Kill)
	})
	t.Run("go killed", func(t *testing.T) {
		t.Parallel()
		f := newFleet(t, fleetOptions{lease: shortLease})
		kill := startHolder(t, f.server().Addr(), "x")
		requireFreedByLease(t, f, java, kill)
	})
}

// requireFreedByLease kills the holder of x while the other side waits for it.
func requireFreedByLease(t *testing.T, f *fleet, other language, kill func()) {
	t.Helper()
	waiter := other.owner(t, f, plain, "x")
	a := f.wait(t, waiter, "x")
	kill()
	asked := time.Now()
	rest := time.Duration(f.server().Int(t, "PTTL", "x")) * time.Millisecond
	require.Positive(t, rest)
	a.await(t, rest+promptly)
	require.GreaterOrEqual(t, a.granted.Sub(asked), rest-5*time.Millisecond, "granted before the lease had ended")
	waiter.unlock(t)
}

// holderVariable makes this test binary a program that holds a lock until it is killed: "address name".
const holderVariable = "HOLDFAST_INTEROP_HOLDER"

// startHolder starts a Go process that holds a lock with [shortLease], and returns how to kill it.
func startHolder(t *testing.T, address, name string) (kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holderVariable+"="+address+" "+name)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	kill = func() {
		_ = cmd.Process.Kill() // it may have been killed before
		_ = cmd.Wait()
		_ = stdin.Close()
	}
	t.Cleanup(kill)
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "held\n", line)
	return kill
}

// beHolder is the program of [startHolder]. It also ends with its stdin, that is, with the test.
func beHolder(order string) error {
	var address, name string
	if _, err := fmt.Sscan(order, &address, &name); err != nil {
		return err
	}
	session, err := holdfast.Open(rueidis.ClientOption{InitAddress: []string{address}}, &holdfast.Options{Lease: shortLease})
	if err != nil {
		return err
	}
	if _, err := rlock.New(session, name, nil).Lock(context.Background()); err != nil {
		return err
	}
	fmt.Println("held")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}
