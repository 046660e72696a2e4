package interop_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// state is what Redis holds, fit to be written down: the owners are u1:1, u2:1 and so on. Scores are left out, which
// are times, and what is one side's business: Java's latches, its memory of unlocks whose answer may be lost, and the
// keys by which sessions in Go tell which process they are.
func state(t *testing.T, server *redistest.Server, owners ...string) map[string]redistest.Value {
	t.Helper()
	rename := renamer(owners...)
	space := map[string]redistest.Value{}
	for key, value := range server.Keyspace(t) {
		if strings.HasPrefix(key, "redisson_unlock_latch:") || strings.HasPrefix(key, "holdfast_session:") {
			continue
		}
		switch content := value.Content.(type) {
		case map[string]string:
			renamed := map[string]string{}
			for field, value := range content {
				renamed[rename(field)] = value
			}
			value.Content = renamed
		case map[string]float64:
			var members []string
			for member := range content {
				members = append(members, rename(member))
			}
			slices.Sort(members)
			value.Content = members
		case []string:
			for i, member := range content {
				content[i] = rename(member)
			}
		}
		space[rename(key)] = value
	}
	return space
}

// renamer returns what puts u1:1, u2:1 and so on in the place of the owners.
func renamer(owners ...string) func(string) string {
	var pairs []string
	for i, owner := range owners {
		pairs = append(pairs, owner, fmt.Sprintf("u%d:1", i+1))
	}
	return strings.NewReplacer(pairs...).Replace
}

// held is the hash of a lock that u1:1 holds.
func held(count string) redistest.Value {
	return redistest.Value{Type: "hash", Content: map[string]string{"u1:1": count}, Expires: true}
}

// issued is the key of the last fencing token, which never expires.
func issued(token string) redistest.Value {
	return redistest.Value{Type: "string", Content: token}
}

// The states that a lock goes through in Redis are those of Redisson, byte for byte, in both languages.
func TestGoldenStatesOfLock(t *testing.T) {
	t.Parallel()
	for _, k := range []kind{plain, spin} {
		for _, l := range languages {
			t.Run(k.name+" "+l.name, func(t *testing.T) {
				f := newFleet(t, fleetOptions{})
				messages := f.server().Messages(t, "*")
				o := l.owner(t, f, k, "x")

				o.lock(t)
				require.Equal(t, map[string]redistest.Value{"x": held("1")}, state(t, f.server(), o.id()))
				o.lock(t)
				require.Equal(t, map[string]redistest.Value{"x": held("2")}, state(t, f.server(), o.id()))
				requireTTL(t, f, "x", 30*time.Second)
				o.unlock(t)
				require.Equal(t, map[string]redistest.Value{"x": held("1")}, state(t, f.server(), o.id()))
				require.Empty(t, messages.Drain(t))
				o.unlock(t)
				require.Empty(t, state(t, f.server(), o.id()))
				if k.name != spin.name { // Redisson's spin lock is silent; ours may speak
					require.Equal(t, []redistest.Message{{Channel: "redisson_lock__channel:{x}", Payload: "0"}}, messages.Drain(t))
				}
			})
		}
	}
}

// Fenced locks: the same, and a token beside it. Java issues a new token at a re-entry, Go does not.
func TestGoldenStatesOfFencedLock(t *testing.T) {
	t.Parallel()
	const token = "redisson_lock_token:{f}"
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) {
			f := newFleet(t, fleetOptions{})
			messages := f.server().Messages(t, "*")
			o := l.owner(t, f, fenced, "f")
			again := map[string]string{golang.name: "1", java.name: "2"}[l.name]

			o.lock(t)
			require.Equal(t, map[string]redistest.Value{"f": held("1"), token: issued("1")}, state(t, f.server(), o.id()))
			o.lock(t)
			require.Equal(t, map[string]redistest.Value{"f": held("2"), token: issued(again)}, state(t, f.server(), o.id()))
			requireTTL(t, f, "f", 30*time.Second)
			o.unlock(t)
			require.Equal(t, map[string]redistest.Value{"f": held("1"), token: issued(again)}, state(t, f.server(), o.id()))
			require.Empty(t, messages.Drain(t))
			o.unlock(t)
			require.Equal(t, map[string]redistest.Value{token: issued(again)}, state(t, f.server(), o.id()))
			require.Equal(t, []redistest.Message{{Channel: "redisson_lock__channel:{f}", Payload: "0"}}, messages.Drain(t))
		})
	}
}

// requireTTL wants a key to have been given that lease a moment ago.
func requireTTL(t *testing.T, f *fleet, key string, lease time.Duration) {
	t.Helper()
	ttl := f.server().TTLs(t)[key]
	require.LessOrEqual(t, ttl, lease)
	require.Greater(t, ttl, lease/2)
}

// Both sides count a hold in the same field, and see each other's owner, count and lease: one that is fixed, as
// TestSameAnswers has those that are renewed.
func TestCountsAndLeasesReadTheSame(t *testing.T) {
	t.Parallel()
	requireSameReadings(t, alone(t), cells(slices.Concat(kinds, fairKinds)...))
}

func requireSameReadings(t *testing.T, s *site, cells []cell) {
	t.Helper()
	const lease = 10 * time.Second
	for _, c := range cells {
		t.Run(c.name, func(t *testing.T) {
			f := s.fleetFor(c.kind, fleetOptions{})
			f.proves(t, readings, c.kind.name, c.first)
			c.kind.lease = lease
			lock := f.fresh(t, c.kind)
			holder, other := c.first.owner(t, f, c.kind, lock), c.second.owner(t, f, c.kind, lock)
			inspector := c.kind.golang(f.sessions, lock, lease)
			counts := 3
			if c.kind.nonReentrant {
				counts = 1
			}

			require.Empty(t, must(inspector.Holders(t.Context()))(t))
			for count := 1; count <= counts; count++ {
				holder.lock(t)
				require.Equal(t, strconv.Itoa(count), f.at(t, lock).Str(t, "HGET", lock, holder.id()))
				require.Equal(t, count, holder.holdCount(t))
				require.Zero(t, other.holdCount(t))
				requireSameLease(t, f, lock, holder, other)
				steadily(t, "Go lists the holder with the lease", func() bool {
					before := f.ttls(t)[lock]
					holders := must(inspector.Holders(t.Context()))(t)
					require.Len(t, holders, 1)
					require.Equal(t, holder.id(), holders[0].ID)
					require.Equal(t, count, holders[0].Count)
					return shrinking(before, holders[0].Lease, f.ttls(t)[lock])
				})
			}
			for count := counts - 1; count >= 0; count-- {
				holder.unlock(t)
				require.Equal(t, count, holder.holdCount(t))
				require.Equal(t, count > 0, other.locked(t))
				require.Equal(t, count == 0, other.tryLock(t, 0))
			}
			other.unlock(t)
		})
	}
}

// requireSameLease wants everybody to read the lease that Redis has, which shrinks while they do.
func requireSameLease(t *testing.T, f *fleet, key string, owners ...owner) {
	t.Helper()
	steadily(t, "everybody reads the lease of "+key, func() bool {
		looks := []time.Duration{f.ttls(t)[key]}
		for _, o := range owners {
			looks = append(looks, o.remaining(t))
		}
		looks = append(looks, f.ttls(t)[key])
		return shrinking(looks...)
	})
}

// steadily waits until what is read of leases is right: it need not be if a renewal comes in between.
func steadily(t *testing.T, what string, look func() bool) {
	t.Helper()
	kit.Await(t, what, look)
}

// shrinking reports whether there is a lease, and nobody who looked at it saw more of it than the one before.
func shrinking(looks ...time.Duration) bool {
	return looks[len(looks)-1] > 0 && slices.IsSortedFunc(looks, func(a, b time.Duration) int { return cmp.Compare(b, a) })
}
