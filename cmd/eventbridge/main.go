// Command eventbridge is the data plane: it stores events from HTTP in JetStream and delivers them from JetStream to
// their sinks.
package main

import (
	"context"
	"os"

	"github.com/go-logr/logr"

	"github.com/rouse-run/rouse/eventbridge"
	"github.com/rouse-run/rouse/eventbridge/jetstream"
	"github.com/rouse-run/rouse/eventbridge/journal"
	"github.com/rouse-run/rouse/eventbridge/tracecontext"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/kube/watch"
)

func main() {
	o := defaultOptions()
	os.Exit(daemon.Main("eventbridge", os.Args[1:], o, func(ctx context.Context, log logr.Logger) error { return run(ctx, o, log) }))
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
	tracer, err := tracecontext.New(ctx, o.bridge.Tracing, log.WithName("tracing"))
	if err != nil {
		return err
	}
	// The events of a batch wait together, so a larger batch would never fit.
	o.bridge.Ingress.MaxBatchEvents = min(o.bridge.Ingress.MaxBatchEvents, o.publisher.MaxPending)
	o.publisher.MaxPendingBytes = o.bridge.Ingress.MaxBytesInFlight
	publisher := broker.NewPublisher(conn, o.publisher)
	publisher.ExpectEvents(o.bridge.Ingress.MaxRequestSize)
	store := jetstream.NewStore(conn, publisher, o.publisher.Stream)
	reviewer, err := reviewerFor(o.bridge.Sinks.Access)
	if err != nil {
		return err
	}
	events := journal.New(o.bridge.JournalEvents)
	bridge := eventbridge.New(eventbridge.Deps{
		Routes:        watch.NewRoutes(objects, o.bridge.Sinks),
		Subscriptions: watch.NewSubscriptions(objects),
		Tokens:        reviewer,
		Endpoints:     watch.NewEndpoints(objects),
		Store:         store,
		Storage:       store,
		Quota:         store,
		Admin:         jetstream.NewAdminStore(conn, o.publisher.Stream, events),
		Journal:       events,
		Tracer:        tracer,
		Destination:   o.broker.URL,
		Registry:      daemon.NewRegistry(),
		Log:           log,
	}, o.bridge)
	err = daemon.RunOn(ctx, bridge.Run, objects.Start, conn.Hold)
	if lost := tracer.Close(ctx); lost != nil {
		log.Info("the last spans are lost", "reason", lost.Error())
	}
	return err
}
