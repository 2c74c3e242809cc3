package target

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/workload"
)

// The phases of Functions, as in local mode.
const (
	phasePreparing = "preparing"
	phaseAsleep    = "asleep"
	phaseWaking    = "waking"
	phaseReady     = "ready"
	phaseReloading = "reloading"
	phaseFailing   = "failing"
)

// replicas counts the replicas of a Deployment.
type replicas struct{ desired, ready int }

// listedFunction is what a list needs of a Function.
type listedFunction struct {
	listedName `json:"metadata"`

	Spec struct {
		Runtime     v1alpha2.Runtime      `json:"runtime"`
		Replicas    *int32                `json:"replicas"`
		ScaleConfig *v1alpha2.ScaleConfig `json:"scaleConfig"`
	} `json:"spec"`
	Status struct {
		Conditions         []metav1.Condition `json:"conditions"`
		ObservedGeneration int64              `json:"observedGeneration"`
	} `json:"status"`
}

type listedName struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// function returns the Function without what is not listed.
func (l *listedFunction) function() *v1alpha2.Function {
	return &v1alpha2.Function{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: l.Name},
		Spec:       v1alpha2.FunctionSpec{Runtime: l.Spec.Runtime, Replicas: l.Spec.Replicas, ScaleConfig: l.Spec.ScaleConfig},
		Status:     v1alpha2.FunctionStatus{Conditions: l.Status.Conditions, ObservedGeneration: l.Status.ObservedGeneration},
	}
}

// Functions implements Inventory.
func (c *cluster) Functions(ctx context.Context, namespace string) ([]Function, error) {
	countCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	var counts map[types.NamespacedName]replicas
	var counting errgroup.Group
	counting.Go(func() (err error) {
		counts, err = c.replicasOf(countCtx, namespace)
		return err
	})
	var listed []*v1alpha2.Function
	err := each(ctx, c, functionsResource(), namespace, "", func(item *listedFunction) error {
		listed = append(listed, item.function())
		return nil
	})
	if err != nil {
		cancel()
	}
	uncounted := counting.Wait()
	switch {
	case apierrors.IsNotFound(err):
		return nil, c.notServed(ctx, "Functions", functionsResource())
	case err != nil:
		return nil, c.explain(err, "list", "functions", namespace)
	case uncounted != nil:
		return nil, uncounted
	}
	functions := make([]Function, 0, len(listed))
	for _, fn := range listed {
		functions = append(functions, describe(fn, counts[types.NamespacedName{Namespace: fn.Namespace, Name: fn.Name}]))
	}
	slices.SortFunc(functions, byName)
	return functions, nil
}

// listedDeployment is what a list needs of a Deployment.
type listedDeployment struct {
	listedName `json:"metadata"`

	Spec struct {
		Replicas int `json:"replicas"`
	} `json:"spec"`
	Status struct {
		ReadyReplicas int `json:"readyReplicas"`
	} `json:"status"`
}

// replicasOf returns the replicas of all Functions; none if the user may not list Deployments.
func (c *cluster) replicasOf(ctx context.Context, namespace string) (map[types.NamespacedName]replicas, error) {
	counts := map[types.NamespacedName]replicas{}
	selector := v1alpha2.LabelManagedBy + "=" + v1alpha2.ManagedBy
	err := each(ctx, c, deploymentsResource(), namespace, selector, func(item *listedDeployment) error {
		counts[types.NamespacedName(item.listedName)] = replicas{item.Spec.Replicas, item.Status.ReadyReplicas}
		return nil
	})
	if apierrors.IsForbidden(err) {
		return nil, nil // a list without numbers is better than no list
	}
	if err != nil {
		return nil, c.explain(err, "list", "deployments", namespace)
	}
	return counts, nil
}

// describe returns the status of a Function.
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
	shown.Min, shown.Max = bounds(fn)
	shown.Phase = phaseOf(fn, count, shown.LastError != "")
	return shown
}

// bounds returns the replicas that a Function may have, which are equal without a scaleConfig.
func bounds(fn *v1alpha2.Function) (low, high int) {
	if fn.Spec.ScaleConfig == nil {
		fixed := int(ptr.Deref(fn.Spec.Replicas, 1))
		return fixed, fixed
	}
	least, most := workload.ReplicaBounds(fn)
	return int(least), int(most)
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

// mustExist fails when the Function does not exist, and lists those that do.
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

// podPollInterval is the interval at which a starting pod is checked.
const podPollInterval = 250 * time.Millisecond

// functionContainer runs the handler.
const functionContainer = "function"

// Function implements Target. It returns the URL of an activator, which forwards requests whether the Function sleeps or not, or else that of
// a pod, for which it wakes the Function.
func (c *cluster) Function(ctx context.Context, namespace, name string) (string, error) {
	uid, err := c.mustExist(ctx, namespace, name)
	if err != nil {
		return "", err
	}
	url, missing := c.activator(ctx, types.NamespacedName{Namespace: namespace, Name: name}, uid)
	if missing == nil || c.system != c {
		return url, missing
	}
	url, err = c.awakePod(ctx, namespace, name)
	if exit.CodeOf(err) == exit.Unreachable {
		return "", exit.Errorf(exit.Unreachable, "%w; and a gateway cannot be queried: %w", err, missing)
	}
	return url, err
}

// awakePod returns the URL of a ready pod. It wakes a Function that sleeps; KEDA scales it to zero when it is idle.
func (c *cluster) awakePod(ctx context.Context, namespace, name string) (string, error) {
	for {
		pods, err := c.pods(ctx, namespace, functionPods(name))
		if err != nil {
			return "", err
		}
		pod, waiting, err := pick(pods)
		switch {
		case err != nil:
			return "", err
		case pod != nil:
			return c.forward(ctx, pod, functionPort(pod))
		case waiting != "":
			c.options.Note(fmt.Sprintf("waiting for Function %s: %s", name, waiting))
		default:
			if err := c.wake(ctx, namespace, name); err != nil {
				return "", err
			}
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(podPollInterval):
		}
	}
}

// functionPods selects the pods of a Function, or of all for "".
func functionPods(name string) string {
	function := v1alpha2.LabelFunctionName
	if name != "" {
		function += "=" + name
	}
	return function + "," + v1alpha2.LabelResource + "=" + v1alpha2.ResourceDeployment
}

// pick returns a ready pod, or what to wait for; neither without pods.
func pick(pods []corev1.Pod) (ready *corev1.Pod, waiting string, err error) {
	for i := range pods {
		pod := &pods[i]
		if pod.DeletionTimestamp != nil {
			continue
		}
		if isReady(pod) {
			return pod, "", nil
		}
		reason, message, stuck := stateOf(pod)
		if stuck {
			err = exit.Errorf(exit.Failed, "pod %s does not start: %s: %s; rouse logs shows what it printed", pod.Name, reason, message)
		}
		waiting = "pod " + pod.Name + " is " + reason
	}
	return nil, waiting, err
}

// stateOf returns the reason that a pod is not ready; stuck reports that it will not become ready by itself.
func stateOf(pod *corev1.Pod) (reason, message string, stuck bool) {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			if waiting := statuses[i].State.Waiting; waiting != nil && waiting.Reason != "" {
				switch waiting.Reason {
				case "CrashLoopBackOff", "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "CreateContainerConfigError", "CreateContainerError":
					return waiting.Reason, waiting.Message, true
				}
				return waiting.Reason, waiting.Message, false
			}
		}
	}
	if pod.Status.Phase == corev1.PodRunning {
		return "starting", "", false
	}
	return string(pod.Status.Phase), "", false
}

// functionPort returns the port of the handler.
func functionPort(pod *corev1.Pod) int32 {
	const usual = 8080
	for _, container := range pod.Spec.Containers {
		if container.Name == functionContainer && len(container.Ports) > 0 {
			return container.Ports[0].ContainerPort
		}
	}
	return usual
}

// wake scales the Deployment from 0 to 1. A Deployment with replicas will have a pod soon.
func (c *cluster) wake(ctx context.Context, namespace, name string) error {
	deployments := c.objects.Resource(deploymentsResource()).Namespace(namespace)
	scale, err := deployments.Get(ctx, name, metav1.GetOptions{}, "scale")
	if apierrors.IsNotFound(err) {
		return exit.Errorf(exit.Failed, "Function %s has no Deployment yet: kubectl describe function %s -n %s says why", name, name, namespace)
	}
	if err != nil {
		return c.explain(err, "get", "deployments/scale", namespace)
	}
	if wanted, _, _ := unstructured.NestedInt64(scale.Object, "spec", "replicas"); wanted > 0 {
		c.options.Note(fmt.Sprintf("waiting for Function %s: its pod is being made", name))
		return nil
	}
	c.options.Note(fmt.Sprintf("Function %s sleeps: waking it", name))
	_, err = deployments.Patch(ctx, name, types.MergePatchType, []byte(`{"spec":{"replicas":1}}`), metav1.PatchOptions{}, "scale")
	return c.explain(err, "patch", "deployments/scale", namespace)
}

// StatePaused stands beside the phases that Subscriptions share with Functions.
const StatePaused = "paused"

// Subscriptions implements Inventory.
func (c *cluster) Subscriptions(ctx context.Context, namespace string) ([]Subscription, error) {
	subscriptions := []Subscription{}
	err := each(ctx, c, subscriptionsResource(), namespace, "", func(item *eventingv1alpha2.Subscription) error {
		subscriptions = append(subscriptions, describeSubscription(item))
		return nil
	})
	if apierrors.IsNotFound(err) {
		return nil, c.notServed(ctx, "Subscriptions", subscriptionsResource())
	}
	if err != nil {
		return nil, c.explain(err, "list", "subscriptions", namespace)
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

// describeSubscription returns the status of a Subscription. A ready one may have a message about its dead letters.
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
		shown.State = StatePaused
	default:
		shown.State = phaseReady
	}
	return shown
}
