// A limit for each tenant, over all processes.
package p18

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/semaphore"
)

const exportsEach = 2

// Export runs the job of a tenant, at most two of each tenant at a time. It waits for ten seconds; then it is ErrBusy.
func Export(ctx context.Context, s *holdfast.Session, tenant string, job func(context.Context) error) error {
	permits := semaphore.NewExpirable(s, "exports:"+tenant, nil)
	if _, err := permits.TrySetPermits(ctx, exportsEach); err != nil { // false: they are set
		return err
	}
	acquire := func(ctx context.Context) (*holdfast.Hold, error) { return permits.TryAcquireFor(ctx, 10*time.Second) }
	return holdfast.Do(ctx, acquire, job)
}
