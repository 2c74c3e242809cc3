package toolchain

import (
	"fmt"
	"maps"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// secret is the data of a Secret of the Function's namespace, nil when there is none.
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

// configMap is the same of a ConfigMap.
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
	return fail(ReferenceMissing, "%s: there is no %s %s/%s among the files; add it to the folder, or correct %s",
		l.fn.At, kind, l.fn.Namespace, name, field)
}

// valueOf is what a variable refers to; false when it is not there and does not have to be.
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

// below is a path inside dir whatever the name has of "..".
func below(dir, name string) string {
	return filepath.Join(dir, filepath.Clean(string(filepath.Separator)+strings.TrimSpace(name)))
}
