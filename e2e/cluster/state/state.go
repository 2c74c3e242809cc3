package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// DefaultDir is the default state directory. It is on a disk rather than in /run, because images are unpacked in
	// it.
	DefaultDir = "/var/lib/rouse-cluster"
	// LockFile is locked while a command changes the cluster. It is outside of the state directory, which is created
	// and removed.
	LockFile = "/run/rouse-cluster.lock"
)

// ErrLocked means that another rouse-cluster is running.
var ErrLocked = errors.New("another rouse-cluster command is running")

// Dir is the state directory of a cluster.
type Dir string

// FromEnv returns ROUSE_STATE, or the default.
func FromEnv(getenv func(string) string) Dir {
	if dir := getenv("ROUSE_STATE"); dir != "" {
		return Dir(dir)
	}
	return DefaultDir
}

// Path joins names to the state directory.
func (d Dir) Path(names ...string) string {
	return filepath.Join(append([]string{string(d)}, names...)...)
}

// Kubeconfig returns the path of the administrator's kubeconfig.
func (d Dir) Kubeconfig() string { return d.Path("kubeconfig") }

// KubeconfigOf returns the path of a component's kubeconfig.
func (d Dir) KubeconfigOf(name string) string { return d.Path("pki", name+".kubeconfig") }

// PKI returns the path of a certificate or key.
func (d Dir) PKI(name string) string { return d.Path("pki", name) }

// Config returns the path of a component's configuration file.
func (d Dir) Config(name string) string { return d.Path("config", name) }

// Log returns the path of a component's or a step's log.
func (d Dir) Log(name string) string { return d.Path("logs", name+".log") }

// ContainerdSocket returns the path of containerd's socket.
func (d Dir) ContainerdSocket() string { return d.Path("containerd.sock") }

// Helm returns the directory for helm's files, which would otherwise be in the home directory.
func (d Dir) Helm() string { return d.Path("helm") }

// Exists reports whether the directory exists.
func (d Dir) Exists() bool {
	_, err := os.Stat(string(d))
	return err == nil
}

// Create makes the directory and the expected subdirectories.
func (d Dir) Create() error {
	for _, name := range []string{"pki", "config", "logs", "bin", "kubelet", "pods", "cni/net.d", "etcd"} {
		if err := os.MkdirAll(d.Path(name), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// Write writes a file below the directory.
func Write(path, content string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	mode := os.FileMode(0o644)
	if strings.HasSuffix(path, ".key") || strings.HasSuffix(path, "kubeconfig") {
		mode = 0o600
	}
	return os.WriteFile(path, []byte(content), mode)
}

// Save stores a value as JSON under a name.
func (d Dir) Save(name string, value any) error {
	content, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	temporary := d.Path(name + ".json.new")
	if err := Write(temporary, string(content)+"\n"); err != nil {
		return err
	}
	return os.Rename(temporary, d.Path(name+".json"))
}

// Load reads a stored value. It returns os.ErrNotExist for a value that was never saved.
func (d Dir) Load(name string, value any) error {
	content, err := os.ReadFile(d.Path(name + ".json"))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(content, value); err != nil {
		return fmt.Errorf("read %s: %w", d.Path(name+".json"), err)
	}
	return nil
}

// Remove deletes the directory. It fails while a file system is mounted below it, since it would delete through the
// mount.
func (d Dir) Remove() error {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	if below := MountsBelow(string(mounts), string(d)); len(below) > 0 {
		return fmt.Errorf("still mounted: %s", strings.Join(below, ", "))
	}
	return os.RemoveAll(string(d))
}

// MountsBelow returns the mount points in or at dir from the text of a mountinfo file.
func MountsBelow(mountinfo, dir string) []string {
	var below []string
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) > 4 && (fields[4] == dir || strings.HasPrefix(fields[4], dir+"/")) {
			below = append(below, fields[4])
		}
	}
	return below
}

// Lock excludes other commands until release is called or the process ends.
func Lock(path string) (release func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("%w (%s is locked)", ErrLocked, path)
	}
	return func() {
		_ = os.Remove(path)
		_ = file.Close()
	}, nil
}
