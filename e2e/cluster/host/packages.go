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

// Package is a Debian package and a file that shows it is there: absolute, or a program in PATH.
type Package struct {
	Name string
	File string
}

// Packages are what the cluster takes from Debian.
func Packages() []Package {
	return []Package{
		{"containerd", "containerd"},
		{"runc", "runc"},
		{"containernetworking-plugins", "/usr/lib/cni/ptp"},
		{"iptables", "iptables"},
		{"nftables", "nft"},
		{"conntrack", "conntrack"},
		{"iproute2", "ip"},
		{"mmdebstrap", "mmdebstrap"},
		{"debian-archive-keyring", "/usr/share/keyrings/debian-archive-keyring.gpg"},
	}
}

// Missing are the packages whose file is not there.
func Missing(packages []Package) []string {
	var missing []string
	for _, p := range packages {
		var err error
		if strings.HasPrefix(p.File, "/") {
			_, err = os.Stat(p.File)
		} else {
			_, err = exec.LookPath(p.File)
		}
		if err != nil {
			missing = append(missing, p.Name)
		}
	}
	return missing
}

// policyFile is asked by Debian's packages whether they may start their services.
const policyFile = "/usr/sbin/policy-rc.d"

// Install installs packages, without starting or enabling their services.
func Install(ctx context.Context, log string, packages []string) error {
	if len(packages) == 0 {
		return nil
	}
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
		Args: append([]string{"install", "-q", "-y", "--no-install-recommends"}, packages...),
	}
	if _, err := install.Run(ctx); err != nil {
		return fmt.Errorf("install %s: %w", strings.Join(packages, " "), err)
	}
	return disableServices(ctx, log, packages)
}

func forbidServices() (restore func(), err error) {
	if _, err := os.Stat(policyFile); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return func() {}, err // the machine has a policy, which is not ours to change
	}
	if err := os.WriteFile(policyFile, []byte("#!/bin/sh\nexit 101\n"), 0o755); err != nil {
		return nil, err
	}
	return func() { _ = os.Remove(policyFile) }, nil
}

// disableServices keeps systemd from starting containerd at the next boot. The cluster runs one of its own.
func disableServices(ctx context.Context, log string, installed []string) error {
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		return nil //nolint:nilerr // no systemd, so nothing is started at boot
	}
	for _, name := range installed {
		if name != "containerd" {
			continue
		}
		disable := command.Command{Name: "systemctl", Args: []string{"disable", "--now", "containerd.service"}, Log: log}
		if _, err := disable.Run(ctx); err != nil {
			return err
		}
	}
	return nil
}
