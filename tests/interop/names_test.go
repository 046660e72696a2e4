package interop_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A name means the same key and the same channel to both sides, whatever its characters.
func TestNames(t *testing.T) {
	names := []string{
		"orders", "orders:42", "{shop}:orders", "orders{42}:x", "two words", "a%2Fb?c=d", "замок", "鍵🔒",
		"one{brace", "line\nbreak",
	}
	eachDirection(t, func(t *testing.T, first, second language) {
		f := newFleet(t, fleetOptions{})
		for _, name := range names {
			t.Run(name, func(t *testing.T) { requireSharedLock(t, f, first, second, name, name) })
		}
	})
}

// A name mapper on both sides moves key and channel alike; one that adds a hash tag changes how the channel is built.
func TestNameMapper(t *testing.T) {
	for _, prefix := range []string{"prod:", "{prod}:"} {
		t.Run(prefix, func(t *testing.T) {
			eachDirection(t, func(t *testing.T, first, second language) {
				f := newFleet(t, fleetOptions{prefix: prefix})
				requireSharedLock(t, f, first, second, "orders", prefix+"orders")
			})
		})
	}
}

// requireSharedLock wants a fenced lock, which has every key that a lock can have, to be one lock to both sides,
// stored under the mapped name.
func requireSharedLock(t *testing.T, f *fleet, first, second language, name, mapped string) {
	t.Helper()
	holder, waiter := first.owner(t, f, fenced, name), second.owner(t, f, fenced, name)
	holder.lock(t)
	require.Equal(t, "1", f.server().Str(t, "HGET", mapped, holder.id()))
	require.False(t, waiter.tryLock(t, 0))

	a := f.wait(t, waiter, mapped)
	holder.unlock(t)
	a.await(t, promptly)
	require.Equal(t, "1", f.server().Str(t, "HGET", mapped, waiter.id()))
	require.Equal(t, holder.token()+1, waiter.token())
	waiter.unlock(t)
	require.Zero(t, f.server().Int(t, "EXISTS", mapped))
}
