package holders

import (
	"context"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/script"
)

var waitersScript = script.LoadLook("lock_waiters")

// A waiter stands in the line or the queue of a lock. It has the fields of the root package's Waiter.
type waiter = struct {
	ID    string
	Alive time.Duration // how long it counts as alive if nothing is heard of it again

	Host    string
	PID     int
	Program string
	Label   string
	Started time.Time
}

// Waiters asks which waiters stand in the queue of a lock, and which processes they are, as users get them. keys are
// the KEYS of lock_waiters.
func Waiters[W ~waiter](ctx context.Context, l *core.Lock, keys ...string) ([]W, error) {
	all := []W{}
	var owners []string
	var alive []time.Duration
	call := script.NewCall(waitersScript).Key(keys...)
	err := l.Run(ctx, "waiters", call, func() error {
		values, err := call.ReadArray()
		if err != nil {
			return err
		}
		return call.ReadRows(values, 1, func(waiter string, n []int64) {
			owner, _, _ := strings.Cut(waiter, " ") // in a line, what it is to be granted follows
			owners, alive = append(owners, owner), append(alive, lease.Lasting(n[0]))
		})
	})
	if err != nil {
		return all, err
	}
	for i, p := range l.Session().Presence().Told(ctx, owners) {
		all = append(all, W{
			ID: owners[i], Alive: alive[i],
			Host: p.Host, PID: p.PID, Program: p.Program, Label: p.Label, Started: p.Started,
		})
	}
	return all, nil
}
