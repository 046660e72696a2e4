package interop_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/tests/kit"
)

// A name means the same keys and the same channel to both sides, whatever its characters, and whatever a name mapper
// makes of it: one that adds a hash tag changes how the rest is called.
func TestNames(t *testing.T) {
	t.Parallel()
	requireNames(t, alone(t), cells(slices.Concat(kinds, fairKinds, halves, sorts)...))
}

func TestSeveralNames(t *testing.T) {
	t.Parallel()
	requireNames(t, alone(t), cells(severalKinds...))
}

func TestLatchNames(t *testing.T) {
	t.Parallel()
	requireNames(t, alone(t), cells(latches))
}

// What is no lock, and yet has names, as if it were one.
var (
	semaphores = kind{name: semaphoreRow}
	expirables = kind{name: expirableRow}
	latches    = kind{name: latchRow}
)

// requireNames wants what is called by names of all sorts to be one to both sides, with and without a name mapper.
func requireNames(t *testing.T, s *site, cells []cell) {
	t.Helper()
	all := []string{"orders:42", "{shop}:orders", "orders{42}:x", "one{brace", "замок 鍵🔒 a%2Fb?c=d\nlast line"}
	for _, c := range cells {
		for prefix, property := range map[string]string{"": naming, "prod:": mapping, "{prod}:": mapping} {
			t.Run(c.name+", "+prefix, func(t *testing.T) {
				f := s.fleetFor(c.kind, fleetOptions{prefix: prefix})
				f.proves(t, property, c.kind.name, c.first)
				f.clear(t)
				words := all
				if prefix != "" {
					words = all[:2]
				}
				for _, word := range words {
					t.Run(word, func(t *testing.T) {
						if f.canName(c.kind, prefix+word) {
							requireShared(t, f, c, unique(word))
						}
					})
				}
			})
		}
	}
}

// requireShared wants what has that name to be one to both sides: the first of them takes it, the second cannot, and is
// woken when it is released.
func requireShared(t *testing.T, f *fleet, c cell, name string) {
	t.Helper()
	switch {
	case c.kind.half:
		requireSharedRWLock(t, f, c, name)
	case c.kind.servers > 0:
		requireSharedSeveral(t, f, c, f.of(t, c.kind, name))
	case c.kind.name == semaphoreRow, c.kind.name == expirableRow:
		requireSharedPermits(t, f, c, name)
	case c.kind.name == latchRow:
		requireSharedLatch(t, f, c, name)
	default:
		requireSharedLock(t, f, c, name)
	}
}

// canName reports whether a name can be used at all: in a cluster, Redisson has different slots for the keys of a name
// with half a hash tag, and for key and channel of a latch with any; and a mapper's hash tag moves all members of a
// RedLock to one server.
func (f *fleet) canName(k kind, mapped string) bool {
	if f.cluster == nil || !strings.Contains(mapped, "{") {
		return true
	}
	return strings.Contains(mapped, "}") && k.name != latchRow &&
		(k.name != red.name || !strings.Contains(f.options.prefix, "{"))
}

// requireSharedLock wants a lock to be one to both sides, stored under the mapped name.
func requireSharedLock(t *testing.T, f *fleet, c cell, name string) {
	t.Helper()
	mapped := f.mapped(name)[0]
	holder, waiter := c.first.owner(t, f, c.kind, name), c.second.owner(t, f, c.kind, name)
	node := f.at(t, mapped)
	holder.lock(t)
	require.Equal(t, "1", node.Str(t, "HGET", mapped, holder.id()))
	require.False(t, waiter.tryLock(t, 0))

	a := f.wait(t, waiter, mapped)
	switch {
	case c.kind.fair:
		f.requireSharding(t, c.kind.channel(mapped)+":"+f.queue(t, mapped)[0])
	case !c.kind.polls:
		f.requireSharding(t, c.kind.channel(mapped))
	}
	holder.unlock(t)
	a.await(t, promptly)
	require.Equal(t, "1", node.Str(t, "HGET", mapped, waiter.id()))
	if c.kind.fenced {
		require.Equal(t, holder.token()+1, waiter.token())
	}
	waiter.unlock(t)
	require.Zero(t, node.Int(t, "EXISTS", mapped))
}

// requireSharedSeveral wants the members of a lock of several to be stored under their mapped names.
func requireSharedSeveral(t *testing.T, f *fleet, c cell, lock string) {
	t.Helper()
	keys := f.mapped(lock)
	holder, waiter := c.first.owner(t, f, c.kind, lock), c.second.owner(t, f, c.kind, lock)
	holder.lock(t)
	f.awaitMembers(t, 1, keys)
	requireBusy(t, waiter)
	a := f.wait(t, waiter, keys[0])
	f.requireSharding(t, c.kind.channel(keys[0]))
	holder.unlock(t)
	a.await(t, promptly)
	f.awaitMembers(t, 1, keys)
	waiter.unlock(t)
	f.awaitMembers(t, 0, keys)
}

// awaitMembers waits until each of the keys is there, with so many owners: a RedLock does not wait for the last ones.
func (f *fleet) awaitMembers(t *testing.T, owners int64, keys []string) {
	t.Helper()
	kit.Await(t, "the members are as they should be", func() bool {
		for _, key := range keys {
			for _, node := range f.homesOf(t, key) {
				if node.Int(t, "HLEN", key) != owners {
					return false
				}
			}
		}
		return true
	})
}
