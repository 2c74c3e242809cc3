package process

// Command is what to run.
type Command struct {
	// Path is the program, absolute.
	Path string
	// Args come after the program's name.
	Args []string
	// Env is the whole environment. FUNC_PORT and FUNC_READY_FD are added to it.
	Env []string
	// Dir is where the program starts.
	Dir string
}
