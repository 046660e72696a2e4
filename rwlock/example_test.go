package rwlock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rwlock"
)

func Example() {
	session := open()
	defer session.Close()
	ctx := context.Background()

	catalog := rwlock.New(session, "catalog", nil)
	first, err := catalog.Read().Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer first.Release()
	second, err := catalog.Read().Lock(ctx) // many read at a time
	if err != nil {
		fmt.Println(err)
		return
	}
	defer second.Release()

	readers, _ := catalog.Read().Holders(ctx)
	fmt.Println(len(readers), "readers")
	_, err = catalog.Write().TryLock(ctx) // nobody can write meanwhile
	fmt.Println("a writer:", errors.Is(err, holdfast.ErrBusy))
	// Output:
	// 2 readers
	// a writer: true
}

// A writer may go on reading what it wrote, and let others read, without anybody writing in between.
func Example_downgrade() {
	session := open()
	defer session.Close()
	ctx := context.Background()

	prices := rwlock.New(session, "prices", nil)
	writing, err := prices.Write().Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	// … write …
	reading, err := prices.Read().Lock(writing.Context(ctx)) // the same owner
	if err != nil {
		fmt.Println(err)
		return
	}
	defer reading.Release()
	if err := writing.Release(); err != nil { // waiting readers come in now
		fmt.Println(err)
		return
	}

	other, err := prices.Read().TryLock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer other.Release()
	fmt.Println("still read:", reading.Err() == nil)
	// Output:
	// still read: true
}

// A reader that asked to write would wait for itself, so it gets an error at once.
func Example_noUpgrade() {
	session := open()
	defer session.Close()
	ctx := context.Background()

	stock := rwlock.New(session, "stock", nil)
	reading, err := stock.Read().Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer reading.Release()
	_, err = stock.Write().Lock(reading.Context(ctx))
	fmt.Println(err)
	// Output:
	// rwlock.Write "stock": lock: holdfast: already held by this owner
}

// With PreferWriter a writer gets in although readers never pause.
func ExampleOptions_preferWriter() {
	session := open()
	defer session.Close()
	ctx := context.Background()

	feed := rwlock.New(session, "feed", &rwlock.Options{PreferWriter: true})
	reading, err := feed.Read().Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	wrote := make(chan struct{})
	go func() {
		defer close(wrote)
		_ = holdfast.Do(ctx, feed.Write().Lock, func(context.Context) error {
			fmt.Println("write")
			return nil
		})
	}()
	for { // until the writer waits
		another, err := feed.Read().TryLock(ctx)
		if errors.Is(err, holdfast.ErrBusy) {
			break
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		another.Release()
		time.Sleep(time.Millisecond)
	}
	fmt.Println("new readers wait")
	reading.Release()
	<-wrote
	// Output:
	// new readers wait
	// write
}
