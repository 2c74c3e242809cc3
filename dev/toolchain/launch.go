package toolchain

import (
	corev1 "k8s.io/api/core/v1"
)

// Launch is how a Function is started. The process listens at FUNC_PORT, and sends its port through
// FUNC_READY_FD; the caller that starts it sets both.
type Launch struct {
	// Path is the program, absolute.
	Path string
	// Args come after the program's name.
	Args []string
	// Env is the whole environment, but for FUNC_PORT and FUNC_READY_FD.
	Env []string
	// Dir is where the process starts.
	Dir string
	// Cache is the folder that servers and packages come from, absolute.
	Cache string
	// Identity changes with anything that the process is made of.
	Identity string
	// DebugAddress is where a debugger connects, host:port; empty without Inputs.Debug.
	DebugAddress string
}

// Inputs are what a Function is given beside its own resource.
type Inputs struct {
	// PublisherAddress is the URL that events are published to.
	PublisherAddress string
	// State is a folder of the local mode, which outlives it.
	State      string
	ConfigMaps []*corev1.ConfigMap
	Secrets    []*corev1.Secret
	// Debug starts the Function under a debugger that waits for no client.
	Debug bool
}
