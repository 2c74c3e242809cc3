package target

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/cli/exit"
)

func replicaSetsResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"}
}

func eventsResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "events"}
}

// Details are what a cluster records of a Function.
type Details struct {
	// Version is the version that runs, RollbackTo the one that a user has asked for instead of the newest.
	Version    string             `json:"version,omitempty"`
	RollbackTo string             `json:"rollbackTo,omitempty"`
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Version is a version of a Function that a rollback can choose.
type Version struct {
	Name  string    `json:"name"`
	Since time.Time `json:"since"`
	Pods  int32     `json:"pods"`
}

// Happening is what Kubernetes has recorded as an Event of a Function.
type Happening struct {
	Last    time.Time `json:"last"`
	Count   int32     `json:"count"`
	Type    string    `json:"type"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
}

// Pod is a pod of a Function.
type Pod struct {
	Name  string
	Ready bool
	// State is running, starting, ending, or the reason of Kubernetes that it is not; Message explains that.
	State, Message string
	Restarts       int
	Since          time.Time
}

// Pods returns the pods of a Function, the oldest first.
func (o *Objects) Pods(ctx context.Context, namespace, name string) ([]Pod, error) {
	items, err := o.cluster.pods(ctx, namespace, functionPods(name))
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(items, func(a, b corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	all := make([]Pod, 0, len(items))
	for i := range items {
		all = append(all, podOf(&items[i]))
	}
	return all, nil
}

// podOf returns the state of a pod, and the reason that it does not run: of a container that waits, of one that ended before, or of the
// scheduler.
func podOf(pod *corev1.Pod) Pod {
	found := Pod{Name: pod.Name, Ready: isReady(pod), Since: pod.CreationTimestamp.Time}
	ended := ""
	for i := range pod.Status.ContainerStatuses {
		status := &pod.Status.ContainerStatuses[i]
		found.Restarts += int(status.RestartCount)
		if last := status.LastTerminationState.Terminated; last != nil {
			ended = fmt.Sprintf("it ended before with exit code %d (%s) %s", last.ExitCode, last.Reason, last.Message)
		}
	}
	switch {
	case pod.DeletionTimestamp != nil:
		found.State = "ending"
	case found.Ready:
		found.State = "running"
	default:
		found.State, found.Message, _ = stateOf(pod)
		found.Message = strings.TrimSpace(cmp.Or(found.Message, unscheduled(pod), pod.Status.Message) + " " + ended)
	}
	return found
}

// unscheduled returns why no node takes a pod, empty if one does.
func unscheduled(pod *corev1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return condition.Message
		}
	}
	return ""
}

// Function returns a Function as the API server has it.
func (o *Objects) Function(ctx context.Context, namespace, name string) (v1alpha2.Function, error) {
	fn, found, err := get[v1alpha2.Function](ctx, o.cluster, functionsResource(), namespace, name)
	if err == nil && !found {
		err = exit.Errorf(exit.NotFound, "there is no Function %s in namespace %s", name, namespace)
	}
	return fn, err
}

// Details returns what the status of a Function says.
func (o *Objects) Details(ctx context.Context, namespace, name string) (Details, error) {
	fn, err := o.Function(ctx, namespace, name)
	return Details{Version: fn.Status.Version, RollbackTo: fn.Annotations[v1alpha2.AnnotationRollbackTo], Conditions: fn.Status.Conditions}, err
}

const (
	// annotationVersion, on the pods of a Function, is their version.
	annotationVersion = "rouse.run/version"
	// annotationRevision is the number that the Deployment controller gives to a ReplicaSet.
	annotationRevision = "deployment.kubernetes.io/revision"
)

// Versions returns the versions of a Function that its Deployment keeps, the newest first.
func (o *Objects) Versions(ctx context.Context, namespace, name string) ([]Version, error) {
	items, err := o.List(ctx, replicaSetsResource(), namespace, functionPods(name))
	if err != nil {
		return nil, err
	}
	sets, err := intoAll[appsv1.ReplicaSet](items)
	return versionsOf(sets), err
}

// versionsOf lists the versions of ReplicaSets, each once and the newest first.
func versionsOf(sets []appsv1.ReplicaSet) []Version {
	revision := func(set *appsv1.ReplicaSet) int64 {
		number, _ := strconv.ParseInt(set.Annotations[annotationRevision], 10, 64) // 0 for those that the Deployment controller did not make
		return number
	}
	slices.SortStableFunc(sets, func(a, b appsv1.ReplicaSet) int { return cmp.Compare(revision(&b), revision(&a)) })
	var versions []Version
	for i := range sets {
		name := sets[i].Spec.Template.Annotations[annotationVersion]
		at := slices.IndexFunc(versions, func(v Version) bool { return v.Name == name })
		switch {
		case name == "":
		case at >= 0: // a changed environment makes another ReplicaSet of the same version
			versions[at].Pods += sets[i].Status.Replicas
			versions[at].Since = sets[i].CreationTimestamp.Time
		default:
			versions = append(versions, Version{Name: name, Since: sets[i].CreationTimestamp.Time, Pods: sets[i].Status.Replicas})
		}
	}
	return versions
}

// Happenings returns the Events of a Function, the newest first.
func (o *Objects) Happenings(ctx context.Context, namespace, name string) ([]Happening, error) {
	list, err := o.cluster.objects.Resource(eventsResource()).Namespace(namespace).List(ctx, metav1.ListOptions{
		FieldSelector: "involvedObject.kind=Function,involvedObject.name=" + name,
	})
	if err != nil {
		return nil, o.cluster.explain(err, "list", eventsResource().Resource, namespace)
	}
	events, err := intoAll[corev1.Event](list.Items)
	if err != nil {
		return nil, err
	}
	var all []Happening
	for i := range events {
		all = append(all, happening(&events[i]))
	}
	slices.SortStableFunc(all, func(a, b Happening) int { return b.Last.Compare(a.Last) })
	return all, nil
}

// happening reads an Event of either API: the older one counts in the Event, the newer one in its series.
func happening(event *corev1.Event) Happening {
	found := Happening{Last: event.LastTimestamp.Time, Count: max(event.Count, 1), Type: event.Type, Reason: event.Reason, Message: event.Message}
	if found.Last.IsZero() {
		found.Last = cmp.Or(event.EventTime.Time, event.CreationTimestamp.Time)
	}
	if series := event.Series; series != nil {
		found.Last, found.Count = series.LastObservedTime.Time, series.Count
	}
	return found
}
