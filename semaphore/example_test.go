package semaphore_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/semaphore"
)

func Example() {
	session := open()
	defer session.Close()
	ctx := context.Background()

	exports := semaphore.New(session, "exports")
	if _, err := exports.TrySetPermits(ctx, 3); err != nil { // false: another process was first
		fmt.Println(err)
		return
	}
	if err := exports.Acquire(ctx, 1); err != nil {
		fmt.Println(err)
		return
	}
	defer exports.Release(ctx, 1) // sent even if ctx has ended

	free, err := exports.AvailablePermits(ctx)
	fmt.Println(free, err)
	// Output:
	// 2 <nil>
}

// A large request is served in its turn, however many small ones come after it.
func ExampleSemaphore_Acquire() {
	session := open()
	defer session.Close()
	ctx := context.Background()

	memory := semaphore.New(session, "gigabytes")
	if _, err := memory.TrySetPermits(ctx, 16); err != nil {
		fmt.Println(err)
		return
	}
	if err := memory.Acquire(ctx, 10); err != nil {
		fmt.Println(err)
		return
	}
	err := memory.TryAcquireFor(ctx, 12, 50*time.Millisecond)
	fmt.Println(errors.Is(err, holdfast.ErrBusy))
	if err := memory.Release(ctx, 10); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(memory.TryAcquire(ctx, 12))
	// Output:
	// true
	// <nil>
}
