package resources

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// ProfileCustom is the name of the profile of a Function with resources of its own.
const ProfileCustom = "custom"

// Requirements are the name of a Function's resource profile and what it means.
func Requirements(fn *v1alpha2.Function, settings *Settings) (string, corev1.ResourceRequirements) {
	name := settings.DefaultProfile
	if config := fn.Spec.ResourceConfiguration; config != nil && config.Function != nil {
		if config.Function.Resources != nil {
			return ProfileCustom, *config.Function.Resources
		}
		if config.Function.Profile != "" {
			name = config.Function.Profile
		}
	}
	requirements, ok := settings.Profiles[name]
	if !ok {
		requirements, _ = Profile(name)
	}
	return name, requirements
}

// Profile is what the profile of that name means where the installation says nothing else, and whether there is one.
func Profile(name string) (corev1.ResourceRequirements, bool) {
	switch name {
	case "XS":
		return profile("50m", "64Mi", "150m", "256Mi"), true
	case "S":
		return profile("100m", "128Mi", "200m", "256Mi"), true
	case "M":
		return profile("200m", "256Mi", "400m", "512Mi"), true
	case "L":
		return profile("400m", "512Mi", "800m", "1024Mi"), true
	case "XL":
		return profile("800m", "1024Mi", "1600m", "2048Mi"), true
	default:
		return corev1.ResourceRequirements{}, false
	}
}

func profile(requestCPU, requestMemory, limitCPU, limitMemory string) corev1.ResourceRequirements {
	list := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse(cpu),
			corev1.ResourceMemory: resource.MustParse(memory),
		}
	}
	return corev1.ResourceRequirements{
		Requests: list(requestCPU, requestMemory),
		Limits:   list(limitCPU, limitMemory),
	}
}
