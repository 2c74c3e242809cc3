package subscription

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// invalidMessage is the message of the condition for the errors of a Subscription.
func invalidMessage(errs field.ErrorList) string {
	return "Subscription validation failed: " + errs.ToAggregate().Error()
}

// missingSinkMessage is the message of the condition for a sink without Service.
func missingSinkMessage(service types.NamespacedName) string {
	return "Sink validation failed: service " + service.Name + "." + service.Namespace + " not found in the cluster"
}
