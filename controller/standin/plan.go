package standin

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
)

// bound limits the stand-ins of a namespace, the runtimes in order of their names. It reports whether it took some away.
func bound(wanted map[v1alpha2.Runtime]int, most int) (bounded map[v1alpha2.Runtime]int, limited bool) {
	bounded = map[v1alpha2.Runtime]int{}
	for _, runtime := range slices.Sorted(maps.Keys(wanted)) {
		n := min(wanted[runtime], most)
		limited = limited || n < wanted[runtime]
		bounded[runtime] = n
		most -= n
	}
	return bounded, limited
}

// plan compares the stand-ins of a namespace with the wanted ones. unseen counts those that were created and that the
// cache does not show yet, and templates are the current ones. One that serves has its successor when it is deleted: until
// then the processors belong to the start of the Function's own pod.
func plan(
	wanted, unseen map[v1alpha2.Runtime]int, templates map[v1alpha2.Runtime]string, pods []corev1.Pod, is func(*corev1.Pod) membership,
) (missing map[v1alpha2.Runtime]int, surplus []*corev1.Pod) {
	have, waiting := maps.Clone(unseen), []*corev1.Pod(nil)
	for i := range pods {
		pod := &pods[i]
		switch runtime := runtimeOf(pod); {
		case !pod.DeletionTimestamp.IsZero():
		case pod.Labels[v1alpha2.LabelStandIn] == v1alpha2.StandInServes, is(pod) == taken:
			have[runtime]++
		case hasEnded(pod) || is(pod) == foreign || pod.Annotations[resources.AnnotationTemplate] != templates[runtime]:
			surplus = append(surplus, pod)
		default:
			waiting = append(waiting, pod)
		}
	}
	for _, pod := range waiting {
		if runtime := runtimeOf(pod); have[runtime] < wanted[runtime] {
			have[runtime]++
		} else {
			surplus = append(surplus, pod)
		}
	}
	missing = map[v1alpha2.Runtime]int{}
	for runtime, n := range wanted {
		if n > have[runtime] {
			missing[runtime] = n - have[runtime]
		}
	}
	return missing, surplus
}

func runtimeOf(pod *corev1.Pod) v1alpha2.Runtime {
	return v1alpha2.Runtime(pod.Labels[v1alpha2.LabelStandInRuntime])
}

func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(condition corev1.PodCondition) bool {
		return condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue
	})
}

// samePolicies returns an error when a NetworkPolicy of the namespace selects the Function's pods and not stand-ins, or the
// other way round. The policies that the installation makes for both have the same rules.
func samePolicies(policies []networkingv1.NetworkPolicy, fn *v1alpha2.Function) error {
	if len(policies) > maxPolicies {
		return fmt.Errorf("the namespace has more than %d NetworkPolicies", maxPolicies)
	}
	own := labels.Set(resources.ServingLabels(fn))
	for _, name := range []string{v1alpha2.LabelStandIn, v1alpha2.LabelStandInRuntime} {
		delete(own, name)
	}
	waiting := labels.Set(resources.StandInLabels(v1alpha2.StandInWaits, fn.Spec.Runtime))
	for i := range policies {
		policy := &policies[i]
		if policy.Name == resources.StandInPolicy || policy.Name == resources.NetworkPolicyName(fn.Name) && metav1.IsControlledBy(policy, fn) {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
		if err != nil {
			return fmt.Errorf("read NetworkPolicy %s: %w", policy.Name, err)
		}
		if selector.Matches(own) != selector.Matches(waiting) {
			return fmt.Errorf("NetworkPolicy %s does not select both its pods and stand-ins", policy.Name)
		}
	}
	return nil
}
