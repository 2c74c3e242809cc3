package admission

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/workload"
)

// checkDependencies reads a package.json. A requirements.txt is pip's to read.
func checkDependencies(path *field.Path, fn *v1alpha2.Function) Problems {
	if fn.Spec.Source.Inline == nil {
		return nil
	}
	const prefix = "invalid source.inline.dependencies value: "
	switch {
	case workload.IsNodeJS(fn.Spec.Runtime):
		if problem := checkPackageJSON(fn.Spec.Source.Inline.Dependencies); problem != "" {
			return Problems{problemAt(path, prefix+problem)}
		}
	case !workload.IsPython(fn.Spec.Runtime):
		return Problems{problemAt(path, fmt.Sprintf("%scannot find runtime: %s", prefix, fn.Spec.Runtime))}
	}
	return nil
}

func checkPackageJSON(text string) string {
	trimmed := strings.TrimSpace(text)
	if trimmed == "" {
		return ""
	}
	if !strings.HasPrefix(trimmed, "{") || !strings.HasSuffix(trimmed, "}") {
		return "deps should start with '{' and end with '}'"
	}
	const form = `It has to be a package.json, such as {"dependencies": {"lodash": "^4.17.21"}}`
	err := json.Unmarshal([]byte(text), &workload.PackageJSON{})
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
