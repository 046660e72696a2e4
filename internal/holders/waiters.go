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

// A Waiter stands in the line or the queue of a lock.
type Waiter struct {
	ID    string
	Alive time.Duration // how long it counts as alive if nothing is heard of it again

	Host    string
	PID     int
	Program string
	Label   string
	Started time.Time
}

// Waiters asks which waiters stand in the queue of a lock, and which processes they are. keys are the KEYS of
// lock_waiters.
func Waiters(ctx context.Context, l *core.Lock, keys ...string) ([]Waiter, error) {
	var all []Waiter
	var owners []string
	call := script.NewCall(waitersScript).Key(keys...)
	err := l.Run(ctx, "waiters", call, func() error {
		values, err := call.ReadArray()
		if err != nil {
			return err
		}
		return call.ReadRows(values, 1, func(waiter string, n []int64) {
			owner, _, _ := strings.Cut(waiter, " ") // in a line, what it is to be granted follows
			owners = append(owners, owner)
			all = append(all, Waiter{ID: owner, Alive: lease.Lasting(n[0])})
		})
	})
	if err != nil {
		return nil, err
	}
	for i, p := range l.Session().Presence().Told(ctx, owners) {
		w := &all[i]
		w.Host, w.PID, w.Program, w.Label, w.Started = p.Host, p.PID, p.Program, p.Label, p.Started
	}
	return all, nil
}
