package multilock_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
)

// Both accounts are locked, or none; and a transfer the other way cannot deadlock with this one.
func Example() {
	session := open()
	defer session.Close()
	ctx := context.Background()

	accounts := multilock.New(rlock.New(session, "account:2", nil), rlock.New(session, "account:1", nil))
	err := holdfast.Do(ctx, accounts.Lock, func(context.Context) error {
		_, err := rlock.New(session, "account:1", nil).TryLock(context.Background()) // somebody else holds one
		fmt.Println(accounts.Name(), errors.Is(err, holdfast.ErrBusy))
		return nil
	})
	fmt.Println(err)
	// Output:
	// account:1, account:2 true
	// <nil>
}

// The leader is whoever has the lock on most of five servers, whatever happens to the others.
func ExampleNewRedLock() {
	ctx := context.Background()
	var locks []holdfast.Locker
	for _, session := range openAll() {
		defer session.Close()
		locks = append(locks, rlock.New(session, "leader", nil))
	}
	leader := multilock.NewRedLock(locks, nil)

	err := holdfast.Do(ctx, leader.Lock, func(ctx context.Context) error {
		_, err := leader.TryLock(context.Background()) // somebody else tries
		fmt.Println(leader.Name(), errors.Is(err, holdfast.ErrBusy))
		_, err = locks[0].(*rlock.Mutex).ForceUnlock(ctx) // one server loses it
		fmt.Println(err, ctx.Err())
		return nil
	})
	fmt.Println(err)
	// Output:
	// leader true
	// <nil> <nil>
	// <nil>
}
