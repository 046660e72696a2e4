package holdfastotel_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/latch"
	"github.com/holdfast-go/holdfast/leader"
	"github.com/holdfast-go/holdfast/multilock"
	holdfastotel "github.com/holdfast-go/holdfast/otel"
	"github.com/holdfast-go/holdfast/rlock"
	"github.com/holdfast-go/holdfast/rwlock"
	"github.com/holdfast-go/holdfast/semaphore"
)

func TestALockThatIsFree(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	hold := k.lock(rlock.New(k.session, "orders:42", nil))
	k.isCounted("holdfast.hold.active", 1, "holdfast.kind=rlock")
	require.NoError(t, hold.Release())
	k.isCounted("holdfast.hold.active", 0, "holdfast.kind=rlock")
	k.isCounted("holdfast.attempts", 1, "holdfast.kind=rlock,holdfast.outcome=acquired")
	k.isMeasured("holdfast.hold.duration", 1, "holdfast.kind=rlock,holdfast.outcome=released")
	k.isMeasured("holdfast.acquire.duration", 1, "holdfast.kind=rlock,holdfast.outcome=acquired")
	for name := range k.read() {
		assert.NotContains(t, name, "holdfast.wait.", "nobody waited")
	}
}

// Counters of what should not happen exist, with 0, from the beginning.
func TestCountersBeginWithZero(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	require.NoError(t, k.lock(rlock.New(k.session, "orders", nil)).Release())
	k.isCounted("holdfast.hold.losses", 0, "holdfast.kind=rlock")
	k.isCounted("holdfast.renewals", 0, "holdfast.kind=rlock,holdfast.outcome=failed")
	k.isCounted("holdfast.attempts", 0, "holdfast.kind=rlock,holdfast.outcome=busy")
	for _, by := range []holdfast.WakeUp{holdfast.ByMessage, holdfast.ByTimer, holdfast.ByTurn} {
		k.isCounted("holdfast.wakeups", 0, "holdfast.kind=rlock,holdfast.wakeup.cause="+by.String())
	}
}

func TestAWaitThatAMessageEnds(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	hold := k.lock(rlock.New(k.server.Open(nil), "orders", nil))
	got := k.goLock(t.Context(), rlock.New(k.session, "orders", nil))
	k.isCounted("holdfast.wait.active", 1, "holdfast.kind=rlock")
	// A waiter looks once more when it is subscribed.
	k.isCounted("holdfast.attempts", 2, "holdfast.kind=rlock,holdfast.outcome=busy")
	began := k.sum("holdfast.wakeups", "holdfast.kind=rlock,holdfast.wakeup.cause=message")
	require.NoError(t, hold.Release())
	require.NoError(t, received(t, got).err)
	k.isCounted("holdfast.wait.active", 0, "holdfast.kind=rlock")
	k.isMeasured("holdfast.wait.duration", 1, "holdfast.kind=rlock")
	k.isCounted("holdfast.wakeups", began+1, "holdfast.kind=rlock,holdfast.wakeup.cause=message")
	k.isCounted("holdfast.hold.active", 1, "holdfast.kind=rlock")
}

func TestAWaitThatATimerEnds(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	k.lock(rlock.New(k.server.Open(nil), "orders", &rlock.Options{FixedLease: 500 * time.Millisecond}))
	hold := k.lock(rlock.New(k.session, "orders", nil))
	assert.GreaterOrEqual(t, k.sum("holdfast.wakeups", "holdfast.kind=rlock,holdfast.wakeup.cause=timer"), int64(1))
	require.NoError(t, hold.Release())
}

func TestTurnsOfWaitersInOneSession(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	l := rlock.New(k.session, "orders", nil)
	hold := k.lock(l)
	got := make(chan error, 2)
	for range 2 {
		go func() {
			h, err := l.Lock(t.Context())
			if err == nil {
				err = h.Release()
			}
			got <- err
		}()
	}
	k.isCounted("holdfast.wait.active", 2, "holdfast.kind=rlock")
	require.NoError(t, hold.Release())
	require.NoError(t, received(t, got))
	require.NoError(t, received(t, got))
	k.isCounted("holdfast.wait.active", 0, "holdfast.kind=rlock")
	k.isMeasured("holdfast.wait.duration", 2, "holdfast.kind=rlock")
	k.isCounted("holdfast.hold.active", 0, "holdfast.kind=rlock")
}

func TestOutcomesOfCalls(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	other := k.lock(rlock.New(k.server.Open(nil), "orders", nil))
	l := rlock.New(k.session, "orders", nil)

	_, err := l.TryLock(t.Context())
	require.ErrorIs(t, err, holdfast.ErrBusy)
	k.isMeasured("holdfast.acquire.duration", 1, "holdfast.kind=rlock,holdfast.outcome=busy")
	k.isCounted("holdfast.attempts", 1, "holdfast.kind=rlock,holdfast.outcome=busy")

	// A call that waits looks until it stands in the lock's line, and again when it has waited for a quarter of a
	// second. The outcome of an attempt that is cut off would be unknown.
	stands := func() {
		k.eventually("a waiter in line", func() bool {
			waiters, err := l.Waiters(t.Context())
			require.NoError(t, err)
			return len(waiters) == 1
		})
		time.Sleep(30 * time.Millisecond) // the answer is here
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err = l.Lock(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	k.isMeasured("holdfast.acquire.duration", 1,
		"error.type=context.DeadlineExceeded,holdfast.kind=rlock,holdfast.outcome=cancelled")
	k.isCounted("holdfast.wait.active", 0, "holdfast.kind=rlock")

	ctx, cancel = context.WithCancel(t.Context())
	got := k.goLock(ctx, l)
	stands()
	cancel()
	require.ErrorIs(t, received(t, got).err, context.Canceled)
	k.isMeasured("holdfast.acquire.duration", 1,
		"error.type=context.Canceled,holdfast.kind=rlock,holdfast.outcome=cancelled")

	held := k.lock(rlock.New(k.session, "else", nil))
	got = k.goLock(t.Context(), l)
	stands()
	require.NoError(t, k.session.Close())
	require.ErrorIs(t, received(t, got).err, holdfast.ErrClosed)
	require.ErrorIs(t, held.Err(), holdfast.ErrClosed)
	k.isMeasured("holdfast.acquire.duration", 1, "error.type=closed,holdfast.kind=rlock,holdfast.outcome=closed")
	k.isMeasured("holdfast.hold.duration", 1, "holdfast.kind=rlock,holdfast.outcome=closed")
	k.isCounted("holdfast.hold.active", 0, "holdfast.kind=rlock")
	k.isCounted("holdfast.wait.active", 0, "holdfast.kind=rlock")
	require.NoError(t, other.Release())
}

func TestRepliesThatAreLost(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	l := rlock.New(k.session, "orders", nil)
	require.NoError(t, k.lock(l).Release())
	k.server.DropReplies()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := l.TryLock(ctx)
	require.ErrorIs(t, err, holdfast.ErrUnknown)
	k.server.Resume()
	unknown := k.total("holdfast.acquire.duration", "holdfast.outcome=unknown")
	assert.Equal(t, uint64(1), unknown)
}

func TestLosses(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	l := rlock.New(k.session, "orders", nil)
	hold := k.lock(l)
	nested, err := l.Lock(hold.Context(t.Context()))
	require.NoError(t, err)
	k.isCounted("holdfast.hold.active", 2, "holdfast.kind=rlock")
	holdfasttest.Lose(t, hold)
	require.ErrorIs(t, nested.Err(), holdfast.ErrLost)
	k.isCounted("holdfast.hold.losses", 2, "holdfast.kind=rlock")
	k.isMeasured("holdfast.hold.duration", 2, "holdfast.kind=rlock,holdfast.outcome=lost")
	k.isCounted("holdfast.hold.active", 0, "holdfast.kind=rlock")
	require.ErrorIs(t, hold.Release(), holdfast.ErrLost)
	k.isCounted("holdfast.hold.losses", 2, "holdfast.kind=rlock")
}

func TestRenewals(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	hold := k.lock(rlock.New(k.session, "orders", nil))
	k.server.Advance(20 * time.Second)
	k.isCounted("holdfast.renewals", 1, "holdfast.kind=rlock,holdfast.outcome=renewed")
	k.isCounted("holdfast.renewals", 0, "holdfast.kind=rlock,holdfast.outcome=failed")
	k.server.Stop()
	k.server.Advance(20 * time.Second)
	k.eventually("a failed renewal", func() bool {
		return k.sum("holdfast.renewals", "holdfast.kind=rlock,holdfast.outcome=failed") > 0
	})
	k.server.Advance(20 * time.Second)
	require.ErrorIs(t, hold.Err(), holdfast.ErrLost)
	k.isCounted("holdfast.hold.losses", 1, "holdfast.kind=rlock")
}

func TestTerms(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	require.NoError(t, leader.Run(t.Context(), k.session, "billing", func(context.Context) error {
		k.isCounted("holdfast.term.active", 1, "holdfast.kind=leader")
		return nil
	}))
	k.isCounted("holdfast.term.active", 0, "holdfast.kind=leader")
	k.isMeasured("holdfast.term.duration", 1, "holdfast.kind=leader,holdfast.outcome=released")
}

func TestATermThatIsLost(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	terms := 0
	require.NoError(t, leader.Run(t.Context(), k.session, "billing", func(ctx context.Context) error {
		if terms++; terms == 1 {
			k.server.Lose("billing")
			<-ctx.Done()
		}
		return nil
	}))
	require.Equal(t, 2, terms)
	k.isMeasured("holdfast.term.duration", 1, "holdfast.kind=leader,holdfast.outcome=lost")
	k.isMeasured("holdfast.term.duration", 1, "holdfast.kind=leader,holdfast.outcome=released")
	k.isCounted("holdfast.term.active", 0, "holdfast.kind=leader")
}

// What is told is measured, in seconds, and by its cause.
func TestWhatIsMeasured(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	of := holdfast.Subject{Kind: "rlock", Name: "orders"}
	k.observer.Acquire(t.Context(), of)(holdfast.Acquired{Took: 1500 * time.Millisecond})
	k.observer.Hold(t.Context(), of)(holdfast.Ended{Held: 2500 * time.Millisecond, Err: holdfast.ErrClosed})
	k.observer.Term(t.Context(), of, 1)(holdfast.Ended{Held: 3500 * time.Millisecond})
	began := time.Now()
	waits := k.observer.Wait(of)
	time.Sleep(20 * time.Millisecond)
	waits()
	took := time.Since(began)
	for _, by := range []holdfast.WakeUp{holdfast.ByMessage, holdfast.ByTimer, holdfast.ByTurn} {
		for range by + 1 {
			k.observer.WakeUp(of, by)
		}
	}
	sums := map[string]float64{}
	for _, m := range k.collect() {
		if h, ok := m.Data.(metricdata.Histogram[float64]); ok {
			sums[m.Name] = h.DataPoints[0].Sum
		}
	}
	assert.InDelta(t, 0.02, sums["holdfast.wait.duration"], took.Seconds()-0.02+1e-9)
	delete(sums, "holdfast.wait.duration")
	assert.Equal(t, map[string]float64{
		"holdfast.acquire.duration": 1.5, "holdfast.hold.duration": 2.5, "holdfast.term.duration": 3.5,
	}, sums)
	k.isCounted("holdfast.hold.losses", 0, "holdfast.kind=rlock")
	for by, n := range map[string]int64{"message": 1, "timer": 2, "turn": 3} {
		k.isCounted("holdfast.wakeups", n, "holdfast.kind=rlock,holdfast.wakeup.cause="+by)
	}
}

// Without options, metrics and spans go to the global providers.
func TestTheGlobalProviders(t *testing.T) { //nolint:paralleltest // they are the process's
	reader, exporter := metric.NewManualReader(), tracetest.NewInMemoryExporter()
	meters, tracers := otel.GetMeterProvider(), otel.GetTracerProvider()
	defer otel.SetTracerProvider(tracers)
	defer otel.SetMeterProvider(meters)
	otel.SetMeterProvider(metric.NewMeterProvider(metric.WithReader(reader)))
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter)))
	observer, err := holdfastotel.NewObserver(nil)
	require.NoError(t, err)
	observe(observer)
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	require.Len(t, all.ScopeMetrics, 1)
	require.Len(t, exporter.GetSpans(), 2)
}

func TestKinds(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	rw := rwlock.New(k.session, "rw", nil)
	require.NoError(t, k.lock(rw.Read()).Release())
	require.NoError(t, k.lock(rw.Write()).Release())
	require.NoError(t, k.lock(multilock.New(rlock.New(k.session, "a", nil), rlock.New(k.session, "b", nil))).Release())
	sem := semaphore.New(k.session, "sem")
	_, err := sem.TrySetPermits(t.Context(), 1)
	require.NoError(t, err)
	require.NoError(t, sem.Acquire(t.Context(), 1))
	require.NoError(t, latch.New(k.session, "open").Wait(t.Context()))
	for kind, holds := range map[string]uint64{"rwlock.Read": 1, "rwlock.Write": 1, "multilock": 1, "rlock": 2} {
		k.isMeasured("holdfast.hold.duration", holds, "holdfast.kind="+kind+",holdfast.outcome=released")
	}
	for _, kind := range []string{"rwlock.Read", "rwlock.Write", "multilock", "semaphore", "latch"} {
		k.isMeasured("holdfast.acquire.duration", 1, "holdfast.kind="+kind+",holdfast.outcome=acquired")
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	family := func(name string) string {
		family, _, found := strings.Cut(name, ":")
		if !found {
			return ""
		}
		return family
	}
	k := newKit(t, &holdfastotel.Options{Names: family})
	for _, name := range []string{"orders:1", "orders:2", "report"} {
		require.NoError(t, k.lock(rlock.New(k.session, name, nil)).Release())
	}
	k.isMeasured("holdfast.hold.duration", 2, "holdfast.kind=rlock,holdfast.name=orders,holdfast.outcome=released")
	k.isMeasured("holdfast.hold.duration", 1, "holdfast.kind=rlock,holdfast.outcome=released")
}

// Exporters refuse what is not UTF-8, and with it all that they have to export.
func TestNamesThatAreNotUTF8(t *testing.T) {
	t.Parallel()
	exporter := tracetest.NewInMemoryExporter()
	k := newKit(t, &holdfastotel.Options{
		Names:          func(name string) string { return name },
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter)),
	})
	for _, name := range []string{"a\xff", "a\xfe", "é"} {
		require.NoError(t, k.lock(rlock.New(k.session, name, nil)).Release())
	}
	k.isMeasured("holdfast.hold.duration", 2, "holdfast.kind=rlock,holdfast.name=a\uFFFD,holdfast.outcome=released")
	k.isMeasured("holdfast.hold.duration", 1, "holdfast.kind=rlock,holdfast.name=é,holdfast.outcome=released")
	spans := exporter.GetSpans()
	assert.Len(t, spans, 6)
	for _, span := range spans {
		for _, a := range span.Attributes {
			assert.True(t, utf8.ValidString(a.Value.AsString()), a.Key)
		}
	}
}

func TestNoNamesUnlessAskedFor(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	require.NoError(t, k.lock(rlock.New(k.session, "orders:1", nil)).Release())
	seen := 0
	for _, series := range k.read() {
		for labels := range series {
			seen++
			assert.NotContains(t, labels, "holdfast.name")
			assert.NotContains(t, labels, "orders")
		}
	}
	assert.Positive(t, seen)
}

func TestUnitsAndBoundaries(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	other := rlock.New(k.server.Open(nil), "orders", nil)
	hold := k.lock(other)
	got := k.goLock(t.Context(), rlock.New(k.session, "orders", nil))
	k.isCounted("holdfast.wait.active", 1, "holdfast.kind=rlock")
	require.NoError(t, hold.Release())
	r := received(t, got)
	require.NoError(t, r.err)
	got = k.goLock(t.Context(), rlock.New(k.session, "orders", nil))
	k.isCounted("holdfast.wait.active", 1, "holdfast.kind=rlock")
	require.NoError(t, r.hold.Release())
	r = received(t, got)
	require.NoError(t, r.err)
	k.isCounted("holdfast.handovers", 1, "holdfast.handover.by=session,holdfast.kind=rlock")
	require.NoError(t, r.hold.Release())
	require.NoError(t, leader.Run(t.Context(), k.session, "leading", func(context.Context) error { return nil }))
	units := map[string]string{
		"holdfast.hold.active": "{hold}", "holdfast.hold.duration": "s", "holdfast.hold.losses": "{hold}",
		"holdfast.wait.active": "{call}", "holdfast.wait.duration": "s", "holdfast.acquire.duration": "s",
		"holdfast.attempts": "{attempt}", "holdfast.wakeups": "{wakeup}", "holdfast.renewals": "{renewal}",
		"holdfast.handovers": "{handover}", "holdfast.term.active": "{term}", "holdfast.term.duration": "s",
	}
	seen := map[string]string{}
	for _, m := range k.collect() {
		seen[m.Name] = m.Unit
		assert.NotEmpty(t, m.Description, m.Name)
		if h, ok := m.Data.(metricdata.Histogram[float64]); ok {
			bounds := h.DataPoints[0].Bounds
			assert.Equal(t, []float64{0.001, 600}, []float64{bounds[0], bounds[len(bounds)-1]}, m.Name)
		}
	}
	assert.Equal(t, units, seen)
}

// A session may be observed before there is any provider: what it reports then goes nowhere.
func TestDefaults(t *testing.T) {
	t.Parallel()
	observer, err := holdfastotel.NewObserver(nil)
	require.NoError(t, err)
	s := holdfasttest.NewServer(t).Open(&holdfast.Options{Observer: observer})
	h, err := rlock.New(s, "orders", nil).Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, h.Release())
}

func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	k := newKit(t, &holdfastotel.Options{Names: func(name string) string { return name }})
	sessions := []*holdfast.Session{k.session, k.server.Open(&holdfast.Options{Observer: k.observer})}
	names := []string{"a", "b", "c"}
	const goroutines, each = 12, 25
	var wg sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i := range goroutines {
		wg.Go(func() {
			l := rlock.New(sessions[i%2], names[i%3], nil)
			for range each {
				h, err := l.Lock(ctx)
				if err == nil {
					err = h.Release()
				}
				assert.NoError(t, err)
			}
		})
	}
	for range 20 {
		k.collect()
	}
	wg.Wait()
	for _, name := range names {
		labels := "holdfast.kind=rlock,holdfast.name=" + name
		k.isMeasured("holdfast.hold.duration", goroutines*each/3, labels+",holdfast.outcome=released")
		k.isCounted("holdfast.hold.active", 0, labels)
		k.isCounted("holdfast.wait.active", 0, labels)
		granted := k.sum("holdfast.attempts", labels+",holdfast.outcome=acquired")
		assert.Equal(t, int64(goroutines*each/3), granted+k.sum("holdfast.handovers", "holdfast.handover.by=session,"+labels)+
			k.sum("holdfast.handovers", "holdfast.handover.by=server,"+labels))
	}
}
