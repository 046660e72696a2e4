package latch_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/holdfast-go/holdfast/latch"
)

// Workers begin when all of them are ready, and the coordinator goes on when all of them are done.
func Example() {
	session := open()
	defer session.Close()
	ctx := context.Background()

	const workers = 3
	start, done := latch.New(session, "run 42:start"), latch.New(session, "run 42:done")
	for _, l := range []*latch.Latch{start, done} {
		if _, err := l.TrySetCount(ctx, workers); err != nil {
			fmt.Println(err)
			return
		}
	}
	var ready sync.WaitGroup
	for range workers { // in real life each is a process
		ready.Go(func() {
			if err := start.CountDown(ctx); err != nil {
				fmt.Println(err)
			}
			if err := start.Wait(ctx); err != nil {
				fmt.Println(err)
			}
			// … work …
			if err := done.CountDown(ctx); err != nil {
				fmt.Println(err)
			}
		})
	}
	if err := done.Wait(ctx); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("all are done")
	ready.Wait()

	again, err := done.TrySetCount(ctx, 1) // an open latch can be set again
	fmt.Println(again, err)
	// Output:
	// all are done
	// true <nil>
}
