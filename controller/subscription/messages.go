package subscription

import (
	"fmt"

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

// missingPortMessage is that for a sink whose port the Service does not have.
func missingPortMessage(service types.NamespacedName, port int32) string {
	return fmt.Sprintf("Sink validation failed: service %s.%s has no TCP port %d: write one of its ports into the sink",
		service.Name, service.Namespace, port)
}

// externalNameMessage is that for a Service that is another name for a host.
func externalNameMessage(service types.NamespacedName) string {
	return "Sink validation failed: service " + service.Name + "." + service.Namespace +
		" is of type ExternalName: name the host itself as the sink, which the operator of the cluster has to allow"
}
