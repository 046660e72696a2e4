// Package holdfastotel measures and traces what a session does, with OpenTelemetry. Its folder is otel; its
// name is another one, so that it can stand beside OpenTelemetry's own package in one file.
//
//	observer, err := holdfastotel.NewObserver(nil) // the global providers
//	if err != nil {
//		return err
//	}
//	session, err := holdfast.Open(client, &holdfast.Options{Observer: observer})
//
// # Metrics
//
// Durations are in seconds. All have the attribute holdfast.kind, the package's name as in [holdfast.Subject], and
// holdfast.name if [Options.Names] says so.
//
//	holdfast.hold.active       up-down counter  present holds
//	holdfast.hold.duration     histogram        from the grant to the end; holdfast.outcome: released, lost, closed
//	holdfast.hold.losses       counter          holds that ended before they were released
//	holdfast.wait.active       up-down counter  calls that wait now
//	holdfast.wait.duration     histogram        of the calls that waited
//	holdfast.acquire.duration  histogram        of all calls that take or wait; holdfast.outcome
//	holdfast.attempts          counter          attempts to take something; holdfast.outcome
//	holdfast.handovers         counter          releases that handed the lock over to a call that waited;
//	                                            holdfast.handover.by: session (its own), server (another session's)
//	holdfast.wakeups           counter          looks of calls that wait; holdfast.wakeup.cause: message, timer, turn
//	holdfast.renewals          counter          holdfast.outcome: renewed, failed
//	holdfast.term.active       up-down counter  candidates of package leader that lead now
//	holdfast.term.duration     histogram        of their terms; holdfast.outcome: released (resigned), lost, closed
//
// The outcome of a call or an attempt is acquired, busy, cancelled (its ctx ended), lost (the hold that it was to
// be nested in), unknown (the reply was lost, or ctx ended before it came), closed (the session was), deadlock,
// wrong_kind, not_acknowledged (by enough replicas), or error. With all but the first two comes error.type, of the type
// of the error or its cause.
//
// Counters of what should not happen exist, with 0, from the first moment at which something of their kind happens:
// to most systems, a counter that appears with 1 has not increased.
//
// # Spans
//
// A call that takes something or waits is a span "<kind> acquire", a child of the caller's; a hold is a span
// "<kind> hold", from the grant to its end, a child of its taker's span. It is a child, and not a separate trace with
// a link, because the hold begins within the caller's work and usually ends before it. So it appears where one looks,
// and is sampled with the caller. A hold may also outlive its caller's span. For a hold of hours, take the lock with a
// ctx that has no span, and the hold is the root of a trace.
//
// Both have the attributes holdfast.kind and holdfast.name from the beginning, and holdfast.outcome at the end; acquire
// also has holdfast.attempts, and holdfast.handover.by if a release handed the lock over. Both are internal spans: a
// call may send nothing to the server, or many commands. A span's status is an error after a loss, for a hold that the
// session's Close has ended, and when a call fails for any other reason than that somebody else has the lock or that
// its ctx ended.
//
// In a name, bytes that are not UTF-8 appear as U+FFFD.
//
// A lock that consists of several is measured and traced under a kind of its own, in addition to its members.
package holdfastotel

import (
	"runtime/debug"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/holdfast-go/holdfast"
)

// scope names this library to the providers.
const scope = "github.com/holdfast-go/holdfast/otel"

// version returns this module's version in the program; "(devel)" if it has none.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range append(info.Deps, &info.Main) {
			if m.Path == scope && m.Version != "" {
				return m.Version
			}
		}
	}
	return "(devel)"
}

// Options tune an Observer. The zero value of a field means its default.
type Options struct {
	// MeterProvider is where metrics go. The default is the global one, otel.GetMeterProvider.
	MeterProvider metric.MeterProvider

	// TracerProvider is where spans go. The default is the global one, otel.GetTracerProvider. For no spans at
	// all pass that of package go.opentelemetry.io/otel/trace/noop.
	TracerProvider trace.TracerProvider

	// Names makes of a lock's name the attribute holdfast.name of its metrics; "" is none. Each value that it
	// returns costs some hundred time series, for as long as the process lives, so it must return few: a family
	// ("order" of "order:42"), or the name if there are only ten. It may be called by many goroutines at a time.
	// The default is no such attribute. Spans have the whole name always.
	Names func(name string) string
}

// NewObserver returns an observer for [holdfast.Options], which any number of sessions may share. An error comes from
// the meter provider.
func NewObserver(opts *Options) (*holdfast.Observer, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.MeterProvider == nil {
		o.MeterProvider = otel.GetMeterProvider()
	}
	if o.TracerProvider == nil {
		o.TracerProvider = otel.GetTracerProvider()
	}
	_, untraced := o.TracerProvider.(noop.TracerProvider)
	t := &telemetry{
		tracer: o.TracerProvider.Tracer(scope, trace.WithInstrumentationVersion(version())), traced: !untraced,
		names: o.Names, series: make(map[seriesKey]*series),
	}
	if err := t.init(o.MeterProvider.Meter(scope, metric.WithInstrumentationVersion(version()))); err != nil {
		return nil, err
	}
	return &holdfast.Observer{
		Acquire: t.acquire, Attempt: t.attempt, Wait: t.wait, WakeUp: t.wakeUp, Hold: t.hold, Renewal: t.renewal,
		Term: t.term,
	}, nil
}
