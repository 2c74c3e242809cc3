package serverless

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	operatorv1alpha1 "github.com/rouse-run/rouse/api/operator/v1alpha1"
	serverlessv1alpha2 "github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/serverless/resources"
	"github.com/rouse-run/rouse/internal/kube"
)

// smallCluster is the maximum number of nodes of a cluster whose Functions get the small profile.
const smallCluster = 2

// A trace collector is found by the name of Kyma's Service, in Kyma's namespace or that of the Serverless. Kyma searches all
// namespaces, so that any tenant could receive the traces of all Functions.
const (
	collectorName      = "telemetry-otlp-traces"
	collectorNamespace = "kyma-system"
)

// install applies the Function controller, or keeps it as it was while the spec is invalid.
func (r *Reconciler) install(ctx context.Context, s *scope) (time.Duration, error) {
	found, err := r.find(ctx, s)
	if err != nil {
		return 0, err
	}
	settings, err := resources.Resolve(&s.serverless.Spec, r.installation, found)
	s.settings, s.invalid = &settings, err
	if err != nil {
		s.settings = lastGood(&s.serverless.Status)
	}
	if s.settings == nil {
		return 0, nil
	}
	s.failed = r.apply(ctx, s)
	if isForeign(s.failed) {
		return blockedDelay, nil
	}
	return resyncPeriod, s.failed
}

// find reads from the cluster what a Serverless may omit.
func (r *Reconciler) find(ctx context.Context, s *scope) (resources.Found, error) {
	found := resources.Found{Preset: chosenPreset(s.serverless)}
	if found.Preset == "" {
		nodes := &metav1.PartialObjectMetadataList{}
		nodes.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
		if err := r.live.List(ctx, nodes, client.Limit(smallCluster+1)); err != nil {
			return resources.Found{}, fmt.Errorf("count the nodes, for the default preset: %w", err)
		}
		found.Small = len(nodes.Items) <= smallCluster
	}
	for _, namespace := range []string{s.serverless.Namespace, collectorNamespace} {
		service := metadataOf(corev1.SchemeGroupVersion.WithKind("Service"))
		err := r.collectors.Get(ctx, types.NamespacedName{Namespace: namespace, Name: collectorName}, service)
		if err == nil {
			found.TracingEndpoint = fmt.Sprintf("http://%s.%s.svc.cluster.local:4318/v1/traces", collectorName, namespace)
			break
		}
		if client.IgnoreNotFound(err) != nil {
			return resources.Found{}, fmt.Errorf("look for a trace collector: %w", err)
		}
	}
	return found, nil
}

// apply writes all parts, removes those that the installation no longer wants, and reads the Deployment. A part that
// fails does not keep the others from being repaired.
func (r *Reconciler) apply(ctx context.Context, s *scope) error {
	parts, err := resources.Build(s.serverless, r.installation, s.settings)
	if err != nil {
		return err
	}
	var problems []error
	wanted := map[resources.Part]bool{}
	for _, part := range parts {
		wanted[partOf(part)] = true
		problems = append(problems, r.applyPart(ctx, part))
	}
	for _, part := range resources.Parts(s.serverless.Namespace, r.installation) {
		if !wanted[part] {
			_, err := r.removePart(ctx, part, isOurs)
			problems = append(problems, err)
		}
	}
	deployment := &appsv1.Deployment{}
	err = r.live.Get(ctx, types.NamespacedName{Namespace: s.serverless.Namespace, Name: resources.DeploymentName}, deployment)
	if err == nil {
		s.deployment = deployment
	}
	return errors.Join(append(problems, client.IgnoreNotFound(err))...)
}

func (r *Reconciler) applyPart(ctx context.Context, desired *unstructured.Unstructured) error {
	part := partOf(desired)
	live, err := r.read(ctx, part)
	if err != nil {
		return err
	}
	if live == nil {
		_, err = r.applier.Apply(ctx, desired, nil, exclusive(part)...)
		return err
	}
	// The holder of the lease creates it again.
	if !isOurs(live) && part.Kind != resources.KindLease {
		return &foreignError{kind: part.Kind.Kind, key: strings.TrimPrefix(part.Key.String(), "/")}
	}
	_, err = r.applier.Apply(ctx, desired, live, exclusive(part)...)
	return err
}

// read returns the metadata of a part, nil when it does not exist.
func (r *Reconciler) read(ctx context.Context, part resources.Part) (*metav1.PartialObjectMetadata, error) {
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(part.Kind)
	if err := r.live.Get(ctx, part.Key, live); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil, nil
		}
		return nil, fmt.Errorf("get %s %q: %w", part.Kind.Kind, part.Key, err)
	}
	return live, nil
}

// exclusive returns the fields of a part to which no one else may add anything.
func exclusive(part resources.Part) []kube.Part {
	switch part.Kind {
	case resources.KindConfigMap:
		return []kube.Part{kube.Exclusive{"data"}, kube.Exclusive{"binaryData"}}
	case resources.KindDeployment:
		return []kube.Part{kube.Exclusive{"spec", "template", "spec"}}
	case resources.KindService, resources.KindNetworkPolicy:
		return []kube.Part{kube.Exclusive{"spec"}}
	default:
		return nil
	}
}

// isOurs reports whether an operator created the object: by its managed fields, because labels can be removed, or by
// its label, because managed fields can be reset.
func isOurs(live metav1.Object) bool {
	return kube.IsAppliedBy(live, kube.OperatorFieldOwner) || live.GetLabels()[resources.LabelManagedBy] == resources.ManagedBy
}

func partOf(object *unstructured.Unstructured) resources.Part {
	return resources.Part{Kind: object.GroupVersionKind(), Key: client.ObjectKeyFromObject(object)}
}

// uninstall removes the parts of a Serverless that is being deleted. While there are Functions their controller stays,
// and is repaired.
func (r *Reconciler) uninstall(ctx context.Context, s *scope) (time.Duration, error) {
	if !controllerutil.ContainsFinalizer(s.serverless, operatorv1alpha1.Finalizer) {
		return 0, nil // others' finalizers hold it
	}
	if s.isServed() {
		if s.functions, s.failed = r.countFunctions(ctx); s.failed != nil {
			return 0, s.failed
		}
	}
	if s.functions > 0 {
		if s.settings = lastGood(&s.serverless.Status); s.settings != nil {
			if err := r.apply(ctx, s); err != nil { // expected in a namespace that is being deleted
				ctrl.LoggerFrom(ctx).Error(err, "cannot repair the Function controller of a Serverless that is being deleted")
			}
		}
		return blockedDelay, nil
	}
	if meta.FindStatusCondition(s.serverless.Status.Conditions, operatorv1alpha1.ConditionDeleted) == nil {
		return removalDelay, nil // the status reports it first
	}
	s.removing = true
	owner := string(s.serverless.UID)
	left, err := r.remove(ctx, s.serverless.Namespace, func(live metav1.Object) bool {
		return live.GetLabels()[resources.LabelOwner] == owner
	})
	if err == nil && !left && s.isServed() {
		left, err = r.removeLease(ctx, s.serverless.Namespace)
	}
	s.failed, s.removed = err, err == nil && !left
	return removalDelay, err
}

// removeLease deletes a lease that its holder has created again, without a label, after someone deleted it.
func (r *Reconciler) removeLease(ctx context.Context, namespace string) (bool, error) {
	lock := resources.Part{Kind: resources.KindLease, Key: types.NamespacedName{Namespace: namespace, Name: resources.LeaseName}}
	return r.removePart(ctx, lock, func(live metav1.Object) bool { return live.GetLabels()[resources.LabelOwner] == "" })
}

// countFunctions counts the Functions of all namespaces, 0 where the cluster does not serve the kind.
func (r *Reconciler) countFunctions(ctx context.Context) (int64, error) {
	functions := &metav1.PartialObjectMetadataList{}
	functions.SetGroupVersionKind(serverlessv1alpha2.GroupVersion.WithKind("FunctionList"))
	err := r.live.List(ctx, functions, client.Limit(1))
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("count the Functions: %w", err)
	}
	count := int64(len(functions.Items))
	if functions.RemainingItemCount != nil {
		count += *functions.RemainingItemCount
	}
	return count, nil
}

// remove deletes the parts of a namespace that match, one kind after the other, and reports whether any is left. The
// lease is deleted after the pods that may hold it.
func (r *Reconciler) remove(ctx context.Context, namespace string, matches func(metav1.Object) bool) (bool, error) {
	for _, part := range resources.Parts(namespace, r.installation) {
		left, err := r.removePart(ctx, part, matches)
		if left || err != nil {
			return left, err
		}
	}
	return false, nil
}

func (r *Reconciler) removePart(ctx context.Context, part resources.Part, matches func(metav1.Object) bool) (bool, error) {
	live, err := r.read(ctx, part)
	if err != nil || live == nil || !matches(live) {
		return false, err
	}
	r.applier.Forget(part.Key)
	if live.DeletionTimestamp != nil {
		return true, nil
	}
	policy := metav1.DeletePropagationBackground
	if part.Kind == resources.KindDeployment {
		policy = metav1.DeletePropagationForeground // wait for its pods
	}
	uid := live.UID
	err = r.client.Delete(ctx, live, client.PropagationPolicy(policy), client.Preconditions{UID: &uid})
	if client.IgnoreNotFound(err) != nil {
		return true, fmt.Errorf("delete %s %q: %w", part.Kind.Kind, part.Key, err)
	}
	return true, nil
}

// leftBehind matches the parts of a deleted Serverless whose finalizer someone removed.
func leftBehind(all []operatorv1alpha1.Serverless) func(metav1.Object) bool {
	known := map[types.UID]bool{}
	for i := range all {
		known[all[i].UID] = true
	}
	return func(live metav1.Object) bool {
		owner := live.GetLabels()[resources.LabelOwner]
		return owner != "" && !known[types.UID(owner)]
	}
}

// Leave removes the parts of all Serverlesses and their finalizers once no operator runs any more. The Serverlesses and
// the Functions stay: a later operator continues with them.
func Leave(ctx context.Context, c client.Client, binding string) error {
	r := &Reconciler{
		client: c, live: c, applier: kube.NewApplierAs(c, kube.OperatorFieldOwner),
		installation: &resources.Installation{Binding: binding},
	}
	all := &operatorv1alpha1.ServerlessList{}
	if err := c.List(ctx, all); err != nil {
		if meta.IsNoMatchError(err) {
			return nil // the cluster does not serve Serverlesses
		}
		return fmt.Errorf("list Serverlesses: %w", err)
	}
	for i := range all.Items {
		one := &all.Items[i]
		err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
			left, err := r.remove(ctx, one.Namespace, isOurs)
			if err == nil && !left && one.Status.Served == operatorv1alpha1.ServedTrue {
				left, err = r.removeLease(ctx, one.Namespace)
			}
			return !left, err
		})
		if err != nil {
			return fmt.Errorf("remove the parts of Serverless %q: %w", client.ObjectKeyFromObject(one), err)
		}
		if err := r.setFinalizer(ctx, one, controllerutil.RemoveFinalizer); err != nil {
			return err
		}
	}
	return nil
}
