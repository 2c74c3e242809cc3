package serverless

import (
	appsv1 "k8s.io/api/apps/v1"

	operatorv1alpha1 "github.com/rouse-run/rouse/api/operator/v1alpha1"
	"github.com/rouse-run/rouse/controller/serverless/resources"
)

// scope is what one reconciliation learns about a Serverless. The status is computed from it.
type scope struct {
	serverless *operatorv1alpha1.Serverless
	// served is the one that has an effect; nil when none may.
	served *operatorv1alpha1.Serverless
	// namespaces are those where a Serverless may be.
	namespaces []string
	allowed    bool

	// settings are those in force; nil when there are none.
	settings *resources.Settings
	// networkPolicies is true where the Function controller's pods have one.
	networkPolicies bool
	// invalid is why the spec is not in force.
	invalid error
	// deployment is the one that was applied.
	deployment *appsv1.Deployment
	// failed is why a part could not be applied or removed.
	failed error

	// functions is how many keep a Serverless from being removed.
	functions int64
	// removing is true from when the parts are being deleted, and removed when none is left.
	removing, removed bool
}

// isServed reports whether it is this one that has an effect.
func (s *scope) isServed() bool { return s.served != nil && s.served.UID == s.serverless.UID }

func (s *scope) isDeleted() bool { return s.serverless.DeletionTimestamp != nil }
