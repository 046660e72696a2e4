package interop_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/tests/redistest"
)

// readHold is the key of a read hold of an owner, by its number, from 1.
func readHold(mapped, id string, number int) string {
	if !strings.Contains(mapped, "{") {
		mapped = "{" + mapped + "}"
	}
	return fmt.Sprintf("%s:%s:rwlock_timeout:%d", mapped, id, number)
}

// readKey is what a read hold's key holds.
var readKey = redistest.Value{Type: "string", Content: "1", Expires: true}

// rwState is the hash of a read-write lock.
func rwState(fields map[string]string) redistest.Value {
	return redistest.Value{Type: "hash", Content: fields, Expires: true}
}

// The states that read holds go through in Redis are those of Redisson, byte for byte, whichever two languages read:
// each hold has a key of its own, and the lock lives as long as the longest of them.
func TestRWGoldenStatesOfReads(t *testing.T) {
	t.Parallel()
	for _, first := range languages {
		for _, second := range languages {
			t.Run(first.name+" and "+second.name, func(t *testing.T) {
				f := newFleet(t, fleetOptions{})
				messages := f.server().Messages(t, "*")
				outer := first.owner(t, f, reading.lasting(10*time.Second), "rw")
				other := second.owner(t, f, reading.lasting(5*time.Second), "rw")
				u := func() []string { return []string{outer.id(), other.id()} }

				outer.lock(t)
				want := map[string]redistest.Value{
					"rw":                         rwState(map[string]string{"mode": "read", "u1:1": "1"}),
					"{rw}:u1:1:rwlock_timeout:1": readKey,
				}
				require.Equal(t, want, state(t, f.server(), outer.id()))
				requireTTL(t, f, "rw", 10*time.Second)
				inner := outer.with(t, reading.lasting(20*time.Second), "rw")
				inner.lock(t)
				other.lock(t)
				want["rw"] = rwState(map[string]string{"mode": "read", "u1:1": "2", "u2:1": "1"})
				want["{rw}:u1:1:rwlock_timeout:2"] = readKey
				want["{rw}:u2:1:rwlock_timeout:1"] = readKey
				require.Equal(t, want, state(t, f.server(), u()...))
				requireTTL(t, f, "rw", 20*time.Second)
				requireTTL(t, f, readHold("rw", outer.id(), 1), 10*time.Second)
				requireTTL(t, f, readHold("rw", outer.id(), 2), 20*time.Second)
				requireTTL(t, f, readHold("rw", other.id(), 1), 5*time.Second)

				inner.unlock(t)
				want["rw"] = rwState(map[string]string{"mode": "read", "u1:1": "1", "u2:1": "1"})
				delete(want, "{rw}:u1:1:rwlock_timeout:2")
				require.Equal(t, want, state(t, f.server(), u()...))
				requireTTL(t, f, "rw", 10*time.Second)
				requireTTL(t, f, readHold("rw", outer.id(), 1), 10*time.Second)

				outer.unlock(t)
				want["rw"] = rwState(map[string]string{"mode": "read", "u2:1": "1"})
				delete(want, "{rw}:u1:1:rwlock_timeout:1")
				require.Equal(t, want, state(t, f.server(), u()...))
				requireTTL(t, f, "rw", 5*time.Second)
				require.Empty(t, messages.Drain(t))

				other.unlock(t)
				require.Empty(t, state(t, f.server()))
				require.Equal(t, []redistest.Message{{Channel: "redisson_rwlock:{rw}", Payload: "0"}}, messages.Drain(t))
			})
		}
	}
}

// Write holds: the same, but that at a re-entry Java adds up the leases, and tells nobody of a downgrade.
func TestRWGoldenStatesOfWrites(t *testing.T) {
	t.Parallel()
	const lease = 30 * time.Second
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) {
			f := newFleet(t, fleetOptions{})
			messages := f.server().Messages(t, "*")
			w := l.owner(t, f, writing, "rw")
			requireState := func(want map[string]redistest.Value, lease time.Duration) {
				t.Helper()
				require.Equal(t, want, state(t, f.server(), w.id()))
				for key := range state(t, f.server()) {
					if key == "rw" {
						requireTTL(t, f, key, lease)
					} else {
						requireTTL(t, f, key, 30*time.Second)
					}
				}
			}
			written := func(fields ...string) map[string]redistest.Value {
				hash := map[string]string{"mode": "write"}
				for i := 0; i < len(fields); i += 2 {
					hash[fields[i]] = fields[i+1]
				}
				return map[string]redistest.Value{"rw": rwState(hash)}
			}
			again := map[string]time.Duration{golang.name: lease, java.name: 2 * lease}[l.name]

			w.lock(t)
			requireState(written("u1:1:write", "1"), lease)
			w.lock(t)
			requireState(written("u1:1:write", "2"), again)
			w.unlock(t)
			requireState(written("u1:1:write", "1"), lease)
			require.Empty(t, messages.Drain(t))
			w.unlock(t)
			require.Empty(t, state(t, f.server()))
			require.Equal(t, []redistest.Message{{Channel: "redisson_rwlock:{rw}", Payload: "1"}}, messages.Drain(t))

			w.lock(t)
			w.lock(t)
			r := w.with(t, reading, "rw")
			r.lock(t)
			want := written("u1:1:write", "2", "u1:1", "1")
			want["{rw}:u1:1:rwlock_timeout:1"] = readKey
			requireState(want, again)
			w.unlock(t)
			want["rw"].Content.(map[string]string)["u1:1:write"] = "1"
			requireState(want, lease)
			require.Empty(t, messages.Drain(t))
			w.unlock(t)
			want["rw"] = rwState(map[string]string{"mode": "read", "u1:1": "1"})
			requireState(want, lease)
			if l.name == golang.name {
				require.Equal(t, []redistest.Message{{Channel: "redisson_rwlock:{rw}", Payload: "1"}}, messages.Drain(t))
			}
			require.Empty(t, messages.Drain(t))
			r.unlock(t)
			require.Empty(t, state(t, f.server()))
			require.Equal(t, []redistest.Message{{Channel: "redisson_rwlock:{rw}", Payload: "0"}}, messages.Drain(t))

			w.lock(t)
			r.lock(t)
			r.unlock(t) // the other way round: still written
			requireState(written("u1:1:write", "1"), lease)
			w.unlock(t)
			require.Empty(t, state(t, f.server()))
			require.Equal(t, []redistest.Message{{Channel: "redisson_rwlock:{rw}", Payload: "1"}}, messages.Drain(t))
		})
	}
}

// A read release of one side leaves the other side's read holds as they are, and the lock their lease, whether that
// is shorter or longer than the one that ends.
func TestRWReadReleaseLeavesTheOtherSide(t *testing.T) {
	t.Parallel()
	for _, c := range cells(reading) {
		for _, leaves := range []time.Duration{5 * time.Second, 20 * time.Second, 0} {
			t.Run(fmt.Sprintf("%s, %v", c.name, leaves), func(t *testing.T) {
				f := newFleet(t, fleetOptions{})
				leaver := c.first.owner(t, f, reading.lasting(leaves), "x")
				outer := c.second.owner(t, f, reading.lasting(10*time.Second), "x")
				leaver.lock(t)
				outer.lock(t)
				inner := outer.with(t, reading.lasting(15*time.Second), "x")
				inner.lock(t)
				leaver.lock(t)
				first, second := readHold("x", outer.id(), 1), readHold("x", outer.id(), 2)
				looked := time.Now()
				before := f.server().TTLs(t)

				for range 2 {
					leaver.unlock(t)
					after := f.server().TTLs(t)
					for _, key := range []string{first, second} { // lost no more than the time that has passed
						require.LessOrEqual(t, after[key], before[key])
						require.GreaterOrEqual(t, after[key], before[key]-time.Since(looked)-100*time.Millisecond)
					}
				}
				require.Equal(t, map[string]redistest.Value{
					"x":                         rwState(map[string]string{"mode": "read", "u1:1": "2"}),
					"{x}:u1:1:rwlock_timeout:1": readKey,
					"{x}:u1:1:rwlock_timeout:2": readKey,
				}, state(t, f.server(), outer.id()))
				requireSameTTL(t, f, "x", second)
				require.Equal(t, 2, outer.holdCount(t))
				for _, l := range languages {
					requireRefused(t, l.owner(t, f, writing, "x"))
				}

				inner.unlock(t)
				requireSameTTL(t, f, "x", first)
				require.True(t, outer.held(t))
				outer.unlock(t)
				require.Empty(t, state(t, f.server()))
			})
		}
	}
}

// requireSameTTL wants two keys to expire together, but for what passes between two commands.
func requireSameTTL(t *testing.T, f *fleet, a, b string) {
	t.Helper()
	require.WithinDuration(t, leaseEnd(t, f, a), leaseEnd(t, f, b), time.Second)
}

// both is an owner and the two halves of a lock.
type both struct{ read, write owner }

func newBoth(t *testing.T, f *fleet, l language, lease time.Duration, name string) both {
	t.Helper()
	w := l.owner(t, f, writing.lasting(lease), name)
	return both{w.with(t, reading.lasting(lease), name), w}
}

// Both sides read the same of a lock, whatever its state: who holds what, how often, and for how long.
func TestRWReadsTheSame(t *testing.T) {
	t.Parallel()
	requireRWReadsTheSame(t, alone(t))
}

func requireRWReadsTheSame(t *testing.T, s *site) {
	t.Helper()
	leases := map[string]time.Duration{"renewed": 0, "fixed": time.Minute}
	for name, lease := range leases {
		for _, c := range cells(reading) {
			t.Run(c.name+", "+name, func(t *testing.T) {
				f := s.fleet(fleetOptions{})
				for _, half := range halves {
					f.proves(t, readings, half.name, c.first)
				}
				lock := f.fresh(t, reading)
				a, b := newBoth(t, f, c.first, lease, lock), newBoth(t, f, c.second, lease, lock)
				check := func(aRead, aWrite, bRead int) {
					t.Helper()
					requireCounts(t, a, aRead, aWrite)
					requireCounts(t, b, bRead, 0)
					requireHolders(t, f, reading, lock, map[owner]int{a.read: aRead, b.read: bRead})
					requireHolders(t, f, writing, lock, map[owner]int{a.write: aWrite})
					for _, o := range []both{a, b} {
						require.Equal(t, aRead+bRead > 0, o.read.locked(t))
						require.Equal(t, aWrite > 0, o.write.locked(t))
						requireRemaining(t, f, lock, o, aRead+bRead > 0, aWrite > 0)
					}
				}
				check(0, 0, 0)
				a.read.lock(t)
				check(1, 0, 0)
				a.read.lock(t)
				check(2, 0, 0)
				b.read.lock(t)
				check(2, 0, 1)
				a.read.unlock(t)
				check(1, 0, 1)
				a.read.unlock(t)
				check(0, 0, 1)
				b.read.unlock(t)
				check(0, 0, 0)

				a.write.lock(t)
				check(0, 1, 0)
				a.write.lock(t)
				check(0, 2, 0)
				a.read.lock(t)
				check(1, 2, 0)
				a.read.lock(t)
				check(2, 2, 0)
				a.write.unlock(t)
				check(2, 1, 0)
				a.read.unlock(t)
				check(1, 1, 0)
				a.write.unlock(t)
				check(1, 0, 0)
				b.read.lock(t)
				check(1, 0, 1)
				a.read.unlock(t)
				check(0, 0, 1)
				b.read.unlock(t)
				check(0, 0, 0)
			})
		}
	}
}

func requireCounts(t *testing.T, o both, read, write int) {
	t.Helper()
	require.Equal(t, read, o.read.holdCount(t))
	require.Equal(t, read > 0, o.read.held(t))
	require.Equal(t, write, o.write.holdCount(t))
	require.Equal(t, write > 0, o.write.held(t))
}

// requireHolders wants Go to list those owners of a half that have a count, with the lease that is theirs.
func requireHolders(t *testing.T, f *fleet, half kind, lock string, counts map[owner]int) {
	t.Helper()
	want := map[string]int{}
	for o, count := range counts {
		if count > 0 {
			want[o.id()] = count
		}
	}
	lease := func(ttls map[string]time.Duration, id string) time.Duration {
		if half.name == reading.name {
			return longestRead(ttls, id)
		}
		return ttls[lock]
	}
	steadily(t, "Go lists the holders with their leases", func() bool {
		before := f.ttls(t)
		holders := must(half.golang(f.sessions, lock, 0).Holders(t.Context()))(t)
		after := f.ttls(t)
		got, steady := map[string]int{}, true
		for _, h := range holders {
			got[h.ID] = h.Count
			steady = steady && shrinking(lease(before, h.ID), h.Lease, lease(after, h.ID))
		}
		require.Equal(t, want, got)
		return steady
	})
}

// longestRead is for how long the longest read hold lasts of those in whose key that is: a lock, or an owner.
func longestRead(ttls map[string]time.Duration, part string) time.Duration {
	var longest time.Duration
	for key, ttl := range ttls {
		if strings.Contains(key, part) && strings.Contains(key, ":rwlock_timeout:") {
			longest = max(longest, ttl)
		}
	}
	return longest
}

// requireRemaining wants an owner to read the lease of both halves right. To Java it is the lock's, that is the longest
// one; to Go each half has its own, and none when it is not held.
func requireRemaining(t *testing.T, f *fleet, lock string, o both, reads, writes bool) {
	t.Helper()
	_, ofJava := o.read.(*javaOwner)
	steadily(t, "both halves read their lease", func() bool {
		before := f.ttls(t)
		read, write := o.read.remaining(t), o.write.remaining(t)
		after := f.ttls(t)
		right := func(got time.Duration, held bool, lease func(ttls map[string]time.Duration) time.Duration) bool {
			if !held {
				return got <= 0 // Java has Redis' word for "no such key", which is negative
			}
			return shrinking(lease(before), got, lease(after))
		}
		whole := func(ttls map[string]time.Duration) time.Duration { return ttls[lock] }
		if ofJava {
			return right(read, reads || writes, whole) && right(write, reads || writes, whole)
		}
		longest := func(ttls map[string]time.Duration) time.Duration { return longestRead(ttls, lock) }
		return right(read, reads, longest) && right(write, writes, whole)
	})
}
