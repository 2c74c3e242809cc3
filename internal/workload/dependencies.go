package workload

import (
	"encoding/json"
	"strings"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// PackageJSON has the fields of a package.json that decide how it is treated.
type PackageJSON struct {
	Dependencies         map[string]string `json:"dependencies"`
	OptionalDependencies map[string]string `json:"optionalDependencies"`
	PeerDependencies     map[string]string `json:"peerDependencies"`
	// Type and Imports change how Node.js reads the source.
	Type    string         `json:"type"`
	Imports map[string]any `json:"imports"`
}

// HasDependencies reports whether the dependencies make a difference. Tools write
// a package.json or a requirements.txt without any entry, too.
func HasDependencies(runtime v1alpha2.Runtime, dependencies string) bool {
	if strings.TrimSpace(dependencies) == "" {
		return false
	}
	if IsNodeJS(runtime) {
		var found PackageJSON
		err := json.Unmarshal([]byte(dependencies), &found)
		return err != nil || found.Type == "module" || len(found.Imports) > 0 ||
			len(found.Dependencies)+len(found.OptionalDependencies)+len(found.PeerDependencies) > 0
	}
	for line := range strings.Lines(dependencies) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			return true
		}
	}
	return false
}
