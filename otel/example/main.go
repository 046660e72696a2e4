// Example is a program that contends for locks, and loses some now and then, with an embedded server: there is
// nothing to set up. Its metrics are what Prometheus reads and the dashboard in docs/grafana.json shows.
//
//	go run .                            # metrics at http://127.0.0.1:2112/metrics
//	prometheus --config.file=prometheus.yml
package main

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/holdfast-go/holdfast"
	holdfastotel "github.com/holdfast-go/holdfast/otel"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:2112", "`address` of /metrics")
	every := flag.Duration("trouble", 20*time.Second, "how often something goes wrong")
	flag.Parse()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	listener, err := net.Listen("tcp", *listen)
	if err == nil {
		log.Info("metrics", "url", "http://"+listener.Addr().String()+"/metrics")
		err = run(ctx, listener, log, *every)
	}
	if err != nil {
		log.Error(err.Error())
		os.Exit(1)
	}
}

// run works, and serves metrics, until ctx ends.
func run(ctx context.Context, listener net.Listener, log *slog.Logger, every time.Duration) error {
	registry := prometheus.NewRegistry()
	observer, stop, err := newObserver(registry)
	if err != nil {
		return err
	}
	defer stop()
	p, err := newPlant(observer, log)
	if err != nil {
		return err
	}
	defer p.close()
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()

	p.run(ctx, every)
	if err := server.Close(); err != nil {
		return err
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// newObserver is all that a program needs: a provider whose metrics Prometheus can read, and the observer.
func newObserver(registry *prometheus.Registry) (_ *holdfast.Observer, stop func(), err error) {
	reader, err := exporter.New(exporter.WithRegisterer(registry))
	if err != nil {
		return nil, nil, err
	}
	provider := metric.NewMeterProvider(metric.WithReader(reader))
	observer, err := holdfastotel.NewObserver(&holdfastotel.Options{MeterProvider: provider, Names: family})
	return observer, func() { _ = provider.Shutdown(context.Background()) }, err
}

// family makes few names of many: "stock" of "stock:17".
func family(name string) string {
	before, _, _ := strings.Cut(name, ":")
	return before
}
