package subscription

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/routing"
)

// Indexes of Subscriptions. Without them what happens to one Service or consumer would cost a look at every Subscription.
const (
	// sinkIndex finds those whose events or dead letters go to a Service, by its namespace/name.
	sinkIndex = "rouse.sink"
	// consumerIndex finds the one that a consumer is of, by the consumer's name.
	consumerIndex = "rouse.consumer"
)

// indexers have the function of each index.
func indexers(policy routing.Policy) map[string]client.IndexerFunc {
	return map[string]client.IndexerFunc{sinkIndex: indexSinks(policy), consumerIndex: indexConsumer}
}

func indexSubscriptions(ctx context.Context, indexer client.FieldIndexer, policy routing.Policy) error {
	for field, values := range indexers(policy) {
		if err := indexer.IndexField(ctx, &eventingv1alpha2.Subscription{}, field, values); err != nil {
			return fmt.Errorf("index the Subscriptions: %w", err)
		}
	}
	return nil
}

// indexSinks leaves Subscriptions out that are not valid: no Service makes them so.
func indexSinks(policy routing.Policy) client.IndexerFunc {
	return func(object client.Object) []string {
		sub, ok := object.(*eventingv1alpha2.Subscription)
		if !ok {
			return nil
		}
		route, err := routing.FromSubscription(sub, policy)
		if err != nil {
			return nil
		}
		services := []string{route.Service.String()}
		if route.DeadLetters != nil && route.DeadLetters.Service != route.Service {
			services = append(services, route.DeadLetters.Service.String())
		}
		return services
	}
}

func indexConsumer(object client.Object) []string {
	return []string{routing.ConsumerName(object.GetNamespace(), object.GetName())}
}
