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
