package entry_test

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/entry"
	"github.com/holdfast-go/holdfast/multilock"
	"github.com/holdfast-go/holdfast/rlock"
)

// In Java this lock is redisson.getMap("accounts").getLock("anna"), with the default codec.
func Example() {
	session := open()
	defer session.Close()
	anna := rlock.New(session, entry.Lock("accounts", "anna", entry.Kryo5Codec), nil)

	err := holdfast.Do(context.Background(), anna.Lock, func(context.Context) error {
		fmt.Println(anna.Name())
		return nil
	})
	fmt.Println(err)
	// Output:
	// {accounts}:efydo1kXKDq6fmgCG0DBkw:lock
	// <nil>
}

// Two entries are locked by one command. In Java each of them is getLock(id), where the keys are of type Long.
func Example_severalEntries() {
	session := open()
	defer session.Close()
	account := func(id int64) holdfast.Locker {
		return rlock.New(session, entry.Lock("accounts", id, entry.Kryo5Codec), nil)
	}

	transfer := multilock.New(account(7), account(8))
	err := holdfast.Do(context.Background(), transfer.Lock, func(context.Context) error {
		fmt.Println("transferring")
		return nil
	})
	fmt.Println(err)
	// Output:
	// transferring
	// <nil>
}

// A codec is any function. This is that of a map with a StringCodec, whose keys in Java are of a class with a toString.
func Example_codecOfYourOwn() {
	type key struct{ shop, number string }
	toString := func(k key) []byte { return []byte(k.shop + "/" + k.number) }

	fmt.Println(entry.FairLock("orders", key{"berlin", "42"}, toString))
	// Output: {orders}:nFQNqGHvg6HACQmOyozkJw:fairlock
}
