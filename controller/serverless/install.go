package serverless

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/controller/serverless/resources"
	"github.com/rouse-run/rouse/internal/kube"
)

// smallCluster is the greatest number of nodes of a cluster whose Functions get the small profile.
const smallCluster = 2

// A collector of traces is found by the name of Kyma's Service, in Kyma's namespace or beside the Serverless. Kyma looks everywhere, so
// that any tenant can have the traces of all Functions.
const (
	collectorName      = "telemetry-otlp-traces"
	collectorNamespace = "kyma-system"
)

// install brings the Function controller, or keeps it as it was while the spec makes no sense.
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

// find asks the cluster for what a Serverless may leave out.
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
			return resources.Found{}, fmt.Errorf("look for a collector of traces: %w", err)
		}
	}
	return found, nil
}

// apply writes all parts, removes those that the installation does not want any more, and reads the Deployment. One part that fails
// does not keep the others from being repaired.
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
	// The lock is made again by the one who holds it.
	if !isOurs(live) && part.Kind != resources.KindLease {
		return &foreignError{kind: part.Kind.Kind, key: strings.TrimPrefix(part.Key.String(), "/")}
	}
	_, err = r.applier.Apply(ctx, desired, live, exclusive(part)...)
	return err
}

// read is the metadata of a part, nil when there is none.
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

// exclusive are the fields of a part in which nobody else may add anything.
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

// isOurs reports whether an operator has made the object: by its fields, as labels can be taken off, or by its label, as managed
// fields can be reset.
func isOurs(live metav1.Object) bool {
	return kube.IsAppliedBy(live, kube.OperatorFieldOwner) || live.GetLabels()[resources.LabelManagedBy] == resources.ManagedBy
}

func partOf(object *unstructured.Unstructured) resources.Part {
	return resources.Part{Kind: object.GroupVersionKind(), Key: client.ObjectKeyFromObject(object)}
}
