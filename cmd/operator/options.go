package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"

	"github.com/rouse-run/rouse/controller/serverless"
	"github.com/rouse-run/rouse/controller/serverless/resources"
)

type options struct {
	serverless           serverless.Options
	metricsAddress       string
	leaderElect          bool
	leaderElectNamespace string
}

func defaultOptions() *options { return &options{metricsAddress: ":9090"} }

// BindFlags implements daemon.Options.
func (o *options) BindFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.metricsAddress, "metrics-address", o.metricsAddress, "address of /metrics, /healthz and /readyz")
	fs.BoolVar(&o.leaderElect, "leader-elect", o.leaderElect, "let one of several replicas work at a time")
	fs.StringVar(&o.leaderElectNamespace, "leader-elect-namespace", o.leaderElectNamespace,
		"namespace of the lease; that of the pod when empty")
	o.serverless.BindFlags(fs)
}

// Validate implements daemon.Options.
func (o *options) Validate() error { return o.serverless.Validate() }

// readInstallation reads what the chart has written.
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
