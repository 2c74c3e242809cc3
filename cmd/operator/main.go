// Command operator brings the Function controller that a Serverless asks for, keeps it as it should be, and takes it away with the
// Serverless. "operator uninstall" takes away what it has brought, when it is gone itself.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/rouse-run/rouse/controller/serverless"
	"github.com/rouse-run/rouse/controller/serverless/resources"
	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/kube"
)

func main() {
	os.Exit(start(os.Args[1:]))
}

func start(args []string) int {
	if len(args) > 0 && args[0] == "uninstall" {
		o := &uninstallOptions{}
		return daemon.Main("operator uninstall", args[1:], o, func(ctx context.Context, log logr.Logger) error {
			return uninstall(ctx, o, log)
		})
	}
	o := defaultOptions()
	return daemon.Main("operator", args, o, func(ctx context.Context, log logr.Logger) error { return run(ctx, o, log) })
}

func run(ctx context.Context, o *options, log logr.Logger) error {
	kube.SetLogger(log)
	installation, err := o.readInstallation()
	if err != nil {
		return err
	}
	manager, err := newManager(o, installation)
	if err != nil {
		return err
	}
	if err := serverless.Setup(manager, installation); err != nil {
		return err
	}
	return manager.Start(ctx)
}

func newManager(o *options, installation *resources.Installation) (ctrl.Manager, error) {
	rest, scheme, err := kube.Cluster()
	if err != nil {
		return nil, err
	}
	health := &healthz.Handler{Checks: map[string]healthz.Checker{"ping": healthz.Ping}}
	manager, err := ctrl.NewManager(rest, ctrl.Options{
		Scheme: scheme,
		Cache:  cache.Options{ByObject: serverless.CacheObjects(installation)},
		Metrics: metricsserver.Options{
			BindAddress: o.metricsAddress,
			ExtraHandlers: map[string]http.Handler{
				"/healthz": http.StripPrefix("/healthz", health),
				"/readyz":  http.StripPrefix("/readyz", health),
			},
		},
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              "rouse-operator",
		LeaderElectionNamespace:       o.leaderElectNamespace,
		LeaderElectionReleaseOnCancel: true, // the process ends right after
	})
	if err != nil {
		return nil, fmt.Errorf("make the manager: %w", err)
	}
	return manager, daemon.RegisterBuild(metrics.Registry)
}
