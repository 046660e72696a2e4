package holdfastotel

import (
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/metric"
)

// boundaries of all histograms, in seconds: from a free lock on a near server to one that is waited for, or held,
// for minutes.
var boundaries = []float64{
	0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600,
}

// instruments are the metrics. Units are UCUM's.
type instruments struct {
	holds, waits, terms                         metric.Int64UpDownCounter
	holdDuration, waitDuration, acquireDuration metric.Float64Histogram
	termDuration                                metric.Float64Histogram
	losses, attempts, handOvers                 metric.Int64Counter
	wakeUps, renewals                           metric.Int64Counter
}

func (in *instruments) init(meter metric.Meter) error {
	var failed error
	note := func(err error) { failed = errors.Join(failed, err) }
	active := func(name, unit, what string) metric.Int64UpDownCounter {
		c, err := meter.Int64UpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(what))
		note(err)
		return c
	}
	duration := func(name, what string) metric.Float64Histogram {
		h, err := meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(what),
			metric.WithExplicitBucketBoundaries(boundaries...))
		note(err)
		return h
	}
	count := func(name, unit, what string) metric.Int64Counter {
		c, err := meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(what))
		note(err)
		return c
	}
	in.holds = active("holdfast.hold.active", "{hold}", "Present holds.")
	in.holdDuration = duration("holdfast.hold.duration", "How long holds lasted.")
	in.losses = count("holdfast.hold.losses", "{hold}", "Holds that ended before they were released.")
	in.waits = active("holdfast.wait.active", "{call}", "Calls that are waiting because somebody else has what they want.")
	in.waitDuration = duration("holdfast.wait.duration", "How long calls waited, if they had to.")
	in.acquireDuration = duration("holdfast.acquire.duration", "How long calls took that take something or wait for it.")
	in.attempts = count("holdfast.attempts", "{attempt}", "Requests to the server to take something.")
	in.handOvers = count("holdfast.handovers", "{handover}", "Releases that handed a lock over to a waiting call.")
	in.wakeUps = count("holdfast.wakeups", "{wakeup}", "Looks of waiting calls.")
	in.renewals = count("holdfast.renewals", "{renewal}", "Renewals of leases.")
	in.terms = active("holdfast.term.active", "{term}", "Candidates that lead now.")
	in.termDuration = duration("holdfast.term.duration", "How long terms of leaders lasted.")
	if failed != nil {
		return fmt.Errorf("holdfastotel: %w", failed)
	}
	return nil
}
