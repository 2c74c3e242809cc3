package language

import (
	"slices"
	"strings"
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
