package language

import (
	"regexp"
	"slices"
	"strings"

	"github.com/rouse-run/rouse/internal/buildplan"
)

// Language is what differs between the languages in which Functions are written.
type Language struct {
	// Name is the beginning of its runtimes' names: nodejs of nodejs22.
	Name string
	// Folder is the one below runtimes/.
	Folder string
	// Title is how people write it.
	Title string
	// Runtimes are those that Functions may name, the oldest first.
	Runtimes []Runtime
	// Default is the runtime that Name alone means.
	Default string

	// FunctionDir is where the runtime looks for the handler and its dependencies, in the image as in the pod.
	FunctionDir string
	// Environment are the variables that every pod of the language has before those of its user.
	Environment []Variable
	// BuildEnvironment are variables of builds, NAME=value.
	BuildEnvironment []string
	// BuildHome are files that builds find in their HOME, by their name below it.
	BuildHome map[string]string

	// Handler is the file of inline source, and the first that the runtime looks for.
	Handler string
	// OtherHandlers lists where else the runtime looks, in its order; nil: nowhere.
	OtherHandlers func(manifest []byte) []Candidate
	// Check says what is wrong with the text of a handler, empty for nothing; nil: the build finds out.
	Check func(source Source, compiler Compiler) string

	Packages PackageManager
	// Bytecode is nil for a language without, or one that is compiled to a binary.
	Bytecode *Bytecode
	// Compiled is nil for a language whose source is run as it is.
	Compiled *Compiled
	Local    Local
	// Kyma is nil where Kyma has no such runtime.
	Kyma     *Kyma
	Scaffold Scaffold
}

// Runtime is one version of a language.
type Runtime struct {
	// Name is what spec.runtime says.
	Name string
	// Deprecated runtimes get a warning.
	Deprecated bool
	// NoFIPS runtimes are refused where FIPS 140-3 is asked for: their interpreters have no base with a validated module.
	NoFIPS bool
	// Modern handlers are called as the language's web library calls them, and not as main(event, context).
	Modern bool
}

// Variable is one of an environment.
type Variable struct{ Name, Value string }

// Candidate is a file that may be the handler.
type Candidate struct {
	File string
	// NamedBy is what the user calls the setting that names it; empty: the runtime knows the name.
	NamedBy string
}

// Source is the text of a handler.
type Source struct {
	File, Text string
	Manifest   []byte // the file of dependencies beside it
}

// Compiler runs a program with the handler's text on its standard input, and returns what it says against that.
type Compiler func(line ...string) string

// Bytecode is made of source before it is first run.
type Bytecode struct {
	// Extension is that of the files that it is made of.
	Extension string
	// Compile is the command line that compiles files below dir, which will lie in final.
	Compile func(dir, final string, files []string) []string
}

// Kyma is what an image of Kyma's contract gets.
type Kyma struct {
	// Script is process 1 of the pod until the server takes its place.
	Script string
	// Environment are the variables that say where the handler is.
	Environment func(runtime string) []Variable
	// WritableDir is a directory that the image's server or package manager writes to; empty: none.
	WritableDir string
	// Server says what the image has to bring, after "a server that".
	Server string
}

// Scaffold is how `rouse init` writes a Function of the language.
type Scaffold struct {
	Test         string // file of the handler's test
	TestCommand  string
	LaunchConfig string // template of the debugger's configuration; empty: there is none
}

// Has reports whether a runtime is one of the language. Versions that are not listed are the language's as well: there may
// be Functions of a runtime that is not offered any more.
func (l *Language) Has(runtime string) bool {
	version, found := strings.CutPrefix(runtime, l.Name)
	return found && version != "" && strings.Trim(version, "0123456789") == ""
}

// Runtime is the one of that name, with nothing but its name when it is not listed.
func (l *Language) Runtime(name string) Runtime {
	if i := slices.IndexFunc(l.Runtimes, func(r Runtime) bool { return r.Name == name }); i >= 0 {
		return l.Runtimes[i]
	}
	return Runtime{Name: name}
}

// Handlers lists where the runtime looks for the handler, in its order.
func (l *Language) Handlers(manifest []byte) []Candidate {
	candidates := []Candidate{{File: l.Handler}}
	if l.OtherHandlers != nil {
		candidates = append(candidates, l.OtherHandlers(manifest)...)
	}
	return candidates
}

// Site is where dependencies are installed: its name, and what its user does about what is missing there.
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

// Compiled is how source becomes a binary, which alone is in the Function's image: that one stands on no other image, and
// the runtime's is where it is compiled.
type Compiled struct {
	// Binary is the file in the Function's directory that runs.
	Binary string
	// ServerDir is where the runtime's image has the sources of its server.
	ServerDir string
	// ObjectsDir is a folder of that one with what the compiler need not compile again; empty: there is none.
	ObjectsDir string
	// Project lists the files to write before, by their paths below the project's folder; the source lies in SourceDir
	// there. Otherwise it says what is wrong with the source.
	Project func(Project) (files map[string]string, problem string)
	// Build is how the compiler is started in MainDir of the project's folder.
	Build func(Compilation) Command
}

// The folders of a project.
const (
	SourceDir = "source"
	MainDir   = "main"
)

// Project is a source to be compiled.
type Project struct {
	// Names are the files of the source, with slashes.
	Names []string
	// Read gives the text of one of them.
	Read func(name string) string
	// Server is the folder with the sources of the runtime's server.
	Server string
	// Manifest is what its user calls the manifest.
	Manifest string
}

// Compilation is what to compile with.
type Compilation struct {
	// Program is the compiler.
	Program string
	// Binary is the file to write.
	Binary string
	// Settings is the file of the package manager's settings; empty: there are none.
	Settings string
	// Modules is a folder for what is downloaded; empty: the machine's own.
	Modules string
	// Objects is a folder for what is compiled; empty: the machine's own.
	Objects string
}

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
	Classify func(Failed) (buildplan.Reason, string)
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
