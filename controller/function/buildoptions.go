package function

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rouse-run/rouse/controller/buildqueue"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/fips"
)

// BuildOptions are the settings of builds.
type BuildOptions struct {
	// Builder is the image that has the builder.
	Builder string
	// Profile is the build profile of Functions that name none.
	Profile string
	// MaxSimultaneous is how many builds may run at a time.
	MaxSimultaneous int
	// PerNamespace is how many of them one namespace may have; 0: half, rounded up.
	PerNamespace int
	// Deadline is how long one build may take.
	Deadline time.Duration
	// MaxImageSize bounds what is added to the runtime's image before compression.
	MaxImageSize string
	// VolumeSize bounds each volume in which a build works: the source, the
	// dependencies with what their package manager leaves, and the packed layer.
	VolumeSize string
	// FIPS is the mode of FIPS 140-3 in which this process runs, and so do builds.
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

// Limits are the options in the form that the queue of builds takes. A build holds
// its slot also while its pod is unschedulable.
func (o *BuildOptions) Limits() buildqueue.Limits {
	return buildqueue.Limits{Total: o.MaxSimultaneous, PerNamespace: o.PerNamespace, Longest: o.Deadline + unschedulableGrace}
}

// settings are the options in the form that the builders of objects take; they
// are valid.
func (o *BuildOptions) settings() resources.BuildSettings {
	size := resource.MustParse(o.MaxImageSize)
	return resources.BuildSettings{
		Builder: o.Builder, Profile: o.Profile, DeadlineSeconds: seconds(o.Deadline), MaxImageSize: size.Value(),
		VolumeSize: resource.MustParse(o.VolumeSize), FIPS: o.FIPS,
	}
}
