package interop_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/interop"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// A lock of several is called by the names of its members, as "a, b", in the order in which Java takes them. It has one
// of each name on each of the fleet's servers, except for a RedLock of several names, which has each on another.
var (
	multi = severalKind("multilock", interop.MultiLock, 2, func(locks []holdfast.Locker) joined {
		return multilock.New(locks...)
	})
	red = severalKind("redlock", interop.RedLock, 3, newRedLock)

	severalKinds = []kind{multi, red}
)

// newRedLock allows for servers that have just been started, and are slow on a busy machine.
func newRedLock(locks []holdfast.Locker) joined {
	return multilock.NewRedLock(locks,
		&multilock.RedLockOptions{TrustRestarted: true, ServerTimeout: 2500 * time.Millisecond})
}

// joined is what locks of several offer in Go.
type joined interface {
	holdfast.Locker
	TryLockFor(ctx context.Context, wait time.Duration) (*holdfast.Hold, error)
}

func severalKind(name string, java interop.Kind, servers int, join func(locks []holdfast.Locker) joined) kind {
	return kind{
		name: name, java: java, servers: servers,
		golang: func(sessions []*holdfast.Session, lock string, lease time.Duration) kit.Locker {
			var locks []holdfast.Locker
			names := strings.Split(lock, ", ")
			for i, name := range names {
				for j, session := range sessions {
					if java == interop.RedLock && len(names) > 1 && i != j {
						continue
					}
					locks = append(locks, rlock.New(session, name, &rlock.Options{FixedLease: lease}))
				}
			}
			return several{locks[0].(kit.Locker), join(locks)}
		},
	}
}

// several are locks as one. What they do not tell together, the first of them tells.
type several struct {
	kit.Locker
	all joined
}

func (s several) Name() string { return s.all.Name() }

func (s several) Lock(ctx context.Context) (*holdfast.Hold, error) { return s.all.Lock(ctx) }

func (s several) TryLock(ctx context.Context) (*holdfast.Hold, error) { return s.all.TryLock(ctx) }

func (s several) TryLockFor(ctx context.Context, wait time.Duration) (*holdfast.Hold, error) {
	return s.all.TryLockFor(ctx, wait)
}

// beyondLease is for how long nobody is kept out by a [shortLease] that is not renewed.
const beyondLease = shortLease + shortLease/10

// severally runs a test with a kind on so many servers, in both directions.
func severally(t *testing.T, k kind, servers int, test func(t *testing.T, f *fleet, c cell)) {
	t.Helper()
	for _, c := range cells(k) {
		t.Run(fmt.Sprintf("%s, servers: %d", c.name, servers), func(t *testing.T) {
			test(t, newWideFleet(t, fleetOptions{}, servers), c)
		})
	}
}

// singles are owners in a language of single locks, of each name on each server.
func (f *fleet) singles(t *testing.T, l language, names ...string) (all []owner) {
	t.Helper()
	for _, node := range f.nodes {
		one := joinFleet(t, f.options, nil, node)
		for _, name := range names {
			all = append(all, l.owner(t, one, plain, name))
		}
	}
	return all
}

// requireKeys wants one session or client to hold locks of these names so many times on each server, and nothing else
// to be there.
func (f *fleet) requireKeys(t *testing.T, count int, names ...string) {
	t.Helper()
	for _, node := range f.nodes {
		require.Equal(t, heldAs(t, node, count, names), state(t, node))
	}
}

// awaitKeys waits until that is so: whoever needs most servers does not wait for the rest.
func (f *fleet) awaitKeys(t *testing.T, count int, names ...string) {
	t.Helper()
	kit.Await(t, fmt.Sprintf("on each server %d holds of each of %q", count, names), func() bool {
		return !slices.ContainsFunc(f.nodes, func(node *redistest.Server) bool {
			return !assert.ObjectsAreEqual(heldAs(t, node, count, names), state(t, node))
		})
	})
}

// heldAs is what is on a server if one session or client holds locks of these names so many times, under the owners
// that are there: one for all in Java, for each another in Go.
func heldAs(t *testing.T, node *redistest.Server, count int, names []string) map[string]redistest.Value {
	t.Helper()
	space, client := map[string]redistest.Value{}, ""
	for _, name := range names {
		owner := "nobody"
		if owners := node.Strs(t, "HKEYS", name); len(owners) > 0 {
			owner = owners[0]
		}
		if client == "" {
			client = clientOf(owner)
		}
		if clientOf(owner) != client {
			owner = "somebody of " + client
		}
		space[name] = redistest.Value{Type: "hash", Content: map[string]string{owner: fmt.Sprint(count)}, Expires: true}
	}
	return space
}

// clientOf is the uuid of the client or session in an owner.
func clientOf(owner string) string {
	client, _, _ := strings.Cut(owner, ":")
	return client
}

// What one side holds together the other cannot take, neither all nor any of it, and a refused attempt leaves nothing
// taken. Whoever waits is woken.
func TestMultiLockExclusion(t *testing.T) {
	t.Parallel()
	for _, servers := range []int{1, 2} {
		severally(t, multi, servers, func(t *testing.T, f *fleet, c cell) {
			f.proves(t, exclusion, multi.name, c.first)
			holder := c.first.owner(t, f, multi, "a, b, c")
			others := f.singles(t, c.second, "a", "b", "c")
			for _, names := range []string{"b", "x, c", "a, x", "c, b, a", "a, b, c"} {
				others = append(others, c.second.owner(t, f, multi, names))
			}
			holder.lock(t)
			for _, o := range others {
				requireBusy(t, o)
				require.False(t, o.held(t))
			}
			require.True(t, holder.held(t))
			f.requireKeys(t, 1, "a", "b", "c")

			last := others[len(others)-1]
			a := f.wait(t, last, "a")
			holder.unlock(t)
			a.await(t, promptly)
			require.True(t, last.held(t))
			f.requireKeys(t, 1, "a", "b", "c")
			requireBusy(t, holder)
			last.unlock(t)
			for _, o := range others {
				require.True(t, o.tryLock(t, 0))
				requireBusy(t, holder)
				o.unlock(t)
			}
			f.requireKeys(t, 0)
		})
	}
}

// Members that others hold one by one are waited for, whichever they are; in Go without keeping the rest for long.
func TestMultiLockWaitsForItsMembers(t *testing.T) {
	t.Parallel()
	severally(t, multi, 2, func(t *testing.T, f *fleet, c cell) {
		waiter := c.second.owner(t, f, multi, "a, b")
		for i, holder := range f.singles(t, c.first, "a", "b") {
			holder.lock(t)
			a := f.wait(t, waiter, []string{"a", "b"}[i%2])
			if passer := c.first.owner(t, f, plain, "a"); i > 0 && c.second.name == golang.name {
				require.True(t, passer.tryLock(t, promptly))
				passer.unlock(t)
			}
			requireWaiting(t, a)
			holder.unlock(t)
			a.await(t, promptly)
			f.requireKeys(t, 1, "a", "b")
			waiter.unlock(t)
			f.requireKeys(t, 0)
		}
	})
}

// The states that members go through in Redis, and the messages, are the same in both languages: those of single locks.
func TestMultiLockGoldenStates(t *testing.T) {
	t.Parallel()
	requireGoldenMembers(t, multi, 1, "b, a")
	requireGoldenMembers(t, multi, 2, "b, a")
}

func requireGoldenMembers(t *testing.T, k kind, servers int, lock string) {
	t.Helper()
	for _, l := range languages {
		for _, lease := range []time.Duration{0, time.Minute} {
			t.Run(fmt.Sprintf("%s, servers: %d, lease: %v", l.name, servers, lease), func(t *testing.T) {
				f := newWideFleet(t, fleetOptions{}, servers)
				o := l.owner(t, f, k.lasting(lease), lock)
				requireGoldenHolds(t, f, o, cmp.Or(lease, 30*time.Second), strings.Split(lock, ", ")...)
			})
		}
	}
}

// requireGoldenHolds has an owner hold locks of these names once and again.
func requireGoldenHolds(t *testing.T, f *fleet, o owner, lease time.Duration, names ...string) {
	t.Helper()
	var messages []*redistest.Messages
	for _, node := range f.nodes {
		messages = append(messages, node.Messages(t, "*"))
	}
	o.lock(t)
	f.awaitKeys(t, 1, names...)
	o.lock(t)
	f.awaitKeys(t, 2, names...)
	for _, name := range names {
		requireTTL(t, f, name, lease)
	}
	o.unlock(t)
	f.awaitKeys(t, 1, names...)
	var said []redistest.Message
	for _, name := range names {
		said = append(said, redistest.Message{Channel: lockChannel(name), Payload: "0"})
	}
	for _, m := range messages {
		require.Empty(t, m.Drain(t))
	}
	o.unlock(t)
	f.awaitKeys(t, 0)
	for _, m := range messages {
		require.ElementsMatch(t, said, m.Drain(t))
	}
}

// A release wakes the other side by its message, though it comes member by member; of a RedLock, whoever waits for most
// of the servers.
func TestSeveralReleaseWakesTheOtherSide(t *testing.T) {
	requireReleaseWakes(t, alone(t), cells(severalKinds...))
}

// To single locks of both sides, each member is held as often and as long as the locks together are.
func TestSeveralReadTheSame(t *testing.T) {
	t.Parallel()
	requireMembersReadTheSame(t, alone(t))
}

func requireMembersReadTheSame(t *testing.T, s *site) {
	t.Helper()
	for _, lease := range []time.Duration{0, time.Minute} {
		for _, c := range cells(severalKinds...) {
			t.Run(fmt.Sprintf("%s, lease: %v", c.name, lease), func(t *testing.T) {
				f := s.fleetFor(c.kind, fleetOptions{})
				f.proves(t, readings, c.kind.name, c.first)
				lock := f.fresh(t, c.kind)
				holder := c.first.owner(t, f, c.kind.lasting(lease), lock)
				for count := 1; count <= 2; count++ {
					holder.lock(t)
					f.awaitMembers(t, 1, f.mapped(lock))
					f.requireMembers(t, lock, holder, count)
				}
				holder.unlock(t)
				f.requireMembers(t, lock, holder, 1)
				holder.unlock(t)
				f.awaitMembers(t, 0, f.mapped(lock))
				f.requireMembers(t, lock, holder, 0)
			})
		}
	}
}

// requireMembers wants single locks of both sides to read of each member that it is held so often, and by whom.
func (f *fleet) requireMembers(t *testing.T, lock string, holder owner, count int) {
	t.Helper()
	j, ofJava := holder.(*javaOwner)
	for name := range strings.SplitSeq(lock, ", ") {
		for _, session := range f.sessions {
			inspector := plain.golang([]*holdfast.Session{session}, name, 0)
			kit.Await(t, "the last server counts as well", func() bool {
				holders := must(inspector.Holders(t.Context()))(t)
				return count == 0 && len(holders) == 0 || len(holders) == 1 && holders[0].Count == count
			})
		}
		// What follows is of the first server, if there are several.
		strangers := []owner{golang.owner(t, f, plain, name), java.owner(t, f, plain, name)}
		for _, o := range strangers {
			require.Equal(t, count > 0, o.locked(t))
			require.Zero(t, o.holdCount(t))
		}
		if count > 0 {
			requireSameLease(t, f, name, strangers...)
		}
		if ofJava { // whose thread holds the members by itself
			single := newJavaUser(j.thread, plain, name)
			require.Equal(t, count, single.holdCount(t))
			require.Equal(t, count > 0, single.held(t))
		}
	}
}

// Why there is no force and no inspection in the matrix for them.
func TestJavaCannotInspectSeveral(t *testing.T) {
	t.Parallel()
	for _, k := range severalKinds {
		o := java.owner(t, alone(t).fleetFor(k, fleetOptions{}), k, "x").(*javaOwner)
		for _, method := range []string{"forceUnlock", "isLocked", "getHoldCount", "remainTimeToLive"} {
			var exception *interop.JavaError
			require.ErrorAs(t, o.object.Try(t, method).Err, &exception)
			require.Equal(t, "UnsupportedOperationException", exception.Class, method)
		}
	}
}

// Nobody is inside with anybody else, and everybody gets in, though Java takes the members in the opposite order, so
// that each side may wait for what the other has.
func TestMultiLockExclusionUnderContention(t *testing.T) {
	t.Parallel()
	for _, servers := range []int{1, 2} {
		t.Run(fmt.Sprint("servers: ", servers), func(t *testing.T) {
			t.Parallel()
			f := newWideFleet(t, fleetOptions{}, servers)
			var owners []owner
			for range 2 {
				owners = append(owners, golang.owner(t, f, multi, "a, b"), java.owner(t, f, multi, "b, a"))
			}
			f.contend(t, 4, owners...)
			f.server().Do(t, "DEL", "counter")
			f.requireKeys(t, 0)
		})
	}
}
