package setlockinterop

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/setlock"
)

// patience is how long anything may take that is expected to happen.
const patience = 30 * time.Second

// errImpatient says that a wait was longer than that.
var errImpatient = errors.New("the lock was not to be had in time")

// A library takes locks that are one string.
type library struct {
	name string
	open func(addr string) (program, error)

	// notMine reports whether an error says, in the library's own way, that the lock is not the caller's.
	notMine func(error) bool
}

// A program uses a library.
type program interface {
	mutex(s spec) mutex
	close() error
}

// A spec is what a lock is made with.
type spec struct {
	name  string
	lease time.Duration
	token string        // "": the library makes one
	poll  time.Duration // between two looks of who waits, where that can be chosen; 0: the library's default
}

// A mutex is a lock in the hands of one who uses a library. Errors are the library's own.
type mutex interface {
	try() (bool, error)           // one attempt
	wait() error                  // takes it when it is free
	extend(d time.Duration) error // to d from now
	release() error
	mine() (bool, error) // whether it is held by the token that this one has
	token() (string, error)
	claim(token string) error // takes over what the token holds
	letGo() error             // without giving it back
	count(addr, key string, rounds int) error
}

var (
	ours = library{"setlock", openOurs, isLost}

	redsyncLibrary   = library{"redsync", openRedsync, isNotRedsyncs}
	redislockLibrary = library{"redislock", openRedislock, isNotRedislocks}
	redisPy          = library{"redis-py", openPython, isNotPythons}

	theirs = []library{redsyncLibrary, redislockLibrary, redisPy}
)

func isLost(err error) bool { return errors.Is(err, holdfast.ErrLost) }

func isNotRedsyncs(err error) bool {
	taken, ok := errors.AsType[*redsync.ErrTaken](err)
	return errors.Is(err, redsync.ErrLockAlreadyExpired) || ok && len(taken.Nodes) == 1
}

func isNotRedislocks(err error) bool {
	return errors.Is(err, redislock.ErrLockNotHeld) || errors.Is(err, redislock.ErrNotObtained)
}

func isNotPythons(err error) bool {
	raised, ok := errors.AsType[*pythonError](err)
	return ok && raised.class == "LockNotOwnedError"
}

// countUnder adds one to a key, so many times, reading and writing it under the lock.
func countUnder(m mutex, addr, key string, rounds int) (err error) {
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { err = errors.Join(err, client.Close()) }()
	for range rounds {
		if err := m.wait(); err != nil {
			return err
		}
		seen, err := client.Get(context.Background(), key).Int()
		if err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		time.Sleep(time.Millisecond) // for others to come in between
		if err := client.Set(context.Background(), key, strconv.Itoa(seen+1), 0).Err(); err != nil {
			return err
		}
		if err := m.release(); err != nil {
			return err
		}
	}
	return nil
}

// An ourProgram uses setlock.
type ourProgram struct{ session *holdfast.Session }

func openOurs(addr string) (program, error) { return openOursFor(addr, long) }

// openOursFor opens a session whose locks are renewed with that lease, if none is asked for.
func openOursFor(addr string, lease time.Duration) (*ourProgram, error) {
	session, err := holdfast.Open(rueidis.ClientOption{InitAddress: []string{addr}},
		&holdfast.Options{Lease: lease, Anonymous: true})
	return &ourProgram{session}, err
}

func (p *ourProgram) close() error { return p.session.Close() }

func (p *ourProgram) mutex(s spec) mutex { return p.setlock(s) }

func (p *ourProgram) setlock(s spec) *ourMutex {
	return &ourMutex{lock: setlock.New(p.session, s.name, &setlock.Options{FixedLease: s.lease, Token: s.token})}
}

type ourMutex struct {
	lock *setlock.Mutex
	hold *holdfast.Hold
}

func (m *ourMutex) try() (bool, error) {
	hold, err := m.lock.TryLock(context.Background())
	if errors.Is(err, holdfast.ErrBusy) {
		return false, nil
	}
	m.hold = hold
	return err == nil, err
}

func (m *ourMutex) wait() (err error) {
	m.hold, err = m.lock.TryLockFor(context.Background(), patience)
	return err
}

func (m *ourMutex) extend(d time.Duration) error { return m.hold.Extend(context.Background(), d) }

func (m *ourMutex) release() error { return m.hold.Release() }

func (m *ourMutex) mine() (bool, error) { return m.hold.Err() == nil, nil }

func (m *ourMutex) token() (string, error) { return m.hold.ID(), nil }

func (m *ourMutex) claim(token string) (err error) {
	m.hold, err = m.lock.Adopt(context.Background(), token)
	return err
}

func (m *ourMutex) letGo() error { return m.hold.Detach() }

func (m *ourMutex) count(addr, key string, rounds int) error { return countUnder(m, addr, key, rounds) }

// A redsyncProgram uses redsync with one server, by go-redis.
type redsyncProgram struct {
	client  *redis.Client
	redsync *redsync.Redsync
}

func openRedsync(addr string) (program, error) {
	client := redis.NewClient(&redis.Options{Addr: addr})
	return &redsyncProgram{client, redsync.New(goredis.NewPool(client))}, nil
}

func (p *redsyncProgram) close() error { return p.client.Close() }

func (p *redsyncProgram) mutex(s spec) mutex {
	options := []redsync.Option{
		redsync.WithExpiry(s.lease),
		redsync.WithTries(1 << 20),         // the context ends a wait
		redsync.WithTimeoutFactor(1 - 0.1), // of the expiry; a machine may be busy
	}
	if s.poll > 0 {
		options = append(options, redsync.WithRetryDelay(s.poll))
	}
	if s.token != "" {
		options = append(options, redsync.WithGenValueFunc(func() (string, error) { return s.token, nil }))
	}
	return &redsyncMutex{program: p, spec: s, Mutex: p.redsync.NewMutex(s.name, options...)}
}

type redsyncMutex struct {
	*redsync.Mutex

	program *redsyncProgram
	spec    spec
}

func (m *redsyncMutex) try() (bool, error) {
	err := m.TryLock()
	if _, taken := errors.AsType[*redsync.ErrTaken](err); taken {
		return false, nil
	}
	return err == nil, err
}

func (m *redsyncMutex) wait() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return m.LockContext(ctx)
}

func (m *redsyncMutex) extend(d time.Duration) error {
	longer := m.program.redsync.NewMutex(m.spec.name, redsync.WithValue(m.Value()), redsync.WithExpiry(d))
	return refused(longer.Extend())
}

func (m *redsyncMutex) release() error { return refused(m.Unlock()) }

// refused is the error, also of what redsync says with a boolean only.
func refused(ok bool, err error) error {
	if !ok && err == nil {
		return errors.New("redsync: refused")
	}
	return err
}

func (m *redsyncMutex) mine() (bool, error) {
	valid, err := m.Valid() //nolint:staticcheck // deprecated, and the only way to ask the server
	if isNotRedsyncs(err) {
		return false, nil // no is an error as well
	}
	return valid, err
}

func (m *redsyncMutex) token() (string, error) { return m.Value(), nil }

func (m *redsyncMutex) claim(token string) error {
	m.Mutex = m.program.redsync.NewMutex(m.spec.name, redsync.WithValue(token), redsync.WithExpiry(m.spec.lease))
	return nil
}

func (m *redsyncMutex) letGo() error { return nil } // redsync does nothing by itself

func (m *redsyncMutex) count(addr, key string, rounds int) error {
	return countUnder(m, addr, key, rounds)
}

// A redislockProgram uses bsm's redislock, by go-redis.
type redislockProgram struct {
	client *redis.Client
	locks  *redislock.Client
}

func openRedislock(addr string) (program, error) {
	client := redis.NewClient(&redis.Options{Addr: addr})
	return &redislockProgram{client, redislock.New(client)}, nil
}

func (p *redislockProgram) close() error { return p.client.Close() }

func (p *redislockProgram) mutex(s spec) mutex { return &redislockMutex{program: p, spec: s} }

type redislockMutex struct {
	program *redislockProgram
	spec    spec
	lock    *redislock.Lock
}

func (m *redislockMutex) try() (bool, error) {
	err := m.obtain(&redislock.Options{Token: m.spec.token})
	if errors.Is(err, redislock.ErrNotObtained) {
		return false, nil
	}
	return err == nil, err
}

func (m *redislockMutex) wait() error {
	poll := 100 * time.Millisecond // there is no default
	if m.spec.poll > 0 {
		poll = m.spec.poll
	}
	return m.obtain(&redislock.Options{Token: m.spec.token, RetryStrategy: redislock.LinearBackoff(poll)})
}

func (m *redislockMutex) obtain(options *redislock.Options) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	lock, err := m.program.locks.Obtain(ctx, m.spec.name, m.spec.lease, options)
	if err == nil {
		m.lock = lock
	}
	return err
}

func (m *redislockMutex) extend(d time.Duration) error {
	return m.lock.Refresh(context.Background(), d, nil)
}

func (m *redislockMutex) release() error { return m.lock.Release(context.Background()) }

func (m *redislockMutex) mine() (bool, error) {
	left, err := m.lock.TTL(context.Background())
	return left > 0, err
}

func (m *redislockMutex) token() (string, error) { return m.lock.Token(), nil }

// claim obtains once more what the token holds, as redislock does for who brings the same token.
func (m *redislockMutex) claim(token string) error {
	return m.obtain(&redislock.Options{Token: token})
}

func (m *redislockMutex) letGo() error { return nil } // redislock does nothing by itself

func (m *redislockMutex) count(addr, key string, rounds int) error {
	return countUnder(m, addr, key, rounds)
}
