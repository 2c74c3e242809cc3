package language

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
