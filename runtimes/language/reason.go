package language

// Reason classifies why a build failed.
type Reason string

// Reasons why a build fails. The first group is for the user of the Function to repair, the second is transient.
const (
	InvalidDependencies Reason = "InvalidDependencies" // the manifest cannot be parsed, or contradicts itself
	PackageNotFound     Reason = "PackageNotFound"     // no such package, or no version that fits
	PackageForbidden    Reason = "PackageForbidden"    // the package registry requires other credentials
	CompilerMissing     Reason = "CompilerMissing"     // a package has no binary and the image no compiler
	InstallFailed       Reason = "InstallFailed"       // the package manager failed for another reason
	SourceInvalid       Reason = "SourceInvalid"       // the source does not compile, or there is no handler
	SourceUnavailable   Reason = "SourceUnavailable"   // the repository, commit or directory cannot be read
	ImageTooLarge       Reason = "ImageTooLarge"       // the layer exceeds the limit of the installation
	RegistryForbidden   Reason = "RegistryForbidden"   // the registry requires other credentials
	OutOfMemory         Reason = "OutOfMemory"         // the build needs a larger build profile
	BaseUnavailable     Reason = "BaseUnavailable"     // the runtime's image cannot be read

	SourceUnreachable   Reason = "SourceUnreachable"   // the repository does not respond
	PackagesUnreachable Reason = "PackagesUnreachable" // the package registry does not respond
	RegistryUnavailable Reason = "RegistryUnavailable" // the registry does not respond
	RegistryFull        Reason = "RegistryFull"        // the registry has no space
	Interrupted         Reason = "Interrupted"         // the build was stopped, or took too long
)

// Transient reports whether the same build may succeed later without any change.
func (r Reason) Transient() bool {
	switch r {
	case SourceUnreachable, PackagesUnreachable, RegistryUnavailable, RegistryFull, Interrupted:
		return true
	default:
		return false
	}
}
