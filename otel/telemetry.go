package holdfastotel

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast"
)

// telemetry is the state that the functions of an observer share.
type telemetry struct {
	instruments
	tracer trace.Tracer
	traced bool // somebody may look at spans
	names  func(string) string

	mu     sync.RWMutex // guards series
	series map[seriesKey]*series
}

func (t *telemetry) acquire(ctx context.Context, of holdfast.Subject) func(holdfast.Acquired) {
	s := t.of(of)
	span := t.begin(ctx, s.acquireSpan, of)
	return func(a holdfast.Acquired) {
		o := outcomeOf(a.Err, acquired)
		t.acquireDuration.Record(within(span), a.Took.Seconds(), s.asked(o, a.Err).record...)
		switch {
		case a.HandedOver:
			t.handOvers.Add(within(span), 1, s.bySession.add...)
			span.SetAttributes(handedKey.String(bySession))
		case a.Granted:
			t.handOvers.Add(within(span), 1, s.byServer.add...)
			span.SetAttributes(handedKey.String(byServer))
		}
		if span.IsRecording() {
			span.SetAttributes(attemptsKey.Int(a.Attempts))
		}
		end(span, o, a.Err)
	}
}

func (t *telemetry) attempt(of holdfast.Subject, a holdfast.Attempt) {
	t.attempts.Add(context.Background(), 1, t.of(of).asked(outcomeOf(a.Err, acquired), a.Err).add...)
}

func (t *telemetry) wait(of holdfast.Subject) func() {
	s, began := t.of(of), time.Now()
	t.waits.Add(context.Background(), 1, s.plain.add...)
	return func() {
		t.waits.Add(context.Background(), -1, s.plain.add...)
		t.waitDuration.Record(context.Background(), time.Since(began).Seconds(), s.plain.record...)
	}
}

func (t *telemetry) wakeUp(of holdfast.Subject, by holdfast.WakeUp) {
	t.wakeUps.Add(context.Background(), 1, t.of(of).woken(by).add...)
}

func (t *telemetry) hold(ctx context.Context, of holdfast.Subject) func(holdfast.Ended) {
	s := t.of(of)
	span := t.begin(ctx, s.holdSpan, of)
	t.holds.Add(ctx, 1, s.plain.add...)
	return func(e holdfast.Ended) {
		o, ctx := outcomeOf(e.Err, released), within(span)
		t.holds.Add(ctx, -1, s.plain.add...)
		t.holdDuration.Record(ctx, e.Held.Seconds(), s.ended(o).record...)
		if o == lost {
			t.losses.Add(ctx, 1, s.plain.add...)
		}
		end(span, o, e.Err)
	}
}

func (t *telemetry) term(_ context.Context, of holdfast.Subject, _ int64) func(holdfast.Ended) {
	s := t.of(of)
	t.terms.Add(context.Background(), 1, s.plain.add...)
	return func(e holdfast.Ended) {
		t.terms.Add(context.Background(), -1, s.plain.add...)
		t.termDuration.Record(context.Background(), e.Held.Seconds(), s.ended(outcomeOf(e.Err, released)).record...)
	}
}

func (t *telemetry) renewal(of holdfast.Subject, err error) {
	s := t.of(of)
	l := s.renewed
	if err != nil {
		l = s.failed
	}
	t.renewals.Add(context.Background(), 1, l.add...)
}

// within is a context for measurements, by which they are linked to the span. It is not the caller's, which a hold
// may outlive, and must not keep alive.
func within(span trace.Span) context.Context {
	if !span.SpanContext().IsValid() {
		return context.Background()
	}
	return trace.ContextWithSpan(context.Background(), span)
}

// begin starts a span with its attributes, so that samplers see them, too.
func (t *telemetry) begin(ctx context.Context, name string, of holdfast.Subject) trace.Span {
	var opts []trace.SpanStartOption
	if t.traced {
		opts = append(opts, trace.WithAttributes(kindKey.String(of.Kind), nameKey.String(text(of.Name))))
	}
	_, span := t.tracer.Start(ctx, name, opts...)
	return span
}

// end ends a span of something that ended with err.
func end(span trace.Span, o outcome, err error) {
	if span.IsRecording() {
		span.SetAttributes(outcomeKey.String(string(o)))
		if o.bad() {
			span.RecordError(err)
			span.SetAttributes(errorKey.String(errorType(err, o)))
			span.SetStatus(codes.Error, err.Error())
		}
	}
	span.End()
}
