package barrier_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/holdfast-go/holdfast/barrier"
)

// Three workers do a job in stages, and begin none before all have done the one before. One of them leaves after the
// first stage, and the others go on.
func Example() {
	session := open()
	defer session.Close()
	ctx := context.Background()

	const workers, stages = 3, 3
	var (
		mu   sync.Mutex
		done [stages + 1]int // how many workers have done a stage
		all  sync.WaitGroup
	)
	for worker := range workers { // in real life each is a process
		all.Go(func() {
			party, err := barrier.New(session, "stages", workers, nil).Join(ctx)
			if err != nil {
				fmt.Println(err)
				return
			}
			defer party.Release()
			for stage := 1; stage <= stages; stage++ {
				mu.Lock()
				done[stage]++ // the work
				mu.Unlock()
				if _, err := party.Await(ctx); err != nil {
					fmt.Println(err)
					return
				}
				if worker == 0 {
					return
				}
			}
		})
	}
	all.Wait()
	fmt.Println(done[1:])
	// Output:
	// [3 2 2]
}

// With Breaks nobody goes on without a party that is gone. The others begin again when another one has its place.
func ExampleOptions() {
	session := open()
	defer session.Close()
	ctx := context.Background()

	pairs := barrier.New(session, "pairs", 2, &barrier.Options{Breaks: true})
	first, err := pairs.Join(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer first.Release()
	second, err := pairs.Join(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = second.Release() // or it dies
	_, err = first.Await(ctx)
	fmt.Println(err)

	second, err = pairs.Join(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer second.Release()
	go func() { _, _ = second.Await(ctx) }()
	fmt.Println(first.Await(ctx))
	// Output:
	// barrier "pairs": await: generation 1: holdfast: barrier broken
	// 2 <nil>
}
