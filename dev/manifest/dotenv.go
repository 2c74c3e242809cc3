package manifest

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// envFile holds variables of the Functions of a folder for this machine, one NAME=VALUE in a line. Parsers of libraries quote a line that
// they cannot read, and a line may hold a password.
const envFile = ".env"

// reserved lists the variables that the CRD refuses in spec.env.
var reserved = []string{
	"FUNC_RUNTIME", "FUNC_HANDLER", "FUNC_PORT", "FUNC_HANDLER_SOURCE", "FUNC_HANDLER_DEPENDENCIES", "MOD_NAME", "NODE_PATH", "PYTHONPATH",
}

// addVariables reads an envFile. A line with a problem is left out.
func (c *collection) addVariables(path string) {
	c.read[path] = true
	content, err := readFile(path)
	if err != nil {
		c.unreadable(path, err)
		return
	}
	number := 0
	for line := range strings.Lines(strings.TrimPrefix(string(content), "\xef\xbb\xbf")) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		variable, problem := parseVariable(line)
		if problem != "" {
			c.problems = append(c.problems, Problem{
				Position: Position{File: path, Line: number}, Message: problem + ": the line is left out", Warning: true,
			})
			continue
		}
		folder := filepath.Dir(path)
		c.variables[folder] = append(c.variables[folder], variable)
	}
}

// parseVariable reads a line. A problem never contains the value.
func parseVariable(line string) (variable corev1.EnvVar, problem string) {
	name, value, found := strings.Cut(line, "=")
	name = strings.TrimSpace(strings.TrimPrefix(name, "export "))
	switch {
	case !found || len(validation.IsEnvVarName(name)) > 0:
		return variable, "is no NAME=VALUE"
	case slices.Contains(reserved, name):
		return variable, name + " is reserved for the runtime"
	}
	value, ok := unquoted(strings.TrimSpace(value))
	if !ok {
		return variable, fmt.Sprintf("the value of %s does not end with the quote that it begins with", name)
	}
	// The value is taken as it is: Kubernetes would replace $(NAME) in it.
	return corev1.EnvVar{Name: name, Value: strings.ReplaceAll(value, "$", "$$")}, ""
}

// unquoted returns a value without quotes, or without a comment when it has none.
func unquoted(value string) (string, bool) {
	for _, quote := range []string{`"`, `'`} {
		rest, quoted := strings.CutPrefix(value, quote)
		if !quoted {
			continue
		}
		inner, after, closed := strings.Cut(rest, quote)
		after = strings.TrimSpace(after)
		return inner, closed && (after == "" || strings.HasPrefix(after, "#"))
	}
	if value, _, commented := strings.Cut(" "+value, " #"); commented {
		return strings.TrimSpace(value), true
	}
	return value, true
}

// giveVariables gives a Function the variables of its folder and of those above, up to dir. Its own take precedence, then the nearest.
func (c *collection) giveVariables(fn *Function, dir string) {
	known := map[string]bool{}
	for _, own := range fn.Spec.Env {
		known[own.Name] = true
	}
	var given []corev1.EnvVar
	for folder := filepath.Dir(fn.At.File); within(dir, folder); folder = filepath.Dir(folder) {
		for _, variable := range slices.Backward(c.variables[folder]) { // the last of a name takes precedence
			if !known[variable.Name] {
				known[variable.Name] = true
				given = append(given, variable)
			}
		}
		if folder == filepath.Clean(dir) {
			break
		}
	}
	fn.Spec.Env = append(given, fn.Spec.Env...) // first, so that its own may refer to them
}
