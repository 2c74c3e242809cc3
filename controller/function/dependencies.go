package function

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
)

// manifest is what decides about a package.json without another look.
type manifest struct {
	Dependencies         map[string]string `json:"dependencies"`
	OptionalDependencies map[string]string `json:"optionalDependencies"`
	PeerDependencies     map[string]string `json:"peerDependencies"`
	// Type and Imports change how Node.js reads the source.
	Type    string         `json:"type"`
	Imports map[string]any `json:"imports"`
}

// checkDependencies reads a package.json. A requirements.txt is pip's to read.
func checkDependencies(fn *v1alpha2.Function) []string {
	if fn.Spec.Source.Inline == nil {
		return nil
	}
	const prefix = "invalid source.inline.dependencies value: "
	switch {
	case resources.IsNodeJS(fn.Spec.Runtime):
		if problem := checkManifest(fn.Spec.Source.Inline.Dependencies); problem != "" {
			return []string{prefix + problem}
		}
	case !resources.IsPython(fn.Spec.Runtime):
		return []string{fmt.Sprintf("%scannot find runtime: %s", prefix, fn.Spec.Runtime)}
	}
	return nil
}

func checkManifest(text string) string {
	trimmed := strings.TrimSpace(text)
	if trimmed == "" {
		return ""
	}
	if !strings.HasPrefix(trimmed, "{") || !strings.HasSuffix(trimmed, "}") {
		return "deps should start with '{' and end with '}'"
	}
	const form = `It has to be a package.json, such as {"dependencies": {"lodash": "^4.17.21"}}`
	err := json.Unmarshal([]byte(text), &manifest{})
	if err == nil {
		return ""
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Sprintf("%s: %s cannot be a JSON %s. %s", position(text, wrong.Offset), wrong.Field, wrong.Value, form)
	}
	if wrong, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Sprintf("%s: %s. %s", position(text, wrong.Offset), wrong.Error(), form)
	}
	return fmt.Sprintf("%v. %s", err, form)
}

// position names the place of the byte before offset as editors do.
func position(text string, offset int64) string {
	before := text[:min(max(int(offset)-1, 0), len(text))]
	line := strings.Count(before, "\n") + 1
	column := len([]rune(before[strings.LastIndex(before, "\n")+1:])) + 1
	return fmt.Sprintf("line %d, column %d", line, column)
}

// hasDependencies tells whether the dependencies make a difference. Tools write
// a package.json or a requirements.txt without any entry, too.
func hasDependencies(runtime v1alpha2.Runtime, dependencies string) bool {
	if strings.TrimSpace(dependencies) == "" {
		return false
	}
	if resources.IsNodeJS(runtime) {
		var found manifest
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
