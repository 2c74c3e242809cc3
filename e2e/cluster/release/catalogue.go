package release

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rouse-run/rouse/e2e/cluster/component"
)

// Runtime is one runtime of Functions and where its language comes from on the local cluster.
type Runtime struct {
	Name     string             // as in spec.runtime
	Kind     string             // directory below runtimes/
	Suite    string             // of Debian, for the base
	NodeJS   string             // version of the npm package that carries the Node.js binary
	Go       string             // version of Go's toolchain
	Python   *component.CPython // the interpreter, where it is not the suite's
	Official string             // image of the language, for clusters with Docker
	Really   string             // what runs
}

// Catalogue lists every runtime. Node.js comes as a binary inside an npm package; Python is what a suite of Debian
// carries, and 3.12, which none does, an interpreter inside a Java archive. Go is the toolchain of its own module proxy.
func Catalogue() []Runtime {
	python312 := component.Python312().CPython
	return []Runtime{
		nodeJS("nodejs20", "20.20.2"),
		nodeJS("nodejs22", "22.23.3"),
		nodeJS("nodejs24", "24.21.0"),
		nodeJS("nodejs26", "26.10.0"),
		{
			Name: "python312", Kind: "python", Suite: "bookworm", Python: python312, Official: "python:3.12-slim",
			Really: "Python " + python312.Version() + " on Debian bookworm",
		},
		{Name: "python314", Kind: "python", Suite: "sid", Official: "python:3.14-slim", Really: "Python 3.14 of Debian sid"},
		{Name: "go126", Kind: "golang", Suite: "bookworm", Go: goVersion, Official: "golang:1.26-bookworm", Really: "Go " + goVersion + " on Debian bookworm"},
	}
}

// version is that of the language where it is not the base's.
func (r Runtime) version() string {
	if r.Python != nil {
		return r.Python.Jar.Version
	}
	return r.NodeJS + r.Go
}

// goVersion is the toolchain's, which compiles the Functions of the local cluster.
const goVersion = "1.26.8"

func nodeJS(name, version string) Runtime {
	major, _, _ := strings.Cut(version, ".")
	return Runtime{
		Name: name, Kind: "nodejs", Suite: "bookworm", NodeJS: version, Official: "node:" + major + "-bookworm-slim",
		Really: "Node.js " + version + " on Debian bookworm",
	}
}

// DefaultRuntimes are what the samples and the e2e tests use: the oldest and the newest of each language.
func DefaultRuntimes() []string {
	return []string{"nodejs22", "nodejs26", "python312", "python314", "go126"}
}

// Choose picks runtimes by name.
func Choose(names []string) ([]Runtime, error) {
	var chosen []Runtime
	var known []string
	for _, runtime := range Catalogue() {
		known = append(known, runtime.Name)
		if slices.Contains(names, runtime.Name) {
			chosen = append(chosen, runtime)
		}
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("there is no runtime %q, only %s", name, strings.Join(known, ", "))
		}
	}
	return chosen, nil
}
