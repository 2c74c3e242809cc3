package rig

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// cgroupRoot is where a system has its control groups, version 2.
const cgroupRoot = "/sys/fs/cgroup"

// cgroup bounds the memory of a process as Kubernetes does that of a container: all of it, the kernel's for its sockets and
// the page cache among it.
type cgroup struct{ dir *os.File }

// newCgroup fails where the system has another version, or does not let us.
func newCgroup(root string, limit int64) (*cgroup, error) {
	path, err := os.MkdirTemp(root, "rouse-rig-")
	if err != nil {
		return nil, fmt.Errorf("make a control group: %w", err)
	}
	g, err := openCgroup(path, limit)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a control group: %w", err), os.Remove(path))
	}
	return g, nil
}

func openCgroup(path string, limit int64) (*cgroup, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	g := &cgroup{dir: dir}
	_, unknown := g.peak()
	if err := errors.Join(unknown, g.write("memory.max", limit)); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	_ = g.write("memory.swap.max", 0) // a kernel without swap has no such file
	return g, nil
}

func (g *cgroup) write(name string, value int64) error {
	file, err := os.OpenFile(filepath.Join(g.dir.Name(), name), os.O_WRONLY, 0) // never one that is no control group's
	if err != nil {
		return err
	}
	_, err = file.WriteString(strconv.FormatInt(value, 10))
	return errors.Join(err, file.Close())
}

// peak is the most memory that the group has had, in MiB.
func (g *cgroup) peak() (int, error) {
	text, err := os.ReadFile(filepath.Join(g.dir.Name(), "memory.peak"))
	if err != nil {
		return 0, err
	}
	bytes, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return int(bytes >> 20), err
}

// remove waits a little until the processes that have ended are gone.
func (g *cgroup) remove() {
	const tries, pause = 50, 10 * time.Millisecond
	for range tries {
		if os.Remove(g.dir.Name()) == nil {
			break
		}
		time.Sleep(pause)
	}
	_ = g.dir.Close()
}
