package host

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rouse-run/rouse/e2e/cluster/command"
)

// minimumFree is what a first build and a running cluster need on disk.
const minimumFree = 10 << 30

// ErrUnfit means that the machine lacks something that the cluster cannot do without.
var ErrUnfit = errors.New("no cluster can run on this machine")

// Needs are what a command wants of the machine.
type Needs struct {
	Dirs  []string // where there must be room
	Tools []Tool
}

// Tool is a program that only the user installs.
type Tool struct {
	Name  string   // with its version, as a person would look for it
	Works []string // a command that succeeds when all is well with it
}

// Preflight lists all that is missing at once, so that a person has to come back only once.
func Preflight(ctx context.Context, needs Needs) error {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return fmt.Errorf("%w: it is %s/%s and must be linux/amd64; set KUBECONFIG to use a cluster that runs elsewhere",
			ErrUnfit, runtime.GOOS, runtime.GOARCH)
	}
	var missing []string
	if os.Geteuid() != 0 {
		missing = append(missing, "root: run it as root, it makes network devices, mounts and cgroups")
	}
	if _, err := os.Stat("/etc/debian_version"); err != nil {
		missing = append(missing, "Debian: packages are installed with apt-get")
	}
	missing = append(missing, missingDisk(needs.Dirs, freeBytes)...)
	if os.Geteuid() == 0 {
		loadModules(ctx)
	}
	missing = append(missing, missingKernel()...)
	for _, tool := range needs.Tools {
		if _, err := (command.Command{Name: tool.Works[0], Args: tool.Works[1:]}).Run(ctx); err != nil {
			missing = append(missing, fmt.Sprintf("%s: %s in PATH is absent, too old or does not work", tool.Name, tool.Works[0]))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%w:\n- %s", ErrUnfit, strings.Join(missing, "\n- "))
}

func missingDisk(dirs []string, free func(string) (uint64, error)) []string {
	var missing []string
	for _, dir := range dirs {
		available, err := free(dir)
		switch {
		case err != nil:
			missing = append(missing, fmt.Sprintf("disk: %v", err))
		case available < minimumFree:
			missing = append(missing, fmt.Sprintf("disk: %s has %.1f GB free, 10 GB are needed", dir, float64(available)/(1<<30)))
		}
	}
	return missing
}

// freeBytes asks for the nearest directory that exists.
func freeBytes(dir string) (uint64, error) {
	for {
		var stat unix.Statfs_t
		err := unix.Statfs(dir, &stat)
		if err == nil {
			return stat.Bavail * uint64(stat.Bsize), nil
		}
		if !errors.Is(err, fs.ErrNotExist) || dir == "/" {
			return 0, fmt.Errorf("look at %s: %w", dir, err)
		}
		dir = filepath.Dir(dir)
	}
}

// loadModules asks for what may be a module and not loaded yet. What is built in or absent shows in missingKernel.
func loadModules(ctx context.Context) {
	for _, module := range []string{"overlay", "veth", "nf_tables", "nf_conntrack", "nf_nat"} {
		_, _ = command.Command{Name: "modprobe", Args: []string{"-q", module}}.Run(ctx)
	}
}

func missingKernel() []string {
	var missing []string
	for _, namespace := range []string{"mnt", "net", "pid", "uts"} {
		if _, err := os.Stat("/proc/self/ns/" + namespace); err != nil {
			missing = append(missing, "kernel: no "+namespace+" namespaces")
		}
	}
	if filesystems, err := os.ReadFile("/proc/filesystems"); err == nil && !slices.Contains(strings.Fields(string(filesystems)), "overlay") {
		missing = append(missing, "kernel: no overlay filesystem")
	}
	if _, err := os.Stat("/proc/sys/net/netfilter/nf_conntrack_max"); err != nil {
		missing = append(missing, "kernel: no connection tracking (nf_conntrack)")
	}
	for _, controller := range missingControllers() {
		missing = append(missing, "kernel: no cgroup controller "+controller)
	}
	return missing
}

// missingControllers looks at cgroup v2 where it is mounted, else at v1.
func missingControllers() []string {
	found := map[string]bool{}
	if v2, err := os.ReadFile("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		for name := range strings.FieldsSeq(string(v2)) {
			found[name] = true
		}
	} else if v1, err := os.Open("/proc/cgroups"); err == nil {
		defer func() { _ = v1.Close() }()
		for lines := bufio.NewScanner(v1); lines.Scan(); {
			fields := strings.Fields(lines.Text())
			if len(fields) == 4 && fields[3] == "1" {
				_, err := os.Stat("/sys/fs/cgroup/" + fields[0])
				found[fields[0]] = err == nil
			}
		}
	}
	var missing []string
	for _, name := range neededControllers() {
		if !found[name] {
			missing = append(missing, name)
		}
	}
	return missing
}
