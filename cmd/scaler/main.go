// Command scaler is KEDA's external scaler for Functions: it reports the backlog of each, and pushes the activation when
// the first event arrives.
package main

import (
	"context"
	"os"

	"github.com/go-logr/logr"

	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/kube/settingswatch"
	"github.com/rouse-run/rouse/internal/kube/watch"
	"github.com/rouse-run/rouse/internal/settings"
	"github.com/rouse-run/rouse/scaler"
	"github.com/rouse-run/rouse/scaler/externalmetrics"
	"github.com/rouse-run/rouse/scaler/httpload"
	"github.com/rouse-run/rouse/scaler/kedaspans"
)

func main() {
	o := defaultOptions()
	os.Exit(daemon.Main("scaler", os.Args[1:], o, func(ctx context.Context, log logr.Logger) error { return run(ctx, o, log) }))
}

func run(ctx context.Context, o *options, log logr.Logger) error {
	objects, err := kube.NewCache(log)
	if err != nil {
		return err
	}
	conn, err := broker.Connect(ctx, o.broker, log)
	if err != nil {
		return err
	}
	tracer, err := kedaspans.New(ctx, o.scaler.Tracing, log.WithName("tracing"))
	if err != nil {
		return err
	}
	registry := daemon.NewRegistry()
	config, _, err := kube.Cluster()
	if err != nil {
		return err
	}
	watcher, err := settingswatch.New(o.settings, settingswatch.Deps{Config: config, Log: log, Registry: registry, Apply: func(read *settings.Settings) {
		if err := tracer.Collect(read.Collector(o.scaler.Tracing.Endpoint)); err != nil {
			log.Error(err, "keeping the previous trace collector")
		}
	}})
	if err != nil {
		return err
	}
	endpoints := watch.NewEndpoints(objects, log)
	s := scaler.New(scaler.Deps{
		Routes:     watch.NewRoutes(objects, o.scaler.Sinks),
		Endpoints:  endpoints,
		Backlogs:   conn,
		Listener:   conn,
		Connection: conn,
		HTTP:       countCalls(o.scaler.HTTP, endpoints, watch.NewListings(objects), conn, log),
		Wants:      conn,
		Wakes:      conn,
		Registry:   registry,
		Tracer:     tracer,
		Log:        log,
	}, o.scaler)

	beside := []func(context.Context) error{
		objects.Start, conn.Hold, watcher.Run, settingswatch.DebuggedBehindServices(objects, log, true).Run,
		func(ctx context.Context) error {
			return daemon.Serve(ctx, daemon.Server{Name: "metrics", Addr: o.metricsAddress, Handler: s.Handler()}, log)
		},
	}
	if o.external.Address != "" {
		server, err := externalmetrics.New(o.external, config, s.ExternalMetric, scaler.ExternalMetricError, log.WithName("externalmetrics"))
		if err != nil {
			return err
		}
		beside = append(beside, server.Run)
	}
	err = daemon.RunOn(ctx, s.Run, beside...)
	if lost := tracer.Close(ctx); lost != nil {
		log.Info("lost the last spans", "reason", lost.Error())
	}
	return err
}

type options struct {
	scaler         scaler.Options
	broker         broker.Options
	external       externalmetrics.Options
	metricsAddress string
	settings       settingswatch.Options
}

func defaultOptions() *options {
	o := &options{scaler: scaler.DefaultOptions(), broker: broker.DefaultOptions(), metricsAddress: ":9090"}
	o.broker.Name = "rouse-scaler"
	return o
}

// Flags implements flags.Options.
func (o *options) Flags(fs *flags.Set) {
	fs.String(&o.metricsAddress, "metrics-address", "address of /metrics, /healthz and /readyz")
	fs.Add(&o.scaler, &o.external, &o.broker, &o.settings)
}

// countCalls returns the parts that count HTTP requests.
func countCalls(o scaler.HTTPOptions, endpoints scaler.Endpoints, listings scaler.Listings, idleness scaler.Idleness, log logr.Logger) *scaler.HTTP {
	return &scaler.HTTP{
		Gateways: httpload.NewGateways(endpoints, httpload.GatewaysOptions{Service: o.GatewayService}, log.WithName("gateways")),
		Pods:     httpload.NewPods(httpload.PodsOptions{}),
		Listings: listings,
		Idleness: idleness,
	}
}
