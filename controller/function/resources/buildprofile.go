package resources

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// BuildProfile is what the build profile of that name means, and whether there
// is one.
func BuildProfile(name string) (corev1.ResourceRequirements, bool) {
	switch name {
	case "local-dev":
		return profile("200m", "200Mi", "400m", "400Mi"), true
	case "slow":
		return profile("200m", "200Mi", "700m", "700Mi"), true
	case "normal":
		return profile("500m", "700Mi", "1100m", "1100Mi"), true
	case "fast":
		return profile("900m", "1100Mi", "1700m", "1100Mi"), true
	default:
		return corev1.ResourceRequirements{}, false
	}
}

// BuildRequirements are what the build of a Function's image may use.
func BuildRequirements(fn *v1alpha2.Function, defaultProfile string) corev1.ResourceRequirements {
	name := defaultProfile
	if config := fn.Spec.ResourceConfiguration; config != nil && config.Build != nil {
		if config.Build.Resources != nil {
			return *config.Build.Resources
		}
		if config.Build.Profile != "" {
			name = config.Build.Profile
		}
	}
	requirements, _ := BuildProfile(name)
	return requirements
}

// prepareRequirements let a pod that installs for itself use what a build may,
// and ask for no more than it asks for anyway.
func prepareRequirements(fn *v1alpha2.Function, settings *Settings) corev1.ResourceRequirements {
	_, runs := Requirements(fn, settings)
	builds := BuildRequirements(fn, settings.Build.Profile)
	limits := builds.Limits.DeepCopy()
	for _, at := range []corev1.ResourceList{runs.Limits, runs.Requests} {
		for kind, least := range at {
			if limit, ok := limits[kind]; ok && limit.Cmp(least) < 0 {
				limits[kind] = least
			}
		}
	}
	return corev1.ResourceRequirements{Requests: runs.Requests.DeepCopy(), Limits: limits}
}
