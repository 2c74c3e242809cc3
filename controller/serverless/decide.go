package serverless

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	operatorv1alpha1 "github.com/rouse-run/rouse/api/operator/v1alpha1"
	"github.com/rouse-run/rouse/controller/serverless/resources"
)

// choose finds the one that has an effect: that which has it already, and otherwise the oldest that may.
func choose(all []operatorv1alpha1.Serverless, allows func(namespace string) bool) *operatorv1alpha1.Serverless {
	var chosen *operatorv1alpha1.Serverless
	for i := range all {
		one := &all[i]
		served := one.Status.Served == operatorv1alpha1.ServedTrue
		if !served && (one.DeletionTimestamp != nil || !allows(one.Namespace)) {
			continue
		}
		if chosen == nil || before(one, chosen) {
			chosen = one
		}
	}
	return chosen
}

// before puts those that are served first, then the oldest. Two are served only when somebody else has written it.
func before(a, b *operatorv1alpha1.Serverless) bool {
	if first, second := a.Status.Served == operatorv1alpha1.ServedTrue, b.Status.Served == operatorv1alpha1.ServedTrue; first != second {
		return first
	}
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name)) < 0
}

// chosenPreset is the one in force, unless the Serverless was written since it was chosen.
func chosenPreset(one *operatorv1alpha1.Serverless) string {
	if one.Status.ObservedGeneration != one.Generation {
		return ""
	}
	return one.Status.DefaultRuntimePodPreset
}

// lastGood are the settings that were in force last, nil when there never were any.
func lastGood(status *operatorv1alpha1.ServerlessStatus) *resources.Settings {
	if status.EventingEndpoint == "" || status.DefaultRuntimePodPreset == "" {
		return nil
	}
	return &resources.Settings{
		EventingEndpoint:        status.EventingEndpoint,
		TracingEndpoint:         status.TracingEndpoint,
		FunctionRequeueDuration: status.FunctionRequeueDuration,
		HealthzLivenessTimeout:  status.HealthzLivenessTimeout,
		DefaultPreset:           status.DefaultRuntimePodPreset,
		LogLevel:                status.LogLevel,
		LogFormat:               status.LogFormat,
	}
}

// rollout is how far a Deployment is.
type rollout struct {
	ready bool
	// failure is why pods cannot be made.
	failure string
	// stalled is why it is not expected to get ready by itself.
	stalled error
}

// verify judges a Deployment as it is written now.
func verify(deployment *appsv1.Deployment) rollout {
	conditions := map[appsv1.DeploymentConditionType]appsv1.DeploymentCondition{}
	for _, condition := range deployment.Status.Conditions {
		conditions[condition.Type] = condition
	}
	name := deployment.Namespace + "/" + deployment.Name
	if failure := conditions[appsv1.DeploymentReplicaFailure]; failure.Status == corev1.ConditionTrue {
		return rollout{failure: fmt.Sprintf("Warning: deployment %s has replica failure: %s", name,
			cmp.Or(failure.Message, failure.Reason))}
	}
	if deployment.Status.ObservedGeneration < deployment.Generation {
		return rollout{}
	}
	progress := conditions[appsv1.DeploymentProgressing]
	if progress.Status == corev1.ConditionFalse {
		return rollout{stalled: fmt.Errorf("deployment %s does not get ready: %s. Find out why with "+
			"kubectl -n %s describe pods -l app=serverless", name, cmp.Or(progress.Message, progress.Reason), deployment.Namespace)}
	}
	return rollout{ready: progress.Status == corev1.ConditionTrue && progress.Reason == "NewReplicaSetAvailable" &&
		conditions[appsv1.DeploymentAvailable].Status == corev1.ConditionTrue && deployment.Status.UnavailableReplicas == 0}
}

// foreignError says that a part has the name of an object that another owner made.
type foreignError struct{ kind, key string }

// Error says what to do about it.
func (e *foreignError) Error() string {
	return fmt.Sprintf("%s %s exists already, and the operator has not made it: it is left as it is. If it is Kyma's, stop Kyma's operator; "+
		"then delete it, and the operator goes on", e.kind, e.key)
}

func isForeign(err error) bool {
	var foreign *foreignError
	return errors.As(err, &foreign)
}

// misplaced says that the operator has no rights where a Serverless is.
func misplaced(namespace string, namespaces []string) string {
	return fmt.Sprintf("the operator does not work in namespace %s: move this Serverless to one of %v, or add the namespace to the chart's "+
		"value operator.namespaces", namespace, slices.Sorted(slices.Values(namespaces)))
}
