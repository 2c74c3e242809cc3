package language

// Local is how local mode runs a language on a developer's machine.
type Local struct {
	// Program is looked for in the PATH: an interpreter or a compiler. Flag is that of `rouse dev` which names another.
	Program, Flag string
	// Probe are its arguments to print, as a JSON array, where it really is, past the scripts of version managers, its
	// version, and all that code compiled by it depends on.
	Probe []string
	// ReadProbe takes the same from another form of output; nil: it is that array.
	ReadProbe func(output string) (path, version, made string)
	// Versioned names a program of the PATH that a runtime prefers to Program where it is of the runtime's version, with arguments
	// in place of Probe that fail where it lacks its package manager; nil: there are no such names.
	Versioned func(runtime string) (program string, probe []string)
	// Least is the oldest version that works: major and minor.
	Least [2]int
	// Remedy says how to get one.
	Remedy string
	// VersionParts is how much of a version the names of runtimes have: 1 for 22, 2 for 3.12.
	VersionParts int
	// Manager is the package manager that lies beside Program or in the PATH; empty: Program itself.
	Manager string
	// ManagerRemedy says where the package manager comes from.
	ManagerRemedy string
	// TrustVariable names the variable with the file of certificates that the package manager trusts.
	TrustVariable string

	// Entry are the arguments that start the server in a folder; nil for one that is compiled into the Function's binary.
	Entry func(server string) []string
	// LayerKnowsItsPlace means that layer.sh wants to know where its tree will lie.
	LayerKnowsItsPlace bool
	// Environment is what the runtime's image has, and what suits one machine for many Functions.
	Environment []Variable
	// SlowBefore are variables of the machine that are not handed on before a major version, since they slow each start.
	SlowBefore map[string]int
	// ServerPackages are the packages of the server that handlers find above their own directory; empty: they find them by
	// themselves.
	ServerPackages string
	// Bytecode are the arguments that compile the packages below dir, which will lie in final; nil: there is no bytecode.
	Bytecode func(dir, final string) []string
	// Watched means that a handler which loops keeps the server from answering, so that it has to be asked from outside.
	Watched bool

	Debugger Debugger
}

// Debugger is how a Function is started under one that waits for no client. Without Args local mode knows none.
type Debugger struct {
	// Port is the one that editors try first.
	Port int
	// Name, Manifest and Script are of a debugger to install, with a script that starts it; empty: the language brings one.
	Name, Manifest, Script, ScriptFile string
	// Args are the arguments that start the server under the debugger, which is in the folder installed.
	Args func(address, installed string, entry []string) []string
	// Map has debuggers and stack traces show the file in which the user wrote a source, from its line on.
	Map func(source, origin string, line int) (string, error)
}
