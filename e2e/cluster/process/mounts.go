package process

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// hidden are directories where Kubernetes, containerd and the CNI plugins write at paths that cannot be set. In the
// cluster's mount namespace they are empty and in memory, so that nothing of it reaches the host's.
func hidden() []string { return []string{"/run", "/var/log", "/var/lib"} }

// arrangeMounts gives the mount namespace its own view: a /proc of the PID namespace, empty directories in place of
// the hidden ones, and in them again what must stay visible.
func arrangeMounts(settings Settings) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	kept, err := openAll(append([]string{settings.State}, settings.Keep...))
	if err != nil {
		return err
	}
	for _, dir := range hidden() {
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=0755"); err != nil {
			return fmt.Errorf("hide %s: %w", dir, err)
		}
	}
	for dir, fd := range kept {
		if err := bind(fmt.Sprintf("/proc/self/fd/%d", fd), dir); err != nil {
			return err
		}
		_ = unix.Close(fd)
	}
	return bindAll(map[string]string{
		filepath.Join(settings.State, "kubelet"): "/var/lib/kubelet",
		filepath.Join(settings.State, "pods"):    "/var/log/pods",
	})
}

func openAll(dirs []string) (map[string]int, error) {
	open := map[string]int{}
	for _, dir := range dirs {
		fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", dir, err)
		}
		open[dir] = fd
	}
	return open, nil
}

func bindAll(sources map[string]string) error {
	for source, target := range sources {
		if err := bind(source, target); err != nil {
			return err
		}
	}
	return nil
}

func bind(source, target string) error {
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(source, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("bind %s: %w", target, err)
	}
	return nil
}
