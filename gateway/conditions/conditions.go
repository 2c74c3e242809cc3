package conditions

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/gateway/activator"
	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/workload"
)

// Conditions reads the conditions of Functions, and the settings of workloads that Services name, from a cache.
type Conditions struct{ cache cache.Cache }

// New reads Functions from c, which stores them as returned by Transform.
func New(c cache.Cache) *Conditions { return &Conditions{cache: c} }

// Transform reduces a Function to what Condition reads: the sources of thousands of Functions would take megabytes.
func Transform(object any) (any, error) {
	fn, ok := object.(*v1alpha2.Function)
	if !ok {
		return object, nil
	}
	kept := &v1alpha2.Function{
		TypeMeta:   fn.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{Namespace: fn.Namespace, Name: fn.Name, UID: fn.UID, ResourceVersion: fn.ResourceVersion},
	}
	if wait, ok := fn.Annotations[v1alpha2.AnnotationHTTPWait]; ok {
		kept.Annotations = map[string]string{v1alpha2.AnnotationHTTPWait: wait}
	}
	for _, condition := range fn.Status.Conditions {
		condition.Message = ""
		kept.Status.Conditions = append(kept.Status.Conditions, condition)
	}
	return kept, nil
}

// Watch starts the cache's informer of Functions, so that no request waits for the first list.
func (c *Conditions) Watch(ctx context.Context) error {
	if _, err := c.cache.GetInformer(ctx, &v1alpha2.Function{}, cache.BlockUntilSynced(false)); err != nil {
		return fmt.Errorf("watch Functions: %w", err)
	}
	return nil
}

// Condition implements activator.Functions. It returns an empty condition for an unknown name. Of a workload
// it is known how long its requests may wait, and whether they always come by the gateways.
func (c *Conditions) Condition(name types.NamespacedName) activator.Condition {
	var fn v1alpha2.Function
	err := c.cache.Get(context.Background(), name, &fn, client.UnsafeDisableDeepCopy)
	if err == nil {
		return conditionOf(&fn)
	}
	var service corev1.Service
	if !apierrors.IsNotFound(err) || c.cache.Get(context.Background(), name, &service, client.UnsafeDisableDeepCopy) != nil {
		return activator.Condition{}
	}
	return conditionOfWorkload(&service)
}

func conditionOfWorkload(service *corev1.Service) activator.Condition {
	port, _ := activation.OnlyPort(service)
	_, behind := activation.PodPort(port)
	return activator.Condition{Wait: waitOf(service.Annotations), Stay: behind}
}

// waitOf returns how long a request may wait, 0 for the default.
func waitOf(annotations map[string]string) time.Duration {
	if _, says := annotations[v1alpha2.AnnotationHTTPWait]; !says {
		return 0
	}
	tuning, err := workload.TuningOf(annotations, workload.Tuning{})
	if err != nil {
		return 0
	}
	return time.Duration(tuning.HTTPWaitSeconds) * time.Second
}

// conditionOf distinguishes a Function that cannot start from one that is starting. An earlier version that runs or
// sleeps serves while the build of a new one fails.
func conditionOf(fn *v1alpha2.Function) activator.Condition {
	known := activator.Condition{Wait: waitOf(fn.Annotations)}
	running := meta.FindStatusCondition(fn.Status.Conditions, v1alpha2.ConditionRunning)
	if running != nil && running.Status == metav1.ConditionTrue {
		return known
	}
	if running != nil && running.Reason == v1alpha2.ReasonHandlerFailed {
		known.Broken = brokenBy(v1alpha2.ReasonHandlerFailed)
		return known
	}
	for _, kind := range []string{v1alpha2.ConditionConfigurationReady, v1alpha2.ConditionBuildReady} {
		condition := meta.FindStatusCondition(fn.Status.Conditions, kind)
		if condition != nil && condition.Status == metav1.ConditionFalse {
			known.Broken = brokenBy(condition.Reason)
			return known
		}
	}
	if running != nil {
		known.Reason = running.Reason
	}
	return known
}

// brokenBy returns what callers may read: the code of a reason without its text, which quotes the Function's source.
func brokenBy(reason string) string { return reason + "; its status says why" }
