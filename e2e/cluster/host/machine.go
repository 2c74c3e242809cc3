package host

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rouse-run/rouse/e2e/cluster/command"
)

// minimumFree is the disk space for a first build and a running cluster.
const minimumFree = 10 << 30

// ErrUnfit means that the machine lacks a requirement of the cluster.
var ErrUnfit = errors.New("no cluster can run on this machine")

// Needs are the requirements of a command on the machine.
type Needs struct {
	Dirs  []string // which need free space
	Tools []Tool
}

// Tool is a program that the user has to install.
type Tool struct {
	Name  string   // with its version, for the user's search
	Works []string // a command that succeeds if the tool works
}

// Preflight reports all missing requirements at once.
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

// freeBytes returns the free space at the nearest existing directory.
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

// loadModules loads modules that may be missing. missingKernel reports absent ones.
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

// missingControllers checks cgroup v2 if it is mounted, else v1.
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

// Package is a Debian package with a check for it or an equivalent.
type Package struct {
	Name  string
	File  string   // absolute, or a program in PATH
	Works []string // instead of a file: a command that succeeds
}

// Packages returns the Debian packages that the cluster needs.
func Packages() []Package {
	return []Package{
		{Name: "containerd", File: "containerd"},
		{Name: "runc", File: "runc"},
		{Name: "containernetworking-plugins", File: "/usr/lib/cni/ptp"},
		{Name: "iptables", File: "iptables"},
		{Name: "nftables", File: "nft"},
		{Name: "conntrack", File: "conntrack"},
		{Name: "iproute2", File: "ip"},
		{Name: "mmdebstrap", File: "mmdebstrap"},
		{Name: "debian-archive-keyring", File: "/usr/share/keyrings/debian-archive-keyring.gpg"},
		maven(), pip(),
	}
}

// TestPackages returns the Debian packages for tests outside of the cluster: a C compiler for the race detector, a
// virtual environment for the Python runtime, and servers for Git repositories and of PostgreSQL.
func TestPackages() []Package {
	return []Package{
		{Name: "gcc", File: "gcc"},
		{Name: "libc6-dev", File: "/usr/include/stdlib.h"},
		{Name: "git", File: "git"},
		{Name: "openssh-server", File: "/usr/sbin/sshd"},
		{Name: "python3-venv", Works: []string{"python3", "-c", "import ensurepip, venv"}},
		{Name: "postgresql", Works: []string{"sh", "-c", "ls /usr/lib/postgresql/*/bin/initdb"}},
		maven(), pip(),
	}
}

// maven fetches the Python versions that Debian lacks.
func maven() Package { return Package{Name: "maven", File: "mvn"} }

// pip fetches the packages in the layer of a Python runtime.
func pip() Package {
	return Package{Name: "python3-pip", Works: []string{"python3", "-m", "pip", "--version"}}
}

// MissingPackages returns the packages whose checks fail.
func MissingPackages(ctx context.Context, packages []Package) []string {
	var missing []string
	for _, p := range packages {
		if !p.present(ctx) {
			missing = append(missing, p.Name)
		}
	}
	return missing
}

func (p Package) present(ctx context.Context) bool {
	var err error
	switch {
	case len(p.Works) > 0:
		_, err = command.Command{Name: p.Works[0], Args: p.Works[1:]}.Run(ctx)
	case strings.HasPrefix(p.File, "/"):
		_, err = os.Stat(p.File)
	default:
		_, err = exec.LookPath(p.File)
	}
	return err == nil
}

const (
	// policyFile tells Debian's packages whether they may start their services.
	policyFile = "/usr/sbin/policy-rc.d"
	policy     = "#!/bin/sh\nexit 101\n"
)

// ErrPackages means that packages are missing and cannot be installed.
var ErrPackages = errors.New("packages are missing")

// InstallPackages installs missing packages, without starting or enabling their services.
func InstallPackages(ctx context.Context, log string, packages []Package) error {
	missing := MissingPackages(ctx, packages)
	if len(missing) == 0 {
		return nil
	}
	names := strings.Join(missing, " ")
	if os.Geteuid() != 0 {
		return fmt.Errorf("%w: run as root: apt-get install %s", ErrPackages, names)
	}
	if err := install(ctx, log, missing); err != nil {
		return fmt.Errorf("install %s: %w", names, err)
	}
	if still := MissingPackages(ctx, packages); len(still) > 0 {
		return fmt.Errorf("%w: %s was installed, but the program found first in PATH is another one, without it",
			ErrPackages, strings.Join(still, " "))
	}
	return nil
}

func install(ctx context.Context, log string, packages []string) error {
	restore, err := forbidServices()
	if err != nil {
		return fmt.Errorf("keep the packages' services from starting: %w", err)
	}
	defer restore()
	quiet := []string{"DEBIAN_FRONTEND=noninteractive"}
	update := command.Command{Name: "apt-get", Args: []string{"update", "-q"}, Env: quiet, Log: log}
	if _, err := update.Run(ctx); err != nil {
		return err
	}
	install := command.Command{
		Name: "apt-get", Env: quiet, Log: log,
		// A machine that has just booted may be installing updates.
		Args: append([]string{"install", "-q", "-y", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300"}, packages...),
	}
	if _, err := install.Run(ctx); err != nil {
		return err
	}
	return disableServices(ctx, log, packages)
}

func forbidServices() (restore func(), err error) {
	present, err := os.ReadFile(policyFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err == nil && string(present) != policy {
		return func() {}, nil // the machine has its own policy, which must not be changed
	}
	// The file is overwritten even if it is ours: an earlier run was killed before it could remove it.
	if err := os.WriteFile(policyFile, []byte(policy), 0o755); err != nil {
		return nil, err
	}
	return func() { _ = os.Remove(policyFile) }, nil
}

// services are those that must not start at the machine's next boot because of our packages: the cluster runs its own
// containerd, a test its own PostgreSQL, and remote logins are not intended.
func services() map[string]string {
	return map[string]string{"containerd": "containerd.service", "openssh-server": "ssh.service", "postgresql": "postgresql.service"}
}

// disableServices prevents systemd from starting the packages' services.
func disableServices(ctx context.Context, log string, installed []string) error {
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		return nil //nolint:nilerr // no systemd, so nothing is started at boot
	}
	for _, name := range installed {
		service, has := services()[name]
		if !has {
			continue
		}
		disable := command.Command{Name: "systemctl", Args: []string{"disable", "--now", service}, Log: log}
		if _, err := disable.Run(ctx); err != nil {
			return err
		}
	}
	return nil
}
