package toolchain

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// EnvMounts names the folder below which the Secrets of spec.secretMounts lie. It is not set in a cluster, where they
// lie below the root: $ROUSE_MOUNTS/etc/credentials is right in both.
const EnvMounts = "ROUSE_MOUNTS"

// mounts writes the Secrets that the Function mounts, and gives the folder that stands for the root; empty without any.
func (l *launching) mounts() (string, error) {
	if len(l.fn.Spec.SecretMounts) == 0 {
		return "", nil
	}
	files := map[string][]byte{}
	for _, mount := range l.fn.Spec.SecretMounts {
		data := l.secret(mount.SecretName)
		if data == nil {
			return "", l.missing("Secret", mount.SecretName, "spec.secretMounts")
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
