package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	operatorv1alpha1 "github.com/rouse-run/rouse/api/operator/v1alpha1"
	serverlessv1alpha2 "github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/subscription"
	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/kube"
)

// uninstallOptions holds the flags of "controller uninstall", which the chart runs before it deletes the CRDs and, with
// --slices or --finalizers, after it has deleted the controller.
type uninstallOptions struct {
	timeout            time.Duration
	slices, finalizers bool
	// serverlesses means that Serverlesses are deleted, too, after the Functions that they wait for.
	serverlesses bool
}

// Flags implements flags.Options.
func (o *uninstallOptions) Flags(fs *flags.Set) {
	fs.Duration(&o.timeout, "timeout", "how long all that is deleted may take to go").MoreThan(0)
	fs.Bool(&o.slices, "slices",
		"delete the EndpointSlices that list activators, in place of Functions and Subscriptions: when no controller makes them again")
	fs.Bool(&o.finalizers, "finalizers",
		"take the finalizers of Subscriptions, in place of deleting them and Functions: when no controller adds them again")
	fs.Bool(&o.serverlesses, "serverlesses", "delete the Serverlesses after the Functions and Subscriptions: while their operator runs")
}

// uninstall deletes what the options select and waits until it is gone.
func uninstall(ctx context.Context, o *uninstallOptions, log logr.Logger) error {
	kube.SetLogger(log)
	objects, err := kube.NewClient()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	if o.slices || o.finalizers {
		return removeRest(ctx, o, objects, log)
	}
	if err := deleteResources(ctx, objects, log); err != nil || !o.serverlesses {
		return err
	}
	return deleteAll(ctx, objects, &operatorv1alpha1.ServerlessList{}, log)
}

// deleteResources deletes every Subscription and Function. The controller has to run meanwhile: it removes the
// Subscriptions' finalizers after it has deleted their consumers.
func deleteResources(ctx context.Context, objects client.Client, log logr.Logger) error {
	for _, list := range []client.ObjectList{&eventingv1alpha2.SubscriptionList{}, &serverlessv1alpha2.FunctionList{}} {
		if err := deleteAll(ctx, objects, list, log); err != nil {
			return fmt.Errorf("%w (a Subscription waits for the controller and for NATS)", err)
		}
	}
	return nil
}

// removeRest removes what the controller has left. One failure does not keep the rest from being removed.
func removeRest(ctx context.Context, o *uninstallOptions, objects client.Client, log logr.Logger) error {
	var sliced, released error
	if o.finalizers {
		released = subscription.Leave(ctx, objects)
	}
	if o.slices {
		sliced = deleteSlices(ctx, objects, log)
	}
	return errors.Join(released, sliced)
}

// deleteSlices deletes the slices that lead callers to activators. Where Functions stay their Services do, too, and
// would still lead there when the gateways are gone.
func deleteSlices(ctx context.Context, objects client.Client, log logr.Logger) error {
	selected := client.MatchingLabels{discoveryv1.LabelManagedBy: activation.ManagedBy}
	return deleteAll(ctx, objects, &discoveryv1.EndpointSliceList{}, log, selected)
}

// deleteAll deletes the objects of a list repeatedly until none is left, because others may create more.
func deleteAll(ctx context.Context, objects client.Client, list client.ObjectList, log logr.Logger, selected ...client.ListOption) error {
	kind := fmt.Sprintf("%T", list)
	err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		if err := objects.List(ctx, list, selected...); err != nil {
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
				return false, fmt.Errorf("%T is not an object", item)
			}
			if err := client.IgnoreNotFound(objects.Delete(ctx, object)); err != nil {
				return false, err
			}
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("delete all of %s: %w", kind, err)
	}
	return nil
}
