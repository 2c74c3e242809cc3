package language

import (
	"regexp"
	"slices"
	"strings"
)

// Language describes everything that differs between the languages of Functions.
type Language struct {
	// Name is the prefix of its runtimes' names: nodejs of nodejs22.
	Name string
	// Folder is its folder below runtimes/.
	Folder string
	// Title is its name in messages.
	Title string
	// Runtimes lists the supported runtimes, oldest first.
	Runtimes []Runtime
	// Default is the runtime for Name without a version.
	Default string

	// FunctionDir is the directory of the handler and its dependencies, in the image and in the pod.
	FunctionDir string
	// Environment lists the variables of every pod of the language, before the user's.
	Environment []Variable
	// StartVariables lists the prefixes of the variables that have an effect only when a process starts with them.
	StartVariables []string
	// BuildEnvironment lists the variables of builds, NAME=value.
	BuildEnvironment []string
	// BuildHome holds the files in HOME of builds, by relative path.
	BuildHome map[string]string

	// Handler is the file of inline source, and the first that the runtime searches for.
	Handler string
	// OtherHandlers returns the other files that the runtime searches for, in order; nil for none.
	OtherHandlers func(manifest []byte) []Candidate
	// Check returns the error in the text of a handler, or an empty string; nil when the build finds errors.
	Check func(source Source, compiler Compiler) string

	Packages PackageManager
	// Bytecode is nil for a language without bytecode.
	Bytecode *Bytecode
	// Compiled is nil for an interpreted language.
	Compiled *Compiled
	// Bundled is nil for a language whose handlers are loaded as they are written.
	Bundled *Bundled
	// Packed returns a handler that contains the files of a source and runs the handler among them, for a copy that needs no build; nil:
	// there is no such handler.
	Packed func(handler string, text map[string]string, binary map[string][]byte) string
	Local  Local
	// Ejected is how a Function is built without Rouse.
	Ejected Ejected
	// Types makes types from the shapes of events; its zero value: the language has none.
	Types TypesOf
	// Kyma is nil for a language that Kyma does not have.
	Kyma     *Kyma
	Scaffold Scaffold
}

// Runtime is a version of a language.
type Runtime struct {
	// Name is the value of spec.runtime.
	Name string
	// Deprecated causes a warning.
	Deprecated bool
	// NoFIPS runtimes are refused where FIPS 140-3 is required: no base of their interpreters has a validated module.
	NoFIPS bool
	// Modern handlers have the signature of the language's web library instead of main(event, context).
	Modern bool
}

// Variable is an environment variable.
type Variable struct{ Name, Value string }

// Candidate is a file that may be the handler.
type Candidate struct {
	File string
	// NamedBy is the setting that names it, for messages; empty for a fixed name.
	NamedBy string
}

// Source is the text of a handler.
type Source struct {
	File, Text string
	Manifest   []byte // the dependency file next to it
}

// Compiler runs a program with the handler's text on standard input, and returns its error message.
type Compiler func(line ...string) string

// Bytecode describes the compilation of source to bytecode.
type Bytecode struct {
	// Extension is the extension of source files.
	Extension string
	// Compile returns the command line that compiles files below dir, which is moved to final.
	Compile func(dir, final string, files []string) []string
}

// Kyma holds the settings of images with Kyma's contract.
type Kyma struct {
	// Script is process 1 of the pod until the server takes its place.
	Script string
	// Environment returns the variables with the path of the handler.
	Environment func(runtime string) []Variable
	// WritableDir is a directory that the image's server or package manager writes to; empty for none.
	WritableDir string
	// Server describes the requirement on the image, after "a server that".
	Server string
}

// Scaffold holds the templates of `rouse init`.
type Scaffold struct {
	Test         string // file of the handler's test
	TestKit      string // file that makes events for the test; empty where the language brings what a test needs
	TestCommand  string
	LaunchConfig string // template of the debugger's configuration; empty for none
	// Typed is the variant with types; nil for none.
	Typed *TypedScaffold
}

// TypedScaffold holds the templates of `rouse init --typescript`.
type TypedScaffold struct {
	Handler, Test, TestCommand string
	// Files are further files of the source, and Others files beside it.
	Files, Others []string
}

// Has reports whether a runtime is one of the language, including versions that are not listed: Functions of a removed runtime may exist.
func (l *Language) Has(runtime string) bool {
	version, found := strings.CutPrefix(runtime, l.Name)
	return found && version != "" && strings.Trim(version, "0123456789") == ""
}

// Runtime returns the runtime with the name. It contains only the name when it is not listed.
func (l *Language) Runtime(name string) Runtime {
	if i := slices.IndexFunc(l.Runtimes, func(r Runtime) bool { return r.Name == name }); i >= 0 {
		return l.Runtimes[i]
	}
	return Runtime{Name: name}
}

// Handlers returns the files that the runtime searches for the handler, in order.
func (l *Language) Handlers(manifest []byte) []Candidate {
	candidates := []Candidate{{File: l.Handler}}
	if l.OtherHandlers != nil {
		candidates = append(candidates, l.OtherHandlers(manifest)...)
	}
	return candidates
}

// Site is the place where dependencies are installed: its name, and the remedies for missing programs.
type Site struct {
	Name        string
	Credentials string
	Compiler    string
	Trust       string
	Manager     string
	Memory      string
	Space       string
	Later       string
}

// Compiled describes the compilation of source to a binary, the only content of the Function's image. It is compiled in the runtime's image.
type Compiled struct {
	// Binary is the executable in the Function's directory.
	Binary string
	// ServerDir is the directory of the server's sources in the runtime's image.
	ServerDir string
	// ObjectsDir is a subfolder with precompiled objects; empty: none.
	ObjectsDir string
	// Project returns the files to write before the compilation, by their paths below the project's folder, whose SourceDir holds the source, or
	// the error in the source.
	Project func(Project) (files map[string]string, problem string)
	// Build returns the command of the compiler, which runs in MainDir of the project's folder.
	Build func(Compilation) Command
}

// The folders of a project.
const (
	SourceDir = "source"
	MainDir   = "main"
)

// Project is a source to compile.
type Project struct {
	// Names are the files of the source, with slashes.
	Names []string
	// Read returns the text of a file.
	Read func(name string) string
	// Server is the folder with the sources of the runtime's server.
	Server string
	// Manifest is the name of the dependency file in messages.
	Manifest string
}

// Compilation holds the parameters of a compilation.
type Compilation struct {
	// Program is the compiler.
	Program string
	// Binary is the output file.
	Binary string
	// Settings is the file with the package manager's settings; empty for none.
	Settings string
	// Modules is a folder for downloads; empty for the machine's default.
	Modules string
	// Objects is a folder for compiled objects; empty for the machine's default.
	Objects string
}

// Bundled describes handlers that are compiled, with the files that they import, to one script that the runtime loads.
type Bundled struct {
	// Entry returns the handler to compile, empty when the runtime loads the source as it is, or the error in the source.
	Entry func(has func(name string) bool, manifest []byte) (entry, problem string)
	// Script is the name of the compiled script, and Module that of one that can only be a module.
	Script, Module string
	// Manifest returns a dependency file for the script, which is none of a module.
	Manifest func(manifest string) string
	// Aside reports whether no handler reads a file when it runs: settings of compilers and package managers, types, tests, notes.
	Aside func(name string) bool
}

// Ejected describes a folder that builds and runs a Function without Rouse. It has the Function's source in SourceDir, and for a compiled
// language the main module in MainDir.
type Ejected struct {
	// Server is the folder with the sources of the runtime's server, and Files are further files by their paths.
	Server string
	Files  map[string]string
	// Dockerfile builds the image; %s stands for the version of the runtime's base.
	Dockerfile string
	// Base returns that version.
	Base func(runtime string) string
	// Run are the lines of a shell script that build and run the Function on a machine.
	Run string
}

// Local describes how local mode runs a language on a developer's machine.
type Local struct {
	// Program is the interpreter or compiler in the PATH. Flag is the flag of `rouse dev` that replaces it.
	Program, Flag string
	// Probe are the arguments that print, as a JSON array, the interpreter's real path, bypassing the scripts of
	// version managers, its version, and the key on which compiled code depends.
	Probe []string
	// ReadProbe parses another form of output; nil for that array.
	ReadProbe func(output string) (path, version, made string)
	// Versioned returns a program in the PATH that is preferred to Program for a runtime if it has the runtime's
	// version, and arguments in place of Probe that fail if it lacks its package manager; nil: there are no such
	// programs.
	Versioned func(runtime string) (program string, probe []string)
	// Least is the oldest supported version: major and minor.
	Least [2]int
	// Remedy describes how to install one.
	Remedy string
	// VersionParts is the number of version parts in the names of runtimes: 1 for 22, 2 for 3.12.
	VersionParts int
	// Manager is the package manager next to Program or in the PATH; empty for Program itself.
	Manager string
	// ManagerRemedy describes how to install the package manager.
	ManagerRemedy string
	// TrustVariable names the variable with the file of certificates that the package manager trusts.
	TrustVariable string

	// Entry returns the arguments that start the server in a folder; nil for a server that is compiled into the Function's binary.
	Entry func(server string) []string
	// LayerKnowsItsPlace reports that layer.sh needs the final path of its tree.
	LayerKnowsItsPlace bool
	// Environment lists the variables of the runtime's image, adapted to a machine with many Functions.
	Environment []Variable
	// SlowBefore holds variables of the machine that are dropped before a major version, because they slow down each start.
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

// PackageManager installs the dependencies of Functions.
type PackageManager struct {
	// Program is the package manager, or the program that runs it, in the runtime's image.
	Program string
	// Manifest is the file that names dependencies.
	Manifest string
	// Dir is the directory of installed packages, below that of the manifest.
	Dir string
	// Settings is the file of the package manager's settings, also in the Secret of private packages.
	Settings string
	// Locks are further files beside the manifest that determine the installed versions.
	Locks []string
	// Outward matches manifests that depend on other files of the source.
	Outward *regexp.Regexp
	// Unstable are files that differ between two runs, relative to the Function's directory. Runtimes do not read them.
	Unstable []string

	// Validate returns the error in a manifest, or an empty string; nil: the package manager reports errors.
	Validate func(manifest string) string
	// Matters reports whether a manifest affects the Function. Some tools write empty ones.
	Matters func(manifest string) bool
	// Needed reports whether the package manager has work to do for a manifest; nil: for any manifest that is not
	// blank.
	Needed func(manifest []byte) bool
	// Install returns the command of the package manager.
	Install func(Installation) Command
	// Classify classifies the failure of the package manager.
	Classify func(Failed) (Reason, string)
}

// Installation holds the parameters of an installation.
type Installation struct {
	// Program is the package manager, or the program that runs it.
	Program string
	// Dir contains the manifest, and receives the packages.
	Dir string
	// Settings is the file with the package manager's settings; empty for none.
	Settings string
	// Work is a folder for temporary files of the package manager.
	Work string
	// Cache is the folder of the download cache; empty: the package manager's own.
	Cache string
	// Discard disables the download cache.
	Discard bool
	// Has reports whether a file is in Dir.
	Has func(name string) bool
}

// Command is a command to run in the directory of the manifest.
type Command struct {
	Line []string
	// Env is added to the environment, NAME=value.
	Env []string
	// Log is a file with more details than the output; empty: none.
	Log string
}
