package nodejs

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/rouse-run/rouse/runtimes/language"
)

const probe = `console.log(JSON.stringify([process.execPath, process.versions.node, process.versions.v8 + process.arch]))`

func local() language.Local {
	return language.Local{
		Program: "node", Flag: "node", Probe: []string{"-e", probe}, Least: [2]int{20, 19},
		Remedy:       "install Node.js 20.19 or newer with npm, from https://nodejs.org or your system's packages",
		VersionParts: 1, Manager: "npm",
		ManagerRemedy: "npm comes with Node.js", TrustVariable: "NODE_EXTRA_CA_CERTS",
		// Entry is that of the runtime's image.
		Entry: func(server string) []string {
			return []string{
				"--disable-warning=MODULE_TYPELESS_PACKAGE_JSON", "--disable-warning=ExperimentalWarning", filepath.Join(server, "server.js"),
			}
		},
		Environment: []language.Variable{{Name: "NODE_ENV", Value: "production"}},
		// Node.js 22 is the first that reads extra certificates when a handler needs them, and not at every start, of which
		// they are half on a machine that names all of its own.
		SlowBefore: map[string]int{"NODE_EXTRA_CA_CERTS": 22},
		// Node.js finds modules above a file too.
		ServerPackages: packagesDir,
		// The server's own clock runs on the event loop that handlers share.
		Watched: true,
		Debugger: language.Debugger{
			Port: 9229,
			Args: func(address, _ string, entry []string) []string {
				return append([]string{"--inspect=" + address, "--enable-source-maps"}, entry...)
			},
			Map: mapSource,
		},
	}
}

// mapSource adds a source map.
func mapSource(source, origin string, line int) (string, error) {
	text, err := json.Marshal(map[string]any{
		"version": 3, "sources": []string{"file://" + origin}, "names": []string{},
		// The first line by its number, and each other one after the line before.
		"mappings": "AA" + variableLength(line-1) + "A" + strings.Repeat(";AACA", strings.Count(source, "\n")),
	})
	return fmt.Sprintf("%s\n//# sourceMappingURL=data:application/json;base64,%s\n", source, base64.StdEncoding.EncodeToString(text)), err
}

// variableLength is how source maps write a number that is not negative.
func variableLength(number int) string {
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	var text strings.Builder
	for rest := number << 1; ; {
		digit := rest & 31
		if rest >>= 5; rest > 0 {
			digit |= 32
		}
		text.WriteByte(digits[digit])
		if rest == 0 {
			return text.String()
		}
	}
}
