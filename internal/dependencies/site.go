package dependencies

import "github.com/rouse-run/rouse/runtimes/language"

// Image is the image of a runtime, in which a build runs.
func Image() language.Site {
	return language.Site{
		Name:        "the runtime's image",
		Credentials: "put credentials into the Secret serverless-package-registry-config of the Function's namespace",
		Compiler:    "use a package or version that brings a binary for this platform, or a runtimeImageOverride that has compilers",
		Trust:       "add the certificate of its authority to the installation's caBundle",
		Manager:     "use a runtimeImageOverride that has it",
		Memory:      "choose a larger build profile in spec.resourceConfiguration.build",
		Space:       "the dependencies do not fit into the build's volume; depend on less, or ask the operator for a larger one",
		Later:       "it is tried again",
	}
}

// Machine is the developer's own machine.
func Machine(of *language.Language) language.Site {
	return language.Site{
		Name: "this machine",
		Credentials: "put credentials into the Secret serverless-package-registry-config of the Function's namespace, " +
			"or into your own " + of.Packages.Settings,
		Compiler: "use a package or version that brings a binary for this platform, or install a compiler; images of the runtimes have none",
		Trust:    "set " + of.Local.TrustVariable + " to a file with the certificate of its authority",
		Manager:  "install it: " + of.Local.ManagerRemedy,
		Memory:   "end other programs",
		Space:    "the disk is full; free space on it",
		Later:    "once it does, save the file of the Function to try again",
	}
}
