package interop_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A writer of one side keeps everybody else out; readers of both sides read together, and keep writers of both out
// until the last of them has gone.
func TestRWExclusion(t *testing.T) {
	t.Parallel()
	requireRWExclusion(t, alone(t))
}

func requireRWExclusion(t *testing.T, s *site) {
	t.Helper()
	for _, c := range cells(writing) {
		t.Run(c.name, func(t *testing.T) {
			f := s.fleet(fleetOptions{})
			f.proves(t, exclusion, writing.name, c.first)
			f.proves(t, exclusion, reading.name, c.first)
			name := f.fresh(t, writing)
			w := c.first.owner(t, f, writing, name)
			writers := []owner{c.first.owner(t, f, writing, name), c.second.owner(t, f, writing, name)}
			readers := []owner{
				c.first.owner(t, f, reading, name), c.second.owner(t, f, reading, name),
				c.first.owner(t, f, reading, name), c.second.owner(t, f, reading, name),
			}

			w.lock(t)
			for _, o := range slices.Concat(writers, readers) {
				requireRefused(t, o)
			}
			w.unlock(t)
			for _, r := range readers {
				require.True(t, r.tryLock(t, 0))
			}
			requireRefused(t, w) // who has nothing of it any more
			for _, r := range readers {
				for _, o := range writers {
					requireRefused(t, o)
				}
				require.True(t, r.held(t))
				r.unlock(t)
			}
			require.True(t, writers[1].tryLock(t, 0))
			writers[1].unlock(t)
			require.Empty(t, f.state(t, name))
		})
	}
}

// requireRefused wants an owner not to get a lock, whether it waits or not, and to have none of it.
func requireRefused(t *testing.T, o owner) {
	t.Helper()
	requireBusy(t, o)
	require.False(t, o.held(t))
	require.Zero(t, o.holdCount(t))
}

// requireBusy wants an owner not to get a lock, whether it waits or not.
func requireBusy(t *testing.T, o owner) {
	t.Helper()
	if o, ok := o.(*goOwner); ok {
		_, err := o.mutex.TryLock(o.ctx)
		require.ErrorIs(t, err, holdfast.ErrBusy)
	}
	require.False(t, o.tryLock(t, 0))
	require.False(t, o.tryLock(t, 20*time.Millisecond))
}

// Who reads cannot write as well: Go says so at once, Java waits in vain.
func TestRWNoUpgrade(t *testing.T) {
	t.Parallel()
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) {
			f := newFleet(t, fleetOptions{})
			r, other := l.owner(t, f, reading, "x"), l.other().owner(t, f, reading, "x")
			r.lock(t)
			w := r.with(t, writing, "x")
			if o, ok := w.(*goOwner); ok {
				_, err := o.mutex.Lock(o.ctx)
				require.ErrorIs(t, err, holdfast.ErrAlreadyHeld)
			} else {
				require.False(t, w.tryLock(t, 20*time.Millisecond))
			}
			require.True(t, other.tryLock(t, 0))
			require.True(t, r.held(t))
			r.unlock(t)
			other.unlock(t)
		})
	}
}

// Under contention from both sides no writer's update is lost, and no reader sees half of one.
func TestRWExclusionUnderContention(t *testing.T) {
	t.Parallel()
	const (
		each   = 2 // readers and writers of each language
		rounds = 20
	)
	// A thread of Java that is about to sleep misses a writer's message, and sleeps for the lease.
	f := newFleet(t, fleetOptions{lease: shortLease})
	get := func(key string) string {
		value, err := f.server().Try("GET", key)
		assert.NoError(t, err)
		text, _ := value.(string)
		return text
	}
	set := func(key, value string) {
		_, err := f.server().Try("SET", key, value)
		assert.NoError(t, err)
	}
	read := func() { assert.Equal(t, get("first"), get("second")) }
	write := func() {
		next := get("first") + "."
		set("first", next)
		set("second", next)
	}
	var workers sync.WaitGroup
	work := func(o owner, do func()) {
		workers.Go(func() {
			for range rounds {
				o.lock(t)
				do()
				o.unlock(t)
			}
		})
	}
	for range each {
		for _, l := range languages {
			work(l.owner(t, f, reading, "x"), read)
			work(l.owner(t, f, writing, "x"), write)
		}
	}
	workers.Wait()
	require.Len(t, get("second"), 2*each*rounds)
}

// Who ends the read half by force ends it for the readers of both sides.
func TestRWForceUnlockEndsAllReaders(t *testing.T) {
	t.Parallel()
	for _, forced := range languages {
		t.Run("forced by "+forced.name, func(t *testing.T) {
			f := newFleet(t, fleetOptions{})
			readers := []owner{golang.owner(t, f, reading, "x"), java.owner(t, f, reading, "x")}
			forcer := forced.owner(t, f, reading, "x")
			for _, r := range readers {
				r.lock(t)
			}
			require.False(t, forcer.with(t, writing, "x").forceUnlock(t), "nobody writes")
			require.True(t, readers[0].held(t))
			require.True(t, forcer.forceUnlock(t))
			for _, r := range readers {
				require.False(t, r.held(t))
				r.unlockLost(t)
			}
			w := forced.other().owner(t, f, writing, "x")
			require.True(t, w.tryLock(t, 0))
			require.False(t, forcer.forceUnlock(t), "nobody reads")
			require.True(t, w.held(t))
			w.unlock(t)
		})
	}
}

// That readers of Go wait behind a writer who waits is nothing to Java, whose readers and writers come in as ever.
func TestRWPreferWriterIsNothingToJava(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetOptions{})
	messages := f.server().Messages(t, "*")
	w := golang.owner(t, f, preferred, "x")
	first, second := golang.owner(t, f, reading, "x"), java.owner(t, f, reading, "x")
	first.lock(t)
	a := f.wait(t, w, "x")
	requireRefused(t, golang.owner(t, f, waitingBehind, "x"))
	require.True(t, second.tryLock(t, 0))
	requireRefused(t, java.owner(t, f, writing, "x"))
	first.unlock(t)
	requireWaiting(t, a)
	require.Empty(t, messages.Drain(t))
	second.unlock(t)
	a.await(t, promptly)
	require.Equal(t, map[string]redistest.Value{
		"x": rwState(map[string]string{"mode": "write", "u1:1:write": "1"}),
	}, state(t, f.server(), w.id()))

	taker := java.owner(t, f, writing, "x")
	b := f.wait(t, taker, "x")
	w.unlock(t)
	b.await(t, promptly)
	a = f.wait(t, w, "x")
	taker.unlock(t)
	a.await(t, promptly)
	w.unlock(t)
	require.Empty(t, state(t, f.server()))
}

// The watchdog of a reader keeps each of its holds alive, whoever else reads: that one of the other side, with a short
// lease or with a long one, has come and gone makes no difference.
func TestRWWatchdogKeepsReadHolds(t *testing.T) {
	t.Parallel()
	f := newFleet(t, fleetOptions{lease: watchedLease})
	var waits sync.WaitGroup // all at once: they take their time
	for _, c := range cells(reading) {
		for _, lease := range []time.Duration{watchedLease - time.Second, 0, 10 * watchedLease} {
			name := fmt.Sprint(c.name, lease)
			r, w := c.first.owner(t, f, reading, name), c.second.owner(t, f, writing, name)
			passer := c.second.owner(t, f, reading.lasting(lease), name)
			r.lock(t)
			passer.lock(t)
			r.lock(t)
			passer.unlock(t)
			waits.Go(func() {
				assert.False(t, w.tryLock(t, 3*watchedLease), name)
				assert.True(t, r.held(t), name)
				for n := 1; n <= 2; n++ {
					left, err := f.server().Try("PTTL", readHold(name, r.id(), n))
					assert.NoError(t, err)
					assert.Positive(t, left, "%s: hold %d", name, n)
				}
				r.unlock(t)
				assert.False(t, w.tryLock(t, 0), name)
				r.unlock(t)
				assert.True(t, w.tryLock(t, 0), name)
				w.unlock(t)
			})
		}
	}
	waits.Wait()
	require.Empty(t, state(t, f.server()))
}

// A reader that is killed falls out with its lease while another one reads on; the writer gets in when that one goes,
// by its message.
func TestRWKilledReaderFallsOut(t *testing.T) {
	t.Parallel()
	for _, dead := range languages {
		t.Run("dead "+dead.name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, fleetOptions{lease: shortLease})
			holders := func(name string) []holdfast.Holder {
				return must(reading.golang(f.sessions, name, 0).Holders(t.Context()))(t)
			}
			var grabs []grab
			for _, stays := range languages {
				grabs = append(grabs, grab{cell{pair: pair{kind: reading}, second: stays}, f, "read on by " + stays.name})
			}
			victim := dead.victim(t, grabs)
			type rest struct {
				name, hold string
				r, w       owner
				*attempt
			}
			var rests []rest
			for _, g := range grabs {
				left := rest{name: g.lock, r: g.second.owner(t, f, reading, g.lock), w: dead.other().owner(t, f, writing, g.lock)}
				require.Len(t, holders(g.lock), 1)
				left.hold = readHold(g.lock, holders(g.lock)[0].ID, 1)
				left.r.lock(t)
				left.attempt = f.wait(t, left.w, g.lock)
				rests = append(rests, left)
			}
			victim.Kill()
			for _, left := range rests {
				require.Positive(t, f.server().Int(t, "PTTL", left.hold))
			}
			for _, left := range rests {
				kit.Await(t, "the dead reader's hold is gone", func() bool { return f.server().Int(t, "EXISTS", left.hold) == 0 })
				require.Len(t, holders(left.name), 1)
				require.Equal(t, left.r.id(), holders(left.name)[0].ID)
				requireWaiting(t, left.attempt)
				require.True(t, left.r.held(t))
				left.r.unlock(t)
				left.await(t, promptly)
				left.w.unlock(t)
			}
			require.Empty(t, state(t, f.server()))
		})
	}
}

// requireSharedRWLock wants a read-write lock to be one to both sides, stored under the mapped name.
func requireSharedRWLock(t *testing.T, f *fleet, c cell, name string) {
	t.Helper()
	mapped := f.mapped(name)[0]
	r, other, w := c.first.owner(t, f, reading, name), c.second.owner(t, f, reading, name),
		c.second.owner(t, f, writing, name)
	r.lock(t)
	other.lock(t)
	require.Equal(t, map[string]redistest.Value{
		mapped:                      rwState(map[string]string{"mode": "read", "u1:1": "1", "u2:1": "1"}),
		readHold(mapped, "u1:1", 1): readKey,
		readHold(mapped, "u2:1", 1): readKey,
	}, f.state(t, mapped, r.id(), other.id()))
	other.unlock(t)
	a := f.wait(t, w, mapped)
	f.requireSharding(t, reading.channel(mapped))
	r.unlock(t)
	a.await(t, promptly)
	require.Equal(t, map[string]redistest.Value{
		mapped: rwState(map[string]string{"mode": "write", "u1:1:write": "1"}),
	}, f.state(t, mapped, w.id()))
	a = f.wait(t, r, mapped)
	w.unlock(t)
	a.await(t, promptly)
	r.unlock(t)
	require.Empty(t, f.state(t, mapped))
}
