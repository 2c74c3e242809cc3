package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/controller/serverless"
	"github.com/rouse-run/rouse/internal/kube"
)

// uninstallOptions are the flags of "operator uninstall", which the chart runs after it has deleted the operator.
type uninstallOptions struct {
	timeout time.Duration
	binding string
}

// BindFlags adds the flags of the command.
func (o *uninstallOptions) BindFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&o.timeout, "timeout", 3*time.Minute, "how long all that is deleted may take to go")
	fs.StringVar(&o.binding, "binding", o.binding, "name of the ClusterRoleBinding that the operator has made")
}

// Validate reports everything that is wrong.
func (o *uninstallOptions) Validate() error {
	var problems []error
	if o.timeout <= 0 {
		problems = append(problems, errors.New("--timeout: must be more than 0"))
	}
	if o.binding == "" {
		problems = append(problems, errors.New("--binding: must not be empty"))
	}
	return errors.Join(problems...)
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
