package function

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/workload"
)

// annotationRevision is the number that the Deployment controller gives to a ReplicaSet. A ReplicaSet that serves again
// gets the highest number.
const annotationRevision = "deployment.kubernetes.io/revision"

// rollBack replaces the spec's version with an earlier one when the user requests it. It needs no build: the images of
// ReplicaSets exist.
func (r *Reconciler) rollBack(ctx context.Context, s *scope) error {
	wanted := s.fn.Annotations[v1alpha2.AnnotationRollbackTo]
	if wanted == "" || wanted == s.ownVersion() {
		return nil
	}
	sets := &appsv1.ReplicaSetList{}
	err := r.live.List(ctx, sets, client.InNamespace(s.fn.Namespace), client.MatchingLabels(resources.SelectorLabels(s.fn)))
	if err != nil {
		return fmt.Errorf("list the earlier versions of %q: %w", s.fn.Name, err)
	}
	versions := versionsOf(sets.Items)
	found := slices.IndexFunc(versions, func(code resources.Code) bool {
		if wanted == v1alpha2.RollbackPrevious {
			return code.Version() != s.ownVersion()
		}
		return code.Version() == wanted
	})
	if found < 0 {
		return kube.Stalled(&failure{
			condition: v1alpha2.ConditionConfigurationReady, reason: v1alpha2.ReasonRollbackFailed,
			message: unknownVersion(wanted, s.ownVersion(), versions),
		})
	}
	s.own, s.code, s.rolledBack = s.code, versions[found], true
	return nil
}

// versionsOf lists the versions of the ReplicaSets, each once and the newest first.
func versionsOf(sets []appsv1.ReplicaSet) []resources.Code {
	revision := func(set *appsv1.ReplicaSet) int64 {
		number, err := strconv.ParseInt(set.Annotations[annotationRevision], 10, 64)
		if err != nil {
			return 0 // not made by the Deployment controller
		}
		return number
	}
	slices.SortStableFunc(sets, func(a, b appsv1.ReplicaSet) int { return cmp.Compare(revision(&b), revision(&a)) })
	var versions []resources.Code
	for i := range sets {
		code, ok := resources.CodeOf(&sets[i].Spec.Template)
		known := slices.ContainsFunc(versions, func(other resources.Code) bool { return other.Version() == code.Version() })
		if ok && !known {
			versions = append(versions, code)
		}
	}
	return versions
}

func unknownVersion(wanted, own string, versions []resources.Code) string {
	var names []string
	for _, code := range versions {
		if code.Version() != own {
			names = append(names, code.Version())
		}
	}
	message := fmt.Sprintf("The annotation %s requests ", v1alpha2.AnnotationRollbackTo)
	if wanted == v1alpha2.RollbackPrevious {
		return message + "the previous version, but there is none. Remove the annotation"
	}
	message += fmt.Sprintf("version %q, which does not exist. ", wanted)
	if len(names) == 0 {
		return message + "There is no earlier version: remove the annotation"
	}
	return message + fmt.Sprintf("Set it to one of the earlier versions %s (the newest first), or remove it", strings.Join(names, ", "))
}

// rolledBackCondition reports that the running version is not the spec's.
func rolledBackCondition(s *scope) conditionUpdate {
	instead := "the spec's"
	if own := s.ownVersion(); own != "" {
		instead += " " + own
	}
	return conditionUpdate{
		status: metav1.ConditionTrue, reason: v1alpha2.ReasonRolledBack,
		message: fmt.Sprintf("Warning: serves version %s instead of %s, as the annotation %s requests. Remove it to return to the spec",
			s.code.Version(), instead, v1alpha2.AnnotationRollbackTo),
	}
}

// replicasOwner owns spec.replicas between the controller, which no longer applies it, and the autoscaler, which has
// not changed it yet. Without an owner the field would fall back to the API server's default.
const replicasOwner = client.FieldOwner("rouse-replicas")

// wholeSpec is for objects to whose spec no one else adds fields, podSpec for Deployments to whose pods no one
// does.
var (
	wholeSpec = kube.Exclusive{"spec"}
	podSpec   = kube.Exclusive{"spec", "template", "spec"}
)

// applyWorkload applies the Deployment and the Service.
func (r *Reconciler) applyWorkload(ctx context.Context, s *scope) error {
	if err := r.handOverReplicas(ctx, s); err != nil {
		return err
	}
	write := r.applyDeployment
	if s.held() {
		write = r.holdDeployment
	}
	if err := write(ctx, s); err != nil {
		return err
	}
	service, err := kube.ToUnstructured(resources.Service(s.fn))
	if err != nil {
		return err
	}
	if _, err := r.applier.Apply(ctx, service, s.service, wholeSpec); err != nil {
		return explain(err, v1alpha2.ConditionRunning, v1alpha2.ReasonServiceFailed,
			fmt.Sprintf("Service %s %s failed: %v", s.fn.Name, verb(s.service == nil), err))
	}
	s.applied = s.deployment != nil
	return nil
}

// holdDeployment leaves the running pods as they are, except for their number.
func (r *Reconciler) holdDeployment(ctx context.Context, s *scope) error {
	if s.deployment == nil {
		return nil
	}
	s.template = s.deployment.Spec.Template.Annotations[resources.AnnotationTemplate]
	replicas := ptr.Deref(s.fn.Spec.Replicas, 1)
	if s.scaled() || ptr.Deref(s.deployment.Spec.Replicas, 1) == replicas {
		return nil
	}
	return r.applyReplicas(ctx, s, replicas)
}

// applyReplicas sets the number of pods unless the Deployment has changed since it was read: an autoscaler may have set
// another number.
func (r *Reconciler) applyReplicas(ctx context.Context, s *scope, replicas int32) error {
	config := appsv1ac.Deployment(s.fn.Name, s.fn.Namespace).
		WithUID(s.deployment.UID).
		WithResourceVersion(s.deployment.ResourceVersion).
		WithSpec(appsv1ac.DeploymentSpec().WithReplicas(replicas))
	if err := r.client.Apply(ctx, config, replicasOwner, client.ForceOwnership); err != nil {
		return fmt.Errorf("set the replicas of Deployment %q: %w", s.fn.Name, err)
	}
	return nil
}

func wantedDeployment(s *scope) (*appsv1ac.DeploymentApplyConfiguration, error) {
	wanted := resources.Workload{Code: s.code, Configuration: s.configuration, PullSecret: pullSecret(s)}
	if !s.scaled() {
		wanted.Replicas = new(ptr.Deref(s.fn.Spec.Replicas, 1))
	}
	config, err := resources.Deployment(s.fn, s.settings, wanted)
	if err != nil {
		return nil, fmt.Errorf("build Deployment: %w", err)
	}
	return config, nil
}

func (r *Reconciler) applyDeployment(ctx context.Context, s *scope) error {
	config, err := wantedDeployment(s)
	if err != nil {
		return err
	}
	if err := r.checkBindings(s, config); err != nil {
		return err
	}
	if !r.mayFollow(s, config) {
		s.postponed = true
		return r.holdDeployment(ctx, s)
	}
	s.template = config.Spec.Template.Annotations[resources.AnnotationTemplate]
	desired, err := kube.ToUnstructured(config)
	if err != nil {
		return err
	}
	var live metav1.Object
	exclusive := kube.Part(podSpec)
	if s.deployment != nil {
		live = s.deployment
		exclusive = podSpec.Tolerating(resources.Tolerated(&s.deployment.Spec.Template))
	}
	result, err := r.applier.Apply(ctx, desired, live, exclusive)
	if err != nil {
		return explain(err, v1alpha2.ConditionRunning, v1alpha2.ReasonDeploymentFailed,
			fmt.Sprintf("Deployment %s %s failed: %v", s.fn.Name, verb(s.deployment == nil), err))
	}
	if result == nil {
		return nil
	}
	deployment := &appsv1.Deployment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(result.Object, deployment); err != nil {
		return fmt.Errorf("read applied Deployment: %w", err)
	}
	switch {
	case s.deployment == nil:
		s.change = created
	case deployment.Generation != s.deployment.Generation:
		s.change = updated
	}
	s.deployment = deployment
	return nil
}

// handOverReplicas keeps the number of pods when the controller gives up ownership of it, and wakes a Deployment that
// an HPA would leave at zero for ever.
func (r *Reconciler) handOverReplicas(ctx context.Context, s *scope) error {
	if !s.scaled() || s.deployment == nil {
		return nil
	}
	replicas := ptr.Deref(s.deployment.Spec.Replicas, 1)
	asleep := !s.keda && replicas == 0 && (s.neverSleeps || !mayGoToZero(s.fn))
	if asleep {
		low, _ := workload.ReplicaBounds(s.fn)
		replicas = max(low, 1)
	}
	if !asleep && !ownsReplicas(s.deployment) {
		return nil
	}
	return r.applyReplicas(ctx, s, replicas)
}

// ownsReplicas reports whether the controller applied spec.replicas last time.
func ownsReplicas(deployment *appsv1.Deployment) bool {
	for _, entry := range deployment.ManagedFields {
		if entry.Manager == string(kube.FieldOwner) && entry.Subresource == "" && entry.FieldsV1 != nil {
			return bytes.Contains(entry.FieldsV1.GetRawBytes(), []byte(`"f:replicas"`))
		}
	}
	return false
}
