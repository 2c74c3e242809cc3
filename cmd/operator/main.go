// Command operator installs the Function controller that a Serverless requests, repairs it, and removes it with the
// Serverless. "operator uninstall" removes what it has installed after the operator itself was deleted.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/rouse-run/rouse/controller/serverless"
	"github.com/rouse-run/rouse/controller/serverless/resources"
	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/kube"
)

func main() {
	os.Exit(start(os.Args[1:]))
}

func start(args []string) int {
	if len(args) > 0 && args[0] == "uninstall" {
		o := &uninstallOptions{timeout: 3 * time.Minute}
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
		LeaderElectionReleaseOnCancel: true, // the process exits right after
	})
	if err != nil {
		return nil, fmt.Errorf("make the manager: %w", err)
	}
	return manager, daemon.RegisterBuild(metrics.Registry)
}

type options struct {
	serverless           serverless.Options
	metricsAddress       string
	leaderElect          bool
	leaderElectNamespace string
}

func defaultOptions() *options { return &options{metricsAddress: ":9090"} }

// Flags implements flags.Options.
func (o *options) Flags(fs *flags.Set) {
	fs.String(&o.metricsAddress, "metrics-address", "address of /metrics, /healthz and /readyz")
	fs.Bool(&o.leaderElect, "leader-elect", "let one of several replicas work at a time")
	fs.String(&o.leaderElectNamespace, "leader-elect-namespace", "namespace of the lease; that of the pod when empty")
	o.serverless.Flags(fs)
}

// readInstallation reads the chart's description of the installation.
func (o *options) readInstallation() (*resources.Installation, error) {
	file, err := os.Open(o.serverless.InstallationFile)
	if err != nil {
		return nil, fmt.Errorf("--installation-file: %w", err)
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, resources.MaxInstallation+1))
	if err != nil {
		return nil, fmt.Errorf("--installation-file: %w", err)
	}
	installation, err := resources.ParseInstallation(text)
	if err != nil {
		return nil, fmt.Errorf("--installation-file %s: %w", o.serverless.InstallationFile, err)
	}
	return installation, nil
}

// uninstallOptions holds the flags of "operator uninstall", which the chart runs after it has deleted the operator.
type uninstallOptions struct {
	timeout time.Duration
	binding string
}

// Flags implements flags.Options.
func (o *uninstallOptions) Flags(fs *flags.Set) {
	fs.Duration(&o.timeout, "timeout", "how long all that is deleted may take to go").MoreThan(0)
	fs.String(&o.binding, "binding", "name of the ClusterRoleBinding that the operator has made").NotEmpty()
}

func uninstall(ctx context.Context, o *uninstallOptions, log logr.Logger) error {
	kube.SetLogger(log)
	rest, scheme, err := kube.Cluster()
	if err != nil {
		return err
	}
	objects, err := client.New(rest, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	return serverless.Leave(ctx, objects, o.binding)
}
