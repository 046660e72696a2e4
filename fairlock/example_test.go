package fairlock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fairlock"
)

// Three goroutines queue one after another, and are served in that order. They could as well be three processes.
func Example() {
	session := open()
	defer session.Close()
	counter := fairlock.New(session, "counter", nil)

	hold, err := counter.Lock(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	var customers sync.WaitGroup
	for i, name := range []string{"Ada", "Grace", "Barbara"} {
		customers.Go(func() {
			err := holdfast.Do(context.Background(), counter.Lock, func(context.Context) error {
				fmt.Println("served:", name)
				return nil
			})
			if err != nil {
				fmt.Println(err)
			}
		})
		untilQueued(counter, i+1)
	}
	if err := hold.Release(); err != nil {
		fmt.Println(err)
	}
	customers.Wait()
	// Output:
	// served: Ada
	// served: Grace
	// served: Barbara
}

// A single attempt does not overtake waiters.
func ExampleMutex_TryLock() {
	session := open()
	defer session.Close()
	report := fairlock.New(session, "report", nil)

	hold, err := report.TryLock(context.Background()) // nobody has it, nobody waits
	if err != nil {
		fmt.Println(err)
		return
	}
	next := make(chan *holdfast.Hold)
	go func() {
		hold, err := report.Lock(context.Background())
		if err != nil {
			fmt.Println(err)
		}
		next <- hold
	}()
	untilQueued(report, 1)

	_, err = report.TryLock(context.Background())
	fmt.Println(errors.Is(err, holdfast.ErrBusy))
	fmt.Println(err)

	fmt.Println(hold.Release())
	fmt.Println((<-next).Release()) // the lock went to the waiter
	// Output:
	// true
	// fairlock "report": try lock: holdfast: busy
	// <nil>
	// <nil>
}

// This is Java's tryLock(waitTime, leaseTime, unit). A waiter whose time is over leaves the queue, and delays nobody.
func ExampleMutex_TryLockFor() {
	session := open()
	defer session.Close()
	report := fairlock.New(session, "monthly report", &fairlock.Options{FixedLease: 10 * time.Second})

	hold, err := report.TryLockFor(context.Background(), 3*time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer hold.Release()
	fmt.Println(time.Until(hold.Deadline()) > 9*time.Second)

	_, err = report.TryLockFor(context.Background(), 50*time.Millisecond) // another caller
	fmt.Println(errors.Is(err, holdfast.ErrBusy))
	untilQueued(report, 0)
	// Output:
	// true
	// true
}

// This shows the waiters in order. The first one gets the lock next.
func ExampleMutex_Waiters() {
	session := open()
	defer session.Close()
	press := fairlock.New(session, "press", nil)

	hold, err := press.Lock(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	var printed sync.WaitGroup
	holders := make(chan string, 2)
	for i := range 2 {
		printed.Go(func() {
			hold, err := press.Lock(context.Background())
			if err != nil {
				fmt.Println(err)
				return
			}
			defer hold.Release()
			holders <- hold.ID()
		})
		untilQueued(press, i+1)
	}

	waiters, err := press.Waiters(context.Background())
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

// untilQueued returns when n stand in the lock's queue.
func untilQueued(lock *fairlock.Mutex, n int) {
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
