package build

// Where the builder finds what it works with, and how the controller mounts it.
const (
	// BinaryDir is an empty volume into which the builder copies itself, so that the next container, which is
	// the runtime's image, can run it.
	BinaryDir = "/rouse/bin"
	// InputDir is a Secret with PlanFile and, where the installation has one, CAFile.
	InputDir = "/rouse/input"
	PlanFile = "plan.json"
	// CAFile has the PEM certificates that are trusted besides those of the image.
	CAFile = "ca.crt"
	// RegistryDir is a Secret with the file config.json of Docker: credentials of the registries.
	RegistryDir = "/rouse/registry"
	// GitDir is the Secret of spec.source.gitRepository.auth, one file for each key.
	GitDir = "/rouse/git"
	// PackagesDir is the Secret serverless-package-registry-config: .npmrc, pip.conf or both.
	PackagesDir = "/rouse/packages"
	// WorkDir is an empty volume for everything else.
	WorkDir = "/rouse/work"
)

// FunctionDir is where a runtime looks for the handler and its dependencies, in the image as in the pod.
func FunctionDir(python bool) string {
	if python {
		return "/kubeless"
	}
	return "/usr/src/app/function"
}

// PythonPackages is the directory of Python's dependencies, below FunctionDir.
const PythonPackages = ".local"
