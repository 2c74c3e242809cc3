package resources

import (
	"encoding/json"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// FunctionKind is the kind of the owner of everything that is built.
const FunctionKind = "Function"

// Annotations of pods and their template.
const (
	// AnnotationTemplate holds a hash of what the controller wants the template to
	// be. It distinguishes pods of the present spec from older ones.
	AnnotationTemplate = "rouse.run/template"
	// AnnotationVersion holds the version of the code.
	AnnotationVersion = "rouse.run/version"
	// AnnotationConfiguration holds the hash of the ConfigMaps and Secrets, where
	// the user wants pods to follow them.
	AnnotationConfiguration = "rouse.run/configuration"
)

// AnnotationOwn is an annotation of the Deployment, and holds a hash of what the template would be without the settings of the installation that may change
// while it runs.
const AnnotationOwn = "rouse.run/own-template"

// ResourcePreparation is the value of LabelResource on the Secrets of pods that
// install for themselves.
const ResourcePreparation = "preparation"

// internalLabels identify the Function that an object belongs to.
func internalLabels(fn *v1alpha2.Function) map[string]string {
	return map[string]string{
		v1alpha2.LabelFunctionName: fn.Name,
		v1alpha2.LabelManagedBy:    v1alpha2.ManagedBy,
		v1alpha2.LabelUUID:         string(fn.UID),
	}
}

// SelectorLabels select the pods of a Function.
func SelectorLabels(fn *v1alpha2.Function) map[string]string {
	selector := internalLabels(fn)
	selector[v1alpha2.LabelResource] = v1alpha2.ResourceDeployment
	return selector
}

// JobLabels select the builds of a Function, and what belongs to them.
func JobLabels(fn *v1alpha2.Function) map[string]string { return jobLabels(fn) }

func jobLabels(fn *v1alpha2.Function) map[string]string {
	return overlay(internalLabels(fn), map[string]string{v1alpha2.LabelResource: v1alpha2.ResourceJob})
}

// PreparationLabels select the Secrets of pods that install for themselves.
func PreparationLabels(fn *v1alpha2.Function) map[string]string {
	return overlay(internalLabels(fn), map[string]string{v1alpha2.LabelResource: ResourcePreparation})
}

// PodSelector is SelectorLabels as text, for the scale subresource.
func PodSelector(fn *v1alpha2.Function) string {
	return labels.SelectorFromSet(SelectorLabels(fn)).String()
}

// objectLabels are on the Deployment and the Service.
func objectLabels(fn *v1alpha2.Function) map[string]string {
	return overlay(fn.Labels, internalLabels(fn))
}

func podLabels(fn *v1alpha2.Function) map[string]string {
	return overlay(fn.Spec.Labels, SelectorLabels(fn), map[string]string{v1alpha2.LabelAppName: fn.Name})
}

// podAnnotations are those that the controller wants. Those that others put on
// the live template stay, because server-side apply leaves what it does not own.
func podAnnotations(fn *v1alpha2.Function, workload Workload) (map[string]string, error) {
	proxy, err := json.Marshal(map[string]bool{"holdApplicationUntilProxyStarts": true})
	if err != nil {
		return nil, err
	}
	annotations := overlay(
		map[string]string{"sidecar.istio.io/nativeSidecar": "true"},
		fn.Spec.Annotations,
		map[string]string{
			"proxy.istio.io/config":                      string(proxy),
			"rt-cfg.kyma-project.io/add-img-pull-secret": "true",
			"rt-cfg.kyma-project.io/alter-img-registry":  "true",
			AnnotationVersion:                            workload.Version(),
		},
	)
	if workload.Configuration != "" {
		annotations[AnnotationConfiguration] = workload.Configuration
	}
	return annotations, nil
}

// overlay joins maps; a later one wins.
func overlay(layers ...map[string]string) map[string]string {
	joined := make(map[string]string)
	for _, layer := range layers {
		maps.Copy(joined, layer)
	}
	return joined
}

// owner refers to the Function as the controller of what is built.
func owner(fn *v1alpha2.Function) metav1.OwnerReference {
	return *metav1.NewControllerRef(fn, v1alpha2.GroupVersion.WithKind(FunctionKind))
}

func ownerReference(fn *v1alpha2.Function) *metav1ac.OwnerReferenceApplyConfiguration {
	ref := owner(fn)
	return metav1ac.OwnerReference().
		WithAPIVersion(ref.APIVersion).
		WithKind(ref.Kind).
		WithName(ref.Name).
		WithUID(ref.UID).
		WithController(*ref.Controller).
		WithBlockOwnerDeletion(*ref.BlockOwnerDeletion)
}
