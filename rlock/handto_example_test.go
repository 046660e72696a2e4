package rlock_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
)

// A session is replaced by another one, say with another password, while a job runs. The lock goes along: nobody else
// can get it in between, and its fencing token stays.
func Example_handTo() {
	old, next := open(), open()
	defer next.Close()
	ctx := context.Background()

	hold, err := rlock.New(old, "import", &rlock.Options{Fenced: true}).Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	token := hold.Token()
	moved, err := hold.HandTo(ctx, next)
	if err != nil {
		fmt.Println(err) // then hold still has it
		return
	}
	defer moved.Release()
	_ = old.Close()

	fmt.Println(errors.Is(hold.Err(), holdfast.ErrNotHeld), moved.Err(), moved.Token() == token)
	_, err = rlock.New(next, "import", nil).TryLock(ctx) // by another owner
	fmt.Println(errors.Is(err, holdfast.ErrBusy))
	// Output:
	// true <nil> true
	// true
}
