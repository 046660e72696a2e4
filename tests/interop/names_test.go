package interop_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A name means the same key and the same channel to both sides, whatever its characters.
func TestNames(t *testing.T)     { requireNames(t, fenced) }
func TestFairNames(t *testing.T) { requireNames(t, fair) }

func requireNames(t *testing.T, k kind) {
	t.Helper()
	names := []string{
		"orders", "orders:42", "{shop}:orders", "orders{42}:x", "two words", "a%2Fb?c=d", "замок", "鍵🔒",
		"one{brace", "line\nbreak",
	}
	for _, c := range cells(k) {
		t.Run(c.name, func(t *testing.T) {
			f := newFleet(t, fleetOptions{})
			for _, name := range names {
				t.Run(name, func(t *testing.T) { requireSharedLock(t, f, c, name, name) })
			}
		})
	}
}

// A name mapper on both sides moves key and channel alike; one that adds a hash tag changes how the channel is built.
func TestNameMapper(t *testing.T)     { requireNameMapper(t, fenced) }
func TestFairNameMapper(t *testing.T) { requireNameMapper(t, fair) }

func requireNameMapper(t *testing.T, k kind) {
	t.Helper()
	for _, prefix := range []string{"prod:", "{prod}:"} {
		t.Run(prefix, func(t *testing.T) {
			for _, c := range cells(k) {
				t.Run(c.name, func(t *testing.T) {
					f := newFleet(t, fleetOptions{prefix: prefix})
					requireSharedLock(t, f, c, "orders", prefix+"orders")
				})
			}
		})
	}
}

// requireSharedLock wants a fenced lock, which has every key that a lock can have, or a fair one, which has others, to
// be one lock to both sides, stored under the mapped name.
func requireSharedLock(t *testing.T, f *fleet, c cell, name, mapped string) {
	t.Helper()
	holder, waiter := c.first.owner(t, f, c.kind, name), c.second.owner(t, f, c.kind, name)
	holder.lock(t)
	require.Equal(t, "1", f.server().Str(t, "HGET", mapped, holder.id()))
	require.False(t, waiter.tryLock(t, 0))

	a := f.wait(t, waiter, mapped)
	holder.unlock(t)
	a.await(t, promptly)
	require.Equal(t, "1", f.server().Str(t, "HGET", mapped, waiter.id()))
	if c.kind.fenced {
		require.Equal(t, holder.token()+1, waiter.token())
	}
	waiter.unlock(t)
	require.Zero(t, f.server().Int(t, "EXISTS", mapped))
}
