package gitpoll

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"
)

// Options of a Tracker.
type Options struct {
	// CheckInterval is how often a repository is asked.
	CheckInterval time.Duration
}

// DefaultOptions are the settings of an installation that sets none.
func DefaultOptions() Options { return Options{CheckInterval: 30 * time.Second} }

// BindFlags lets command-line flags change the settings.
func (o *Options) BindFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&o.CheckInterval, "git-check-interval", o.CheckInterval,
		"how often a Git repository is asked whether its branches have moved")
}

// Validate finds what is wrong with the settings.
func (o *Options) Validate() error {
	if o.CheckInterval < 5*time.Second || o.CheckInterval > 24*time.Hour {
		return fmt.Errorf("--git-check-interval %s: must be between 5s and 24h", o.CheckInterval)
	}
	return nil
}
