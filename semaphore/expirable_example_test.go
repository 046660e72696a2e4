package semaphore_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/semaphore"
)

// At most three exports run at a time, in all processes together. If a process dies, its permit comes back by itself.
func ExampleExpirable() {
	session := open()
	defer session.Close()
	ctx := context.Background()

	exports := semaphore.NewExpirable(session, "exports:leased", nil)
	if _, err := exports.TrySetPermits(ctx, 3); err != nil { // false: another process was first
		fmt.Println(err)
		return
	}
	err := holdfast.Do(ctx, exports.Acquire, func(ctx context.Context) error {
		free, err := exports.AvailablePermits(ctx)
		fmt.Println(free, err)
		return nil // Do returns an error if the permit was lost meanwhile
	})
	fmt.Println(err)
	// Output:
	// 2 <nil>
	// <nil>
}

// Several permits are taken together, or none of them.
func ExampleExpirable_AcquireN() {
	session := open()
	defer session.Close()
	ctx := context.Background()

	gigabytes := semaphore.NewExpirable(session, "gigabytes:leased", nil)
	if _, err := gigabytes.TrySetPermits(ctx, 16); err != nil {
		fmt.Println(err)
		return
	}
	holds, err := gigabytes.AcquireN(ctx, 10)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = gigabytes.TryAcquireN(ctx, 10)
	fmt.Println(len(holds), errors.Is(err, holdfast.ErrBusy))
	for _, hold := range holds {
		if err := hold.Release(); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// 10 true
}

// A permit is handed by its id to another process, which gives it back, once.
func ExampleExpirable_Release() {
	session := open()
	defer session.Close()
	ctx := context.Background()

	exports := semaphore.NewExpirable(session, "exports:handed", &semaphore.ExpirableOptions{FixedLease: time.Hour})
	if _, err := exports.TrySetPermits(ctx, 3); err != nil {
		fmt.Println(err)
		return
	}
	hold, err := exports.Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	id := hold.ID() // for the other process
	if err := hold.Detach(); err != nil {
		fmt.Println(err)
		return
	}

	elsewhere := open()
	defer elsewhere.Close()
	handed := semaphore.NewExpirable(elsewhere, "exports:handed", nil)
	fmt.Println(handed.Release(ctx, id))
	fmt.Println(errors.Is(handed.Release(ctx, id), holdfast.ErrNotHeld))
	// Output:
	// <nil>
	// true
}
