package holdfastotel_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/exemplar"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	holdfastotel "github.com/holdfast-go/holdfast/otel"
	"github.com/holdfast-go/holdfast/rlock"
)

func TestSpansOfALock(t *testing.T) {
	t.Parallel()
	k, spans := newTracedKit(t)
	ctx, caller := spans.begin(t)
	hold, err := rlock.New(k.session, "orders:42", nil).Lock(ctx)
	require.NoError(t, err)
	caller.End() // the hold outlives it
	assert.Equal(t, []string{"rlock acquire", "caller"}, spans.names())
	require.NoError(t, hold.Release())

	acquire, held := spans.one(t, "rlock acquire"), spans.one(t, "rlock hold")
	for _, span := range []tracetest.SpanStub{acquire, held} {
		assert.Equal(t, caller.SpanContext().TraceID(), span.SpanContext.TraceID())
		assert.Equal(t, caller.SpanContext().SpanID(), span.Parent.SpanID())
		assert.Equal(t, trace.SpanKindInternal, span.SpanKind)
		assert.Equal(t, sdktrace.Status{}, span.Status)
		assert.Empty(t, span.Links)
		assert.Empty(t, span.Events)
	}
	assert.Equal(t, "holdfast.attempts=1,holdfast.kind=rlock,holdfast.name=orders:42,holdfast.outcome=acquired",
		attributes(acquire))
	assert.Equal(t, "holdfast.kind=rlock,holdfast.name=orders:42,holdfast.outcome=released", attributes(held))
	assert.False(t, held.EndTime.Before(acquire.EndTime))
}

// The span of a call, and the counter, say whose release handed the lock over.
func TestSpansOfHandOvers(t *testing.T) {
	t.Parallel()
	k, spans := newTracedKit(t)
	l := rlock.New(k.session, "orders", nil)
	hold := k.lock(rlock.New(k.server.Open(nil), "orders", nil))
	for _, by := range []string{"server", "session"} {
		got := k.goLock(t.Context(), l)
		k.eventually("a wait", func() bool {
			waiters, err := l.Waiters(t.Context())
			require.NoError(t, err)
			return k.sum("holdfast.wait.active", "holdfast.kind=rlock") == 1 && (len(waiters) == 1 || by == "session")
		})
		k.eventually("the time to hand on", func() bool { // a release of the first 4 ms of each 256 frees the lock
			ms := time.Now().UnixMilli() % 256
			return ms > 8 && ms < 128
		})
		require.NoError(t, hold.Release())
		r := received(t, got)
		require.NoError(t, r.err)
		hold = r.hold
		k.isCounted("holdfast.handovers", 1, "holdfast.handover.by="+by+",holdfast.kind=rlock")
		assert.Contains(t, attributes(spans.one(t, "rlock acquire")), "holdfast.handover.by="+by)
		spans.exporter.Reset()
	}
	require.NoError(t, hold.Release())
}

// asked notes what a sampler is told.
type asked struct{ heard map[string]string }

func (a asked) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	a.heard[p.Name] = encode(attribute.NewSet(p.Attributes...))
	return sdktrace.SamplingResult{Decision: sdktrace.RecordAndSample}
}

func (asked) Description() string { return "asked" }

// A span has its attributes from the beginning, for samplers and for anybody who looks at an open one.
func TestSpansBeginWithWhatTheyAreAbout(t *testing.T) {
	t.Parallel()
	sampler := asked{map[string]string{}}
	k := newKit(t, &holdfastotel.Options{TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler))})
	require.NoError(t, k.lock(rlock.New(k.session, "orders:42", nil)).Release())
	const about = "holdfast.kind=rlock,holdfast.name=orders:42"
	assert.Equal(t, map[string]string{"rlock acquire": about, "rlock hold": about}, sampler.heard)
}

func TestTheScopeHasAVersion(t *testing.T) {
	t.Parallel()
	k, spans := newTracedKit(t)
	require.NoError(t, k.lock(rlock.New(k.session, "orders", nil)).Release())
	span := spans.one(t, "rlock hold")
	assert.Equal(t, "github.com/holdfast-go/holdfast/otel", span.InstrumentationScope.Name)
	assert.NotEmpty(t, span.InstrumentationScope.Version)
	var all metricdata.ResourceMetrics
	require.NoError(t, k.reader.Collect(t.Context(), &all))
	assert.Equal(t, span.InstrumentationScope.Version, all.ScopeMetrics[0].Scope.Version)
}

func TestSpansWithoutACaller(t *testing.T) {
	t.Parallel()
	k, spans := newTracedKit(t)
	require.NoError(t, k.lock(rlock.New(k.session, "leader", nil)).Release())
	assert.False(t, spans.one(t, "rlock hold").Parent.IsValid())
	assert.False(t, spans.one(t, "rlock acquire").Parent.IsValid())
}

func TestSpanOfALoss(t *testing.T) {
	t.Parallel()
	k, spans := newTracedKit(t)
	hold := k.lock(rlock.New(k.session, "orders", nil))
	holdfasttest.Lose(t, hold)
	span := spans.one(t, "rlock hold")
	assert.Equal(t, codes.Error, span.Status.Code)
	assert.Equal(t, hold.Err().Error(), span.Status.Description)
	assert.Contains(t, attributes(span), "holdfast.outcome=lost")
	assert.Contains(t, attributes(span), "error.type=")
	require.Len(t, span.Events, 1)
	assert.Equal(t, "exception", span.Events[0].Name)
	require.ErrorIs(t, hold.Release(), holdfast.ErrLost)
	assert.Len(t, spans.names(), 2, "ended once")
}

// It is no error if somebody else has the lock, or if the caller does not want to wait.
func TestSpansOfCallsThatAreBusyOrCancelled(t *testing.T) {
	t.Parallel()
	k, spans := newTracedKit(t)
	other := rlock.New(k.server.Open(nil), "orders", nil)
	defer k.lock(other).Release()
	l := rlock.New(k.session, "orders", nil)
	_, err := l.TryLock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrBusy)
	span := spans.one(t, "rlock acquire")
	assert.Equal(t, codes.Unset, span.Status.Code)
	assert.Contains(t, attributes(span), "holdfast.outcome=busy")

	spans.exporter.Reset()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err = l.Lock(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	span = spans.one(t, "rlock acquire")
	assert.Equal(t, codes.Unset, span.Status.Code)
	assert.Contains(t, attributes(span), "holdfast.outcome=cancelled")
	deadline, _ := ctx.Deadline() // it began before the call did
	assert.False(t, span.EndTime.Before(deadline))
}

func TestSpanOfACallThatFails(t *testing.T) {
	t.Parallel()
	k, spans := newTracedKit(t)
	require.NoError(t, k.lock(rlock.New(k.session, "orders", nil)).Release())
	spans.exporter.Reset()
	k.server.DropReplies()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := rlock.New(k.session, "orders", nil).TryLock(ctx)
	require.ErrorIs(t, err, holdfast.ErrUnknown)
	k.server.Resume()
	span := spans.one(t, "rlock acquire")
	assert.Equal(t, codes.Error, span.Status.Code)
	assert.Equal(t, err.Error(), span.Status.Description)
	assert.Contains(t, attributes(span), "holdfast.outcome=unknown")
}

func TestSpansThatAreNotSampled(t *testing.T) {
	t.Parallel()
	server := holdfasttest.NewServer(t)
	exporter := tracetest.NewInMemoryExporter()
	observer, err := holdfastotel.NewObserver(&holdfastotel.Options{
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter),
			sdktrace.WithSampler(sdktrace.NeverSample())),
	})
	require.NoError(t, err)
	s := server.Open(&holdfast.Options{Observer: observer})
	h, err := rlock.New(s, "orders", nil).Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, h.Release())
	assert.Empty(t, exporter.GetSpans())
}

// A slow bucket of a histogram leads to the trace.
func TestMeasurementsAreLinkedToSpans(t *testing.T) {
	t.Parallel()
	k, spans := newTracedKit(t)
	ctx, caller := spans.begin(t)
	hold, err := rlock.New(k.session, "orders", nil).Lock(ctx)
	require.NoError(t, err)
	require.NoError(t, hold.Release())
	caller.End()
	for metric, span := range map[string]string{
		"holdfast.acquire.duration": "rlock acquire",
		"holdfast.hold.duration":    "rlock hold",
	} {
		id := spans.one(t, span).SpanContext.SpanID()
		var linked [][]byte
		for _, m := range k.collect() {
			if h, ok := m.Data.(metricdata.Histogram[float64]); ok && m.Name == metric {
				for _, e := range h.DataPoints[0].Exemplars {
					linked = append(linked, e.SpanID)
				}
			}
		}
		assert.Equal(t, [][]byte{id[:]}, linked, metric)
	}
}

// recorded returns the spans that have ended.
type recorded struct {
	exporter *tracetest.InMemoryExporter
	provider *sdktrace.TracerProvider
}

func newTracedKit(t *testing.T) (*kit, *recorded) {
	t.Helper()
	spans := &recorded{exporter: tracetest.NewInMemoryExporter()}
	spans.provider = sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans.exporter))
	k := newKit(t, &holdfastotel.Options{TracerProvider: spans.provider},
		metric.WithExemplarFilter(exemplar.AlwaysOnFilter))
	return k, spans
}

func (r *recorded) begin(t *testing.T) (context.Context, trace.Span) {
	t.Helper()
	return r.provider.Tracer("test").Start(t.Context(), "caller")
}

func (r *recorded) names() (names []string) {
	for _, span := range r.exporter.GetSpans() {
		names = append(names, span.Name)
	}
	return names
}

// one returns the only span of that name.
func (r *recorded) one(t *testing.T, name string) tracetest.SpanStub {
	t.Helper()
	all := slices.DeleteFunc(r.exporter.GetSpans(), func(s tracetest.SpanStub) bool { return s.Name != name })
	require.Len(t, all, 1, name)
	return all[0]
}

func attributes(s tracetest.SpanStub) string { return encode(attribute.NewSet(s.Attributes...)) }
