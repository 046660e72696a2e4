package multilock_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
)

// Both accounts are locked, or none; and nobody who moves money the other way waits in a circle.
func Example() {
	session := open()
	defer session.Close()
	ctx := context.Background()

	accounts := multilock.New(rlock.New(session, "account:2", nil), rlock.New(session, "account:1", nil))
	err := holdfast.Do(ctx, accounts.Lock, func(context.Context) error {
		_, err := rlock.New(session, "account:1", nil).TryLock(context.Background()) // somebody else
		fmt.Println(accounts.Name(), errors.Is(err, holdfast.ErrBusy))
		return nil
	})
	fmt.Println(err)
	// Output:
	// account:1, account:2 true
	// <nil>
}
