package main

import (
	"context"
	"errors"
	"log"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
)

func main() {
	session, err := holdfast.Open(rueidis.ClientOption{InitAddress: []string{"127.0.0.1:6379"}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()

	orders := rlock.New(session, "orders:42", nil) // a name and settings: cheap to make, nothing to close

	err = holdfast.Do(context.Background(), orders.Lock, ship)
	if errors.Is(err, holdfast.ErrLost) {
		log.Print("the lock was lost while the order was shipped: ", err)
	} else if err != nil {
		log.Print(err)
	}
}

// ship runs while nobody else, in Go or in Java, has the lock. Its ctx ends if the lock is lost.
func ship(ctx context.Context) error {
	log.Print("shipping")
	return ctx.Err()
}
