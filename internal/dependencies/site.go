package dependencies

// Site is where dependencies are installed: its name, and what its user does about what is missing there.
type Site struct {
	name        string
	credentials string
	compiler    string
	trust       string
	manager     string
	memory      string
	space       string
	later       string
}

// Image is the image of a runtime, in which a build runs.
func Image() Site {
	return Site{
		name:        "the runtime's image",
		credentials: "put credentials into the Secret serverless-package-registry-config of the Function's namespace",
		compiler:    "use a package or version that brings a binary for this platform, or a runtimeImageOverride that has compilers",
		trust:       "add the certificate of its authority to the installation's caBundle",
		manager:     "use a runtimeImageOverride that has it",
		memory:      "choose a larger build profile in spec.resourceConfiguration.build",
		space:       "the dependencies do not fit into the build's volume; depend on less, or ask the operator for a larger one",
		later:       "it is tried again",
	}
}

// Machine is the developer's own machine.
func Machine() Site {
	return Site{
		name: "this machine",
		credentials: "put credentials into the Secret serverless-package-registry-config of the Function's namespace, " +
			"or into your own .npmrc or pip.conf",
		compiler: "use a package or version that brings a binary for this platform, or install a compiler; images of the runtimes have none",
		trust:    "set NODE_EXTRA_CA_CERTS for npm or PIP_CERT for pip to a file with the certificate of its authority",
		manager:  "install it: npm comes with Node.js, and pip is the package python3-pip of Debian and Ubuntu",
		memory:   "end other programs",
		space:    "the disk is full; free space on it",
		later:    "once it does, save the file of the Function to try again",
	}
}
