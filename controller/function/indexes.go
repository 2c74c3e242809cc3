package function

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// Indexes of the manager's cache, each within a namespace. Without them a reconciliation, or a change of a Secret, would cost
// a look at all that is in the namespace.
const (
	// referenceIndex finds the Functions whose pods follow a ConfigMap or Secret.
	referenceIndex = "followed"
	// secretIndex finds the Functions whose builds or pods use a Secret.
	secretIndex = "rouse.secret"
	// ownerIndex finds the pods, Jobs and Secrets of a Function, by its UID.
	ownerIndex = "rouse.function"
	// targetIndex finds the autoscalers of a Function, by its name.
	targetIndex = "rouse.target"
)

// index is one of them.
type index struct {
	object client.Object
	field  string
	values client.IndexerFunc
}

func indexes() []index {
	return []index{
		{&v1alpha2.Function{}, referenceIndex, indexReferences},
		{&v1alpha2.Function{}, secretIndex, indexSecrets},
		{&appsv1.Deployment{}, boundIndex, indexBound},
		{&corev1.Pod{}, ownerIndex, indexOwner},
		{&batchv1.Job{}, ownerIndex, indexOwner},
		{metadataOf(kindSecret), ownerIndex, indexOwner},
		{&autoscalingv2.HorizontalPodAutoscaler{}, targetIndex, indexTarget},
	}
}

func indexObjects(ctx context.Context, indexer client.FieldIndexer) error {
	for _, each := range indexes() {
		if err := indexer.IndexField(ctx, each.object, each.field, each.values); err != nil {
			return fmt.Errorf("index %T by %q: %w", each.object, each.field, err)
		}
	}
	return nil
}

// indexSecrets leaves out what Functions follow, which have an index of their own.
func indexSecrets(object client.Object) []string {
	fn, ok := object.(*v1alpha2.Function)
	if !ok {
		return nil
	}
	names := buildSecrets(fn)
	for _, mount := range fn.Spec.SecretMounts {
		names = append(names, mount.SecretName)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func indexOwner(object client.Object) []string {
	if uid := object.GetLabels()[v1alpha2.LabelUUID]; uid != "" {
		return []string{uid}
	}
	return nil
}

func indexTarget(object client.Object) []string {
	if hpa, ok := object.(*autoscalingv2.HorizontalPodAutoscaler); ok && targetOf(hpa) != "" {
		return []string{targetOf(hpa)}
	}
	return nil
}
