package interop_test

import (
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/interop"
	"github.com/holdfast-go/holdfast/tests/kit"
)

// What one side holds, the other cannot take.
func TestExclusion(t *testing.T) {
	t.Parallel()
	requireExclusion(t, alone(t), cells(slices.Concat(kinds, fairKinds)...))
}

func requireExclusion(t *testing.T, s *site, cells []cell) {
	t.Helper()
	for _, c := range cells {
		t.Run(c.name, func(t *testing.T) {
			f := s.fleetFor(c.kind, fleetOptions{})
			f.proves(t, exclusion, c.kind.name, c.first)
			lock := f.fresh(t, c.kind)
			holder, other := c.first.owner(t, f, c.kind, lock), c.second.owner(t, f, c.rival, lock)

			holder.lock(t)
			requireBusy(t, other)
			require.False(t, other.tryLock(t, 100*time.Millisecond))
			require.True(t, holder.held(t))
			require.False(t, other.held(t))

			holder.unlock(t)
			require.False(t, holder.held(t))
			require.True(t, other.tryLock(t, 0))
			requireBusy(t, holder)
			require.True(t, other.held(t))
			other.unlock(t)
		})
	}
}

// Both sides answer alike what is asked of a lock, whoever has it: whether somebody does, and who, how often and for
// how long.
func TestSameAnswers(t *testing.T) {
	t.Parallel()
	requireSameAnswers(t, alone(t), cells(slices.Concat(kinds, fairKinds, halves)...))
}

func requireSameAnswers(t *testing.T, s *site, cells []cell) {
	t.Helper()
	for _, c := range cells {
		t.Run(c.name, func(t *testing.T) {
			f := s.fleetFor(c.kind, fleetOptions{})
			f.proves(t, inspection, c.kind.name, c.first)
			lock := f.fresh(t, c.kind)
			holder, other := c.first.owner(t, f, c.kind, lock), c.second.owner(t, f, c.kind, lock)
			neighbour := c.first.owner(t, f, c.kind, lock) // another owner of the same process
			check := func(count int) {
				t.Helper()
				for _, o := range []owner{holder, other, neighbour} {
					require.Equal(t, count > 0, o.locked(t))
					require.Equal(t, count > 0 && o == holder, o.held(t))
					require.Equal(t, count > 0, o.remaining(t) > 0)
					if o == holder {
						require.Equal(t, count, o.holdCount(t))
					} else {
						require.Zero(t, o.holdCount(t))
					}
				}
				if count > 0 {
					requireSameLease(t, f, lock, holder, other, neighbour)
				}
				holders := must(c.kind.golang(f.sessions, lock, 0).Holders(t.Context()))(t)
				if count == 0 {
					require.Empty(t, holders)
					return
				}
				require.Len(t, holders, 1)
				require.Equal(t, holder.id(), holders[0].ID)
				require.Equal(t, count, holders[0].Count)
			}
			check(0)
			holder.lock(t)
			check(1)
			if !c.kind.nonReentrant {
				holder.lock(t)
				check(2)
				holder.unlock(t)
				check(1)
			}
			holder.unlock(t)
			check(0)
			holder.lock(t)
			check(1)
			require.True(t, other.forceUnlock(t))
			check(0)
			require.True(t, other.tryLock(t, 0))
			holder.unlockLost(t)
			other.unlock(t)
			check(0)
		})
	}
}

// Under contention from both sides nobody is inside with anybody else, everybody gets in, and the fencing tokens
// grow with every grant.
func TestExclusionUnderContention(t *testing.T) {
	t.Parallel()
	const each = 2 // owners of each language
	for _, k := range slices.Concat(kinds, fairKinds) {
		t.Run(k.name, func(t *testing.T) {
			f := newFleet(t, fleetOptions{})
			var owners []owner
			for range each {
				for _, l := range languages {
					owners = append(owners, l.owner(t, f, k, "x"))
				}
			}
			tokens := f.contend(t, 25, owners...)
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

// contention is how long an owner may wait for its turn among others that want it all the time. Nobody is promised one:
// on a busy machine, an owner of several locks may fail to get all of them for half a minute.
const contention = 2 * time.Minute

// contend has owners take what they compete for some times each, all of them at once, and wants nobody to be inside
// with anybody else. It returns the tokens in the order of the grants.
func (f *fleet) contend(t *testing.T, rounds int, owners ...owner) (tokens []int64) {
	t.Helper()
	var mu sync.Mutex
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
	for _, o := range owners {
		workers.Go(func() {
			for range rounds {
				o.start().await(t, contention)
				work(o)
				o.unlock(t)
			}
		})
	}
	workers.Wait()
	require.Equal(t, strconv.Itoa(len(owners)*rounds), f.server().Str(t, "GET", "counter"))
	return tokens
}

// A fencing token is one more than the last, whichever side was granted that, and both read the last one whosever it
// is.
func TestTokensGrowAcrossLanguages(t *testing.T) {
	t.Parallel()
	requireTokensGrow(t, alone(t))
}

func requireTokensGrow(t *testing.T, s *site) {
	t.Helper()
	for _, c := range cells(fenced) {
		t.Run(c.name, func(t *testing.T) {
			f := s.fleetFor(c.kind, fleetOptions{})
			f.proves(t, readings, c.kind.name, c.first)
			name := f.fresh(t, c.kind)
			a, b := c.first.owner(t, f, c.kind, name), c.second.owner(t, f, c.kind, name)
			reader, onlooker := newJavaUserOf(t, f, interop.Fenced, name), rlock.New(f.session, name, nil)
			var last int64
			requireLast := func() {
				t.Helper()
				require.Equal(t, last, reader.object.Do(t, "getToken").Int())
				require.Equal(t, last, must(onlooker.LastToken(t.Context()))(t))
			}
			requireNext := func(o owner) {
				t.Helper()
				require.Equal(t, last+1, o.token())
				last = o.token()
				requireLast()
				o.unlock(t)
				requireLast()
			}
			requireLast()
			for range 10 {
				for _, o := range []owner{a, b} {
					o.lock(t)
					requireNext(o)
				}
				require.True(t, b.tryLock(t, 0))
				requireNext(b)
			}
			token := prefixed("redisson_lock_token", name)
			require.Equal(t, strconv.FormatInt(last, 10), f.at(t, token).Str(t, "GET", token))
		})
	}
}

// Redisson counts on what has a time to live, and leaves that alone. If it makes the key, that never expires: Redisson
// begins at 1 without it, and Go puts it right.
func TestTokensThatExpireBesideRedisson(t *testing.T) {
	t.Parallel()
	f := alone(t).fleetFor(fenced, fleetOptions{})
	f.proves(t, readings, fenced.name, java)
	name := f.fresh(t, fenced)
	key := prefixed("redisson_lock_token", name)
	l := rlock.New(f.session, name, &rlock.Options{Fenced: true, TokenTTL: time.Hour})
	theirs := java.owner(t, f, fenced, name)
	lockHere := func(greater int64) (token int64) {
		t.Helper()
		hold := kit.Lock(t, t.Context(), l)
		require.Greater(t, hold.Token(), greater)
		require.NoError(t, hold.Release())
		return hold.Token()
	}
	lockThere := func() (token int64) {
		theirs.lock(t)
		theirs.unlock(t)
		return theirs.token()
	}
	expires := func() bool { return f.at(t, key).Do(t, "PTTL", key).(int64) > 0 }

	mine := lockHere(time.Now().Add(-time.Hour).UnixMicro())
	require.Equal(t, mine+1, lockThere())
	require.True(t, expires())
	mine = lockHere(mine + 1)
	require.True(t, expires())

	f.at(t, key).Do(t, "DEL", key) // it has expired
	require.Equal(t, int64(1), lockThere())
	mine = lockHere(mine)
	require.False(t, expires())
	require.Equal(t, mine+1, lockThere())
	require.Equal(t, mine+1, must(l.LastToken(t.Context()))(t))
}

// A lock that cannot be taken again refuses its own owner in both languages, and stays held once.
func TestNonReentrantRefusesItsOwner(t *testing.T) {
	t.Parallel()
	for _, c := range cells(nonReentrant, nonReentrantFair) {
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
