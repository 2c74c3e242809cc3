package standin

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/kube"
)

const (
	// longestService bounds the time that a stand-in serves. A Function whose own pod is not ready by then does not start.
	longestService = time.Minute
	// sliceLife is the time for which a slice of this controller leads to a stand-in. Kubernetes' own does by then.
	sliceLife = 5 * time.Second
	// lookEvery is the pause between two looks at a Function that a stand-in serves.
	lookEvery = time.Second
	// resync is the interval at which a namespace is looked at without any change: the settings may have changed.
	resync = time.Minute
)

// annotationServes holds the time since which a stand-in serves.
const annotationServes = "rouse.run/serves-since"

// Reconcile brings the stand-ins of one namespace to the wanted number, and ends those that are not needed any more. The
// request is in that namespace.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	pods := &corev1.PodList{}
	err := c.client.List(ctx, pods, client.InNamespace(request.Namespace), client.HasLabels{v1alpha2.LabelStandIn})
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("list the stand-ins: %w", err)
	}
	serving, err := c.endServices(ctx, pods.Items)
	if err != nil {
		return reconcile.Result{}, err
	}
	wanted, err := c.wanted(ctx, request.Namespace)
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := c.fill(ctx, request.Namespace, wanted, pods.Items); err != nil {
		return reconcile.Result{}, err
	}
	if err := c.prepare(ctx, request.Namespace, len(wanted) > 0); err != nil {
		return reconcile.Result{}, err
	}
	if len(wanted) == 0 && len(pods.Items) > 0 && !serving { // the last ones go
		if err := c.deletePolicy(ctx, request.Namespace); err != nil {
			return reconcile.Result{}, err
		}
	}
	switch {
	case serving:
		return reconcile.Result{RequeueAfter: lookEvery}, nil
	case len(wanted) > 0:
		return reconcile.Result{RequeueAfter: resync}, nil
	}
	return reconcile.Result{}, nil
}

// wanted returns how many stand-ins of each runtime the namespace is to have.
func (c *Controller) wanted(ctx context.Context, name string) (map[v1alpha2.Runtime]int, error) {
	namespace := namespaceMetadata(name)
	err := c.client.Get(ctx, client.ObjectKeyFromObject(namespace), namespace)
	if err != nil || !namespace.DeletionTimestamp.IsZero() {
		return nil, client.IgnoreNotFound(err)
	}
	text := namespace.Annotations[v1alpha2.AnnotationStandIns]
	if text == "" {
		return nil, nil
	}
	wanted, err := resources.ParseStandIns(text, c.settings())
	if err != nil {
		c.warn(namespace, "InvalidStandIns", err.Error())
	}
	wanted, limited := bound(wanted, c.options.PerNamespace)
	if limited {
		c.warn(namespace, "StandInsLimited", fmt.Sprintf("annotation %s: the installation allows %d stand-ins in a namespace",
			v1alpha2.AnnotationStandIns, c.options.PerNamespace))
	}
	return wanted, nil
}

// namespaceMetadata is the form in which the cache has Namespaces.
func namespaceMetadata(name string) *metav1.PartialObjectMetadata {
	namespace := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return namespace
}

func (c *Controller) warn(about client.Object, reason, note string) {
	c.recorder.Eventf(about, nil, corev1.EventTypeWarning, reason, "KeepStandIns", "%s", kube.Truncate(note, maxNote))
}

// fill creates the stand-ins that are missing, and deletes those that are too many or outdated.
func (c *Controller) fill(ctx context.Context, namespace string, wanted map[v1alpha2.Runtime]int, pods []corev1.Pod) error {
	templates := map[v1alpha2.Runtime]string{}
	for runtime := range wanted {
		template, err := resources.StandInTemplate(namespace, runtime, c.settings())
		if err != nil {
			return fmt.Errorf("build a stand-in: %w", err)
		}
		templates[runtime] = template
	}
	unseen := c.pool.compare(namespace, pods, c.clock.Now())
	missing, surplus := plan(wanted, unseen, templates, pods, c.pool.of)
	var failed []error
	for _, pod := range surplus {
		c.pool.remove(client.ObjectKeyFromObject(pod))
		failed = append(failed, c.delete(ctx, pod, 0))
	}
	if len(missing) > 0 {
		failed = append(failed, c.warm(ctx))
		if err := c.applyPolicy(ctx, namespace); err != nil {
			return errors.Join(append(failed, err)...)
		}
	}
	for runtime, n := range missing {
		for range n {
			if err := c.create(ctx, namespace, runtime); err != nil {
				failed = append(failed, err)
				break // a quota refuses the others, too
			}
		}
	}
	return errors.Join(failed...)
}

func (c *Controller) create(ctx context.Context, namespace string, runtime v1alpha2.Runtime) error {
	key := client.ObjectKey{Namespace: namespace, Name: "rouse-stand-in-" + string(runtime) + "-" + rand.String(8)}
	digest := c.pool.add(key, runtime, c.clock.Now())
	config, err := resources.StandIn(namespace, key.Name, runtime, c.settings(), digest)
	if err == nil {
		if c.options.PriorityClass != "" {
			config.Spec.WithPriorityClassName(c.options.PriorityClass)
		}
		err = c.client.Apply(ctx, config, kube.FieldOwner)
	}
	if err != nil {
		c.pool.remove(key)
		if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
			c.warn(namespaceMetadata(namespace), "StandInRefused", err.Error())
		}
		return fmt.Errorf("create a stand-in: %w", err)
	}
	c.pool.created(key, *config.UID)
	return nil
}

func (c *Controller) applyPolicy(ctx context.Context, namespace string) error {
	if c.settings().Network == nil {
		return nil
	}
	policy, err := resources.StandInNetworkPolicy(namespace, c.settings())
	if err != nil {
		return fmt.Errorf("build the NetworkPolicy of stand-ins: %w", err)
	}
	if err := c.client.Apply(ctx, policy, kube.FieldOwner, client.ForceOwnership); err != nil {
		return fmt.Errorf("apply the NetworkPolicy of stand-ins: %w", err)
	}
	return nil
}

func (c *Controller) deletePolicy(ctx context.Context, namespace string) error {
	if c.settings().Network == nil {
		return nil
	}
	policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: resources.StandInPolicy}}
	if err := client.IgnoreNotFound(c.client.Delete(ctx, policy)); err != nil {
		return fmt.Errorf("delete the NetworkPolicy of stand-ins: %w", err)
	}
	return nil
}

// endServices deletes the stand-ins whose Functions have a ready pod of their own, do not get one, or are gone. It reports
// whether others still serve.
func (c *Controller) endServices(ctx context.Context, pods []corev1.Pod) (serving bool, err error) {
	count := 0
	var failed []error
	for i := range pods {
		pod := &pods[i]
		if !pod.DeletionTimestamp.IsZero() || pod.Labels[v1alpha2.LabelStandIn] != v1alpha2.StandInServes {
			continue
		}
		over, grace, err := c.isOver(ctx, pod)
		switch {
		case err != nil:
			failed = append(failed, err)
		case over:
			failed = append(failed, c.end(ctx, pod, grace))
		default:
			count++
			if c.clock.Now().Sub(servesSince(pod)) > sliceLife {
				failed = append(failed, c.deleteSlice(ctx, pod))
			}
		}
	}
	return count > 0, errors.Join(failed...)
}

func (c *Controller) isOver(ctx context.Context, pod *corev1.Pod) (over bool, grace int64, err error) {
	key := client.ObjectKey{Namespace: pod.Namespace, Name: pod.Labels[v1alpha2.LabelFunctionName]}
	fn := &v1alpha2.Function{}
	if err := c.client.Get(ctx, key, fn); err != nil {
		return apierrors.IsNotFound(err), 0, client.IgnoreNotFound(err)
	}
	grace = resources.GracePeriod(fn)
	if hasEnded(pod) || c.clock.Now().Sub(servesSince(pod)) > longestService {
		return true, grace, nil
	}
	own := &corev1.PodList{}
	err = c.client.List(ctx, own, client.InNamespace(pod.Namespace), client.MatchingLabels(resources.SelectorLabels(fn)))
	if err != nil {
		return false, 0, fmt.Errorf("list the pods of the Function: %w", err)
	}
	starts := false
	for i := range own.Items {
		if one := &own.Items[i]; one.Labels[v1alpha2.LabelStandIn] == "" && one.DeletionTimestamp.IsZero() {
			starts = true
			if isReady(one) {
				return true, grace, nil
			}
		}
	}
	if !starts {
		// With an endpoint the scaler does not announce that the Function needs a replica, which a late KEDA still owes.
		if err := c.announcements.AnnounceWanted(key, 1); err != nil {
			ctrl.LoggerFrom(ctx).V(1).Info("cannot announce that a function needs a pod of its own", "reason", err.Error())
		}
	}
	return false, grace, nil
}

// servesSince returns the time since which a stand-in serves, long ago where someone has changed it.
func servesSince(pod *corev1.Pod) time.Time {
	since, _ := time.Parse(time.RFC3339, pod.Annotations[annotationServes])
	return since
}

// end deletes a stand-in that serves, or that may. The slice goes first: it says nothing of the end of a pod.
func (c *Controller) end(ctx context.Context, pod *corev1.Pod, grace int64) error {
	return errors.Join(c.deleteSlice(ctx, pod), c.delete(ctx, pod, grace))
}

func (c *Controller) deleteSlice(ctx context.Context, pod *corev1.Pod) error {
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	if err := client.IgnoreNotFound(c.client.Delete(ctx, slice)); err != nil {
		return fmt.Errorf("delete EndpointSlice %s: %w", pod.Name, err)
	}
	return nil
}

func (c *Controller) delete(ctx context.Context, pod *corev1.Pod, grace int64) error {
	err := c.client.Delete(ctx, pod, client.Preconditions{UID: &pod.UID}, client.GracePeriodSeconds(grace))
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete stand-in %s: %w", pod.Name, err)
	}
	return nil
}

// maxNote is the maximum length of an Event's note.
const maxNote = 1000

// servicePatch labels a stand-in like the pods of a Function that it serves from now on, and makes it the Function's.
func servicePatch(pod *corev1.Pod, fn *v1alpha2.Function, now time.Time) map[string]any {
	labels := map[string]any{}
	for name, value := range resources.ServingLabels(fn) {
		labels[name] = value
	}
	owner := metav1.NewControllerRef(fn, v1alpha2.GroupVersion.WithKind(resources.FunctionKind))
	return map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "labels": labels, "ownerReferences": []any{owner},
		"annotations": map[string]any{annotationServes: now.UTC().Format(time.RFC3339)},
	}}
}
