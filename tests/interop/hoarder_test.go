package interop_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/tests/interop"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/worker"
)

// hoarder is a process of its own that has taken permits, and can be frozen and killed.
type hoarder struct {
	process
	ids  []string
	says <-chan string // in Go, of how they were lost
}

func newGoHoarder(t *testing.T, f *fleet, name string, n int, lease time.Duration) hoarder {
	t.Helper()
	says := make(chan string, 2)
	args := []string{f.written(), f.options.lease.String(), name, strconv.Itoa(n), lease.String()}
	w := worker.Start(t, func(line string) { says <- line }, "hoarder", args...)
	return hoarder{w, strings.Fields(hearFirst(t, w, says)), says}
}

// beHoarder is the program of a hoarder in Go. It says the ids of its permits when it has them, and keeps them; and why
// it has lost the first, if it does.
func beHoarder(args []string) {
	name := args[2]
	err := func() error {
		n, err := strconv.Atoi(args[3])
		if err != nil {
			return err
		}
		fixed, err := time.ParseDuration(args[4])
		if err != nil {
			return err
		}
		sessions, err := openWritten(args[0], args[1])
		if err != nil {
			return err
		}
		defer sessions[0].Close()
		e := semaphore.NewExpirable(sessions[0], name, &semaphore.ExpirableOptions{FixedLease: fixed})
		holds, err := e.AcquireN(context.Background(), n)
		if err != nil {
			return err
		}
		var ids []string
		for _, h := range holds {
			ids = append(ids, h.ID())
		}
		worker.Say("%s", strings.Join(ids, " "))
		ctx := holds[0].Context(context.Background())
		select {
		case <-worker.Stopped():
		case <-ctx.Done():
			worker.Say("%v", context.Cause(ctx))
			<-worker.Stopped()
		}
		return nil
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func newJavaHoarder(t *testing.T, f *fleet, name string, n int, lease time.Duration) hoarder {
	t.Helper()
	jvm := ownJava(t)
	thread := jvm.Connect(t, f.config()).Thread(t, "hoarder")
	e := &javaExpirable{javaUser: javaUser{thread, thread.Object(interop.Expirable, name)}}
	return hoarder{process: jvm, ids: e.acquire(t, n, lease)}
}

// The permits of a process that is killed come to the other side when their leases are over, and not before. Those of
// Go are renewed until then.
func TestExpirableKilledHolderFreesTheOtherSide(t *testing.T) {
	t.Parallel()
	requireFreedByPermitLease(t, alone(t))
}

func requireFreedByPermitLease(t *testing.T, s *site) {
	t.Helper()
	for _, killed := range languages {
		for _, fixed := range []bool{false, true} {
			lease, what := shortLease, "renewed"
			if fixed {
				what = "fixed"
			} else if killed.name == java.name {
				continue // it renews none
			}
			t.Run(killed.name+" is killed, lease "+what, func(t *testing.T) {
				f := s.fleet(fleetOptions{lease: shortLease})
				f.proves(t, crash, expirableRow, killed)
				name := unique("p")
				w := killed.other().expirable(t, f, name)
				require.True(t, w.trySet(t, 2))
				var h hoarder
				if killed.name == java.name {
					h = newJavaHoarder(t, f, name, 2, lease)
				} else if fixed {
					h = newGoHoarder(t, f, name, 2, lease)
				} else {
					h = newGoHoarder(t, f, name, 2, 0)
				}
				require.Len(t, h.ids, 2)
				a := w.start(2)
				if !fixed {
					time.Sleep(lease + lease/3)
				}
				requireWaiting(t, a)
				h.Kill()
				var over int64
				for _, score := range f.scores(t, name) {
					over = max(over, score)
				}
				end := time.UnixMilli(over)
				require.WithinRange(t, end, time.Now(), time.Now().Add(lease))
				a.await(t, time.Until(end)+promptly)
				require.GreaterOrEqual(t, a.granted.UnixMilli(), over, "granted before the leases had ended")
				requirePermits(t, 0, 2, "granted", w)
				requireNotTaken(t, h.ids[0], w)
			})
		}
	}
}

// A process that was frozen for longer than its leases last finds that its permits are Java's now, and is told at once.
func TestExpirableFrozenHolderHasLostThem(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetOptions{lease: shortLease})
	j := java.expirable(t, f, "s")
	require.True(t, j.trySet(t, 2))
	h := newGoHoarder(t, f, "s", 2, 0)
	a := f.waitFor(t, "s", j, 2)
	h.Pause()
	a.await(t, shortLease+promptly)
	select {
	case said := <-h.says:
		t.Fatal("a frozen process has said ", said)
	default:
	}
	h.Resume()
	require.Contains(t, kit.Within(t, promptly, h.says, "what the holder is told"), "lost")
	time.Sleep(shortLease) // in which it would renew them
	require.ElementsMatch(t, j.granted(), slices.Collect(maps.Keys(f.scores(t, "s"))))
	requirePermits(t, 0, 2, "Java's", j)
}

// What a process has taken for ever outlives it, until somebody on the other side gives it back by its id.
func TestExpirableForeverOutlivesTheProcess(t *testing.T) {
	t.Parallel()
	for _, killed := range languages {
		t.Run(killed.name+" is killed", func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, fleetOptions{})
			w := killed.other().expirable(t, f, "s")
			require.True(t, w.trySet(t, 2))
			hoard := newGoHoarder
			if killed.name == java.name {
				hoard = newJavaHoarder
			}
			h := hoard(t, f, "s", 2, semaphore.Forever)
			h.Kill()
			require.Empty(t, w.tryAcquire(t, 1, 0, time.Second))
			for _, id := range h.ids {
				require.Equal(t, semaphore.Forever, w.remaining(t, id))
			}
			requirePermits(t, 0, 2, "killed", w)
			a := f.waitFor(t, "s", w, 1)
			other := killed.other().expirable(t, f, "s")
			other.release(t, h.ids[0])
			a.await(t, promptly)
			other.release(t, h.ids[1])
			requirePermits(t, 1, 1, "given back", w, other)
		})
	}
}
