package target

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/routing"
)

// statePaused stands beside the phases that Subscriptions share with Functions.
const statePaused = "paused"

// Subscriptions implements Inventory.
func (c *cluster) Subscriptions(ctx context.Context, namespace string) ([]Subscription, error) {
	list, err := c.objects.Resource(subscriptionsResource()).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil, c.notServed(ctx, "Subscriptions", subscriptionsResource())
	}
	if err != nil {
		return nil, c.explain(err, "list", "subscriptions", namespace)
	}
	subscriptions := make([]Subscription, 0, len(list.Items))
	for _, item := range list.Items {
		sub, err := into[eventingv1alpha2.Subscription](item.Object)
		if err != nil {
			return nil, err
		}
		subscriptions = append(subscriptions, describeSubscription(&sub))
	}
	slices.SortFunc(subscriptions, func(a, b Subscription) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return subscriptions, nil
}

// Namespaces implements Inventory.
func (c *cluster) Namespaces(ctx context.Context) ([]string, error) {
	list, err := c.objects.Resource(namespacesResource()).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, c.explain(err, "list", "namespaces", "")
	}
	names := make([]string, 0, len(list.Items))
	for _, item := range list.Items {
		names = append(names, item.GetName())
	}
	return names, nil
}

// describeSubscription is the state of a Subscription. One that is served may have a message too: about its dead letters.
func describeSubscription(sub *eventingv1alpha2.Subscription) Subscription {
	shown := Subscription{
		Namespace: sub.Namespace, Name: sub.Name, Source: sub.Spec.Source, Types: sub.Spec.Types,
		TypeMatching: string(sub.Spec.TypeMatching), Sink: routing.ShownSink(sub.Spec.Sink),
	}
	for _, condition := range sub.Status.Conditions {
		if condition.Status == corev1.ConditionFalse && shown.Message == "" {
			shown.Message = condition.Message
		}
	}
	switch {
	case !sub.Status.Ready && shown.Message != "":
		shown.State = phaseFailing
	case !sub.Status.Ready:
		shown.State = phasePreparing
	case sub.Spec.Paused:
		shown.State = statePaused
	default:
		shown.State = phaseReady
	}
	return shown
}
