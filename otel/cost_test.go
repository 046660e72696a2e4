package holdfastotel_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	holdfastotel "github.com/holdfast-go/holdfast/otel"
	"github.com/holdfast-go/holdfast/rlock"
)

// setUps are the configurations that are measured, from nothing to everything.
func setUps() map[string]*holdfastotel.Options {
	metrics := func() *metric.MeterProvider {
		return metric.NewMeterProvider(metric.WithReader(metric.NewManualReader()))
	}
	return map[string]*holdfastotel.Options{
		"no observer":  nil,
		"no providers": {MeterProvider: metricnoop.NewMeterProvider(), TracerProvider: tracenoop.NewTracerProvider()},
		"metrics":      {MeterProvider: metrics(), TracerProvider: tracenoop.NewTracerProvider()},
		"metrics with names": {
			MeterProvider: metrics(), TracerProvider: tracenoop.NewTracerProvider(),
			Names: func(name string) string { return name },
		},
		"metrics and spans": {MeterProvider: metrics(), TracerProvider: sdktrace.NewTracerProvider()},
	}
}

// observe calls an observer as a lock and a release do.
func observe(o *holdfast.Observer) {
	of := holdfast.Subject{Kind: "rlock", Name: "orders:42"}
	done := o.Acquire(context.Background(), of)
	o.Attempt(of, holdfast.Attempt{})
	ended := o.Hold(context.Background(), of)
	done(holdfast.Acquired{Attempts: 1})
	ended(holdfast.Ended{})
}

// The most allocations that an observer adds to a lock and release: two closures and what the SDK needs.
func TestAllocations(t *testing.T) {
	for what, most := range map[string]float64{"no providers": 4, "metrics": 4, "metrics with names": 4} {
		observer, err := holdfastotel.NewObserver(setUps()[what])
		require.NoError(t, err)
		n := testing.AllocsPerRun(1000, func() { observe(observer) })
		t.Logf("%s: %v", what, n)
		require.LessOrEqual(t, n, most, what)
	}
}

func BenchmarkObserver(b *testing.B) {
	for what, opts := range setUps() {
		if opts == nil {
			continue
		}
		b.Run(what, func(b *testing.B) {
			observer, err := holdfastotel.NewObserver(opts)
			require.NoError(b, err)
			b.ReportAllocs()
			for b.Loop() {
				observe(observer)
			}
		})
	}
}

// The embedded server is in the same process: its allocations are counted, too.
func BenchmarkLockAndRelease(b *testing.B) {
	for what, opts := range setUps() {
		b.Run(what, func(b *testing.B) {
			var observer *holdfast.Observer
			if opts != nil {
				var err error
				observer, err = holdfastotel.NewObserver(opts)
				require.NoError(b, err)
			}
			l := rlock.New(holdfasttest.NewServer(b).Open(&holdfast.Options{Observer: observer}), "orders:42", nil)
			b.ReportAllocs()
			for b.Loop() {
				h, err := l.Lock(b.Context())
				require.NoError(b, err)
				require.NoError(b, h.Release())
			}
		})
	}
}
