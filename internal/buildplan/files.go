package buildplan

// Where the builder finds what it works with, and how the controller mounts it. Each Secret is mounted into the one
// container that needs it: GitDir where the source is fetched, PackagesDir where packages are installed, and
// RegistryDir where the image is pushed.
const (
	// BinaryDir is an empty volume into which the builder copies itself, so that the container that installs, which
	// is the runtime's image, can run it.
	BinaryDir = "/rouse/bin"
	// InputDir is a Secret with PlanFile and, where the installation has one, CAFile. It holds no credentials.
	InputDir = "/rouse/input"
	PlanFile = "plan.json"
	// CAFile has the PEM certificates that are trusted besides those of the image.
	CAFile = "ca.crt"
	// GitDir is the Secret of spec.source.gitRepository.auth, one file for each key.
	GitDir = "/rouse/git"
	// SourceDir is an empty volume with the source of a repository.
	SourceDir = "/rouse/source"
	// PackagesDir is the Secret serverless-package-registry-config: settings of package managers.
	PackagesDir = "/rouse/packages"
	// RegistryDir is a Secret with the file config.json of Docker: credentials of the registries.
	RegistryDir = "/rouse/registry"
	// HandoverDir is an empty volume with HandoverSocket, through which the finished layer goes to the container that
	// pushes. Nothing else is shared with that one.
	HandoverDir    = "/rouse/handover"
	HandoverSocket = "layer.sock"
	// WorkDir is an empty volume of one container alone, for everything else.
	WorkDir = "/rouse/work"
)
