package resources

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/fips"
	"github.com/rouse-run/rouse/internal/workload"
)

// Settings are the installation's settings for all Functions.
type Settings struct {
	// Images maps each runtime to its image.
	Images map[string]string
	// PublisherAddress is the URL at which Functions publish events.
	PublisherAddress string
	// PublisherAudience is the audience of the tokens with which Functions publish, empty when the publisher requires
	// none.
	PublisherAudience string
	// TraceCollectorEndpoint is the URL to which Functions send traces; it may be empty.
	TraceCollectorEndpoint string
	// DefaultProfile is the resource profile of Functions that name none.
	DefaultProfile string
	// Profiles overrides the resource profiles of Profile.
	Profiles map[string]corev1.ResourceRequirements
	// Scaling configures the scaling of Functions with a scaleConfig.
	Scaling Scaling
	// Build configures builds.
	Build BuildSettings
	// Network restricts callers and destinations of pods; nil: there are no policies.
	Network *NetworkRules
}

func (s *Settings) addresses(fn *v1alpha2.Function) workload.Addresses {
	addresses := workload.Addresses{Publisher: s.PublisherAddress, TraceCollector: s.TraceCollectorEndpoint}
	if s.showsToken(fn) {
		addresses.PublisherToken = tokenDir + "/" + tokenFile
	}
	return addresses
}

// BuildSettings are the installation's settings for builds.
type BuildSettings struct {
	// Builder is the image that contains the builder.
	Builder string
	// Profile is the build profile of Functions that name none.
	Profile string
	// DeadlineSeconds bounds the duration of a build.
	DeadlineSeconds int64
	// MaxImageSize bounds the bytes added to the runtime's image; 0: no bound.
	MaxImageSize int64
	// VolumeSize bounds each volume in which a build works.
	VolumeSize resource.Quantity
	// FIPS is the FIPS 140-3 mode of the builder.
	FIPS fips.Mode
}

// Scaling holds the installation's settings for Functions with a scaleConfig.
type Scaling struct {
	// ScalerAddress is the host:port at which KEDA calls the external scaler.
	ScalerAddress string
	// ScalerAuthentication is the ClusterTriggerAuthentication with which KEDA uses TLS to the scaler; empty: plain
	// text.
	ScalerAuthentication string
	// InitialCooldownSeconds is the minimum time that a new Function stays awake.
	InitialCooldownSeconds int64
	// ScaleDownSeconds is how long the backlog must stay small before replicas are removed, down to one.
	ScaleDownSeconds int64
	// TriggerTypes are the types of triggers that users may add beside the backlog.
	TriggerTypes []string
	// ExternalMetrics is true where the scaler serves the External Metrics API.
	ExternalMetrics bool
	// HTTPWake is true where gateways let HTTP requests wake Functions.
	HTTPWake bool
	// Defaults apply to Functions without tuning annotations.
	Defaults workload.Tuning
}

// ProfileCustom is the profile name of a Function with its own resources.
const ProfileCustom = "custom"

// Requirements returns the name of a Function's resource profile and its resources.
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

// Profile returns the resources of the profile with that name where the installation does not override it, and whether
// there is one.
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

// BuildProfile returns the resources of the build profile with that name, and whether there is one.
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

// BuildRequirements returns the resources for the build of a Function's image.
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

// prepareRequirements lets a pod that installs its own dependencies use as much as a build, without requesting more
// than it requests anyway.
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
