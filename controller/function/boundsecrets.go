package function

import (
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/kube"
)

// boundIndex finds the Deployments that a Secret was projected into.
const boundIndex = "bound"

func indexBound(object client.Object) []string {
	deployment, ok := object.(*appsv1.Deployment)
	if !ok {
		return nil
	}
	return resources.Secrets(deployment.Spec.Template.Annotations)
}

// bound finds the Functions that a runtime of servicebinding.io bound to a Secret. Their names are those of their
// Deployments, which alone say so.
func bound(reader client.Reader) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, secret client.Object) []reconcile.Request {
		deployments := &appsv1.DeploymentList{}
		err := reader.List(ctx, deployments, client.InNamespace(secret.GetNamespace()), client.MatchingFields{boundIndex: secret.GetName()})
		if err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "list the deployments that a secret is bound to")
			return nil
		}
		requests := make([]reconcile.Request, 0, len(deployments.Items))
		for i := range deployments.Items {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&deployments.Items[i])})
		}
		return requests
	})
}

// boundSecrets are the Secrets of the services that the Function is bound to.
func (s *scope) boundSecrets() []string {
	if s.deployment == nil {
		return nil
	}
	return resources.Secrets(s.deployment.Spec.Template.Annotations)
}

// references are all that the pods take values from: what the spec names, and what is bound.
func (s *scope) references() []reference {
	found := referencesOf(s.fn)
	for _, name := range s.boundSecrets() {
		ref := reference{referent: referent{kindSecret, name}}
		if !slices.Contains(found, ref) {
			found = append(found, ref)
		}
	}
	return found
}

// heedBindings makes sure that the controller and a runtime of servicebinding.io do not write against each other, and that what
// one of its webhooks took out meanwhile comes back.
func (r *Reconciler) heedBindings(s *scope, wanted *appsv1ac.DeploymentApplyConfiguration) error {
	if s.deployment == nil {
		return nil
	}
	if conflict := resources.Conflict(&s.deployment.Spec.Template, wanted.Spec.Template.Spec); conflict != "" {
		return kube.Stalled(&failure{
			condition: v1alpha2.ConditionConfigurationReady, reason: v1alpha2.ReasonInvalidSpec, message: conflict,
		})
	}
	if claimedBefore(s.fn) {
		r.applier.Distrust("Deployment", client.ObjectKeyFromObject(s.deployment))
	}
	return nil
}

// claimedBefore reports whether what a Function and a binding both claim may have kept its Deployment from being applied, also
// when another process found that. The runtime's webhook may have taken out what our managed fields go on to list.
func claimedBefore(fn *v1alpha2.Function) bool {
	before := meta.FindStatusCondition(fn.Status.Conditions, v1alpha2.ConditionConfigurationReady)
	return before != nil && before.Status == metav1.ConditionFalse && before.Reason == v1alpha2.ReasonInvalidSpec
}
