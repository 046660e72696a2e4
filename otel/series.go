package holdfastotel

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/holdfast-go/holdfast"
)

// The attributes.
const (
	kindKey     = attribute.Key("holdfast.kind")
	nameKey     = attribute.Key("holdfast.name")
	outcomeKey  = attribute.Key("holdfast.outcome")
	attemptsKey = attribute.Key("holdfast.attempts")
	handedKey   = attribute.Key("holdfast.handover.by")
	causeKey    = attribute.Key("holdfast.wakeup.cause")
	errorKey    = attribute.Key("error.type")
)

// Who has handed a lock over: its own session, or another one by the server.
const (
	bySession = "session"
	byServer  = "server"
)

// labels are attributes as instruments take them.
type labels struct {
	add    []metric.AddOption
	record []metric.RecordOption
}

func newLabels(attributes ...attribute.KeyValue) labels {
	set := metric.WithAttributeSet(attribute.NewSet(attributes...))
	return labels{add: []metric.AddOption{set}, record: []metric.RecordOption{set}}
}

type seriesKey struct{ kind, name string }

// A series has the attributes of everything that is measured for one kind (and one name, if metrics have names). It is
// made once, since attributes cost allocations.
type series struct {
	acquireSpan, holdSpan string
	attributes            []attribute.KeyValue

	plain                      labels
	acquired, busy             labels
	released, lost, closed     labels
	renewed, failed            labels
	byMessage, byTimer, byTurn labels
	bySession, byServer        labels
}

// text is a name as an attribute. Exporters refuse one that is not UTF-8, and with it all that they have to export.
func text(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }

// of returns the series of a subject.
func (t *telemetry) of(subject holdfast.Subject) *series {
	key := seriesKey{kind: subject.Kind}
	if t.names != nil {
		key.name = text(t.names(subject.Name))
	}
	t.mu.RLock()
	s := t.series[key]
	t.mu.RUnlock()
	if s != nil {
		return s
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s = newSeries(key) // if another call has made one meanwhile, this one is as good
	t.series[key] = s
	t.appear(s)
	return s
}

func newSeries(key seriesKey) *series {
	s := &series{
		acquireSpan: key.kind + " acquire", holdSpan: key.kind + " hold",
		attributes: []attribute.KeyValue{kindKey.String(key.kind)},
	}
	if key.name != "" {
		s.attributes = append(s.attributes, nameKey.String(key.name))
	}
	outcomes := map[outcome]*labels{
		acquired: &s.acquired, busy: &s.busy, released: &s.released, lost: &s.lost, closed: &s.closed,
		renewed: &s.renewed, failed: &s.failed,
	}
	for o, l := range outcomes {
		*l = s.with(outcomeKey.String(string(o)))
	}
	s.plain = s.with()
	s.byMessage = s.with(causeKey.String(holdfast.ByMessage.String()))
	s.byTimer = s.with(causeKey.String(holdfast.ByTimer.String()))
	s.byTurn = s.with(causeKey.String(holdfast.ByTurn.String()))
	s.bySession = s.with(handedKey.String(bySession))
	s.byServer = s.with(handedKey.String(byServer))
	return s
}

// with returns the labels of the series and some more.
func (s *series) with(more ...attribute.KeyValue) labels {
	return newLabels(append(more, s.attributes...)...)
}

// appear makes the counters of what should not happen start at 0.
func (in *instruments) appear(s *series) {
	ctx := context.Background()
	in.losses.Add(ctx, 0, s.plain.add...)
	in.attempts.Add(ctx, 0, s.busy.add...)
	in.renewals.Add(ctx, 0, s.failed.add...)
	for _, l := range []labels{s.byMessage, s.byTimer, s.byTurn} {
		in.wakeUps.Add(ctx, 0, l.add...)
	}
}

// asked returns the labels of a call or an attempt that ended with err.
func (s *series) asked(o outcome, err error) labels {
	switch o {
	case acquired:
		return s.acquired
	case busy:
		return s.busy
	}
	return s.with(outcomeKey.String(string(o)), errorKey.String(errorType(err, o)))
}

// ended returns the labels of a hold.
func (s *series) ended(o outcome) labels {
	switch o {
	case released:
		return s.released
	case lost:
		return s.lost
	}
	return s.closed
}

// woken returns the labels of a wake-up.
func (s *series) woken(by holdfast.WakeUp) labels {
	switch by {
	case holdfast.ByMessage:
		return s.byMessage
	case holdfast.ByTimer:
		return s.byTimer
	}
	return s.byTurn
}
