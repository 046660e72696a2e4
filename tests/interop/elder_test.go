package interop_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
	"github.com/holdfast-go/holdfast/tests/kit"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// elder is what an older version of this toolkit is to a lock: it has a UUID of version 4, is never handed the lock,
// and asks again when it hears of a release.
type elder struct {
	elderKind
	client rueidis.Client
	heard  chan struct{}
	owner  string
}

// An elderKind is how an older version takes a lock of a kind: by scripts with these keys, its owner and a channel.
type elderKind struct {
	name            string
	younger         func(s *holdfast.Session) contender // as it is now
	takes, releases *rueidis.Lua
	keys            []string
	channel         string                    // on which a release is published, or which that begins with
	told            func(owner string) string // the channel on which it hears of releases; nil: that one
	permits         bool                      // of which there is one
}

// locking is a contender by a lock.
func locking(lock func(ctx context.Context) (*holdfast.Hold, error)) contender {
	return func(ctx context.Context) (func() error, error) {
		hold, err := lock(ctx)
		if err != nil {
			return nil, err
		}
		return hold.Release, nil
	}
}

var elderKinds = []elderKind{
	{
		name:    "rlock",
		younger: func(s *holdfast.Session) contender { return locking(rlock.New(s, "x", nil).Lock) },
		takes:   elderTakes, releases: elderReleases,
		keys: []string{"x"}, channel: lockChannel("x"),
	},
	{
		name:    "fairlock",
		younger: func(s *holdfast.Session) contender { return locking(fairlock.New(s, "x", nil).Lock) },
		takes:   elderTakesInTurn, releases: elderReleasesInTurn,
		keys: []string{
			"x", fairQueueOfX, "redisson_lock_timeout:{x}", "holdfast_fair_queue:{x}", "holdfast_fair_alive:{x}",
		},
		channel: lockChannel("x"), told: func(owner string) string { return lockChannel("x") + ":" + owner },
	},
	{
		name:    "write half",
		younger: func(s *holdfast.Session) contender { return locking(rwlock.New(s, "x", nil).Write().Lock) },
		takes:   elderWrites, releases: elderHasWritten,
		keys: []string{"x"}, channel: prefixed("redisson_rwlock", "x"),
	},
	{
		name: "counting permit",
		younger: func(s *holdfast.Session) contender {
			permits := semaphore.New(s, "x")
			return func(ctx context.Context) (func() error, error) {
				return func() error { return permits.Release(ctx, 1) }, permits.Acquire(ctx, 1)
			}
		},
		takes: elderAcquires, releases: elderGivesBack,
		keys: []string{"x"}, channel: prefixed("redisson_sc", "x"), permits: true,
	},
	{
		name:    "permit with a lease",
		younger: func(s *holdfast.Session) contender { return locking(semaphore.NewExpirable(s, "x", nil).Acquire) },
		takes:   elderAcquiresWithLease, releases: elderGivesBackWithLease,
		keys: []string{"x", "{x}:timeout"}, channel: prefixed("redisson_sc", "x"), permits: true,
	},
}

const fairQueueOfX = "redisson_lock_queue:{x}"

func newElder(t *testing.T, kind elderKind, addr string, number int) *elder {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	e := &elder{kind, client, make(chan struct{}, 1), fmt.Sprintf("01234567-89ab-4cde-8f01-23456789abcd:%d", number)}
	channel := kind.channel
	if kind.told != nil {
		channel = kind.told(e.owner)
	}
	listening, stop := client.Dedicate()
	t.Cleanup(stop)
	listening.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(rueidis.PubSubMessage) {
		select {
		case e.heard <- struct{}{}:
		default:
		}
	}})
	require.NoError(t, listening.Do(t.Context(), client.B().Subscribe().Channel(channel).Build()).Error())
	return e
}

var (
	elderTakes = rueidis.NewLuaScript(`
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], 1)
return redis.call('PEXPIRE', KEYS[1], 30000)`)
	elderReleases = rueidis.NewLuaScript(`
if redis.call('HDEL', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('PUBLISH', ARGV[2], '0')
return 1`)
)

var (
	elderWrites = rueidis.NewLuaScript(`
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], 'mode', 'write', ARGV[1] .. ':write', 1)
return redis.call('PEXPIRE', KEYS[1], 30000)`)
	elderHasWritten = rueidis.NewLuaScript(`
if redis.call('HEXISTS', KEYS[1], ARGV[1] .. ':write') == 0 then return 0 end
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', ARGV[2], '1')
return 1`)
	elderAcquires = rueidis.NewLuaScript(`
if tonumber(redis.call('GET', KEYS[1]) or 0) < 1 then return 0 end
redis.call('DECR', KEYS[1])
return 1`)
	elderGivesBack = rueidis.NewLuaScript(`
redis.call('PUBLISH', ARGV[2], redis.call('INCR', KEYS[1]))
return 1`)
)

// The id of an elder's permit has 16 bytes.
const elderPermit = `
local id = string.sub('elder-permit-0000' .. string.match(ARGV[1], '%d+$'), -16)
`

var (
	elderAcquiresWithLease = rueidis.NewLuaScript(elderPermit + `
if tonumber(redis.call('GET', KEYS[1]) or 0) < 1 then return 0 end
redis.call('DECR', KEYS[1])
redis.call('ZADD', KEYS[2], redis.call('TIME')[1] * 1000 + 30000, id)
return 1`)
	elderGivesBackWithLease = rueidis.NewLuaScript(elderPermit + `
if redis.call('ZREM', KEYS[2], id) == 0 then return 0 end
redis.call('PUBLISH', ARGV[2], redis.call('INCR', KEYS[1]))
return 1`)
)

// A waiter for a fair lock shows that it is alive, and tells the next in the queue on that one's own channel.
const elderForgets = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function forget(waiter)
  redis.call('LREM', KEYS[2], 0, waiter)
  redis.call('ZREM', KEYS[3], waiter)
  redis.call('LREM', KEYS[4], 0, waiter)
  redis.call('ZREM', KEYS[5], waiter)
end
for _, dead in ipairs(redis.call('ZRANGEBYSCORE', KEYS[5], '-inf', now)) do forget(dead) end
local head = redis.call('LINDEX', KEYS[2], 0)
`

var (
	elderTakesInTurn = rueidis.NewLuaScript(elderForgets + `
if redis.call('EXISTS', KEYS[1]) == 0 then
  if not head or head == ARGV[1] then
    forget(ARGV[1])
    redis.call('HSET', KEYS[1], ARGV[1], 1)
    return redis.call('PEXPIRE', KEYS[1], 30000)
  end
  redis.call('PUBLISH', ARGV[2] .. ':' .. head, '0')
end
if redis.call('ZADD', KEYS[5], now + 15000, ARGV[1]) == 1 then
  redis.call('RPUSH', KEYS[2], ARGV[1])
  redis.call('RPUSH', KEYS[4], ARGV[1])
end
redis.call('ZADD', KEYS[3], now + 45000, ARGV[1])
redis.call('PEXPIRE', KEYS[4], 86400000)
redis.call('PEXPIRE', KEYS[5], 86400000)
return 0`)
	elderReleasesInTurn = rueidis.NewLuaScript(elderForgets + `
if redis.call('HDEL', KEYS[1], ARGV[1]) == 0 then return 0 end
if head then redis.call('PUBLISH', ARGV[2] .. ':' .. head, '0') end
return 1`)
)

func (e *elder) run(ctx context.Context, script *rueidis.Lua) (int64, error) {
	return script.Exec(ctx, e.client, e.keys, []string{e.owner, e.channel}).AsInt64()
}

// lock takes the lock, and asks again after each release that it hears of.
func (e *elder) lock(ctx context.Context) error {
	for {
		if taken, err := e.run(ctx, e.takes); err != nil || taken == 1 {
			return err
		}
		select {
		case <-e.heard:
		case <-time.After(5 * time.Second): // a message may get lost
		}
	}
}

func (e *elder) unlock(ctx context.Context) error {
	freed, err := e.run(ctx, e.releases)
	if err == nil && freed == 0 {
		return holdfast.ErrLost
	}
	return err
}

// A contender takes the lock x, or its permit, and gives it back.
type contender func(ctx context.Context) (unlock func() error, err error)

// contend opens clients of both versions, those of the older one first.
func contend(t *testing.T, kind elderKind, server *redistest.Server, old, younger int) (all []contender) {
	t.Helper()
	if kind.permits {
		server.Do(t, "SET", "x", "1")
	}
	for i := range old {
		e := newElder(t, kind, server.Addr(), i)
		all = append(all, func(ctx context.Context) (func() error, error) {
			return func() error { return e.unlock(ctx) }, e.lock(ctx)
		})
	}
	for range younger {
		s, err := holdfast.Open(rueidis.ClientOption{InitAddress: []string{server.Addr()}}, nil)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		all = append(all, kind.younger(s))
	}
	return all
}

// While a program is updated, processes of an older version use its locks beside those of the new one. Never do two
// have a lock, and none is left out, however many there are of the other.
func TestOldAndNewVersionsShareALock(t *testing.T) {
	for _, kind := range elderKinds {
		for _, c := range []struct{ old, younger int }{{1, 5}, {5, 1}} {
			t.Run(fmt.Sprintf("%s, %d old, %d new", kind.name, c.old, c.younger), func(t *testing.T) {
				var inside atomic.Int64
				var taking sync.WaitGroup
				contenders := contend(t, kind, redistest.Start(t), c.old, c.younger)
				had := make([]int, len(contenders))
				const enough = 100 // in longer than that if need be, on a machine that stands still at times
				var all atomic.Int64
				length := time.Duration(kit.Stressed(250, 1000)) * time.Millisecond
				var passed atomic.Int64
				go func() {
					for watch := kit.Stopwatch(); t.Context().Err() == nil; { // to read it takes a while
						passed.Store(int64(watch()))
					}
				}()
				goesOn := func() bool {
					so := time.Duration(passed.Load())
					return so < length || all.Load() <= enough && so < 2*raceLength
				}
				for i, lock := range contenders {
					taking.Go(func() {
						for goesOn() {
							unlock, err := lock(t.Context())
							if !assert.NoError(t, err) {
								return
							}
							assert.EqualValues(t, 1, inside.Add(1))
							time.Sleep(100 * time.Microsecond)
							inside.Add(-1)
							had[i]++
							all.Add(1)
							if !assert.NoError(t, unlock()) {
								return
							}
						}
					})
				}
				taking.Wait()
				t.Log("old, then new: ", had)
				require.Greater(t, all.Load(), int64(enough), "somebody sleeps while the lock is free")
				for i, n := range had { // an elder that has just released asks again before anybody has heard of it
					assert.Greater(t, n, int(all.Load())/len(had)/10, i)
				}
			})
		}
	}
}

// The queue of a fair lock is served in its order, whoever is of which version.
func TestOldAndNewVersionsKeepTheOrderOfAQueue(t *testing.T) {
	for _, entrants := range []string{"nononono", "onononon", "nnoonnoo", "oonnoonn", "ononnnnn", "nooooono", "oonnnono"} {
		t.Run(entrants, func(t *testing.T) {
			server := redistest.Start(t)
			old := strings.Count(entrants, "o")
			contenders := contend(t, elderKinds[1], server, old, len(entrants)-old)
			var inOrder []contender
			of := map[rune]int{'o': 0, 'n': old}
			for _, version := range entrants {
				inOrder = append(inOrder, contenders[of[version]])
				of[version]++
			}
			for range 2 { // sessions have been told of a grant before, or not
				requireServed(t, server, inOrder)
			}
		})
	}
}

// requireServed has the first one hold the lock while the others enter its queue, and wants all to have it in that
// order.
func requireServed(t *testing.T, server *redistest.Server, inOrder []contender) {
	t.Helper()
	var mu sync.Mutex
	var order []int
	var freed time.Time
	var longest time.Duration
	begin := make(chan struct{})
	served := make(chan error, len(inOrder))
	for i, lock := range inOrder {
		go func() {
			unlock, err := lock(t.Context())
			if i == 0 {
				<-begin
			}
			if err == nil {
				mu.Lock()
				if i > 0 {
					longest = max(longest, time.Since(freed))
				}
				order, freed = append(order, i), time.Now()
				mu.Unlock()
				err = unlock()
			}
			served <- err
		}()
		kit.Await(t, "one more", func() bool {
			return server.Int(t, "HLEN", "x")+server.Int(t, "LLEN", fairQueueOfX) == int64(i+1)
		})
	}
	still := kit.Stillness()
	close(begin)
	for range inOrder {
		select {
		case err := <-served:
			require.NoError(t, err)
		case <-time.After(30 * time.Second):
			t.Fatalf("%v waits while %v has the lock", server.Strs(t, "LRANGE", fairQueueOfX, "0", "-1"),
				server.Strs(t, "HKEYS", "x"))
		}
	}
	t.Log("the longest way from one to the next took", longest)
	require.IsIncreasing(t, order)
	require.Len(t, order, len(inOrder))
	require.Less(t, longest-still(), promptly)
	require.Empty(t, state(t, server))
}
