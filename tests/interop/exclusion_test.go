package interop_test

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What one side holds, the other cannot take, and everybody knows whose it is.
func TestExclusion(t *testing.T)     { requireExclusion(t, kinds...) }
func TestFairExclusion(t *testing.T) { requireExclusion(t, fairKinds...) }

func requireExclusion(t *testing.T, kinds ...kind) {
	t.Helper()
	for _, c := range cells(kinds...) {
		t.Run(c.name, func(t *testing.T) {
			f := newFleet(t, fleetOptions{})
			holder, other := c.first.owner(t, f, c.kind, "x"), c.second.owner(t, f, c.kind, "x")

			holder.lock(t)
			require.False(t, other.tryLock(t, 0))
			require.False(t, other.tryLock(t, 100*time.Millisecond))
			require.True(t, holder.held(t))
			require.False(t, other.held(t))
			require.Zero(t, other.holdCount(t))
			require.True(t, holder.locked(t))
			require.True(t, other.locked(t))

			holder.unlock(t)
			require.False(t, holder.locked(t))
			require.False(t, other.locked(t))
			require.True(t, other.tryLock(t, 0))
			require.False(t, holder.tryLock(t, 0))
			other.unlock(t)
		})
	}
}

// Under contention from both sides nobody is inside with anybody else, everybody gets in, and the fencing tokens
// grow with every grant.
func TestExclusionUnderContention(t *testing.T)     { requireContention(t, kinds...) }
func TestFairExclusionUnderContention(t *testing.T) { requireContention(t, fairKinds...) }

func requireContention(t *testing.T, kinds ...kind) {
	t.Helper()
	const (
		each   = 2 // owners of each language
		rounds = 25
	)
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			f := newFleet(t, fleetOptions{})
			var mu sync.Mutex
			var tokens []int64
			// Reading and writing a number in two steps loses an update as soon as two do it at once.
			work := func(o owner) {
				before, err := f.server().Try("GET", "counter")
				require.NoError(t, err)
				mu.Lock()
				tokens = append(tokens, o.token())
				mu.Unlock()
				n, _ := before.(string)
				count, _ := strconv.Atoi(n)
				_, err = f.server().Try("SET", "counter", strconv.Itoa(count+1))
				require.NoError(t, err)
			}
			var workers sync.WaitGroup
			for range each {
				for _, l := range languages {
					o := l.owner(t, f, k, "x")
					workers.Go(func() {
						for range rounds {
							o.lock(t)
							work(o)
							o.unlock(t)
						}
					})
				}
			}
			workers.Wait()

			require.Equal(t, strconv.Itoa(2*each*rounds), f.server().Str(t, "GET", "counter"))
			for i, token := range tokens {
				if k.fenced {
					require.EqualValues(t, i+1, token, "tokens in the order of the grants: %v", tokens)
				} else {
					require.Zero(t, token)
				}
			}
		})
	}
}

// A fencing token is one more than the last, whichever side was granted that.
func TestTokensGrowAcrossLanguages(t *testing.T) {
	for _, c := range cells(fenced) {
		t.Run(c.name, func(t *testing.T) {
			f := newFleet(t, fleetOptions{})
			a, b := c.first.owner(t, f, c.kind, "x"), c.second.owner(t, f, c.kind, "x")
			var last int64
			for range 10 {
				for _, o := range []owner{a, b} {
					o.lock(t)
					require.Equal(t, last+1, o.token())
					last = o.token()
					o.unlock(t)
				}
				require.True(t, b.tryLock(t, 0))
				require.Equal(t, last+1, b.token())
				last = b.token()
				b.unlock(t)
			}
			require.Equal(t, strconv.FormatInt(last, 10), f.server().Str(t, "GET", "redisson_lock_token:{x}"))
		})
	}
}

// A lock that cannot be taken again refuses its own owner in both languages, and stays held once.
func TestNonReentrantRefusesItsOwner(t *testing.T)     { requireOwnerRefused(t, nonReentrant) }
func TestFairNonReentrantRefusesItsOwner(t *testing.T) { requireOwnerRefused(t, nonReentrantFair) }

func requireOwnerRefused(t *testing.T, k kind) {
	t.Helper()
	for _, c := range cells(k) {
		t.Run(c.name, func(t *testing.T) {
			f := newFleet(t, fleetOptions{})
			holder, other := c.first.owner(t, f, c.kind, "x"), c.second.owner(t, f, c.kind, "x")
			holder.lock(t)
			require.False(t, holder.lockAgain(t))
			require.Equal(t, "1", f.server().Str(t, "HGET", "x", holder.id()))
			require.False(t, other.tryLock(t, 0))
			holder.unlock(t)
			require.True(t, other.tryLock(t, 0))
			other.unlock(t)
		})
	}
}
