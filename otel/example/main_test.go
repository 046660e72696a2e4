package main

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
	"github.com/holdfast-go/holdfast/rlock"
)

const (
	dashboard = "../../docs/grafana.json"
	alerts    = "alerts.yml"
	guide     = "../../docs/observability.md"
)

// The example exports every metric that the dashboard and the alerts query, with the labels that they use.
func TestTheDashboardFindsItsMetrics(t *testing.T) {
	t.Parallel()
	scrape := start(t)
	rules, err := os.ReadFile(alerts)
	require.NoError(t, err)
	asked := regexp.MustCompile(`(holdfast_\w+)(\{[^}]*\})?`)
	labels := regexp.MustCompile(`(\w+)(=~?)"([^"$]*)`)
	queries := queriesOf(t)
	require.Greater(t, len(queries), 15)
	var last string // what is there stays there
	eventually := func(found func() bool, query string) {
		t.Helper()
		if found() {
			return
		}
		require.Eventually(t, func() bool {
			last = scrape()
			return found()
		}, 20*time.Second, 100*time.Millisecond, query)
	}
	for _, query := range append(queries, string(rules)) {
		for _, m := range asked.FindAllStringSubmatch(query, -1) {
			name, within := m[1], m[2]
			eventually(func() bool { return strings.Contains(last, name) }, name)
			for _, l := range labels.FindAllStringSubmatch(within, -1) {
				label, value := l[1], l[3]
				if l[2] == "=" { // else one of several
					label += `="` + value + `"`
				}
				series := regexp.MustCompile(`(?m)^` + name + `\{[^}]*` + regexp.QuoteMeta(label))
				eventually(func() bool { return series.MatchString(last) }, query)
			}
		}
	}
}

// The metrics show what goes wrong in the example.
func TestTroubleIsMeasured(t *testing.T) {
	t.Parallel()
	scrape := start(t)
	for _, series := range []string{
		`holdfast_hold_losses_total\{[^}]*holdfast_kind="rlock"[^}]*holdfast_name="cron"`,
		`holdfast_renewals_total\{[^}]*holdfast_outcome="failed"`,
		`holdfast_attempts_total\{[^}]*holdfast_outcome="busy"`,
		`holdfast_wakeups_total\{[^}]*holdfast_wakeup_cause="timer"`,
		`holdfast_wait_duration_seconds_count\{[^}]*holdfast_kind="fairlock"`,
	} {
		positive := regexp.MustCompile(`(?m)^` + series + `[^}]*\} [1-9]`)
		require.Eventually(t, func() bool { return positive.MatchString(scrape()) }, 30*time.Second,
			200*time.Millisecond, series)
	}
}

// A name that is not UTF-8 does not keep Prometheus from reading the metrics.
func TestANameThatIsNotUTF8IsExported(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	observer, stop, err := newObserver(registry)
	require.NoError(t, err)
	defer stop()
	s := holdfasttest.NewServer(t).Open(&holdfast.Options{Observer: observer})
	hold, err := rlock.New(s, "caf\xe9:1", nil).TryLock(t.Context())
	require.NoError(t, err)
	require.NoError(t, hold.Release())
	_, err = registry.Gather()
	require.NoError(t, err)
}

// Every metric is on the dashboard.
func TestTheDashboardShowsEveryMetric(t *testing.T) {
	t.Parallel()
	scrape := start(t)
	all := strings.Join(queriesOf(t), "\n")
	kinds := regexp.MustCompile(`(?m)^# TYPE (holdfast_\w+) `)
	names := map[string]bool{}
	require.Eventually(t, func() bool {
		for _, m := range kinds.FindAllStringSubmatch(scrape(), -1) {
			names[m[1]] = true
		}
		return len(names) == 12
	}, 20*time.Second, 100*time.Millisecond)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		assert.Contains(t, all, name)
	}
}

func TestTheGuideHasTheAlerts(t *testing.T) {
	t.Parallel()
	rules, err := os.ReadFile(alerts)
	require.NoError(t, err)
	text, err := os.ReadFile(guide)
	require.NoError(t, err)
	assert.Contains(t, string(text), "```yaml\n"+string(rules)+"```")
}

// start runs the example until the test is over, with more trouble than usual, and returns how to scrape it.
func start(t *testing.T) (scrape func() string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- run(ctx, listener, slog.New(slog.DiscardHandler), 500*time.Millisecond) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-over:
			assert.NoError(t, err)
		case <-time.After(20 * time.Second):
			assert.Fail(t, "it goes on")
		}
	})
	client := &http.Client{Timeout: 5 * time.Second}
	t.Cleanup(client.CloseIdleConnections)
	return func() string {
		reply, err := client.Get("http://" + listener.Addr().String() + "/metrics")
		if !assert.NoError(t, err) {
			return ""
		}
		defer reply.Body.Close()
		body, err := io.ReadAll(reply.Body)
		assert.NoError(t, err)
		assert.Equal(t, http.StatusOK, reply.StatusCode, string(body))
		return string(body)
	}
}

// queriesOf returns the queries of the dashboard's panels and variables.
func queriesOf(t *testing.T) (queries []string) {
	t.Helper()
	text, err := os.ReadFile(dashboard)
	require.NoError(t, err)
	var board struct {
		Templating struct {
			List []struct{ Definition string }
		}
		Panels []struct {
			Type, Title string
			Datasource  struct{ UID string }
			Targets     []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &board))
	for _, v := range board.Templating.List {
		queries = append(queries, v.Definition)
	}
	for _, p := range board.Panels {
		if p.Type == "row" {
			continue
		}
		assert.Equal(t, "${datasource}", p.Datasource.UID, p.Title)
		assert.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			queries = append(queries, target.Expr)
		}
	}
	return queries
}
