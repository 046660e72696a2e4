package setlockinterop

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/setlock"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

const (
	// long is a lease whose end no test sees.
	long = time.Minute
	// promptly is how soon a lock that is free is got: who waits looks every 250 ms at the least, and a machine may be
	// busy.
	promptly = time.Second
)

// odd is a token that no library would think of: none of them minds.
const odd = "\x00 \xff\r\n{x}:%2F\"ä"

// What one side holds the other finds taken, by the token and the lease that it expects; what one releases the other
// has.
func TestTheyExcludeEachOther(t *testing.T) {
	eachWay(t, func(t *testing.T, p pair) {
		srv := redistest.Start(t)
		first, second := p.first.mutex(t, srv, long), p.second.mutex(t, srv, long/2)
		for range 3 {
			token := take(t, first)
			requireLock(t, srv, token, long)
			requireMine(t, first, true)
			requireBusy(t, second)
			requireLock(t, srv, token, long)
			requireMine(t, first, true)
			require.NoError(t, first.release())

			token = take(t, second)
			requireLock(t, srv, token, long/2)
			requireMine(t, second, true)
			requireBusy(t, first)
			require.NoError(t, second.release())
			require.Empty(t, srv.Keyspace(t))
		}
	})
}

// Who holds a lock of theirs can be asked of ours, and who is in the way can be put out of it.
func TestTheirLocksAreSeenAndForced(t *testing.T) {
	eachOfTheirs(t, func(t *testing.T, their library) {
		srv := redistest.Start(t)
		m := their.mutex(t, srv, long)
		token := take(t, m)
		l := setlock.New(oursFor(t, srv, long).session, "x", nil)
		_, err := l.TryLock(t.Context())
		require.ErrorIs(t, err, holdfast.ErrBusy)
		kit.WaitInVain(t, l.TryLockFor, 300*time.Millisecond)
		got, err := l.Query(t.Context())
		require.NoError(t, err)
		require.Equal(t, token, got)
		locked, err := l.Locked(t.Context())
		require.NoError(t, err)
		require.True(t, locked)
		left, err := l.RemainingLease(t.Context())
		require.NoError(t, err)
		require.InDelta(t, long, left, float64(5*time.Second))
		holders, err := l.Holders(t.Context())
		require.NoError(t, err)
		require.Len(t, holders, 1)
		require.Equal(t, token, holders[0].ID)

		forced, err := l.ForceUnlock(t.Context())
		require.NoError(t, err)
		require.True(t, forced)
		requireMine(t, m, false)
		err = m.release()
		require.True(t, their.notMine(err), "%v", err)
	})
}

// A release of either side is noticed by the other soon, though redsync and its like neither tell nor listen.
func TestAReleaseIsNoticedSoon(t *testing.T) {
	eachWay(t, func(t *testing.T, p pair) {
		srv := redistest.Start(t)
		first, second := p.first.mutex(t, srv, long), p.second.mutex(t, srv, long)
		var longest time.Duration
		for round := range 5 {
			take(t, first)
			w := begin(t, srv, second)
			if round == 0 {
				pass(time.Now().Add(time.Second)) // ours looks least often by then
			}
			longest = max(longest, w.after(t, first.release))
			require.NoError(t, second.release())
		}
		t.Logf("%s releases, %s has it after %v at the most", p.first.name, p.second.name, longest)
		require.Less(t, longest, promptly)
	})
}

// A process that is killed holds its lock until the lease ends, and no longer; ours renews it until it dies.
func TestTheLockOfAKilledProcessIsFreedByItsLease(t *testing.T) {
	eachWay(t, func(t *testing.T, p pair) {
		lease := time.Second
		if p.first.name == ours.name {
			lease *= 4 // for it to be renewed in time, on a machine that is busy
		}
		srv := redistest.Start(t)
		second := p.second.mutex(t, srv, long)
		requireFree(t, second)
		began := time.Now()
		kill := startHolder(t, srv, p.first, lease)
		if p.first.name == ours.name {
			still := kit.Stillness()
			for end := time.Now().Add(lease * 3 / 2); time.Now().Before(end); pass(time.Now().Add(50 * time.Millisecond)) {
				requireBusy(t, second)
			}
			began = time.Now().Add(-lease*2/3 - still()) // it is renewed after a third of the lease, or soon after
		}
		kill()
		killed, stood := time.Now(), kit.Stillness()
		got := beginToWait(second).end(t)
		require.GreaterOrEqual(t, got.Sub(began), lease-20*time.Millisecond, "not before")
		require.Less(t, got.Sub(killed)-stood(), lease+promptly)
		require.NoError(t, second.release())
	})
}

// requireFree takes a lock and gives it back; whoever comes later is connected already.
func requireFree(t *testing.T, m mutex) {
	t.Helper()
	take(t, m)
	require.NoError(t, m.release())
}

// Who has lost the lock to the other side neither extends nor frees what that holds now, and is told so in the words of
// its own library.
func TestNeitherTouchesTheOthersLock(t *testing.T) {
	eachWay(t, func(t *testing.T, p pair) {
		srv := redistest.Start(t)
		second := p.second.mutex(t, srv, long)
		lose := map[string]struct {
			lease time.Duration
			act   func()
		}{
			"expired": {time.Second, func() {
				kit.Await(t, "the lease's end", func() bool { return srv.Int(t, "EXISTS", "x") == 0 })
			}},
			"deleted": {long, func() { srv.Do(t, "DEL", "x") }}, // while the holder believes in it
		}
		calls := map[string]func(m mutex) error{
			"extend":  func(m mutex) error { return m.extend(2 * long) },
			"release": mutex.release,
		}
		for how, lost := range lose {
			for what, call := range calls {
				first := p.first.mutex(t, srv, lost.lease)
				take(t, first)
				lost.act()
				token := take(t, second)
				err := call(first)
				require.Error(t, err, "%s: %s", how, what)
				require.True(t, p.first.notMine(err), "%s: %s: %v", how, what, err)
				requireLock(t, srv, token, long)
				requireMine(t, second, true)
				require.NoError(t, second.release())
			}
		}
		require.Empty(t, srv.Keyspace(t))
	})
}

// Who has lost the lock to nobody is told as well.
func TestALockThatIsGoneIsNotReleased(t *testing.T) {
	for _, l := range append(theirs[:len(theirs):len(theirs)], ours) {
		t.Run(l.name, func(t *testing.T) {
			srv := redistest.Start(t)
			m := l.mutex(t, srv, long)
			take(t, m)
			srv.Do(t, "DEL", "x")
			err := m.release()
			require.Error(t, err)
			require.True(t, l.notMine(err), "%v", err)
			require.Empty(t, srv.Keyspace(t))
		})
	}
}

// What its holder extends is the longer for the other side.
func TestAnExtensionCountsForTheOtherSide(t *testing.T) {
	const short = 1500 * time.Millisecond
	eachWay(t, func(t *testing.T, p pair) {
		srv := redistest.Start(t)
		first, second := p.first.mutex(t, srv, short), p.second.mutex(t, srv, long)
		requireFree(t, second)
		taken := time.Now()
		token := take(t, first)
		require.NoError(t, first.extend(2*long))
		requireLock(t, srv, token, 2*long)
		pass(taken.Add(short + short/2))
		requireBusy(t, second)
		requireMine(t, first, true)
		requireLock(t, srv, token, 2*long)
		require.NoError(t, first.release())
		requireFree(t, second)
	})
}

// A lock is handed over by its token: whoever has that extends it and gives it back, and whoever had it learns that it
// is another's when it tries the same.
func TestALockIsHandedOver(t *testing.T) {
	for what, token := range map[string]string{"a token of the library": "", "a token of one's own": odd} {
		t.Run(what, func(t *testing.T) {
			eachWay(t, func(t *testing.T, p pair) {
				srv := redistest.Start(t)
				first := p.first.start(t, srv).mutex(spec{name: "x", lease: long / 2, token: token})
				second := p.second.mutex(t, srv, long)
				given := take(t, first)
				if token != "" {
					require.Equal(t, token, given)
				}
				require.NoError(t, first.letGo())
				require.NoError(t, second.claim(given))
				require.Equal(t, given, tokenOf(t, second))
				requireMine(t, second, true)
				require.NoError(t, second.extend(2*long))
				requireLock(t, srv, given, 2*long)

				rival := p.first.mutex(t, srv, long)
				w := begin(t, srv, rival)
				require.Less(t, w.after(t, second.release), promptly)
				requireLock(t, srv, tokenOf(t, rival), long)
				if p.first.name != ours.name { // which has let go, and sends nothing any more
					err := first.release()
					require.True(t, p.first.notMine(err), "%v", err)
				}
				requireMine(t, rival, true)
				require.NoError(t, rival.release())
			})
		})
	}
}

// What is adopted from them is renewed, for as long as it takes; what is not held any more is not adopted.
func TestTheirLockIsAdoptedAndRenewed(t *testing.T) {
	const lease = 4 * time.Second
	eachOfTheirs(t, func(t *testing.T, their library) {
		srv := redistest.Start(t)
		m, rival := their.mutex(t, srv, lease), their.mutex(t, srv, long)
		requireFree(t, rival)
		l := setlock.New(oursFor(t, srv, lease).session, "x", nil)
		token := take(t, m)
		hold, err := l.Adopt(t.Context(), token)
		require.NoError(t, err)
		for end := time.Now().Add(5 * lease / 2); time.Now().Before(end); pass(time.Now().Add(50 * time.Millisecond)) {
			requireBusy(t, rival)
		}
		require.NoError(t, hold.Err())

		// Who has the same token can still do everything, and our renewals take nothing of it back.
		require.NoError(t, m.extend(long))
		deadline := hold.Deadline()
		kit.Await(t, "a renewal", func() bool { return hold.Deadline().After(deadline) })
		requireLock(t, srv, token, long)

		require.NoError(t, hold.Release())
		err = m.release()
		require.True(t, their.notMine(err), "%v", err)
		_, err = l.Adopt(t.Context(), token)
		require.ErrorIs(t, err, holdfast.ErrNotHeld)
		take(t, rival)
		_, err = l.Adopt(t.Context(), token)
		require.ErrorIs(t, err, holdfast.ErrNotHeld)
		require.NoError(t, rival.release())
	})
}

// A lock that ours still holds can be given back by them with its token; ours is told when it renews, or releases.
func TestTheyGiveBackWhatWeHold(t *testing.T) {
	const lease = 3 * time.Second
	eachOfTheirs(t, func(t *testing.T, their library) {
		srv := redistest.Start(t)
		l := setlock.New(oursFor(t, srv, lease).session, "x", &setlock.Options{Token: "agreed"})
		m := their.mutex(t, srv, long)
		requireFree(t, m)

		hold, err := l.TryLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, m.claim("agreed"))
		require.NoError(t, m.release())
		require.Empty(t, srv.Keyspace(t))
		require.ErrorIs(t, hold.Release(), holdfast.ErrLost)

		hold, err = l.TryLock(t.Context())
		require.NoError(t, err)
		ctx := hold.Context(t.Context())
		require.NoError(t, m.claim("agreed"))
		require.NoError(t, m.release())
		token := take(t, m)
		select {
		case <-ctx.Done():
		case <-time.After(patience):
			t.Fatal("the holder is not told")
		}
		require.ErrorIs(t, context.Cause(ctx), holdfast.ErrLost)
		requireLock(t, srv, token, long)
		require.NoError(t, m.release())
	})
}

// All libraries at once: nobody is ever in when another is.
func TestACrowdCountsRight(t *testing.T) {
	const each, rounds = 2, 40
	srv := redistest.Start(t)
	libraries := []library{ours, redsyncLibrary, redislockLibrary}
	if _, err := sharedPython(); err == nil {
		libraries = append(libraries, redisPy) // which TestTheyExcludeEachOther has told of if it is not there
	}
	var crowd errgroup.Group
	for _, l := range libraries {
		for i := range each {
			p := l.start(t, srv)
			crowd.Go(func() error {
				m := p.mutex(spec{name: "x", lease: long, poll: time.Duration(20+10*i) * time.Millisecond})
				if err := m.count(srv.Addr(), "count", rounds); err != nil {
					return fmt.Errorf("%s: %w", l.name, err)
				}
				return nil
			})
		}
	}
	require.NoError(t, crowd.Wait())
	require.Equal(t, fmt.Sprint(len(libraries)*each*rounds), srv.Str(t, "GET", "count"))
	require.Zero(t, srv.Int(t, "EXISTS", "x"))
}

// redislock can write what it likes behind its token. All of it together is the token of the lock to everybody else.
func TestRedislocksMetadataBelongToTheToken(t *testing.T) {
	srv := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: srv.Addr()})
	defer client.Close()
	lock, err := redislock.Obtain(t.Context(), client, "x", long, &redislock.Options{Metadata: " of host 7"})
	require.NoError(t, err)
	l := setlock.New(oursFor(t, srv, long).session, "x", nil)
	token, err := l.Query(t.Context())
	require.NoError(t, err)
	require.Equal(t, lock.Token()+lock.Metadata(), token)
	_, err = l.Adopt(t.Context(), lock.Token())
	require.ErrorIs(t, err, holdfast.ErrNotHeld)
	hold, err := l.Adopt(t.Context(), token)
	require.NoError(t, err)
	require.NoError(t, hold.Release())
	require.ErrorIs(t, lock.Release(t.Context()), redislock.ErrLockNotHeld)
}
