package wait

import (
	"context"
	"time"
)

// Wait is what [Until] does between two attempts of a call that waits for its turn: it returns nil when it is time to
// look, otherwise why ctx ended, or [ErrClosed].
func (p *Place) Wait(ctx context.Context, d time.Duration) error {
	d, sleeps, err := p.begin(ctx, d)
	if sleeps {
		err = p.Sleep(ctx, d)
	}
	return err
}
