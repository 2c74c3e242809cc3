package toolchain

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/rouse-run/rouse/internal/workload"
)

// inherited lists the variables of this machine that a Function needs to run here, or to reach the network. It gets no others, as in a
// cluster.
var inherited = [...]string{
	"PATH", "HOME", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE",
}

// environment returns the inherited variables, then those of the runtime's image, then those of a pod.
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
	own := map[string]string{} // the variables before, which $(NAME) may refer to
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

// moved returns the value of a variable with its path moved below the folder of mounts.
func (l *launching) moved(name, value, mounts string) string {
	if name == workload.EnvBindingRoot && workload.MountsBelow(l.fn.Function, value) {
		return filepath.Join(mounts, value)
	}
	return value
}

// slows reports whether a variable of this machine would slow down every start.
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

// expand replaces $(NAME) as Kubernetes does: $$ is a dollar sign, and an unknown name stays unchanged.
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

// secret returns the data of a Secret in the Function's namespace, nil when it does not exist.
func (l *launching) secret(name string) map[string][]byte {
	for _, secret := range l.in.Secrets {
		if secret.Namespace != l.fn.Namespace || secret.Name != name {
			continue
		}
		data := make(map[string][]byte, len(secret.Data)+len(secret.StringData))
		maps.Copy(data, secret.Data)
		for key, value := range secret.StringData {
			data[key] = []byte(value)
		}
		return data
	}
	return nil
}

// configMap returns the data of a ConfigMap in the Function's namespace, nil when it does not exist.
func (l *launching) configMap(name string) map[string][]byte {
	for _, configMap := range l.in.ConfigMaps {
		if configMap.Namespace != l.fn.Namespace || configMap.Name != name {
			continue
		}
		data := make(map[string][]byte, len(configMap.Data)+len(configMap.BinaryData))
		maps.Copy(data, configMap.BinaryData)
		for key, value := range configMap.Data {
			data[key] = []byte(value)
		}
		return data
	}
	return nil
}

func (l *launching) missing(kind, name, field string) *Failure {
	return fail(ReferenceMissing, "%s: there is no %s %s/%s among the files; put it into %s, which is for this machine alone, or correct %s",
		l.fn.At, kind, l.fn.Namespace, name, filepath.Join(filepath.Dir(l.fn.At.File), "secrets.local.yaml"), field)
}

// valueOf returns the value that a variable refers to; false when it is optional and does not exist.
func (l *launching) valueOf(variable corev1.EnvVar) (string, bool, error) {
	field := fmt.Sprintf("spec.env[%s].valueFrom", variable.Name)
	from := variable.ValueFrom
	switch {
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		return l.keyOf("ConfigMap", ref.Name, ref.Key, l.configMap(ref.Name), ptr.Deref(ref.Optional, false), field)
	case from.SecretKeyRef != nil:
		ref := from.SecretKeyRef
		return l.keyOf("Secret", ref.Name, ref.Key, l.secret(ref.Name), ptr.Deref(ref.Optional, false), field)
	case from.FieldRef != nil:
		switch from.FieldRef.FieldPath {
		case "metadata.name":
			return l.fn.Name, true, nil
		case "metadata.namespace":
			return l.fn.Namespace, true, nil
		case "status.podIP", "status.hostIP":
			return "127.0.0.1", true, nil
		}
		return "", false, fail(ReferenceMissing, "%s: %s: there is no %s without a pod; take a value or a ConfigMap for local mode",
			l.fn.At, field, from.FieldRef.FieldPath)
	}
	return "", false, fail(ReferenceMissing, "%s: %s: only configMapKeyRef, secretKeyRef and fieldRef mean something in local mode", l.fn.At, field)
}

func (l *launching) keyOf(kind, name, key string, data map[string][]byte, optional bool, field string) (string, bool, error) {
	value, found := data[key]
	switch {
	case found:
		return string(value), true, nil
	case optional:
		return "", false, nil
	case data == nil:
		return "", false, l.missing(kind, name, field)
	}
	return "", false, fail(ReferenceMissing, "%s: %s %s/%s has no key %s; add it, or correct %s", l.fn.At, kind, l.fn.Namespace, name, key, field)
}

// below returns a path inside dir, however many ".." the name has.
func below(dir, name string) string {
	return filepath.Join(dir, filepath.Clean(string(filepath.Separator)+strings.TrimSpace(name)))
}

// EnvMounts is the variable with the folder of the Secrets in spec.secretMounts. It is not set in a cluster, where they are below the
// root: $ROUSE_MOUNTS/etc/credentials is right in both.
const EnvMounts = "ROUSE_MOUNTS"

// mounts writes the Secrets that the Function mounts, and returns the folder that replaces the root; empty without any.
func (l *launching) mounts() (string, error) {
	if len(l.fn.Spec.SecretMounts) == 0 {
		return "", nil
	}
	files := map[string][]byte{}
	for _, mount := range l.fn.Spec.SecretMounts {
		data := l.secret(mount.SecretName)
		if data == nil {
			return "", l.missing("Secret", mount.SecretName, "spec.secretMounts at "+mount.MountPath)
		}
		for key, value := range data {
			files[filepath.Join(mount.MountPath, key)] = value
		}
	}
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	parts := make([]string, 0, 2*len(names))
	for _, name := range names {
		parts = append(parts, name, string(files[name]))
	}
	all := filepath.Join(l.folder, "mounts")
	root := filepath.Join(all, keyOf(parts...))
	for _, name := range names {
		file := below(root, name)
		if there, err := os.ReadFile(file); err == nil && bytes.Equal(there, files[name]) { //nolint:gosec // below the state folder
			continue // a process may be reading it
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, files[name], 0o600)); err != nil {
			return "", fmt.Errorf("write the Function's Secrets: %w", err)
		}
	}
	l.reportOnce(fmt.Sprintf("only root can write to %s, so its files are below %s, which %s names: read them from $%s%s",
		l.fn.Spec.SecretMounts[0].MountPath, root, EnvMounts, EnvMounts, l.fn.Spec.SecretMounts[0].MountPath))
	return root, forget(all, keptSources)
}
