package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	serverlessv1alpha2 "github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

const (
	maxNamespaces = 200
	creators      = 8 // at a time
)

// pair is a Function and the Subscription that leads to it.
type pair struct {
	function     *serverlessv1alpha2.Function
	subscription *eventingv1alpha2.Subscription
}

// makePairs makes so many of a file's Function and Subscription, spread over namespaces, with events of their own.
func makePairs(path string, count int) ([]pair, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the manifests: %w", err)
	}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 1<<16)
	first := pair{function: &serverlessv1alpha2.Function{}, subscription: &eventingv1alpha2.Subscription{}}
	if err := errors.Join(decoder.Decode(first.function), decoder.Decode(first.subscription)); err != nil {
		return nil, fmt.Errorf("read the manifests: %w", err)
	}
	pairs := make([]pair, count)
	for i := range pairs {
		namespace, name := namespaceAt(i), fmt.Sprintf("price-%d", i)
		function, subscription := first.function.DeepCopy(), first.subscription.DeepCopy()
		function.Namespace, function.Name = namespace, name
		subscription.Namespace, subscription.Name = namespace, name
		subscription.Spec.Types = []string{fmt.Sprintf("order.received.v%d", i)}
		subscription.Spec.Sink = fmt.Sprintf("http://%s.%s.svc.cluster.local", name, namespace)
		pairs[i] = pair{function: function, subscription: subscription}
	}
	return pairs, nil
}

func namespaceAt(i int) string { return fmt.Sprintf("shop-%d", i%maxNamespaces) }

// create makes the objects, first the namespaces.
func (c *cluster) create(ctx context.Context, pairs []pair) error {
	for i := range min(len(pairs), maxNamespaces) {
		if err := c.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespaceAt(i)}}); err != nil {
			return fmt.Errorf("create a namespace: %w", err)
		}
	}
	group, creating := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	for _, each := range pairs {
		group.Go(func() error {
			for _, object := range []client.Object{each.function, each.subscription} {
				if err := c.Client.Create(creating, object); err != nil {
					return fmt.Errorf("create %T %s: %w", object, object.GetName(), err)
				}
			}
			return nil
		})
	}
	return group.Wait()
}
