package builder

import (
	"io"
	"strings"

	"github.com/go-logr/logr"

	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/internal/flags"
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

// Flags declares a flag for each directory.
func (o *Options) Flags(fs *flags.Set) {
	fs.String(&o.Input, "input-dir", "directory with "+buildplan.PlanFile+" and, where there is one, "+buildplan.CAFile).NotEmpty()
	fs.String(&o.Source, "source-dir", "directory of the source that was fetched from a repository").NotEmpty()
	fs.String(&o.Handover, "handover-dir", "directory through which the layer goes from install to push").NotEmpty()
	fs.String(&o.Registry, "registry-dir", "directory with config.json, the credentials of the registries")
	fs.String(&o.Packages, "packages-dir", "directory with the settings of package managers: "+strings.Join(settings(), ", "))
	fs.String(&o.Work, "work-dir", "directory for everything that is made").NotEmpty()
	fs.String(&o.Cache, "cache-dir", "directory where package managers keep what they downloaded; empty: nowhere")
	fs.String(&o.Function, "function-dir", "directory that prepare fills; empty: where the runtime looks")
	fs.String(&o.Server, "server-dir", "directory of the server with which sources are compiled; empty: where the runtime's image has it")
}

// Deps holds the dependencies of the builder.
type Deps struct {
	Git Git
	// Output receives the output of the package manager.
	Output io.Writer
	Log    logr.Logger
}
