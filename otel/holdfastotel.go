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
//	holdfast.hold.active       up-down counter  holds that there are now
//	holdfast.hold.duration     histogram        from the grant to the end; holdfast.outcome: released, lost, closed
//	holdfast.hold.losses       counter          holds that ended before they were released
//	holdfast.wait.active       up-down counter  calls that wait now
//	holdfast.wait.duration     histogram        of the calls that waited
//	holdfast.acquire.duration  histogram        of all calls that take or wait; holdfast.outcome
//	holdfast.attempts          counter          questions to the server whether it can be had; holdfast.outcome
//	holdfast.wakeups           counter          looks of calls that wait; holdfast.wakeup.cause: message, timer, turn
//	holdfast.renewals          counter          holdfast.outcome: renewed, failed
//
// The outcome of a call or an attempt is acquired, busy, cancelled (its ctx ended), lost (the hold that it was to
// be nested in), unknown (the reply was lost, or ctx ended before it came), closed (the session was), or error. With
// all but the first two comes error.type, of the type of the error or its cause.
//
// Whatever counts what should not happen is there, with 0, from the first moment at which something of its kind
// happens: a counter that appears with 1 is no increase to most systems.
//
// # Spans
//
// A call that takes something or waits is a span "<kind> acquire", a child of the caller's; a hold is a span
// "<kind> hold", from the grant to its end, a child of the span of whoever took it. A child, and not a trace of its
// own with a link, because the hold begins inside of what the caller does and is mostly over before it: it is seen
// where one looks, and sampled with it. A hold that outlives its caller's span is legal, too. Hold what is kept
// for hours under a ctx that has no span, and it is the root of a trace.
//
// Both have the attributes holdfast.kind and holdfast.name from the beginning, and holdfast.outcome in the end,
// acquire also holdfast.attempts. Both
// are internal spans: a call may be over without a word to the server, or after many. A span's status is an error
// after a loss, and whenever a call fails for another reason than that somebody else has it, or that its ctx ended.
//
// A lock that is several is measured and traced besides its members, with a kind of its own.
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

// version is that of this module in the program, "(devel)" if it has none.
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

// NewObserver returns an observer for [holdfast.Options], which any number of sessions may share. An error is the
// meter provider's.
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
	}, nil
}
