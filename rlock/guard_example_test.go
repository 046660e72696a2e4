package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/rlock"
)

// sell takes a ticket from those that are left. If this process stops anywhere, and another one has the lock when it
// goes on, nothing is written.
func sell(ctx context.Context, session *holdfast.Session, client rueidis.Client, to string) error {
	hold, err := rlock.New(session, "tickets", nil).Lock(ctx)
	if err != nil {
		return err
	}
	defer hold.Release()
	left, err := client.Do(ctx, client.B().Get().Key("{tickets}:left").Build()).AsInt64()
	if err != nil {
		return err
	}
	if left == 0 {
		return errSoldOut
	}
	_, err = hold.Guard(ctx,
		client.B().Set().Key("{tickets}:left").Value(strconv.FormatInt(left-1, 10)).Build(),
		client.B().Rpush().Key("{tickets}:sold").Element(to).Build())
	return err
}

var errSoldOut = errors.New("sold out")

// A write that rests on what was read before is guarded by the hold.
func Example_guard() {
	ctx := context.Background()
	session, client := open(), connect()
	defer session.Close()
	defer client.Close()
	_ = client.Do(ctx, client.B().Set().Key("{tickets}:left").Value("2").Build())

	for _, to := range []string{"Ada", "Grace", "Edsger"} {
		fmt.Println(to, sell(ctx, session, client, to))
	}

	// A process that was stopped believes that it has the lock. The server says that somebody else has.
	late, err := rlock.New(session, "tickets", nil).Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = client.Do(ctx, client.B().Del().Key("tickets").Build()) // as if its lease were over
	_, err = late.Guard(ctx, client.B().Set().Key("{tickets}:left").Value("1").Build())
	fmt.Println(errors.Is(err, holdfast.ErrLost))
	left, err := client.Do(ctx, client.B().Get().Key("{tickets}:left").Build()).ToString()
	fmt.Println(left, err)
	// Output:
	// Ada <nil>
	// Grace <nil>
	// Edsger sold out
	// true
	// 0 <nil>
}
