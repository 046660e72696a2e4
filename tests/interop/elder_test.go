package interop_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/redistest"
)

// elder is what an older version of this toolkit is to a lock: it has a UUID of version 4, does not know the line, and
// asks again when it hears of a release.
type elder struct {
	client rueidis.Client
	heard  chan struct{}
	owner  string
}

func newElder(t *testing.T, addr string, number int) *elder {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	e := &elder{client, make(chan struct{}, 1), fmt.Sprintf("01234567-89ab-4cde-8f01-23456789abcd:%d", number)}
	listening, stop := client.Dedicate()
	t.Cleanup(stop)
	listening.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(rueidis.PubSubMessage) {
		select {
		case e.heard <- struct{}{}:
		default:
		}
	}})
	require.NoError(t, listening.Do(t.Context(), client.B().Subscribe().Channel(lockChannel("x")).Build()).Error())
	return e
}

var (
	elderTakes = rueidis.NewLuaScript(`
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], 1)
return redis.call('PEXPIRE', KEYS[1], 30000)`)
	elderReleases = rueidis.NewLuaScript(`
if redis.call('HDEL', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('PUBLISH', KEYS[2], '0')
return 1`)
)

// lock takes the lock, and asks again after each release.
func (e *elder) lock(ctx context.Context) error {
	for {
		if taken, err := elderTakes.Exec(ctx, e.client, []string{"x"}, []string{e.owner}).AsInt64(); err != nil || taken == 1 {
			return err
		}
		select {
		case <-e.heard:
		case <-time.After(5 * time.Second): // a message may get lost
		}
	}
}

func (e *elder) unlock(ctx context.Context) error {
	freed, err := elderReleases.Exec(ctx, e.client, []string{"x", lockChannel("x")}, []string{e.owner}).AsInt64()
	if err == nil && freed == 0 {
		return holdfast.ErrLost
	}
	return err
}

// While a program is updated, processes of an older version use its locks beside those of the new one. Never do two
// have a lock, and none is left out, however many there are of the other.
func TestOldAndNewVersionsShareALock(t *testing.T) {
	for _, c := range []struct{ old, younger int }{{1, 1}, {1, 5}, {5, 1}, {3, 3}} {
		t.Run(fmt.Sprintf("%d old, %d new", c.old, c.younger), func(t *testing.T) {
			server := redistest.Start(t)
			var inside atomic.Int64
			var taking sync.WaitGroup
			had := make([]int, c.old+c.younger)
			end := time.Now().Add(raceLength)
			take := func(i int, lock func() (unlock func() error, err error)) {
				for time.Now().Before(end) {
					unlock, err := lock()
					if !assert.NoError(t, err) {
						return
					}
					assert.EqualValues(t, 1, inside.Add(1))
					time.Sleep(100 * time.Microsecond)
					inside.Add(-1)
					had[i]++
					if !assert.NoError(t, unlock()) {
						return
					}
				}
			}
			for i := range had {
				if i < c.old {
					e := newElder(t, server.Addr(), i)
					taking.Go(func() {
						take(i, func() (func() error, error) {
							return func() error { return e.unlock(t.Context()) }, e.lock(t.Context())
						})
					})
					continue
				}
				s, err := holdfast.Open(rueidis.ClientOption{InitAddress: []string{server.Addr()}}, nil)
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, s.Close()) })
				lock := rlock.New(s, "x", nil)
				taking.Go(func() {
					take(i, func() (func() error, error) {
						hold, err := lock.Lock(t.Context())
						if err != nil {
							return nil, err
						}
						return hold.Release, nil
					})
				})
			}
			taking.Wait()
			all := 0
			for _, n := range had {
				all += n
			}
			t.Log("old, then new: ", had)
			for i, n := range had { // an elder that has just released asks again before anybody has heard of it
				assert.Greater(t, n, all/len(had)/10, i)
			}
		})
	}
}
