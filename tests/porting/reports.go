package porting

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/semaphore"
)

// ErrReportsBusy means that the largest number of reports is being rendered already.
var ErrReportsBusy = errors.New("too many reports at once")

const (
	reports     = "reports"        // the semaphore
	reportsMost = 4                // at a time
	reportLease = 10 * time.Minute // of a permit, without progress
)

// ReportPool is the port of the class of that name: it takes a permit, and the process that renders gives it back.
type ReportPool struct {
	permits *semaphore.Expirable
	send    func(ctx context.Context, report, permit string) error // to a process that renders
}

// NewReportPool sets the number of permits, unless somebody has.
func NewReportPool(ctx context.Context, session *holdfast.Session,
	send func(ctx context.Context, report, permit string) error,
) (*ReportPool, error) {
	permits := semaphore.NewExpirable(session, reports, &semaphore.ExpirableOptions{FixedLease: reportLease})
	_, err := permits.TrySetPermits(ctx, reportsMost)
	return &ReportPool{permits: permits, send: send}, err
}

// Start sends a report to a process that renders it. It waits up to 5 s for a permit.
func (p *ReportPool) Start(ctx context.Context, report string) error {
	hold, err := p.permits.TryAcquireFor(ctx, 5*time.Second)
	if errors.Is(err, holdfast.ErrBusy) {
		return ErrReportsBusy
	}
	if err != nil {
		return err
	}
	defer hold.Release() // gives the permit back if it was not handed over
	if err := p.send(ctx, report, hold.ID()); err != nil {
		return err
	}
	return hold.Detach() // from here on the permit belongs to whoever has the id
}

// Render renders a report, page by page, and gives the permit back. Each page begins with a full lease.
func Render(ctx context.Context, session *holdfast.Session, permit string,
	pages []func(ctx context.Context) error,
) (err error) {
	permits := semaphore.NewExpirable(session, reports, nil)
	defer func() { err = errors.Join(err, permits.Release(ctx, permit)) }() // sent even if ctx has ended
	for _, page := range pages {
		if err := permits.UpdateLease(ctx, permit, reportLease); err != nil {
			return err // ErrNotHeld: the lease has ended, and somebody else may have the permit
		}
		if err := page(ctx); err != nil {
			return err
		}
	}
	return nil
}
