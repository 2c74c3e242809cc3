// Command controller is the control plane: it turns Functions into Deployments, Services and ScaledObjects, lists activators
// among their endpoints, turns Subscriptions into durable consumers, and APIRules into HTTPRoutes, or does some of that. "controller uninstall" deletes all
// Functions and Subscriptions, or what lists activators; "controller credentials" makes up the passwords of an installation.
package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/rouse-run/rouse/controller/activator"
	"github.com/rouse-run/rouse/controller/apirules"
	"github.com/rouse-run/rouse/controller/credentials"
	"github.com/rouse-run/rouse/controller/function"
	"github.com/rouse-run/rouse/controller/subscription"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/kube"
)

func main() {
	os.Exit(start(os.Args[1:]))
}

func start(args []string) int {
	if len(args) > 0 && args[0] == "uninstall" {
		o := &uninstallOptions{}
		return daemon.Main("controller uninstall", args[1:], o, func(ctx context.Context, log logr.Logger) error {
			return uninstall(ctx, o, log)
		})
	}
	if len(args) > 0 && args[0] == "credentials" {
		o := &credentials.Options{}
		return daemon.Main("controller credentials", args[1:], o, func(ctx context.Context, log logr.Logger) error {
			return makeCredentials(ctx, o, log)
		})
	}
	o := defaultOptions()
	return daemon.Main("controller", args, o, func(ctx context.Context, log logr.Logger) error { return run(ctx, o, log) })
}

func run(ctx context.Context, o *options, log logr.Logger) error {
	kube.SetLogger(log)
	checks := map[string]healthz.Checker{"ping": healthz.Ping}
	manager, err := newManager(o, checks)
	if err != nil {
		return err
	}
	live := &liveSettings{}
	if o.runs(functions) {
		if live, err = setUpFunctions(ctx, manager, o); err != nil {
			return err
		}
		checks["functions"] = live.functions.Healthy
	}
	follow, err := followSettings(manager, o, live, log)
	if err != nil {
		return err
	}
	if o.runs(apiRules) {
		if err := apirules.Setup(manager, nil, o.exposure); err != nil {
			return err
		}
	}
	work := follow.before(manager.Start)
	if !o.runs(activators, subscriptions) {
		return daemon.RunOn(ctx, work, follow.watcher.Run) // none of the others knows NATS
	}
	conn, err := broker.Connect(ctx, o.broker, log)
	if err != nil {
		return err
	}
	if err := setUpEventing(ctx, manager, conn, o); err != nil {
		return err
	}
	return daemon.RunOn(ctx, work, conn.Hold, follow.watcher.Run)
}

// setUpEventing sets up the controllers that need NATS.
func setUpEventing(ctx context.Context, manager ctrl.Manager, conn *broker.Conn, o *options) error {
	if o.runs(activators) {
		err := activator.Setup(ctx, manager, activator.Parts{
			Registerer:    metrics.Registry,
			Announcements: conn,
			KEDA:          func(ctx context.Context) (bool, error) { return function.KEDAInstalled(ctx, manager.GetClient()) },
		}, o.activation)
		if err != nil {
			return err
		}
	}
	if !o.runs(subscriptions) {
		return nil
	}
	if err := subscription.Setup(ctx, manager, conn, metrics.Registry, o.subscription); err != nil {
		return err
	}
	return setUpVersions(manager, o) // of a release one process does
}

// newManager makes the manager. Checks may be added until it starts.
func newManager(o *options, checks map[string]healthz.Checker) (ctrl.Manager, error) {
	rest, scheme, err := kube.Cluster()
	if err != nil {
		return nil, err
	}
	cached := function.CacheObjects()
	maps.Copy(cached, activator.CacheObjects())
	maps.Copy(cached, subscription.CacheObjects())
	health := &healthz.Handler{Checks: checks}
	manager, err := ctrl.NewManager(rest, ctrl.Options{
		Scheme: scheme,
		Cache:  cache.Options{ByObject: cached, DefaultTransform: transform},
		Metrics: metricsserver.Options{
			BindAddress: o.metricsAddress,
			ExtraHandlers: map[string]http.Handler{
				"/healthz": http.StripPrefix("/healthz", health),
				"/readyz":  http.StripPrefix("/readyz", health),
			},
		},
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              o.leaderElectLease,
		LeaderElectionNamespace:       o.leaderElectNamespace,
		LeaderElectionReleaseOnCancel: true, // the process ends right after
	})
	if err != nil {
		return nil, fmt.Errorf("make the manager: %w", err)
	}
	if err := daemon.RegisterBuild(metrics.Registry); err != nil {
		return nil, err
	}
	return kube.BoundEvents(manager)
}

// transform limits what the cache holds of kinds that it may not know when it is made.
func transform(object any) (any, error) {
	object, err := function.Transform(object)
	if err != nil {
		return nil, err
	}
	return apirules.Transform(object)
}
