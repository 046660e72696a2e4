package setlock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/setlock"
)

// One node does the job, and the others skip it, including those that take the lock with another library.
func Example() {
	session := open()
	defer session.Close()
	ctx := context.Background()

	nightly := setlock.New(session, "cron:nightly", nil)
	report := func(ctx context.Context) error {
		err := nightlyElsewhere(ctx) // meanwhile, on another node
		fmt.Println(errors.Is(err, holdfast.ErrBusy))
		return nil
	}
	fmt.Println(holdfast.Do(ctx, nightly.TryLock, report))
	// Output:
	// true
	// <nil>
}

func nightlyElsewhere(ctx context.Context) error {
	session := open()
	defer session.Close()
	return holdfast.Do(ctx, setlock.New(session, "cron:nightly", nil).TryLock,
		func(context.Context) error { return nil })
}

// A lock outlives the process that took it, and is handed over by its token.
func ExampleMutex_Adopt() {
	session := open()
	defer session.Close()
	ctx := context.Background()

	first, err := setlock.New(session, "migration", &setlock.Options{FixedLease: time.Minute}).Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	token := first.ID() // for the next process
	if err := first.Detach(); err != nil {
		fmt.Println(err)
		return
	}

	next := open()
	defer next.Close()
	hold, err := setlock.New(next, "migration", nil).Adopt(ctx, token) // renewed from now on
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(hold.Err(), hold.ID() == token)
	fmt.Println(hold.Release())
	// Output:
	// <nil> true
	// <nil>
}
