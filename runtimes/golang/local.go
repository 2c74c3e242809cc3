package golang

import (
	"regexp"
	"strings"

	"github.com/rouse-run/rouse/runtimes/language"
)

var numbers = regexp.MustCompile(`\d+\.\d+(?:\.\d+)?`)

func local() language.Local {
	return language.Local{
		Program: "go", Flag: "go", Probe: []string{"env", "GOROOT", "GOVERSION", "GOARCH"}, ReadProbe: readProbe,
		Least:        [2]int{1, 26},
		Remedy:       "install Go 1.26 or newer, from https://go.dev/dl or your system's packages",
		VersionParts: 2, LayerKnowsItsPlace: true,
		ManagerRemedy: "it is the go command itself", TrustVariable: "SSL_CERT_FILE",
	}
}

// readProbe: the program itself is below GOROOT, past the scripts of version managers.
func readProbe(output string) (path, version, made string) {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	if len(lines) < 3 {
		return "", "", ""
	}
	lines = lines[len(lines)-3:]
	return strings.TrimSpace(lines[0]) + "/bin/go", numbers.FindString(lines[1]), lines[1] + lines[2]
}
