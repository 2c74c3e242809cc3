package function

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/controller/buildqueue"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/fips"
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
		Build:                   defaultBuildOptions(),
	}
}

// BindFlags binds the options to command-line flags.
func (o *Options) BindFlags(fs *pflag.FlagSet) {
	fs.StringToStringVar(&o.RuntimeImages, "runtime-image", o.RuntimeImages,
		"image of a runtime, as runtime=image; repeatable")
	fs.StringVar(&o.PublisherAddress, "publisher-address", o.PublisherAddress,
		"URL at which Functions publish events")
	fs.StringVar(&o.TraceCollectorEndpoint, "trace-collector-endpoint", o.TraceCollectorEndpoint,
		"URL to which Functions send traces; empty: none")
	fs.StringVar(&o.DefaultProfile, "default-profile", o.DefaultProfile,
		"resource profile of Functions that name none: XS, S, M, L or XL; empty: XS with up to two nodes, L with more")
	fs.StringVar(&o.ScalerAddress, "scaler-address", o.ScalerAddress,
		"host:port at which KEDA reaches the scaler")
	fs.StringVar(&o.ScalerAuthentication, "scaler-authentication", o.ScalerAuthentication,
		"ClusterTriggerAuthentication with which KEDA speaks TLS with the scaler; plain text when empty")
	fs.DurationVar(&o.PollingInterval, "scaling-polling-interval", o.PollingInterval,
		"how often KEDA asks for a backlog, where the Function does not say")
	fs.DurationVar(&o.CooldownPeriod, "scaling-cooldown-period", o.CooldownPeriod,
		"how long a Function without work stays awake, where it does not say")
	fs.DurationVar(&o.InitialCooldownPeriod, "scaling-initial-cooldown-period", o.InitialCooldownPeriod,
		"how long a new Function stays awake at least")
	fs.DurationVar(&o.ScaleDownStabilization, "scaling-down-stabilization", o.ScaleDownStabilization,
		"how long a backlog must stay small before replicas are taken away")
	fs.IntVar(&o.MaxConcurrentReconciles, "function-concurrent-reconciles", o.MaxConcurrentReconciles,
		"how many Functions are worked on at a time")
	fs.Var(&networkRules{&o.Network}, "function-network-policy",
		"whom Functions may call and be called by, as JSON of a NetworkPolicy for each; empty: none, and those of before are deleted")
	fs.IntVar(&o.MaxRollouts, "settings-max-rollouts", o.MaxRollouts,
		"how many Functions that are awake replace their pods at a time when settings change")
	o.Build.bindFlags(fs)
}

// Validate reports every invalid option.
func (o *Options) Validate() error {
	var problems []error
	refuse := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }

	for _, runtime := range slices.Sorted(maps.Keys(o.RuntimeImages)) {
		if runtime == "" || strings.TrimSpace(o.RuntimeImages[runtime]) == "" {
			refuse("--runtime-image %q: must be runtime=image", runtime+"="+o.RuntimeImages[runtime])
		}
	}
	if o.PublisherAddress == "" {
		refuse("--publisher-address: must not be empty")
	}
	if _, ok := resources.Profile(o.DefaultProfile); !ok && o.DefaultProfile != "" {
		refuse("--default-profile %q: must be XS, S, M, L or XL", o.DefaultProfile)
	}
	if o.ScalerAddress == "" {
		refuse("--scaler-address: must not be empty")
	}
	if o.MaxConcurrentReconciles < 1 {
		refuse("--function-concurrent-reconciles %d: must be at least 1", o.MaxConcurrentReconciles)
	}
	if o.MaxRollouts < 1 {
		refuse("--settings-max-rollouts %d: must be at least 1", o.MaxRollouts)
	}
	return errors.Join(append(problems, o.validateScaling(), o.Build.validate())...)
}

func (o *Options) validateScaling() error {
	var problems []error
	for _, bounded := range []struct {
		flag      string
		value     time.Duration
		low, high time.Duration
	}{
		{"--scaling-polling-interval", o.PollingInterval, time.Second, time.Hour},
		{"--scaling-cooldown-period", o.CooldownPeriod, 0, 24 * time.Hour},
		{"--scaling-initial-cooldown-period", o.InitialCooldownPeriod, 0, 24 * time.Hour},
		{"--scaling-down-stabilization", o.ScaleDownStabilization, 0, time.Hour}, // the HPA takes no more
	} {
		if bounded.value < bounded.low || bounded.value > bounded.high {
			problems = append(problems, fmt.Errorf("%s %s: must be between %s and %s",
				bounded.flag, bounded.value, bounded.low, bounded.high))
		}
	}
	return errors.Join(problems...)
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
	MaxImageSize string
	// VolumeSize bounds each volume of a build: the source, the dependencies with their package manager's files, and
	// the packed layer.
	VolumeSize string
	// FIPS is the FIPS 140-3 mode of this process and of builds.
	FIPS fips.Mode
}

func defaultBuildOptions() BuildOptions {
	return BuildOptions{Profile: "normal", MaxSimultaneous: 5, Deadline: 15 * time.Minute, MaxImageSize: "1Gi", VolumeSize: "4Gi", FIPS: fips.Off}
}

func (o *BuildOptions) bindFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Builder, "builder-image", o.Builder, "image of Rouse, which has the builder")
	fs.StringVar(&o.Profile, "default-build-profile", o.Profile,
		"build profile of Functions that name none: local-dev, slow, normal or fast")
	fs.IntVar(&o.MaxSimultaneous, "max-simultaneous-builds", o.MaxSimultaneous, "how many builds may run at a time")
	fs.IntVar(&o.PerNamespace, "builds-per-namespace", o.PerNamespace,
		"how many of them one namespace may have at a time; 0: half of them, rounded up")
	fs.DurationVar(&o.Deadline, "build-deadline", o.Deadline, "how long one build may take")
	fs.StringVar(&o.MaxImageSize, "max-image-size", o.MaxImageSize,
		"how large dependencies and source may be together, before compression; 0: without a bound")
	fs.StringVar(&o.VolumeSize, "build-volume-size", o.VolumeSize, "how much a build may have on the node's disk, in each of its volumes")
}

func (o *BuildOptions) validate() error {
	var problems []error
	refuse := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if strings.TrimSpace(o.Builder) == "" {
		refuse("--builder-image: must be the image of Rouse")
	}
	if _, ok := resources.BuildProfile(o.Profile); !ok {
		refuse("--default-build-profile %q: must be local-dev, slow, normal or fast", o.Profile)
	}
	if o.MaxSimultaneous < 1 {
		refuse("--max-simultaneous-builds %d: must be at least 1", o.MaxSimultaneous)
	}
	if o.PerNamespace < 0 || o.PerNamespace > max(o.MaxSimultaneous, 0) {
		refuse("--builds-per-namespace %d: must be between 0 and --max-simultaneous-builds", o.PerNamespace)
	}
	if o.Deadline < time.Minute || o.Deadline > 6*time.Hour {
		refuse("--build-deadline %s: must be between 1m and 6h", o.Deadline)
	}
	if size, err := resource.ParseQuantity(o.MaxImageSize); err != nil || size.Sign() < 0 {
		refuse("--max-image-size %q: must be a size such as 500Mi, or 0", o.MaxImageSize)
	}
	if size, err := resource.ParseQuantity(o.VolumeSize); err != nil || size.Sign() <= 0 {
		refuse("--build-volume-size %q: must be a size such as 4Gi", o.VolumeSize)
	}
	return errors.Join(problems...)
}

// Limits converts the options for the build queue. A build holds its slot while its pod is unschedulable, too.
func (o *BuildOptions) Limits() buildqueue.Limits {
	return buildqueue.Limits{Total: o.MaxSimultaneous, PerNamespace: o.PerNamespace, Longest: o.Deadline + unschedulableGrace}
}

// settings converts valid options for the builders of objects.
func (o *BuildOptions) settings() resources.BuildSettings {
	size := resource.MustParse(o.MaxImageSize)
	return resources.BuildSettings{
		Builder: o.Builder, Profile: o.Profile, DeadlineSeconds: seconds(o.Deadline), MaxImageSize: size.Value(),
		VolumeSize: resource.MustParse(o.VolumeSize), FIPS: o.FIPS,
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
