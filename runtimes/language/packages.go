package language

import (
	"regexp"
)

// PackageManager installs the dependencies of Functions.
type PackageManager struct {
	// Program is the package manager, or what runs it, in the runtime's image.
	Program string
	// Manifest is the file that names dependencies.
	Manifest string
	// Dir is the directory of installed packages, below that of the manifest.
	Dir string
	// Settings is the file of the package manager's settings, also in the Secret of private packages.
	Settings string
	// Locks are further files that decide what is installed, where they are beside the manifest.
	Locks []string
	// Outward are manifests that depend on yet other files of the source.
	Outward *regexp.Regexp
	// Unstable are files that differ between two runs, by their path below the Function's directory. No runtime reads them.
	Unstable []string

	// Validate says what is wrong with a manifest, empty for nothing; nil: the package manager says it.
	Validate func(manifest string) string
	// Matters reports whether a manifest makes a difference to the Function. Tools write some without any entry, too.
	Matters func(manifest string) bool
	// Needed reports whether a manifest leaves anything to do for the package manager; nil: any that is not blank does.
	Needed func(manifest []byte) bool
	// Install is how the package manager is started.
	Install func(Installation) Command
	// Classify finds out why the package manager failed.
	Classify func(Failed) (Reason, string)
}

// Installation is what to install, where and with what.
type Installation struct {
	// Program is the package manager, or what runs it.
	Program string
	// Dir has the manifest and gets the packages.
	Dir string
	// Settings is the file of the package manager's settings; empty: there are none.
	Settings string
	// Work is a folder for what the package manager leaves behind.
	Work string
	// Cache is the folder where downloads are kept; empty: the package manager's own.
	Cache string
	// Discard keeps no downloads.
	Discard bool
	// Has reports whether a file is in Dir.
	Has func(name string) bool
}

// Command is a package manager to start in the directory of the manifest.
type Command struct {
	Line []string
	// Env is added to the environment, NAME=value.
	Env []string
	// Log is a file with more than the package manager prints; empty: there is none.
	Log string
}
