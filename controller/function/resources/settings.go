package resources

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/fips"
	"github.com/rouse-run/rouse/internal/workload"
)

// Settings are the installation's choices that shape every Function.
type Settings struct {
	// Images has the image of each runtime.
	Images map[string]string
	// PublisherAddress is where Functions publish events.
	PublisherAddress string
	// PublisherAudience is for whom the tokens are that Functions show where they
	// publish. It is empty where the publisher requires no token.
	PublisherAudience string
	// TraceCollectorEndpoint is where Functions send traces; it may be empty.
	TraceCollectorEndpoint string
	// DefaultProfile is the resource profile of Functions that name none.
	DefaultProfile string
	// Profiles are what resource profiles mean, where that is not what Profile says.
	Profiles map[string]corev1.ResourceRequirements
	// Scaling is how Functions with a scaleConfig are scaled.
	Scaling Scaling
	// Build is how images are built.
	Build BuildSettings
	// Network is whom pods may call and be called by; nil: there are no policies.
	Network *NetworkRules
}

func (s *Settings) addresses(fn *v1alpha2.Function) workload.Addresses {
	addresses := workload.Addresses{Publisher: s.PublisherAddress, TraceCollector: s.TraceCollectorEndpoint}
	if s.showsToken(fn) {
		addresses.PublisherToken = tokenDir + "/" + tokenFile
	}
	return addresses
}

// BuildSettings are the installation's choices for builds.
type BuildSettings struct {
	// Builder is the image that has the builder.
	Builder string
	// Profile is the build profile of Functions that name none.
	Profile string
	// DeadlineSeconds is how long a build may take.
	DeadlineSeconds int64
	// MaxImageSize bounds what is added to the runtime's image, in bytes; 0: no
	// bound.
	MaxImageSize int64
	// VolumeSize bounds each volume in which a build works.
	VolumeSize resource.Quantity
	// FIPS is the mode of FIPS 140-3 in which the builder runs.
	FIPS fips.Mode
}

// Scaling are the installation's choices for Functions with a scaleConfig.
type Scaling struct {
	// ScalerAddress is the host:port at which KEDA calls the external scaler.
	ScalerAddress string
	// ScalerAuthentication is the ClusterTriggerAuthentication with which KEDA
	// speaks TLS with it; empty: plain text.
	ScalerAuthentication string
	// InitialCooldownSeconds is how long a new Function stays awake at least.
	InitialCooldownSeconds int64
	// ScaleDownSeconds is how long the backlog must stay small before replicas
	// are taken away, down to one.
	ScaleDownSeconds int64
	// HTTPWake is true where there are gateways, so that HTTP wakes Functions.
	HTTPWake bool
	// Defaults are for Functions without tuning annotations.
	Defaults workload.Tuning
}

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
