// Package peers measures Holdfast beside other libraries that lock on Redis, all of them doing the same work in the
// same run: make bench-peers.
//
// A [contender] is a library used in one way, as its README tells its users to. Each has servers of its own, so what
// the server counts is its. The work is done in other processes: a fleet of Go processes, and a JVM. The measuring one
// tells them in lines what to do (worker.go, Peer.java) and counts on a board that all of them share. A round runs
// every contender once in every row; the tables have medians of the rounds.
package peers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncpool "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	redsyncrueidis "github.com/go-redsync/redsync/v4/redis/rueidis"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidiscompat"
	"github.com/redis/rueidis/rueidislock"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/tests/bench"
)

// A contender is a library used in one way.
type contender struct {
	name string
	in   string   // the tables that it is in, by letter
	sent []string // what it sends besides scripts; other commands are inside those
	open opener   // nil: in Java
}

// An opener connects a process to the servers.
type opener func(addrs []string, lease time.Duration) (locker, error)

// A locker makes a lock of a name. Each goroutine makes its own, once.
type locker func(name string) lock

// A lock waits until it has the name. What it returns gives it back.
type lock func(ctx context.Context) (held, error)

type held struct {
	release func() error
	extend  func() error // nil: the library renews by itself
}

// id is a word that stands for the contender.
func (c contender) id() string { return strings.ReplaceAll(c.name, " ", "_") }

// The tables' letters: u uncontended, h one hot name, w waiters, k locks that are kept, r RedLock.
var contenders = []contender{
	{"bare EVALSHA (R1)", "u", nil, bareScripts},
	{"bare SET NX (R2)", "u", []string{"set"}, bareSet},
	{"rlock", "uhwk", nil, ours(bench.Reentrant)},
	{"fairlock", "uhw", nil, ours(bench.Fair)},
	{"setlock", "uhwk", nil, ours(bench.Set)},
	{"RedLock of rlocks", "r", nil, ourRedLock},
	{"redsync on rueidis", "uhr", []string{"set"}, redsyncOn(rueidisPool)},
	{"redsync on go-redis", "uwkr", []string{"set"}, redsyncOn(goredisPool)},
	{"redislock", "uhwk", nil, openRedislock},
	{"rueidislock", "uhwk", nil, openRueidislock},
	{"Redisson RLock", "uhwk", nil, nil},
	{"Redisson RFairLock", "uh", nil, nil},
	{"Redisson RedLock", "r", nil, nil},
}

func ours(kind bench.Kind) opener {
	return func(addrs []string, lease time.Duration) (locker, error) {
		s, err := holdfast.Open(rueidis.ClientOption{InitAddress: addrs}, &holdfast.Options{Lease: lease})
		if err != nil {
			return nil, err
		}
		return func(name string) lock { return holdfastLock(kind(s, name)) }, nil
	}
}

func holdfastLock(l holdfast.Locker) lock {
	return func(ctx context.Context) (held, error) {
		h, err := l.Lock(ctx)
		if err != nil {
			return held{}, err
		}
		return held{release: h.Release}, nil
	}
}

func ourRedLock(addrs []string, lease time.Duration) (locker, error) {
	var sessions []*holdfast.Session
	for _, addr := range addrs {
		s, err := holdfast.Open(rueidis.ClientOption{InitAddress: []string{addr}}, &holdfast.Options{Lease: lease})
		if err != nil {
			return nil, err
		}
		sessions = append(sessions, s)
	}
	return func(name string) lock {
		var members []holdfast.Locker
		for _, s := range sessions {
			members = append(members, rlock.New(s, name, nil))
		}
		// The servers have just started, and have forgotten nothing.
		return holdfastLock(multilock.NewRedLock(members, &multilock.RedLockOptions{TrustRestarted: true}))
	}, nil
}

func bareClient(addrs []string) (rueidis.Client, error) {
	return rueidis.NewClient(rueidis.ClientOption{InitAddress: addrs})
}

func bareScripts(addrs []string, lease time.Duration) (locker, error) {
	c, err := bareClient(addrs)
	return func(name string) lock {
		take, release := bench.Bare(c, name, rand.Text(), lease)
		return func(ctx context.Context) (held, error) {
			return held{release: func() error { return release(ctx) }}, take(ctx)
		}
	}, err
}

// bareSet sends the least that the lock of one string needs.
func bareSet(addrs []string, lease time.Duration) (locker, error) {
	c, err := bareClient(addrs)
	free := rueidis.NewLuaScript(`return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1]) or 0`)
	return func(name string) lock {
		token, keys := rand.Text(), []string{name}
		return func(ctx context.Context) (held, error) {
			set := c.B().Set().Key(name).Value(token).Nx().PxMilliseconds(lease.Milliseconds()).Build()
			return held{release: func() error {
				return free.Exec(ctx, c, keys, []string{token}).Error()
			}}, c.Do(ctx, set).Error()
		}
	}, err
}

func rueidisPool(addr string) (redsyncpool.Pool, error) {
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}})
	if err != nil {
		return nil, err
	}
	return redsyncrueidis.NewPool(rueidiscompat.NewAdapter(c)), nil
}

func goredisPool(addr string) (redsyncpool.Pool, error) {
	return goredis.NewPool(redis.NewClient(&redis.Options{Addr: addr})), nil
}

// redsyncOn leaves everything but the lease at redsync's defaults: 32 attempts with 50 to 250 ms between them. Who
// waits for longer starts over.
func redsyncOn(pool func(addr string) (redsyncpool.Pool, error)) opener {
	return func(addrs []string, lease time.Duration) (locker, error) {
		var pools []redsyncpool.Pool
		for _, addr := range addrs {
			p, err := pool(addr)
			if err != nil {
				return nil, err
			}
			pools = append(pools, p)
		}
		rs := redsync.New(pools...)
		return func(name string) lock {
			mutex := rs.NewMutex(name, redsync.WithExpiry(lease))
			return func(ctx context.Context) (held, error) {
				var taken *redsync.ErrTaken
				err := mutex.LockContext(ctx)
				for ctx.Err() == nil && (errors.As(err, &taken) || errors.Is(err, redsync.ErrFailed)) {
					err = mutex.LockContext(ctx)
				}
				return held{release: did(mutex.Unlock), extend: did(mutex.Extend)}, err
			}
		}, nil
	}
}

func did(f func() (bool, error)) func() error {
	return func() error {
		if ok, err := f(); !ok || err != nil {
			return fmt.Errorf("redsync: %t, %w", ok, err)
		}
		return nil
	}
}

// openRedislock retries as its example does. Without a deadline in the context it gives up after a lease, and then
// whoever waits starts over.
func openRedislock(addrs []string, lease time.Duration) (locker, error) {
	locks := redislock.New(redis.NewClient(&redis.Options{Addr: addrs[0]}))
	return func(name string) lock {
		return func(ctx context.Context) (held, error) {
			retry := &redislock.Options{RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond)}
			l, err := locks.Obtain(ctx, name, lease, retry)
			for ctx.Err() == nil && (errors.Is(err, redislock.ErrNotObtained) || errors.Is(err, context.DeadlineExceeded)) {
				l, err = locks.Obtain(ctx, name, lease, retry)
			}
			release := func() error { return l.Release(context.Background()) }
			extend := func() error { return l.Refresh(context.Background(), lease, nil) }
			return held{release: release, extend: extend}, err
		}
	}, nil
}

// openRueidislock has the settings that its README recommends for one server that is new enough.
func openRueidislock(addrs []string, lease time.Duration) (locker, error) {
	l, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: addrs}, KeyMajority: 1, NoLoopTracking: true, KeyValidity: lease,
	})
	if err != nil {
		return nil, err
	}
	return func(name string) lock {
		return func(ctx context.Context) (held, error) {
			_, cancel, err := l.WithContext(ctx, name)
			return held{release: func() error { cancel(); return nil }}, err
		}
	}, nil
}
