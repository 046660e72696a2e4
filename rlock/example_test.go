package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
)

// A function that takes the lock calls another that takes it: the same lock, twice.
func Example() {
	session := open()
	defer session.Close()
	account := rlock.New(session, "account:7", nil)

	withdraw := func(ctx context.Context) error {
		hold, err := account.Lock(ctx)
		if err != nil {
			return err
		}
		defer hold.Release()
		n, err := account.HoldCount(hold.Context(ctx))
		fmt.Println("withdrawing, held", n, "times")
		return err
	}
	transfer := func(ctx context.Context) error {
		hold, err := account.Lock(ctx)
		if err != nil {
			return err
		}
		defer hold.Release()
		return withdraw(hold.Context(ctx))
	}

	if err := transfer(context.Background()); err != nil {
		fmt.Println(err)
	}
	locked, err := account.Locked(context.Background())
	fmt.Println("still locked:", locked, err)
	// Output:
	// withdrawing, held 2 times
	// still locked: false <nil>
}

// This makes one attempt, and shows the error if somebody else has the lock.
func ExampleMutex_TryLock() {
	session := open()
	defer session.Close()
	report := rlock.New(session, "report", nil)

	hold, err := report.TryLock(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer hold.Release()

	_, err = report.TryLock(context.Background()) // another caller
	fmt.Println(errors.Is(err, holdfast.ErrBusy))
	fmt.Println(err)
	// Output:
	// true
	// rlock "report": try lock: holdfast: busy
}

// This is Java's tryLock(waitTime, leaseTime, unit).
func ExampleMutex_TryLockFor() {
	session := open()
	defer session.Close()

	lock := rlock.New(session, "orders:42", &rlock.Options{FixedLease: 10 * time.Second})
	hold, err := lock.TryLockFor(context.Background(), 3*time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer hold.Release()
	fmt.Println(time.Until(hold.Deadline()) > 9*time.Second)
	// Output: true
}

// Two sessions, which could as well be two processes, wait for the lock. A release hands it to the first of them.
func ExampleMutex_Waiters() {
	ctx := context.Background()
	holder := open()
	defer holder.Close()
	press := rlock.New(holder, "press", nil)
	hold, err := press.Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	var printed sync.WaitGroup
	holders := make(chan string, 2)
	for i := range 2 {
		session := open()
		defer session.Close()
		printed.Go(func() {
			err := holdfast.Do(ctx, rlock.New(session, "press", nil).Lock, func(ctx context.Context) error {
				all, err := press.Holders(ctx)
				holders <- all[0].ID
				return err
			})
			if err != nil {
				fmt.Println(err)
			}
		})
		untilWaiting(press, i+1)
	}

	waiters, err := press.Waiters(ctx)
	if err != nil || len(waiters) != 2 {
		fmt.Println(waiters, err)
		return
	}
	fmt.Println("taken to be alive for", waiters[0].Alive.Round(5*time.Second))
	if err := hold.Release(); err != nil {
		fmt.Println(err)
	}
	printed.Wait()
	fmt.Println(<-holders == waiters[0].ID, <-holders == waiters[1].ID)
	// Output:
	// taken to be alive for 15s
	// true true
}

// untilWaiting returns when n sessions wait in the lock's line.
func untilWaiting(lock *rlock.Mutex, n int) {
	for {
		waiters, err := lock.Waiters(context.Background())
		if err != nil {
			fmt.Println(err)
			return
		}
		if len(waiters) == n {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// prices is a resource that checks tokens. It keeps the newest one that it has seen with what it protects.
type prices struct {
	mu     sync.Mutex
	newest int64
	cents  int
}

var errTooLate = errors.New("somebody has locked it since")

// seen refuses a token that is older than one it has seen, when reading as well as when writing.
func (p *prices) seen(token int64) error {
	if token < p.newest {
		return errTooLate
	}
	p.newest = token
	return nil
}

func (p *prices) read(token int64) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cents, p.seen(token)
}

func (p *prices) write(token int64, cents int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.seen(token); err != nil {
		return err
	}
	p.cents = cents
	return nil
}

// The resource refuses a token that is older than one it has seen, so a holder that was
// paused for longer than its lease cannot overwrite what its successor relies on.
func ExampleOptions_fenced() {
	ctx := context.Background()
	session := open()
	defer session.Close()
	lock := rlock.New(session, "price:socks", &rlock.Options{Fenced: true})
	socks := &prices{cents: 199}

	paused, err := lock.Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := lock.ForceUnlock(ctx); err != nil { // as if its lease had ended
		fmt.Println(err)
	}
	successor, err := lock.Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer successor.Release()

	cents, err := socks.read(successor.Token())
	fmt.Println("read:", cents, err)
	fmt.Println("the one that was paused:", socks.write(paused.Token(), 99))
	fmt.Println("its successor:", socks.write(successor.Token(), cents+50))
	// Output:
	// read: 199 <nil>
	// the one that was paused: somebody has locked it since
	// its successor: <nil>
}

// Goroutines that get a hold's context share its owner. With NewOwner they exclude each other.
func ExampleNew_owners() {
	session := open()
	defer session.Close()
	ledger := rlock.New(session, "ledger", nil)

	var wg sync.WaitGroup
	sum := 0
	for i := range 10 {
		wg.Go(func() {
			ctx := holdfast.NewOwner(context.Background())
			err := holdfast.Do(ctx, ledger.Lock, func(context.Context) error {
				sum += i // guarded by the lock
				return nil
			})
			if err != nil {
				fmt.Println(err)
			}
		})
	}
	wg.Wait()
	fmt.Println(sum)
	// Output: 45
}

// A dashboard follows a lock without taking it.
func ExampleMutex_watch() {
	session := open()
	defer session.Close()
	nightly := rlock.New(session, "nightly", nil)

	hold, err := nightly.Lock(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	for state, err := range nightly.Watch(context.Background()) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(state)
		if state != holdfast.Held {
			return
		}
		_ = hold.Release()
	}
	// Output:
	// held
	// free
}
