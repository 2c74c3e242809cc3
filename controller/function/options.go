package function

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/buildqueue"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/fips"
	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/workload"
)

// Options configures the Function controller.
type Options struct {
	// RuntimeImages maps each runtime to its image.
	RuntimeImages map[string]string
	// PublisherAddress is the URL at which Functions publish events.
	PublisherAddress string
	// PublisherAudience is the audience of the tokens with which Functions publish; empty when the publisher requires
	// none. It is set with the rules of who may publish.
	PublisherAudience string
	// TraceCollectorEndpoint is the URL to which Functions send traces; it may be empty.
	TraceCollectorEndpoint string
	// DefaultProfile is the resource profile of Functions that name none. When empty it is chosen at the start: XS with
	// up to two nodes, L with more.
	DefaultProfile string
	// ScalerAddress is the host:port at which KEDA calls the scaler.
	ScalerAddress string
	// ScalerAuthentication names the ClusterTriggerAuthentication with which KEDA uses TLS to the scaler.
	ScalerAuthentication string
	// ExternalMetrics is true where the scaler serves the External Metrics API, so that HPAs scale by events in a cluster without KEDA.
	ExternalMetrics bool
	// HTTPWake is true where gateways let HTTP requests wake Functions. It is set with their Service.
	HTTPWake bool
	// PollingInterval is how often KEDA polls the backlog.
	PollingInterval time.Duration
	// CooldownPeriod is how long a Function without work stays awake.
	CooldownPeriod time.Duration
	// InitialCooldownPeriod is the minimum time that a new Function stays awake.
	InitialCooldownPeriod time.Duration
	// ScaleDownStabilization is how long a backlog must stay small before replicas are removed.
	ScaleDownStabilization time.Duration
	// MaxConcurrentReconciles bounds the concurrent reconciliations.
	MaxConcurrentReconciles int
	// MaxRollouts bounds the Functions that are awake and replace their pods at a time after a change of the
	// installation's settings.
	MaxRollouts int
	// Build configures builds.
	Build BuildOptions
	// TriggerTypes are the types of KEDA's triggers that users may add.
	TriggerTypes []string
	// Network holds the rules of the Functions' NetworkPolicies; nil: there are none.
	Network *resources.NetworkRules
}

// DefaultOptions returns the settings of an installation that sets none.
func DefaultOptions() Options {
	return Options{
		RuntimeImages:           map[string]string{},
		PublisherAddress:        "http://rouse-eventbridge.rouse-system.svc.cluster.local/publish",
		ScalerAddress:           "rouse-scaler.rouse-system.svc.cluster.local:9000",
		PollingInterval:         10 * time.Second,
		CooldownPeriod:          60 * time.Second,
		InitialCooldownPeriod:   60 * time.Second,
		ScaleDownStabilization:  30 * time.Second,
		MaxConcurrentReconciles: 4,
		MaxRollouts:             10,
		TriggerTypes:            []string{"cpu", "memory", "cron"},
		Build:                   defaultBuildOptions(),
	}
}

// Flags implements flags.Options.
func (o *Options) Flags(fs *flags.Set) {
	fs.Map(&o.RuntimeImages, "runtime-image", "image of a runtime, as runtime=image; repeatable")
	for _, runtime := range slices.Sorted(maps.Keys(o.RuntimeImages)) {
		image := o.RuntimeImages[runtime]
		fs.Require(runtime != "" && strings.TrimSpace(image) != "", "--runtime-image must be runtime=image, is %q", runtime+"="+image)
	}
	fs.String(&o.PublisherAddress, "publisher-address", "URL at which Functions publish events").NotEmpty()
	fs.String(&o.TraceCollectorEndpoint, "trace-collector-endpoint", "URL to which Functions send traces; empty: none")
	_, known := resources.Profile(o.DefaultProfile)
	fs.String(&o.DefaultProfile, "default-profile",
		"resource profile of Functions that name none: XS, S, M, L or XL; empty: XS with up to two nodes, L with more").
		Must(known || o.DefaultProfile == "", "be XS, S, M, L or XL")
	fs.String(&o.ScalerAddress, "scaler-address", "host:port at which KEDA reaches the scaler").NotEmpty()
	fs.String(&o.ScalerAuthentication, "scaler-authentication",
		"ClusterTriggerAuthentication with which KEDA speaks TLS with the scaler; plain text when empty")
	fs.Bool(&o.ExternalMetrics, "external-metrics",
		"the scaler serves the External Metrics API: in a cluster without KEDA HPAs scale Functions by their events")
	fs.Duration(&o.PollingInterval, "scaling-polling-interval",
		"how often KEDA asks for a backlog, where the Function does not say").Between(time.Second, time.Hour)
	fs.Duration(&o.CooldownPeriod, "scaling-cooldown-period",
		"how long a Function without work stays awake, where it does not say").Between(0, 24*time.Hour)
	fs.Duration(&o.InitialCooldownPeriod, "scaling-initial-cooldown-period",
		"how long a new Function stays awake at least").Between(0, 24*time.Hour)
	fs.Duration(&o.ScaleDownStabilization, "scaling-down-stabilization",
		"how long a backlog must stay small before replicas are taken away").Between(0, time.Hour) // the HPA takes no more
	fs.Strings(&o.TriggerTypes, "trigger-types",
		"types of KEDA's triggers that Functions and Services may add by "+v1alpha2.AnnotationTriggers+": others have KEDA's operator send requests for users")
	fs.Int(&o.MaxConcurrentReconciles, "function-concurrent-reconciles", "how many Functions are worked on at a time").AtLeast(1)
	fs.Var(&networkRules{&o.Network}, "function-network-policy",
		"whom Functions may call and be called by, as JSON of a NetworkPolicy for each; empty: none, and those of before are deleted")
	fs.Int(&o.MaxRollouts, "settings-max-rollouts",
		"how many Functions that are awake replace their pods at a time when settings change").AtLeast(1)
	o.Build.Flags(fs)
}

// settings converts the options for the builders of objects.
func (o *Options) settings() *resources.Settings {
	return &resources.Settings{
		Images:                 maps.Clone(o.RuntimeImages),
		PublisherAddress:       o.PublisherAddress,
		PublisherAudience:      o.PublisherAudience,
		TraceCollectorEndpoint: o.TraceCollectorEndpoint,
		DefaultProfile:         o.DefaultProfile,
		Build:                  o.Build.settings(),
		Network:                o.Network,
		Scaling: resources.Scaling{
			ScalerAddress:          o.ScalerAddress,
			ScalerAuthentication:   o.ScalerAuthentication,
			InitialCooldownSeconds: seconds(o.InitialCooldownPeriod),
			ScaleDownSeconds:       seconds(o.ScaleDownStabilization),
			TriggerTypes:           slices.Clone(o.TriggerTypes),
			ExternalMetrics:        o.ExternalMetrics,
			HTTPWake:               o.HTTPWake,
			Defaults: workload.Tuning{
				PollingSeconds:  seconds(o.PollingInterval),
				CooldownSeconds: seconds(o.CooldownPeriod),
			},
		},
	}
}

func seconds(d time.Duration) int64 { return int64(d / time.Second) }

// BuildOptions configures builds.
type BuildOptions struct {
	// Builder is the image that contains the builder.
	Builder string
	// Profile is the build profile of Functions that name none.
	Profile string
	// MaxSimultaneous bounds the concurrent builds.
	MaxSimultaneous int
	// PerNamespace bounds the concurrent builds of one namespace; 0: half, rounded up.
	PerNamespace int
	// Deadline bounds the duration of one build.
	Deadline time.Duration
	// MaxImageSize bounds the size added to the runtime's image, before compression.
	MaxImageSize int64
	// VolumeSize bounds each volume of a build: the source, the dependencies with their package manager's files, and
	// the packed layer.
	VolumeSize int64
	// FIPS is the FIPS 140-3 mode of this process and of builds.
	FIPS fips.Mode
}

func defaultBuildOptions() BuildOptions {
	return BuildOptions{Profile: "normal", MaxSimultaneous: 5, Deadline: 15 * time.Minute, MaxImageSize: 1 << 30, VolumeSize: 4 << 30, FIPS: fips.Off}
}

// Flags implements flags.Options.
func (o *BuildOptions) Flags(fs *flags.Set) {
	fs.String(&o.Builder, "builder-image", "image of Rouse, which has the builder").
		Must(strings.TrimSpace(o.Builder) != "", "be the image of Rouse")
	_, known := resources.BuildProfile(o.Profile)
	fs.String(&o.Profile, "default-build-profile",
		"build profile of Functions that name none: local-dev, slow, normal or fast").Must(known, "be local-dev, slow, normal or fast")
	fs.Int(&o.MaxSimultaneous, "max-simultaneous-builds", "how many builds may run at a time").AtLeast(1)
	fs.Int(&o.PerNamespace, "builds-per-namespace", "how many of them one namespace may have at a time; 0: half of them, rounded up").
		Must(o.PerNamespace >= 0 && o.PerNamespace <= max(o.MaxSimultaneous, 0), "be between 0 and --max-simultaneous-builds")
	fs.Duration(&o.Deadline, "build-deadline", "how long one build may take").Between(time.Minute, 6*time.Hour)
	fs.Size(&o.MaxImageSize, "max-image-size",
		"how large dependencies and source may be together, before compression; 0: without a bound").AtLeast(0)
	fs.Size(&o.VolumeSize, "build-volume-size", "how much a build may have on the node's disk, in each of its volumes").MoreThan(0)
}

// Limits converts the options for the build queue. A build holds its slot while its pod is unschedulable, too.
func (o *BuildOptions) Limits() buildqueue.Limits {
	return buildqueue.Limits{Total: o.MaxSimultaneous, PerNamespace: o.PerNamespace, Longest: o.Deadline + unschedulableGrace}
}

// settings converts valid options for the builders of objects.
func (o *BuildOptions) settings() resources.BuildSettings {
	return resources.BuildSettings{
		Builder: o.Builder, Profile: o.Profile, DeadlineSeconds: seconds(o.Deadline), MaxImageSize: o.MaxImageSize,
		VolumeSize: *resource.NewQuantity(o.VolumeSize, resource.BinarySI), FIPS: o.FIPS,
	}
}

const (
	// smallCluster is the maximum number of nodes of a cluster whose Functions get the small profile by default.
	smallCluster = 2
	smallProfile = "XS"
	largeProfile = "L"
)

// chooseProfile fills in the default profile where the installation leaves it to the controller. Without the right to
// list nodes it is the large one.
func chooseProfile(ctx context.Context, mgr ctrl.Manager, options *Options) error {
	if options.DefaultProfile != "" {
		return nil
	}
	profile, err := profileFor(ctx, mgr.GetAPIReader())
	if apierrors.IsForbidden(err) {
		mgr.GetLogger().Error(err, "cannot list nodes, using the large default profile", "profile", largeProfile)
		options.DefaultProfile = largeProfile
		return nil
	}
	if err != nil {
		return err
	}
	mgr.GetLogger().Info("chose the default profile by the number of nodes", "profile", profile)
	options.DefaultProfile = profile
	return nil
}

// profileFor chooses the default profile by the size of the cluster. It is called once, at the start: adding or
// removing a node must not replace all pods.
func profileFor(ctx context.Context, reader client.Reader) (string, error) {
	nodes := &metav1.PartialObjectMetadataList{}
	nodes.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	if err := reader.List(ctx, nodes, client.Limit(smallCluster+1)); err != nil {
		return "", fmt.Errorf("count the nodes, for the default profile: %w", err)
	}
	if len(nodes.Items) <= smallCluster {
		return smallProfile, nil
	}
	return largeProfile, nil
}
