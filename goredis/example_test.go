package goredis_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/goredis"
	"github.com/holdfast-go/holdfast/internal/embedded"
	"github.com/holdfast-go/holdfast/rlock"
)

var address string

func TestMain(m *testing.M) {
	server, err := embedded.Start()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	address = server.Addr()
	code := m.Run()
	server.Close()
	os.Exit(code)
}

// A program that has go-redis, and locks with Holdfast.
func Example() {
	options := &redis.UniversalOptions{Addrs: []string{address}} // the program's own, of any kind
	rdb := redis.NewUniversalClient(options)
	defer rdb.Close()

	client, err := goredis.ClientOption(options)
	if err != nil {
		fmt.Println(err) // it names the field, and says why
		return
	}
	session, err := holdfast.Open(client, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer session.Close()

	orders := rlock.New(session, "orders:42", nil)
	err = holdfast.Do(context.Background(), orders.Lock, func(ctx context.Context) error {
		return rdb.Incr(ctx, "shipped").Err()
	})
	fmt.Println(rdb.Get(context.Background(), "shipped").Val(), err)
	// Output: 1 <nil>
}
