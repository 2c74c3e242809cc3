package target

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/cli/exit"
)

// The phases, as the local mode has them.
const (
	phasePreparing = "preparing"
	phaseAsleep    = "asleep"
	phaseWaking    = "waking"
	phaseReady     = "ready"
	phaseReloading = "reloading"
	phaseFailing   = "failing"
)

// replicas are those of a Deployment.
type replicas struct{ desired, ready int }

// Functions implements Inventory.
func (c *cluster) Functions(ctx context.Context, namespace string) ([]Function, error) {
	list, err := c.objects.Resource(functionsResource()).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil, c.notServed(ctx, "Functions", functionsResource())
	}
	if err != nil {
		return nil, c.explain(err, "list", "functions", namespace)
	}
	counts, err := c.replicasOf(ctx, namespace)
	if err != nil {
		return nil, err
	}
	functions := make([]Function, 0, len(list.Items))
	for _, item := range list.Items {
		fn, err := into[v1alpha2.Function](item.Object)
		if err != nil {
			return nil, err
		}
		functions = append(functions, describe(&fn, counts[fn.Namespace+"/"+fn.Name]))
	}
	slices.SortFunc(functions, byName)
	return functions, nil
}

// replicasOf counts those of all Functions by namespace/name. Who may not list Deployments sees none.
func (c *cluster) replicasOf(ctx context.Context, namespace string) (map[string]replicas, error) {
	list, err := c.objects.Resource(deploymentsResource()).Namespace(namespace).List(ctx, metav1.ListOptions{
		LabelSelector: v1alpha2.LabelManagedBy + "=" + v1alpha2.ManagedBy,
	})
	if apierrors.IsForbidden(err) {
		return nil, nil // a list without numbers is better than none
	}
	if err != nil {
		return nil, c.explain(err, "list", "deployments", namespace)
	}
	counts := make(map[string]replicas, len(list.Items))
	for _, item := range list.Items {
		counts[item.GetNamespace()+"/"+item.GetName()] = replicasIn(item.Object)
	}
	return counts, nil
}

func replicasIn(deployment map[string]any) replicas {
	desired, _, _ := unstructured.NestedInt64(deployment, "spec", "replicas")
	ready, _, _ := unstructured.NestedInt64(deployment, "status", "readyReplicas")
	return replicas{int(desired), int(ready)}
}

// describe is the state of a Function.
func describe(fn *v1alpha2.Function, count replicas) Function {
	shown := Function{
		Namespace: fn.Namespace, Name: fn.Name, Runtime: string(fn.Spec.Runtime), Desired: count.desired, Ready: count.ready,
		URL: "http://" + fn.Name + "." + fn.Namespace + ".svc.cluster.local",
	}
	for _, condition := range fn.Status.Conditions {
		if condition.Status == metav1.ConditionFalse && condition.Reason != v1alpha2.ReasonKedaNotInstalled &&
			condition.Reason != v1alpha2.ReasonNoRegistry && shown.LastError == "" {
			shown.LastError = condition.Message
		}
	}
	shown.Phase = phaseOf(fn, count, shown.LastError != "")
	return shown
}

func phaseOf(fn *v1alpha2.Function, count replicas, failing bool) string {
	status := map[string]metav1.ConditionStatus{}
	for _, condition := range fn.Status.Conditions {
		status[condition.Type] = condition.Status
	}
	switch {
	case failing:
		return phaseFailing
	case status[v1alpha2.ConditionBuildReady] == metav1.ConditionUnknown, len(fn.Status.Conditions) == 0:
		return phasePreparing
	case count.desired == 0:
		return phaseAsleep
	case count.ready == 0:
		return phaseWaking
	case status[v1alpha2.ConditionRunning] != metav1.ConditionTrue && fn.Status.ObservedGeneration > 0:
		return phaseReloading
	}
	return phaseReady
}

// mustExist fails with the Functions that there are when this one is missing.
func (c *cluster) mustExist(ctx context.Context, namespace, name string) (types.UID, error) {
	found, err := c.objects.Resource(functionsResource()).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		return found.GetUID(), nil
	}
	if !apierrors.IsNotFound(err) {
		return "", c.explain(err, "get", "functions", namespace)
	}
	all, listing := c.Functions(ctx, namespace)
	if exit.CodeOf(listing) == exit.Unreachable {
		return "", listing
	}
	_, err = choose(all, namespace, name, namespace)
	return "", err
}
