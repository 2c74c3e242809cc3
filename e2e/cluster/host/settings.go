package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rouse-run/rouse/e2e/cluster/command"
)

// CgroupRoot is the cgroup that holds the pods' cgroups, and those of further nodes.
const CgroupRoot = "/rouse-cluster"

// neededControllers are the controllers that the kubelet requires.
func neededControllers() []string { return []string{"cpu", "memory", "pids"} }

const cgroups = "/sys/fs/cgroup"

// CreateCgroup makes a cgroup for a kubelet, CgroupRoot or a direct child of it: on v1 one in each hierarchy, on v2 one
// with the controllers enabled.
func CreateCgroup(group string) error {
	above := filepath.Join(cgroups, filepath.Dir(group))
	if v2, err := os.ReadFile(filepath.Join(above, "cgroup.controllers")); err == nil {
		// The parent has to delegate its controllers first. Some cannot be delegated everywhere, and only these three
		// are needed.
		for name := range strings.FieldsSeq(string(v2)) {
			err := os.WriteFile(filepath.Join(above, "cgroup.subtree_control"), []byte("+"+name), 0o644)
			if err != nil && slices.Contains(neededControllers(), name) {
				return fmt.Errorf("pass on the cgroup controller %s: %w", name, err)
			}
		}
	}
	for _, hierarchy := range cgroupParents() {
		dir := filepath.Join(hierarchy, group)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := inheritCPUs(dir); err != nil {
			return err
		}
	}
	return nil
}

// inheritCPUs fills in the values that cgroup v1 leaves empty in a new cpuset, which cannot contain processes without
// them.
func inheritCPUs(dir string) error {
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(filepath.Dir(dir), name))
		if err != nil {
			continue // not the cpuset hierarchy, or v2's root, which delegates them automatically
		}
		if err := os.WriteFile(filepath.Join(dir, name), value, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// cgroupParents returns the mounted hierarchies.
func cgroupParents() []string {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil
	}
	var parents []string
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		if len(fields) > 2 && strings.HasPrefix(fields[2], "cgroup") && strings.HasPrefix(fields[1], cgroups) {
			parents = append(parents, fields[1])
		}
	}
	slices.Sort(parents)
	return slices.Compact(parents)
}

// Cgroups returns the directories of the cluster's cgroups, the deepest first.
func Cgroups() []string {
	var found []string
	for _, parent := range cgroupParents() {
		_ = filepath.WalkDir(filepath.Join(parent, CgroupRoot), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				found = append(found, path)
			}
			return nil // directories may vanish during the walk
		})
	}
	slices.SortFunc(found, func(a, b string) int { return strings.Count(b, "/") - strings.Count(a, "/") })
	return found
}

// RemoveCgroups removes the cluster's cgroups. The kernel may need a moment to release those whose processes have just
// died.
func RemoveCgroups(ctx context.Context) error {
	return command.Await(ctx, time.Minute, 50*time.Millisecond, "the cgroups are gone", func(context.Context) error {
		var first error
		for _, dir := range Cgroups() {
			if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) && first == nil {
				first = err
			}
		}
		return first
	})
}

// CgroupRoots returns the topmost cgroups, one for each hierarchy.
func CgroupRoots() []string {
	return slices.DeleteFunc(Cgroups(), func(dir string) bool { return filepath.Base(dir) != filepath.Base(CgroupRoot) })
}

// settings are settings of the whole machine that the kubelet or the orchestrator changes.
func settings() []string {
	return []string{
		"net/ipv4/ip_forward", "vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
		"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
	}
}

// Sysctls are kernel settings by name.
type Sysctls map[string]string

// ReadSysctls returns the current settings.
func ReadSysctls() Sysctls {
	saved := Sysctls{}
	for _, name := range settings() {
		if content, err := os.ReadFile(filepath.Join("/proc/sys", name)); err == nil {
			saved[name] = strings.TrimSpace(string(content))
		}
	}
	return saved
}

// Restore resets changed settings.
func (s Sysctls) Restore() error {
	var problems []error
	for name, now := range ReadSysctls() {
		before, known := s[name]
		if !known || before == now {
			continue
		}
		if err := os.WriteFile(filepath.Join("/proc/sys", name), []byte(before), 0o644); err != nil {
			problems = append(problems, fmt.Errorf("restore %s: %w", name, err))
		}
	}
	return errors.Join(problems...)
}

// CABundle returns the authorities that this machine trusts, in PEM, including that of a network's TLS proxy. It is
// empty on a machine that stores them elsewhere.
func CABundle() string {
	content, err := os.ReadFile("/etc/ssl/certs/ca-certificates.crt")
	if err != nil {
		return ""
	}
	return string(content)
}
