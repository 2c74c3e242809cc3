package builder

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"

	"github.com/rouse-run/rouse/internal/buildplan"
)

// Options are the directories of the builder.
type Options struct {
	Input    string // directory of the plan
	Source   string // directory of a repository's source, which Fetch fills
	Packages string // directory of the settings of package managers
	Registry string // directory of the registries' credentials
	Handover string // directory through which Install gives the layer to Push
	Work     string // directory for everything that is made
	Cache    string // directory of packages that outlives the build; empty: nothing is kept
	Function string // directory that prepare fills; empty: the runtime's own
	Server   string // directory of the runtime's server, with which sources are compiled; empty: the runtime's own
}

// DefaultOptions returns the directories that a build Job mounts.
func DefaultOptions() Options {
	return Options{
		Input: buildplan.InputDir, Source: buildplan.SourceDir, Packages: buildplan.PackagesDir, Registry: buildplan.RegistryDir,
		Handover: buildplan.HandoverDir, Work: buildplan.WorkDir,
	}
}

// BindFlags adds a flag for each directory.
func (o *Options) BindFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Input, "input-dir", o.Input, "directory with "+buildplan.PlanFile+" and, where there is one, "+buildplan.CAFile)
	fs.StringVar(&o.Source, "source-dir", o.Source, "directory of the source that was fetched from a repository")
	fs.StringVar(&o.Handover, "handover-dir", o.Handover, "directory through which the layer goes from install to push")
	fs.StringVar(&o.Registry, "registry-dir", o.Registry, "directory with config.json, the credentials of the registries")
	fs.StringVar(&o.Packages, "packages-dir", o.Packages, "directory with the settings of package managers: "+strings.Join(settings(), ", "))
	fs.StringVar(&o.Work, "work-dir", o.Work, "directory for everything that is made")
	fs.StringVar(&o.Cache, "cache-dir", o.Cache, "directory where package managers keep what they downloaded; empty: nowhere")
	fs.StringVar(&o.Function, "function-dir", o.Function, "directory that prepare fills; empty: where the runtime looks")
	fs.StringVar(&o.Server, "server-dir", o.Server, "directory of the server with which sources are compiled; empty: where the runtime's image has it")
}

// Validate returns an error for each missing flag.
func (o *Options) Validate() error {
	var errs []error
	needed := map[string]string{"input-dir": o.Input, "source-dir": o.Source, "handover-dir": o.Handover, "work-dir": o.Work}
	for flag, value := range needed {
		if value == "" {
			errs = append(errs, fmt.Errorf("--%s: must not be empty", flag))
		}
	}
	return errors.Join(errs...)
}

// Deps holds the dependencies of the builder.
type Deps struct {
	Git Git
	// Output receives the output of the package manager.
	Output io.Writer
	Log    logr.Logger
}
