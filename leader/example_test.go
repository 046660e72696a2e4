package leader_test

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/leader"
)

// Two processes stand for election. The first one leads until it returns, then the second one does.
func Example() {
	first, second := open(), open() // in two processes
	defer first.Close()
	defer second.Close()
	ctx := context.Background()

	leads, leave := make(chan int64), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- leader.Run(ctx, first, "billing", func(ctx context.Context) error {
			leads <- leader.Term(ctx)
			<-leave // until then, or until ctx.Done(), it works
			return nil
		})
	}()
	term := <-leads

	go func() { close(leave) }()
	err := leader.Run(ctx, second, "billing", func(ctx context.Context) error {
		fmt.Println("a later term:", leader.Term(ctx) > term)
		return nil
	})
	fmt.Println(<-done, err)
	// Output:
	// a later term: true
	// <nil> <nil>
}

// The loop runs once for the present leader, and then after each change.
func ExampleWatch() {
	session := open()
	defer session.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_ = leader.Run(ctx, session, "reports", func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		})
	}()

	for l, err := range leader.Watch(ctx, session, "reports") {
		if err != nil {
			fmt.Println(err)
			return
		}
		if l.Term == 0 { // nobody leads yet
			continue
		}
		fmt.Println("somebody leads, since this moment:", !l.Since.IsZero())
		break
	}
	// Output:
	// somebody leads, since this moment: true
}
