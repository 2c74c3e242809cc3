package images

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
)

// Options of a Collector.
type Options struct {
	// RegistryDeployment is the Deployment of the internal registry in the release's namespace. Empty: nothing
	// is collected.
	RegistryDeployment string
	// Interval is how often garbage is looked for.
	Interval time.Duration
	// Grace is how long an image has to be unused before it goes.
	Grace time.Duration
}

// DefaultOptions are the settings of an installation that sets none.
func DefaultOptions() Options { return Options{Interval: time.Hour, Grace: time.Hour} }

// BindFlags lets command-line flags change the settings.
func (o *Options) BindFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.RegistryDeployment, "image-gc-registry", o.RegistryDeployment,
		"Deployment of the internal registry whose unused images are deleted; empty: none")
	fs.DurationVar(&o.Interval, "image-gc-interval", o.Interval, "how often unused images are looked for")
	fs.DurationVar(&o.Grace, "image-gc-grace", o.Grace, "how long an image has to be unused before it is deleted")
}

// Validate finds everything that is wrong with the settings.
func (o *Options) Validate() error {
	var problems []error
	if o.Interval < time.Second || o.Interval > 24*time.Hour {
		problems = append(problems, fmt.Errorf("--image-gc-interval %s: must be between 1s and 24h", o.Interval))
	}
	if o.Grace < 0 {
		problems = append(problems, fmt.Errorf("--image-gc-grace %s: must not be negative", o.Grace))
	}
	return errors.Join(problems...)
}
