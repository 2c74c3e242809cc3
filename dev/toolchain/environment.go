package toolchain

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rouse-run/rouse/internal/workload"
)

// inherited are the variables of this machine that a Function needs to run here at all, or to reach the network. The
// rest stays away, as it does in a cluster.
var inherited = [...]string{
	"PATH", "HOME", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE",
}

// environment is what this machine gives, then what the runtime's image has, then what a pod has.
func (l *launching) environment(function, mounts string) ([]string, error) {
	values := map[string]string{}
	for _, name := range inherited {
		if value, found := os.LookupEnv(name); found && !l.slows(name) {
			values[name] = value
		}
	}
	maps.Copy(values, l.ofImage(function))
	if mounts != "" {
		values[EnvMounts] = mounts
	}
	variables := workload.Environment(l.fn.Function, l.fn.Spec.Runtime, "", workload.Addresses{Publisher: l.in.PublisherAddress})
	own := map[string]string{} // what one may refer to: those that came before
	for _, variable := range variables {
		value, there, err := expand(variable.Value, own), true, error(nil)
		if variable.ValueFrom != nil {
			value, there, err = l.valueOf(variable)
		}
		if err != nil {
			return nil, err
		}
		if there {
			value = l.moved(variable.Name, value, mounts)
			own[variable.Name], values[variable.Name] = value, value
		}
	}
	if l.in.Debug {
		values["FUNC_TIMEOUT"] = debugTimeout
	}
	env := make([]string, 0, len(values))
	for name, value := range values {
		if strings.ContainsRune(value, 0) {
			return nil, fail(ReferenceMissing, "%s: the value of the variable %s has a zero byte; correct spec.env", l.fn.At, name)
		}
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	return env, nil
}

// moved is the value of a variable where mounts lie below a folder.
func (l *launching) moved(name, value, mounts string) string {
	if name == workload.EnvBindingRoot && workload.MountsBelow(l.fn.Function, value) {
		return filepath.Join(mounts, value)
	}
	return value
}

// slows reports whether a variable of this machine would slow every start.
func (l *launching) slows(name string) bool {
	i := l.interpreter
	first, slow := i.Local.SlowBefore[name]
	if !slow || atLeast(i.version, [2]int{first, 0}) {
		return false
	}
	l.reportForMachine(fmt.Sprintf("%[1]s of this machine is not handed on, because %[2]s %[3]s reads it at every start; "+
		"use %[2]s %[4]d or newer, or set it in spec.env of a Function that needs it", name, i.Title, i.version, first))
	return true
}

func (l *launching) ofImage(function string) map[string]string {
	env := map[string]string{"FUNCTION_PATH": function, "TERMINATION_LOG_PATH": os.DevNull}
	for _, variable := range l.interpreter.Local.Environment {
		env[variable.Name] = variable.Value
	}
	return env
}

// expand replaces $(NAME) as Kubernetes does: $$ is a dollar sign, and a name that is not known stays as it is.
func expand(text string, known map[string]string) string {
	var expanded strings.Builder
	for {
		at := strings.IndexByte(text, '$')
		if at < 0 || at+1 == len(text) {
			return expanded.String() + text
		}
		expanded.WriteString(text[:at])
		text = text[at:]
		end := strings.IndexByte(text, ')')
		switch {
		case text[1] == '$':
			expanded.WriteByte('$')
			text = text[2:]
		case text[1] == '(' && end > 0:
			value, found := known[text[2:end]]
			if !found {
				value = text[:end+1]
			}
			expanded.WriteString(value)
			text = text[end+1:]
		default:
			expanded.WriteByte('$')
			text = text[1:]
		}
	}
}
