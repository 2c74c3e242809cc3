// Command operator installs the Function controller that a Serverless requests, repairs it, and removes it with the
// Serverless. "operator uninstall" removes what it has installed after the operator itself was deleted.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

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
	manager, err := kube.NewManager(o.manager, cache.Options{ByObject: serverless.CacheObjects(installation)},
		map[string]healthz.Checker{"ping": healthz.Ping})
	if err != nil {
		return err
	}
	if err := daemon.RegisterBuild(metrics.Registry); err != nil {
		return err
	}
	if err := serverless.Setup(manager, installation); err != nil {
		return err
	}
	return manager.Start(ctx)
}

type options struct {
	serverless serverless.Options
	manager    kube.ManagerOptions
}

func defaultOptions() *options {
	return &options{manager: kube.ManagerOptions{MetricsAddress: ":9090", Lease: "rouse-operator"}}
}

// Flags implements flags.Options.
func (o *options) Flags(fs *flags.Set) { fs.Add(&o.manager, &o.serverless) }

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
	objects, err := kube.NewClient()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	return serverless.Leave(ctx, objects, o.binding)
}
