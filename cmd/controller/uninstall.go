package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	serverlessv1alpha2 "github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/kube"
)

// uninstallOptions are the flags of "controller uninstall", which the chart runs before it deletes the CRDs.
type uninstallOptions struct{ timeout time.Duration }

// BindFlags adds --timeout.
func (o *uninstallOptions) BindFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&o.timeout, "timeout", 3*time.Minute, "how long all Functions and Subscriptions may take to go")
}

// Validate refuses a timeout that has passed already.
func (o *uninstallOptions) Validate() error {
	if o.timeout <= 0 {
		return errors.New("--timeout: must be more than 0")
	}
	return nil
}

// uninstall deletes every Subscription and Function and waits until they are gone. The controller has to run
// meanwhile: it releases the Subscriptions' finalizers after it has deleted their consumers.
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
	for _, list := range []client.ObjectList{&eventingv1alpha2.SubscriptionList{}, &serverlessv1alpha2.FunctionList{}} {
		if err := deleteAll(ctx, objects, list, log); err != nil {
			return err
		}
	}
	return nil
}

// deleteAll deletes what a list holds, again and again until nothing is left, because a user may add more.
func deleteAll(ctx context.Context, objects client.Client, list client.ObjectList, log logr.Logger) error {
	kind := fmt.Sprintf("%T", list)
	err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		if err := objects.List(ctx, list); err != nil {
			return false, err
		}
		items, err := meta.ExtractList(list)
		if err != nil || len(items) == 0 {
			return len(items) == 0, err
		}
		log.Info("deleting", "list", kind, "left", len(items))
		for _, item := range items {
			object, ok := item.(client.Object)
			if !ok {
				return false, fmt.Errorf("%T is no object", item)
			}
			if err := client.IgnoreNotFound(objects.Delete(ctx, object)); err != nil {
				return false, err
			}
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("delete all of %s (a Subscription waits for the controller and for NATS): %w", kind, err)
	}
	return nil
}
