package holdfastotel_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	holdfastotel "github.com/holdfast-go/holdfast/otel"
)

// A kit is a session that is observed, and what was measured.
type kit struct {
	t        *testing.T
	server   *holdfasttest.Server
	observer *holdfast.Observer
	session  *holdfast.Session
	reader   *metric.ManualReader
}

func newKit(t *testing.T, opts *holdfastotel.Options, more ...metric.Option) *kit {
	t.Helper()
	if opts == nil {
		opts = &holdfastotel.Options{}
	}
	k := &kit{t: t, server: holdfasttest.NewServer(t), reader: metric.NewManualReader()}
	opts.MeterProvider = metric.NewMeterProvider(append(more, metric.WithReader(k.reader))...)
	observer, err := holdfastotel.NewObserver(opts)
	require.NoError(t, err)
	k.observer = observer
	k.session = k.server.Open(&holdfast.Options{Observer: observer})
	return k
}

const patience = 20 * time.Second

func (k *kit) lock(l holdfast.Locker) *holdfast.Hold {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.t.Context(), patience)
	defer cancel()
	h, err := l.Lock(ctx)
	require.NoError(k.t, err)
	return h
}

type result struct {
	hold *holdfast.Hold
	err  error
}

func (k *kit) goLock(ctx context.Context, l holdfast.Locker) <-chan result {
	c := make(chan result, 1)
	go func() {
		h, err := l.Lock(ctx)
		c <- result{h, err}
	}()
	return c
}

// received receives from c, or fails the test.
func received[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		require.FailNow(t, "nothing has come")
		panic("unreachable")
	}
}

// collect reads all metrics.
func (k *kit) collect() []metricdata.Metrics {
	k.t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(k.t, k.reader.Collect(context.Background(), &all))
	if len(all.ScopeMetrics) == 0 {
		return nil
	}
	require.Len(k.t, all.ScopeMetrics, 1)
	require.Equal(k.t, "github.com/holdfast-go/holdfast/otel", all.ScopeMetrics[0].Scope.Name)
	return all.ScopeMetrics[0].Metrics
}

// read returns the counts by metric and attributes; for histograms, the numbers of measurements.
func (k *kit) read() map[string]map[string]int64 {
	k.t.Helper()
	all := map[string]map[string]int64{}
	for _, m := range k.collect() {
		series := map[string]int64{}
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range data.DataPoints {
				series[encode(p.Attributes)] = p.Value
			}
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				series[encode(p.Attributes)] = int64(p.Count)
			}
		default:
			require.Fail(k.t, "an unexpected kind of metric", m.Name)
		}
		all[m.Name] = series
	}
	return all
}

func encode(s attribute.Set) string { return s.Encoded(attribute.DefaultEncoder()) }

func (k *kit) sum(name, labels string) int64 { return k.read()[name][labels] }

// total adds up all series with such an attribute.
func (k *kit) total(name, label string) (n uint64) {
	for labels, count := range k.read()[name] {
		if strings.Contains(labels, label) {
			n += uint64(count)
		}
	}
	return n
}

// isCounted waits for a count.
func (k *kit) isCounted(name string, want int64, labels string) {
	k.t.Helper()
	k.eventually(name+" "+labels, func() bool {
		n, ok := k.read()[name][labels]
		return ok && n == want
	})
}

func (k *kit) isMeasured(name string, times uint64, labels string) {
	k.t.Helper()
	k.isCounted(name, int64(times), labels)
}

func (k *kit) eventually(what string, holds func() bool) {
	k.t.Helper()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(patience); !holds(); <-look.C {
		if time.Now().After(end) {
			require.FailNow(k.t, what, "not so within %v: %v", patience, k.read())
		}
	}
}
