package function

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/admission"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/workload"
)

const (
	// foreignDelay is how soon an object of another owner is checked again.
	// Such objects are not watched, because they do not carry our label.
	foreignDelay = 30 * time.Second
	// predecessorDelay is the same for one that is being garbage collected.
	predecessorDelay = time.Second
	// cacheTimeout bounds the wait for a cache that cannot be filled.
	cacheTimeout = 10 * time.Second
)

// decide finds out what the Function should be, or why it cannot be.
func (r *Reconciler) decide(_ context.Context, s *scope) error {
	refuse := func(reason string, err error) error {
		return kube.Stalled(&failure{
			condition: v1alpha2.ConditionConfigurationReady, reason: reason, message: err.Error(), err: err,
		})
	}
	base := resources.Image(s.fn, s.settings)
	problems := admission.Function(s.fn, base != "")
	if s.settings.Build.FIPS.Asked() {
		problems = append(problems, admission.FIPS(s.fn)...)
	}
	if err := problems.Err(); err != nil {
		return refuse(v1alpha2.ReasonInvalidSpec, err)
	}
	kyma, supply := resources.FollowsKyma(s.fn, s.settings), supplyOf
	if kyma {
		supply = supplyByKyma
	}
	found, err := supply(s.fn, base, r.ca)
	if err != nil {
		return refuse(v1alpha2.ReasonInvalidSpec, err)
	}
	s.code = resources.Code{Source: found.source, Runtime: s.fn.Spec.Runtime, Kyma: kyma, Inline: found.inline}
	if s.plan = found.plan; s.plan == nil {
		s.code.Image = base
	} else {
		s.plan.MaxSize = s.settings.Build.MaxImageSize
	}
	if !s.scaled() {
		return nil
	}
	s.tuning, err = workload.TuningOf(s.fn.Annotations, s.settings.Scaling.Defaults)
	return err
}

// gather reads what is there.
func (r *Reconciler) gather(ctx context.Context, s *scope) error {
	key := client.ObjectKeyFromObject(s.fn)
	deployment := &appsv1.Deployment{}
	found, err := r.find(ctx, key, deployment)
	if err != nil {
		return err
	}
	if found {
		s.deployment = deployment
	}

	service := &corev1.Service{}
	err = r.client.Get(ctx, key, service)
	switch {
	case err == nil:
		s.service = service
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("get Service %q: %w", key, err)
	}

	hpa := &autoscalingv2.HorizontalPodAutoscaler{}
	err = r.client.Get(ctx, key, hpa)
	switch {
	case err == nil:
		s.hpa = hpa
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("get HorizontalPodAutoscaler %q: %w", key, err)
	}

	pods := &corev1.PodList{}
	err = r.client.List(ctx, pods, client.InNamespace(s.fn.Namespace), client.MatchingFields{ownerIndex: string(s.fn.UID)})
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	for i := range pods.Items {
		if pods.Items[i].Labels[v1alpha2.LabelResource] == v1alpha2.ResourceJob {
			s.buildPods = append(s.buildPods, pods.Items[i])
			continue
		}
		s.pods = append(s.pods, pods.Items[i])
	}
	if err := r.findMissingSecrets(ctx, s); err != nil {
		return err
	}
	return r.gatherScaledObject(ctx, s)
}

// findMissingSecrets looks for what pods cannot start without.
func (r *Reconciler) findMissingSecrets(ctx context.Context, s *scope) error {
	look := func(name string, missing *[]string) error {
		key := client.ObjectKey{Namespace: s.fn.Namespace, Name: name}
		err := r.client.Get(ctx, key, metadataOf(kindSecret))
		if apierrors.IsNotFound(err) {
			*missing = append(*missing, name)
			return nil
		}
		if err != nil {
			return fmt.Errorf("look for Secret %q: %w", key, err)
		}
		return nil
	}
	for _, mount := range s.fn.Spec.SecretMounts {
		if err := look(mount.SecretName, &s.missingSecrets); err != nil {
			return err
		}
	}
	for _, name := range s.boundSecrets() {
		if err := look(name, &s.missingBindings); err != nil {
			return err
		}
	}
	return nil
}

// find looks into the cache and then past it, because the cache has no object
// without our label.
func (r *Reconciler) find(ctx context.Context, key client.ObjectKey, object client.Object) (bool, error) {
	err := r.client.Get(ctx, key, object)
	if apierrors.IsNotFound(err) {
		err = r.live.Get(ctx, key, object)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("get %T %q: %w", object, key, err)
	}
	return err == nil, nil
}

func (r *Reconciler) gatherScaledObject(ctx context.Context, s *scope) error {
	installed, err := r.keda.installed(ctx)
	if err != nil || !installed {
		return err
	}
	s.keda = true
	ctx, cancel := context.WithTimeout(ctx, cacheTimeout) // the first read waits for the cache to fill
	defer cancel()
	object, err := r.keda.scaledObject(ctx, client.ObjectKeyFromObject(s.fn))
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("get ScaledObject %q: %w", s.fn.Name, err)
	}
	s.scaledObject = object
	return nil
}

// checkOwners makes sure that no object of another owner is written.
func (r *Reconciler) checkOwners(_ context.Context, s *scope) error {
	check := func(object metav1.Object, kind, condition string) error {
		err := kube.CheckOwner(object, kind, s.fn, v1alpha2.GroupVersion.WithKind(resources.FunctionKind).GroupKind())
		var foreign *kube.ForeignError
		var predecessor *kube.PredecessorError
		switch {
		case errors.As(err, &foreign) && isOrphan(object, s.fn):
			return nil
		case errors.As(err, &foreign):
			return kube.Waiting(&failure{
				condition: condition, reason: v1alpha2.ReasonOwnedByOther, message: err.Error(), err: err,
			}, foreignDelay)
		case errors.As(err, &predecessor):
			return kube.Waiting(err, predecessorDelay)
		default:
			return err
		}
	}
	if s.deployment != nil {
		if err := check(s.deployment, "Deployment", v1alpha2.ConditionRunning); err != nil {
			return err
		}
	}
	if s.service != nil {
		if err := check(s.service, "Service", v1alpha2.ConditionRunning); err != nil {
			return err
		}
	}
	if s.scaled() && s.scaledObject != nil {
		return check(s.scaledObject, resources.ScaledObjectKind().Kind, v1alpha2.ConditionScaling)
	}
	return nil
}

// isOrphan reports whether an object of this Function has lost its owner
// reference, which is then put back.
func isOrphan(object metav1.Object, fn *v1alpha2.Function) bool {
	return metav1.GetControllerOf(object) == nil &&
		object.GetLabels()[v1alpha2.LabelUUID] == string(fn.UID) && kube.IsApplied(object)
}
