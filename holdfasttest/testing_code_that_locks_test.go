package holdfasttest_test

// What docs/testing.md shows: the code under test, and its tests.

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/rlock"
)

// Ship prints and books an order, one process at a time. It leaves the order alone if somebody else is at it.
func Ship(ctx context.Context, order holdfast.Locker, print, book func(context.Context) error) error {
	return holdfast.Do(ctx, order.TryLock, func(ctx context.Context) error {
		if err := print(ctx); err != nil {
			return err
		}
		if err := context.Cause(ctx); err != nil { // the order may be another's by now
			return err
		}
		return book(ctx)
	})
}

func nothing(context.Context) error { return nil }

func TestShip(t *testing.T) {
	t.Parallel()
	order := rlock.New(holdfasttest.Open(t), "order:42", nil)
	if err := Ship(t.Context(), order, nothing, nothing); err != nil {
		t.Fatal(err)
	}
	holdfasttest.AssertFree(t, order)
}

func TestShipLeavesTheOrderToOthers(t *testing.T) {
	t.Parallel()
	server := holdfasttest.NewServer(t)
	mine, theirs := rlock.New(server.Open(nil), "order:42", nil), rlock.New(server.Open(nil), "order:42", nil)
	hold, err := theirs.TryLock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := Ship(t.Context(), mine, nothing, nothing); !errors.Is(err, holdfast.ErrBusy) {
		t.Fatalf("shipped beside another: %v", err)
	}
	if err := hold.Err(); err != nil {
		t.Fatal(err)
	}
}

func TestOneShipsWhileTheOtherPrints(t *testing.T) {
	t.Parallel()
	server := holdfasttest.NewServer(t)
	mine, theirs := rlock.New(server.Open(nil), "order:42", nil), rlock.New(server.Open(nil), "order:42", nil)
	err := Ship(t.Context(), mine, func(ctx context.Context) error { // we are inside now
		if err := Ship(ctx, theirs, nothing, nothing); !errors.Is(err, holdfast.ErrBusy) {
			t.Errorf("two at once: %v", err)
		}
		return nil
	}, nothing)
	if err != nil {
		t.Fatal(err)
	}
}

func TestShipDoesNotBookAfterALoss(t *testing.T) {
	t.Parallel()
	server := holdfasttest.NewServer(t)
	err := Ship(t.Context(), rlock.New(server.Open(nil), "order:42", nil), func(context.Context) error {
		server.Lose("order:42")
		return nil
	}, func(context.Context) error {
		t.Error("booked")
		return nil
	})
	if !errors.Is(err, holdfast.ErrLost) {
		t.Fatal(err)
	}
}

func TestShipSurvivesAnOutageWhilePrinting(t *testing.T) {
	t.Parallel()
	server := holdfasttest.NewServer(t)
	booked := false
	err := Ship(t.Context(), rlock.New(server.Open(nil), "order:42", nil), func(context.Context) error {
		server.Stop()
		server.Advance(20 * time.Second) // of a lease of 30 s
		server.Restart()
		return nil
	}, func(context.Context) error {
		booked = true
		return nil
	})
	if err != nil || !booked {
		t.Fatalf("booked: %v, %v", booked, err)
	}
}

func TestShipDoesNotBookAfterALongOutage(t *testing.T) {
	t.Parallel()
	server := holdfasttest.NewServer(t)
	err := Ship(t.Context(), rlock.New(server.Open(nil), "order:42", nil), func(context.Context) error {
		server.Stop()
		server.Advance(31 * time.Second)
		return nil
	}, func(context.Context) error {
		t.Error("booked")
		return nil
	})
	if !errors.Is(err, holdfast.ErrLost) {
		t.Fatal(err)
	}
}

func TestShipAfterACrash(t *testing.T) {
	t.Parallel()
	server := holdfasttest.NewServer(t)
	mine, theirs := rlock.New(server.Open(nil), "order:42", nil), rlock.New(server.Open(nil), "order:42", nil)
	hold, err := theirs.TryLock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := hold.Detach(); err != nil { // nobody renews it any more, nobody gives it back
		t.Fatal(err)
	}
	if err := Ship(t.Context(), mine, nothing, nothing); !errors.Is(err, holdfast.ErrBusy) {
		t.Fatal(err)
	}
	server.Advance(30 * time.Second)
	if err := Ship(t.Context(), mine, nothing, nothing); err != nil {
		t.Fatal(err)
	}
}

func TestShipDoesNotKnow(t *testing.T) {
	t.Parallel()
	server := holdfasttest.NewServer(t)
	order := rlock.New(server.Open(nil), "order:42", nil)
	server.DropReplies()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond) // else it tries for a third of the lease
	defer cancel()
	if err := Ship(ctx, order, nothing, nothing); !errors.Is(err, holdfast.ErrUnknown) {
		t.Fatal(err)
	}
}
