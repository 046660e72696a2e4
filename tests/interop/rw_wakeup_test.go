package interop_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/tests/redistest"
)

// looks is how long a waiter in Go sleeps at most when nothing wakes it, and the lock is taken for longer.
const looks = 6 * time.Second

// Who has written and goes on reading lets readers of both sides in, and no writer. Redisson publishes nothing then, so
// a reader in Go finds out by its timer.
func TestRWDowngrade(t *testing.T) {
	t.Parallel()
	for _, c := range cells(writing) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, fleetOptions{})
			messages := f.server().Messages(t, "*")
			w, sleeper := c.first.owner(t, f, writing, "x"), c.second.owner(t, f, reading, "x")
			readers := []owner{c.first.owner(t, f, reading, "x"), c.second.owner(t, f, reading, "x")}
			writers := []owner{c.first.owner(t, f, writing, "x"), c.second.owner(t, f, writing, "x")}

			w.lock(t)
			r := w.with(t, reading, "x")
			r.lock(t)
			asleep := f.wait(t, sleeper, "x")
			last := f.wait(t, writers[1], "x")
			requireRefused(t, readers[0])
			w.unlock(t)
			downgraded := time.Now()
			if c.first.name == golang.name {
				asleep.await(t, promptly)
				require.Equal(t, []redistest.Message{{Channel: "redisson_rwlock:{x}", Payload: "1"}}, messages.Drain(t))
			} else {
				asleep.await(t, looks+promptly)
				require.Empty(t, messages.Drain(t))
			}
			t.Logf("a reader of %s is in after %v", c.second.name, asleep.granted.Sub(downgraded))

			require.False(t, w.held(t))
			require.True(t, r.held(t))
			readers = append(readers, r, sleeper)
			for _, o := range readers[:2] {
				require.True(t, o.tryLock(t, 0))
			}
			for _, o := range readers {
				requireRefused(t, writers[0])
				requireWaiting(t, last)
				o.unlock(t)
			}
			last.await(t, promptly)
			writers[1].unlock(t)
			require.Empty(t, state(t, f.server()))
		})
	}
}

// Each release wakes who waits on the other side by its message, all readers at once.
func TestRWReleaseWakesTheOtherSide(t *testing.T) { requireRWReleaseWakes(t, alone(t)) }

func requireRWReleaseWakes(t *testing.T, s *site) {
	t.Helper()
	for _, c := range clashes() {
		t.Run(c.name, func(t *testing.T) {
			f := s.fleet(fleetOptions{})
			f.proves(t, wakeUp, c.kind.name, c.first)
			holder, waiters := c.first.owner(t, f, c.kind, ""), crowd(t, f, c.second, c.rival)
			requireAtOnce(t, func(name string) time.Duration {
				h := holder.with(t, c.kind, name)
				h.lock(t)
				return f.wake(t, waiters, name, h)
			})
		})
	}
}

// A downgrade in Go wakes all readers of Java at once, who could not come in before.
func TestRWDowngradeWakesJava(t *testing.T) {
	f := newFleet(t, fleetOptions{})
	holder, waiters := golang.owner(t, f, writing, ""), crowd(t, f, java, reading)
	requireAtOnce(t, func(name string) time.Duration {
		w := holder.with(t, writing, name)
		w.lock(t)
		r := w.with(t, reading, name)
		r.lock(t)
		defer r.unlock(t)
		return f.wake(t, waiters, name, w)
	})
}

// Of readers of both sides the last one wakes the writer, and no other one does.
func TestRWLastReaderWakesTheOtherSide(t *testing.T) {
	for _, c := range cells(reading) {
		t.Run(c.name, func(t *testing.T) {
			f := newFleet(t, fleetOptions{})
			messages := f.server().Messages(t, "*")
			last, first := c.first.owner(t, f, reading, ""), c.second.owner(t, f, reading, "")
			waiters := crowd(t, f, c.second, writing)
			requireAtOnce(t, func(name string) time.Duration {
				a, b := last.with(t, reading, name), first.with(t, reading, name)
				a.lock(t)
				b.lock(t)
				b.unlock(t)
				require.Empty(t, messages.Drain(t))
				took := f.wake(t, waiters, name, a)
				require.Equal(t, "0", messages.Drain(t)[0].Payload)
				return took
			})
		})
	}
}

// crowd is who waits for a half: one writer, or some readers, who are to come in together.
func crowd(t *testing.T, f *fleet, l language, half kind) []owner {
	t.Helper()
	n := 1
	if half.name == reading.name {
		n = 3
	}
	var all []owner
	for range n {
		all = append(all, l.owner(t, f, half, ""))
	}
	return all
}

// wake has waiters wait for the lock of that name, and the holder release it; it returns how long that took until
// all of them had it.
func (f *fleet) wake(t *testing.T, waiters []owner, name string, holder owner) time.Duration {
	t.Helper()
	var woken []owner
	var attempts []*attempt
	for _, w := range waiters {
		w = w.with(t, w.of(), name)
		woken, attempts = append(woken, w), append(attempts, f.wait(t, w, name))
	}
	longest := timed(t, func() { holder.unlock(t) }, attempts...)
	for _, w := range woken {
		w.unlock(t)
	}
	return longest
}
