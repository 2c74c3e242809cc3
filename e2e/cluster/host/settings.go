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

// neededControllers are those without which the kubelet does not start.
func neededControllers() []string { return []string{"cpu", "memory", "pids"} }

const cgroups = "/sys/fs/cgroup"

// CreateCgroup makes a cgroup that a kubelet uses, CgroupRoot or one right in it: on v1 one in each hierarchy, on v2 one with the
// controllers switched on.
func CreateCgroup(group string) error {
	above := filepath.Join(cgroups, filepath.Dir(group))
	if v2, err := os.ReadFile(filepath.Join(above, "cgroup.controllers")); err == nil {
		// The group above has to pass its controllers on before the new group has them. Some cannot be passed on everywhere, and
		// only these three are needed.
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

// inheritCPUs fills in what cgroup v1 leaves empty in a new cpuset, where then no process may live.
func inheritCPUs(dir string) error {
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(filepath.Dir(dir), name))
		if err != nil {
			continue // not the cpuset hierarchy, or v2's root, which passes them on by itself
		}
		if err := os.WriteFile(filepath.Join(dir, name), value, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// cgroupParents are the mounted hierarchies.
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

// Cgroups are the directories of the cluster's cgroups, the deepest first.
func Cgroups() []string {
	var found []string
	for _, parent := range cgroupParents() {
		_ = filepath.WalkDir(filepath.Join(parent, CgroupRoot), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				found = append(found, path)
			}
			return nil // what vanishes while it is looked at needs no mention
		})
	}
	slices.SortFunc(found, func(a, b string) int { return strings.Count(b, "/") - strings.Count(a, "/") })
	return found
}

// RemoveCgroups removes them. The kernel may take a moment to let go of those whose processes have just died.
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

// CgroupRoots are the topmost of them, one for each hierarchy.
func CgroupRoots() []string {
	return slices.DeleteFunc(Cgroups(), func(dir string) bool { return filepath.Base(dir) != filepath.Base(CgroupRoot) })
}

// settings are those of the whole machine that the kubelet or the orchestrator changes.
func settings() []string {
	return []string{
		"net/ipv4/ip_forward", "vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
		"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
	}
}

// Sysctls are kernel settings by name.
type Sysctls map[string]string

// ReadSysctls remembers the settings as they are.
func ReadSysctls() Sysctls {
	saved := Sysctls{}
	for _, name := range settings() {
		if content, err := os.ReadFile(filepath.Join("/proc/sys", name)); err == nil {
			saved[name] = strings.TrimSpace(string(content))
		}
	}
	return saved
}

// Restore sets what has changed since.
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

// CABundle is the authorities that this machine trusts, as PEM: on a network with a TLS proxy the proxy's is among them.
// It is empty on a machine that keeps them elsewhere.
func CABundle() string {
	content, err := os.ReadFile("/etc/ssl/certs/ca-certificates.crt")
	if err != nil {
		return ""
	}
	return string(content)
}
