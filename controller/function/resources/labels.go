package resources

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/workload"
)

// FunctionKind is the kind of the owner of all objects.
const FunctionKind = "Function"

// Annotations of pods and their template.
const (
	// AnnotationTemplate holds a hash of the desired template. It distinguishes pods of the current spec from older
	// ones.
	AnnotationTemplate = "rouse.run/template"
	// AnnotationVersion holds the version of the code.
	AnnotationVersion = "rouse.run/version"
	// AnnotationConfiguration holds the hash of the ConfigMaps and Secrets, if the user wants pods to follow them.
	AnnotationConfiguration = "rouse.run/configuration"
)

// AnnotationOwn is an annotation of the Deployment: a hash of the template without the installation's settings that may
// change at run time.
const AnnotationOwn = "rouse.run/own-template"

// ResourcePreparation is the value of LabelResource on the Secrets of pods that install their own dependencies.
const ResourcePreparation = "preparation"

// internalLabels identify the Function of an object.
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

// JobLabels select the builds of a Function and their Secrets.
func JobLabels(fn *v1alpha2.Function) map[string]string { return jobLabels(fn) }

func jobLabels(fn *v1alpha2.Function) map[string]string {
	return overlay(internalLabels(fn), map[string]string{v1alpha2.LabelResource: v1alpha2.ResourceJob})
}

// PreparationLabels select the Secrets of pods that install their own dependencies.
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

// podAnnotations returns the annotations that the controller sets. Others' annotations on the live template stay,
// because server-side apply leaves fields that it does not own.
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
	delete(annotations, v1alpha2.AnnotationFiles) // other files are another image, or pods that need no change
	delete(annotations, v1alpha2.AnnotationFilesDigest)
	if workload.Configuration != "" {
		annotations[AnnotationConfiguration] = workload.Configuration
	}
	return annotations, nil
}

// overlay merges maps; a later one wins.
func overlay(layers ...map[string]string) map[string]string {
	joined := make(map[string]string)
	for _, layer := range layers {
		maps.Copy(joined, layer)
	}
	return joined
}

// owner refers to the Function as the controller of an object.
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

// maxName is the maximum length of the name of a Service, a label value, a volume or an HPA.
const maxName = 63

// hpaPrefix is KEDA's prefix of a ScaledObject's name.
const hpaPrefix = "keda-hpa-"

// hpaName is the name that the ScaledObject requests for KEDA's HPA, or empty when KEDA's own choice is short enough.
func hpaName(function string) string {
	if len(hpaPrefix)+len(function) <= maxName {
		return ""
	}
	return shortened(hpaPrefix, function)
}

// volumeName returns the volume of a mounted Secret: the Secret's name where that is valid. The prefix of binding
// volumes is reserved for binding runtimes, which sort and remove volumes by it.
func volumeName(secret string) string {
	if len(validation.IsDNS1123Label(secret)) == 0 && !isReservedVolume(secret) {
		return secret
	}
	sum := sha256.Sum256([]byte(secret))
	return "secret-" + hex.EncodeToString(sum[:8])
}

func isReservedVolume(name string) bool {
	switch name {
	case tmpVolume, tokenVolume, functionVolume, binVolume, sourceVolume, fetchVolume, installVolume, pushVolume, handoverVolume, inputVolume,
		registryVolume, gitVolume, packagesVolume, sourcesVolume, localVolume, kymaPackagesVolume:
		return true
	default:
		return strings.HasPrefix(name, workload.BindingVolumePrefix)
	}
}

// shortened returns prefix, as much of name as fits, and a hash of the whole name.
func shortened(prefix, name string) string {
	sum := sha256.Sum256([]byte(name))
	suffix := "-" + hex.EncodeToString(sum[:4])
	return prefix + name[:maxName-len(prefix)-len(suffix)] + suffix
}

// RegistrySecretName names the Secret with the credentials for a Function's images.
func RegistrySecretName(function string) string { return "rouse-registry-" + function }

// JobName names the Job, and its Secret, of the build with this id.
func JobName(fn *v1alpha2.Function, id string) string {
	suffix := "-build-" + id
	name := fn.Name
	if most := maxName - len(suffix); len(name) > most {
		sum := sha256.Sum256([]byte(name))
		hash := "-" + hex.EncodeToString(sum[:4])
		name = name[:most-len(hash)] + hash
	}
	return name + suffix
}

// PreparationName names the Secret with the plan of this id for pods that install their own dependencies.
func PreparationName(fn *v1alpha2.Function, id string) string { return fn.Name + "-prepare-" + id }
