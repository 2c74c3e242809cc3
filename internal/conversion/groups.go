package conversion

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// oldScale is how many pods there are in v1alpha1.
type oldScale struct {
	Min *int32 `json:"min,omitempty"`
	Max *int32 `json:"max,omitempty"`
}

type newScale struct {
	Replicas    *int32                `json:"replicas,omitempty"`
	ScaleConfig *v1alpha2.ScaleConfig `json:"scaleConfig,omitempty"`
}

func (o oldScale) there() newScale {
	if o.Min == nil && o.Max == nil {
		return newScale{Replicas: new(int32(1))}
	}
	low := o.Min
	if low == nil {
		low = new(int32(1))
	}
	high := o.Max
	if high == nil {
		high = new(max(*low, 1))
	}
	return newScale{Replicas: new(*low), ScaleConfig: &v1alpha2.ScaleConfig{MinReplicas: low, MaxReplicas: high}}
}

func (n newScale) back() oldScale {
	switch {
	case n.ScaleConfig != nil:
		return oldScale{n.ScaleConfig.MinReplicas, n.ScaleConfig.MaxReplicas}
	case n.Replicas == nil || *n.Replicas == 1:
		return oldScale{}
	default:
		return oldScale{n.Replicas, new(max(*n.Replicas, 1))}
	}
}

// keepAwake has as many pods as before, where the new bounds allow: what a change of the bounds means is for the autoscaler to find out.
func (n newScale) keepAwake(before *newScale) newScale {
	if before == nil || before.ScaleConfig == nil || before.Replicas == nil || !n.isBounded() || same(n, *before) {
		return n
	}
	n.Replicas = new(max(*n.ScaleConfig.MinReplicas, min(*before.Replicas, *n.ScaleConfig.MaxReplicas)))
	return n
}

func (n newScale) isBounded() bool {
	return n.ScaleConfig != nil && n.ScaleConfig.MinReplicas != nil && n.ScaleConfig.MaxReplicas != nil
}

// oldResources are those of pods and builds; profiles are labels.
type oldResources struct {
	FunctionPreset *string                      `json:"functionPreset,omitempty"`
	BuildPreset    *string                      `json:"buildPreset,omitempty"`
	Function       *corev1.ResourceRequirements `json:"function,omitempty"`
	Build          *corev1.ResourceRequirements `json:"build,omitempty"`
}

// newResources have the labels, too: in v1alpha2 they mean nothing, and may be there.
type newResources struct {
	FunctionLabel *string                         `json:"functionLabel,omitempty"`
	BuildLabel    *string                         `json:"buildLabel,omitempty"`
	Configuration *v1alpha2.ResourceConfiguration `json:"configuration,omitempty"`
}

func (o oldResources) there() newResources {
	made := &v1alpha2.ResourceConfiguration{
		Function: requirements(o.FunctionPreset, o.Function),
		Build:    requirements(o.BuildPreset, o.Build),
	}
	if made.Function == nil && made.Build == nil {
		return newResources{}
	}
	return newResources{Configuration: made}
}

// requirements are the resources where both are there: they were in force, and the preset only filled in what was missing.
func requirements(preset *string, resources *corev1.ResourceRequirements) *v1alpha2.ResourceRequirements {
	switch {
	case !isEmpty(resources):
		return &v1alpha2.ResourceRequirements{Resources: resources}
	case preset != nil && *preset != "":
		return &v1alpha2.ResourceRequirements{Profile: *preset}
	default:
		return nil
	}
}

func isEmpty(resources *corev1.ResourceRequirements) bool {
	return resources == nil || len(resources.Limits)+len(resources.Requests)+len(resources.Claims) == 0
}

func (n newResources) back() oldResources {
	if n.Configuration == nil {
		return oldResources{}
	}
	var old oldResources
	old.FunctionPreset, old.Function = backRequirements(n.Configuration.Function)
	old.BuildPreset, old.Build = backRequirements(n.Configuration.Build)
	return old
}

func backRequirements(of *v1alpha2.ResourceRequirements) (preset *string, resources *corev1.ResourceRequirements) {
	if of == nil {
		return nil, nil
	}
	if of.Profile != "" {
		preset = new(of.Profile)
	}
	return preset, of.Resources
}

// newSecretMounts are fields in v1alpha2; the annotation that they were may be there, too.
type newSecretMounts struct {
	Annotation *string                `json:"annotation,omitempty"`
	Mounts     []v1alpha2.SecretMount `json:"mounts,omitempty"`
}

// thereSecretMounts takes an annotation that cannot be read for none; the caller has judged it.
func thereSecretMounts(annotation *string) newSecretMounts {
	var made newSecretMounts
	if annotation != nil && json.Unmarshal([]byte(*annotation), &made.Mounts) != nil {
		made.Mounts = nil
	}
	return made
}

func (n newSecretMounts) back() *string {
	if len(n.Mounts) == 0 {
		return nil
	}
	text, err := json.Marshal(n.Mounts)
	if err != nil {
		return nil
	}
	return new(string(text))
}

// newOnly are the fields that v1alpha1 does not have at all.
type newOnly struct {
	PodSecurityContext       *corev1.PodSecurityContext `json:"podSecurityContext,omitempty"`
	ContainerSecurityContext *corev1.SecurityContext    `json:"containerSecurityContext,omitempty"`
	Annotations              map[string]string          `json:"annotations,omitempty"`
	Template                 *v1alpha2.Template         `json:"template,omitempty"`
}
