package daemon

import "runtime/debug"

// version is set by the linker: -X github.com/rouse-run/rouse/internal/daemon.version=v1.2.3.
var version string

// Version is what this binary calls itself: the linked version, else the module's, else "devel".
func Version() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}
