// Command eventbridge is the data plane: it stores events from HTTP in JetStream and delivers them from JetStream to
// their sinks.
package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/eventbridge"
	"github.com/rouse-run/rouse/eventbridge/admin"
	"github.com/rouse-run/rouse/eventbridge/chain"
	"github.com/rouse-run/rouse/eventbridge/identity"
	"github.com/rouse-run/rouse/eventbridge/replica"
	"github.com/rouse-run/rouse/eventbridge/tracecontext"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/eventschema"
	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/kube/settingswatch"
	"github.com/rouse-run/rouse/internal/kube/watch"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/settings"
)

func main() {
	o := defaultOptions()
	os.Exit(daemon.Main("eventbridge", os.Args[1:], o, func(ctx context.Context, log logr.Logger) error { return run(ctx, o, log) }))
}

func run(ctx context.Context, o *options, log logr.Logger) error {
	objects, err := kube.NewCache(log, cachedKeys(o.doorKeys))
	if err != nil {
		return err
	}
	conn, err := broker.Connect(ctx, o.broker, log)
	if err != nil {
		return err
	}
	tracer, err := tracecontext.New(ctx, o.bridge.Bridge.Tracing, log.WithName("tracing"))
	if err != nil {
		return err
	}
	registry := daemon.NewRegistry()
	config, _, err := kube.Cluster()
	if err != nil {
		return err
	}
	policy := o.bridge.Bridge.Sinks
	tokens, noTokens := reviewerFor(policy.Access)
	access, noAccess := adminAccess(o.bridge.Bridge.Admin, log)
	if err := errors.Join(noTokens, noAccess); err != nil {
		return err
	}
	key, err := chain.ReadKey(o.bridge.Bridge.ChainKeyFile)
	if err != nil {
		return err
	}
	deps := eventbridge.Deps{
		Routes:        watch.NewRoutes(objects, policy).WithKeys(o.doorKeys),
		Subscriptions: watch.NewSubscriptions(objects),
		Schedules:     watch.NewSchedules(objects),
		Tokens:        tokens,
		AdminAccess:   access,
		Endpoints:     watch.NewEndpoints(objects, log),
		Tracer:        tracer,
		ChainKey:      key,
		Destination:   o.broker.URL,
		Registry:      registry,
		Log:           log,
	}
	if err := addDoors(&deps, objects, o.doorKeys); err != nil {
		return err
	}
	schemas := &eventschema.Current{}
	if o.schemas != "" {
		deps.Schemas = schemas
	}
	bridge := replica.New(conn, deps, o.bridge)
	watcher, err := settingswatch.New(o.settings, settingswatch.Deps{Config: config, Log: log, Registry: registry, Apply: func(read *settings.Settings) {
		if err := tracer.Collect(read.Collector(o.bridge.Bridge.Tracing.Endpoint)); err != nil {
			log.Error(err, "keeping the previous trace collector")
		}
		bridge.SetRetries(eventbridge.Retries{MaxAttempts: read.MaxAttempts, Backoff: read.Backoff, MaxBackoff: read.MaxBackoff})
	}})
	if err != nil {
		return err
	}
	err = daemon.RunOn(ctx, bridge.Run, objects.Start, conn.Hold, watcher.Run, followSchemas(schemas, o.schemas, log), daemon.PaceCollector,
		settingswatch.DebuggedBehindServices(objects, log, true).Run)
	if lost := tracer.Close(ctx); lost != nil {
		log.Info("lost the last spans", "reason", lost.Error())
	}
	return err
}

// schemaInterval is the interval at which schemas are read again. The kubelet renews the files of a ConfigMap within about a minute.
const schemaInterval = 5 * time.Second

// followSchemas keeps the schemas of a folder in force.
func followSchemas(schemas *eventschema.Current, folder string, log logr.Logger) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		if folder == "" {
			<-ctx.Done()
			return nil
		}
		return schemas.Follow(ctx, os.DirFS(folder), schemaInterval, func(file string, err error) {
			log.Error(err, "cannot use the schema of a type of events; it keeps the one before, or may have any data", "file", file)
		})
	}
}

// cachedKeys limits the Secrets in the cache to the one with the keys of Doors.
func cachedKeys(keys types.NamespacedName) map[client.Object]cache.ByObject {
	if keys.Name == "" {
		return nil
	}
	return watch.DoorKeys(keys)
}

// addDoors lets the bridge take requests to Doors, if there are any.
func addDoors(deps *eventbridge.Deps, objects cache.Cache, keys types.NamespacedName) error {
	if keys.Name == "" {
		return nil
	}
	gateways, err := kube.NewReviews()
	if err != nil {
		return err
	}
	deps.Doors, deps.Gateways = watch.NewDoors(objects, keys).Watch, reviewer{gateways}
	return nil
}

type options struct {
	bridge   replica.Options
	broker   broker.Options
	settings settingswatch.Options
	doorKeys types.NamespacedName
	schemas  string
}

func defaultOptions() *options {
	o := &options{bridge: replica.DefaultOptions(), broker: broker.DefaultOptions()}
	o.broker.Name = "rouse-eventbridge"
	return o
}

// Flags implements flags.Options.
func (o *options) Flags(fs *flags.Set) {
	fs.Add(&o.bridge, &o.broker, &o.settings)
	fs.Service(&o.doorKeys, "door-keys", "Secret with the keys of Doors, and of Subscriptions that sign, namespace/name; empty: there are neither")
	fs.String(&o.schemas, "event-schemas", "folder with the JSON Schemas of types of events, one TYPE.schema.json for each; empty: none")
	fs.Require(o.doorKeys.Name == "" || o.bridge.Bridge.Gateway.Name != "", "--door-keys: --gateway-account must say whose tokens are gateways'")
}

// adminAccess returns nil, and not an interface that holds nil, without an admin API. Its reviews have a client of
// their own, so that they do not wait for those of publishers.
func adminAccess(o admin.Options, log logr.Logger) (identity.Access, error) {
	if o.Address == "" {
		return nil, nil //nolint:nilnil // without an API there is no access
	}
	reviews, err := kube.NewReviews()
	if err != nil {
		return nil, err
	}
	return identity.NewKubernetes(reviews, log.WithName("admin")), nil
}

// reviewerFor returns nil, and not an interface that holds nil, when publishers need no token.
func reviewerFor(access routing.Access) (identity.Reviewer, error) {
	if access.Publish == nil {
		return nil, nil //nolint:nilnil // no reviewer is needed
	}
	reviews, err := kube.NewReviews()
	if err != nil {
		return nil, err
	}
	return reviewer{reviews}, nil
}

// reviewer validates tokens at the API server.
type reviewer struct{ reviews *kube.Reviews }

// Review implements identity.Reviewer.
func (r reviewer) Review(ctx context.Context, token, audience string) (identity.Account, error) {
	namespace, name, ok, err := r.reviews.ServiceAccountOf(ctx, token, audience)
	if err == nil && !ok {
		err = identity.ErrUnknown
	}
	return identity.Account{Namespace: namespace, Name: name}, err
}
