// Package p22 is a service whose Redis password changes while its jobs run.
package p22

import (
	"context"

	"github.com/holdfast-go/holdfast"
)

// Rotate moves what jobs hold from a session with the old password to one with the new, and closes the old one. Nobody
// else gets any of the locks.
func Rotate(ctx context.Context, old, new *holdfast.Session, jobs map[string]*holdfast.Hold) error {
	for name, hold := range jobs {
		moved, err := hold.HandTo(ctx, new)
		if err != nil {
			return err // the old session still has it
		}
		jobs[name] = moved
	}
	return old.Close()
}
