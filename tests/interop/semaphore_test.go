package interop_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/tests/redistest"
)

// The states that a semaphore goes through in Redis are those of Redisson, byte for byte, and so are the messages,
// whichever languages use it; both count alike in every one of them.
func TestSemaphoreGoldenStates(t *testing.T) {
	t.Parallel()
	requireStates(t, alone(t), semaphores, semaphoreSteps)
}

func semaphoreSteps(t *testing.T, f *fleet, name string, first, second language) steps {
	a, b := first.pool(t, f, name), second.pool(t, f, name)
	took := func(ids []string) bool { return len(ids) > 0 }
	return steps{
		channel: prefixed("redisson_sc", name),
		count:   func(t *testing.T, n int, what string) { requirePermits(t, n, 0, what, a, b) },
		all: []step{
			{"set", func() bool { return a.trySet(t, 5) }, "5", "5"},
			{"set again", func() bool { return !b.trySet(t, 7) }, "5", ""},
			{"acquire", func() bool { return took(a.acquire(t, 2, 0)) }, "3", ""},
			{"release", func() bool { b.release(t, plainPermits(1)...); return true }, "4", "4"},
			{"try for too many", func() bool { return !took(b.tryAcquire(t, 5, 0, 0)) }, "4", ""},
			{"try", func() bool { return took(b.tryAcquire(t, 4, 0, 0)) }, "0", ""},
			{"add", func() bool { a.add(t, 3); return true }, "3", "3"},
			{"make smaller", func() bool { b.add(t, -5); return true }, "-2", "-2"},
			{"try what is missing", func() bool { return !took(a.tryAcquire(t, 1, 0, 0)) }, "-2", ""},
			{"release what was missing", func() bool { a.release(t, plainPermits(2)...); return true }, "0", "0"},
			{"add to nothing", func() bool { b.add(t, 4); return true }, "4", "4"},
			{"drain", func() bool { return a.drain(t) == 4 }, "0", ""},
			{"drain nothing", func() bool { return b.drain(t) == 0 }, "0", ""},
			{"make smaller than nothing", func() bool { a.add(t, -2); return true }, "-2", "-2"},
			{"drain what is missing", func() bool { return b.drain(t) == -2 }, "0", ""},
			{"release, if it exists", func() bool { return a.releaseIfExists(t, 2) }, "2", "2"},
			{"delete", func() bool { return b.remove(t) }, gone, ""},
			{"delete again", func() bool { return !a.remove(t) }, gone, ""},
			{"release, if it existed", func() bool { return !b.releaseIfExists(t, 1) }, gone, ""},
			{"try what is gone", func() bool { return !took(a.tryAcquire(t, 1, 0, 0)) }, gone, ""},
			{"drain what is gone", func() bool { return b.drain(t) == 0 }, gone, ""},
			{"add to what is gone", func() bool { a.add(t, 1); return true }, "1", "1"},
			{"delete what was added", func() bool { return a.remove(t) }, gone, ""},
			{"release what is gone", func() bool { b.release(t, plainPermits(2)...); return true }, "2", "2"},
			{"delete what was released", func() bool { return b.remove(t) }, gone, ""},
			{"set to nothing", func() bool { return a.trySet(t, 0) }, "0", "0"},
			{"set what has nothing", func() bool { return !b.trySet(t, 1) }, "0", ""},
		},
	}
}

// An expiry of either side stays whatever Go does. Redisson's own addPermits and drainPermits end it.
func TestSemaphoreExpiry(t *testing.T) {
	t.Parallel()
	const ttl = 30 * time.Second
	setters := map[string]func(t *testing.T, f *fleet){
		"trySetPermits of go": func(t *testing.T, f *fleet) {
			require.True(t, golang.pool(t, f, "s").trySetFor(t, 5, ttl))
		},
		"trySetPermits of java": func(t *testing.T, f *fleet) { require.True(t, java.pool(t, f, "s").trySetFor(t, 5, ttl)) },
		"expire of java": func(t *testing.T, f *fleet) {
			p := newJavaPool(t, f, "s").(*javaPool)
			require.True(t, p.trySet(t, 5))
			require.True(t, p.object.Do(t, "expire", ttl).Bool())
		},
	}
	for name, set := range setters {
		for _, l := range languages {
			t.Run(name+", used by "+l.name, func(t *testing.T) {
				f := newFleet(t, fleetOptions{})
				p, other := l.pool(t, f, "s"), l.other().pool(t, f, "s")
				set(t, f)
				requireExpiry := func(free string) {
					t.Helper()
					want := map[string]redistest.Value{"s": {Type: "string", Content: free, Expires: true}}
					require.Equal(t, want, state(t, f.server()))
					requireTTL(t, f, "s", ttl)
				}
				requireExpiry("5")
				p.acquire(t, 2, 0)
				requireExpiry("3")
				p.release(t, plainPermits(1)...)
				requireExpiry("4")
				require.True(t, p.releaseIfExists(t, 1))
				requireExpiry("5")
				other.acquire(t, 1, 0)
				requireExpiry("4")
				if l.name == golang.name {
					p.add(t, 2)
					requireExpiry("6")
					p.add(t, -7)
					requireExpiry("-1")
					p.add(t, 3)
					requireExpiry("2")
					require.Equal(t, 2, p.drain(t))
					requireExpiry("0")
					p.release(t, plainPermits(1)...)
					requireExpiry("1")
					return
				}
				p.add(t, 2)
				require.NotContains(t, f.server().TTLs(t), "s") // the session may have told who it is
				require.True(t, other.remove(t))
				set(t, f)
				require.Equal(t, 5, p.drain(t))
				require.NotContains(t, f.server().TTLs(t), "s") // the session may have told who it is
			})
		}
	}
}

// requireSharding wants the one who listens on a channel of a cluster to do so by sharded subscription, if the servers
// have that: since Redis 7.0.
func (f *fleet) requireSharding(t *testing.T, channel string) {
	t.Helper()
	if f.cluster == nil {
		return
	}
	sharded, plain := f.listeners(t, channel)
	require.Equal(t, f.cluster.Sharded(), sharded == 1)
	require.Equal(t, f.cluster.Sharded(), plain == 0)
}
