package holdfasttest_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/rlock"
)

// In these examples t stands for the *testing.T of a test.

func ExampleOpen() {
	t := &fakeTest{}
	t.run(func() {
		orders := rlock.New(holdfasttest.Open(t), "orders", nil)
		err := holdfast.Do(context.Background(), orders.Lock, func(context.Context) error {
			fmt.Println("working")
			return nil
		})
		fmt.Println(err)
		holdfasttest.AssertFree(t, orders)
	})
	// Output:
	// working
	// <nil>
}

func ExampleServer_Advance() {
	t := &fakeTest{}
	t.run(func() {
		server := holdfasttest.NewServer(t)
		ours := rlock.New(server.Open(nil), "orders", nil)
		theirs := rlock.New(server.Open(nil), "orders", nil)

		ctx := context.Background()
		hold, _ := ours.Lock(ctx)
		server.Advance(20 * time.Second) // renewed
		_, err := theirs.TryLock(ctx)
		fmt.Println(hold.Err(), errors.Is(err, holdfast.ErrBusy))

		server.Advance(31 * time.Second) // longer than the lease, at once
		_, err = theirs.TryLock(ctx)
		fmt.Println(errors.Is(hold.Err(), holdfast.ErrLost), err)
	})
	// Output:
	// <nil> true
	// true <nil>
}

func ExampleLose() {
	t := &fakeTest{}
	t.run(func() {
		orders := rlock.New(holdfasttest.Open(t), "orders", nil)
		hold, _ := orders.Lock(context.Background())
		ctx := hold.Context(context.Background())
		holdfasttest.Lose(t, hold)
		fmt.Println(errors.Is(context.Cause(ctx), holdfast.ErrLost))
	})
	// Output: true
}

func ExampleServer_DropReplies() {
	t := &fakeTest{}
	t.run(func() {
		server := holdfasttest.NewServer(t)
		orders := rlock.New(server.Open(nil), "orders", nil)
		server.DropReplies()
		ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
		defer cancel()
		_, err := orders.TryLock(ctx)
		fmt.Println(errors.Is(err, holdfast.ErrUnknown))
	})
	// Output: true
}
