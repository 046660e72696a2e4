package once_test

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/once"
)

// Cron starts the job on every machine. One of them runs it.
func ExampleJob_Run() {
	session := open()
	defer session.Close()
	ctx := context.Background()

	for _, machine := range []string{"a", "b"} { // in real life each is a process
		ran, err := once.New(session, "cron:report", 50*time.Minute, nil).Run(ctx, func(context.Context) error {
			fmt.Println("the report of", machine)
			return nil
		})
		fmt.Println(ran, err)
	}
	// Output:
	// the report of a
	// true <nil>
	// false <nil>
}

// Every process has this loop. A job that is due is run by one of them.
func ExampleEvery() {
	session := open()
	defer session.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	err := once.Every(ctx, session, "cron:cleanup", time.Hour, func(context.Context) error {
		fmt.Println("cleaned up")
		stop()
		return nil
	})
	fmt.Println(err)
	// Output:
	// cleaned up
	// rlock "cron:cleanup": lock: context canceled
}
