package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"time"
)

// cgroupRoot is the directory of control groups, version 2.
const cgroupRoot = "/sys/fs/cgroup"

// cgroup bounds the memory of a process as Kubernetes bounds a container's: including the kernel's memory for its
// sockets and the page cache.
type cgroup struct{ dir *os.File }

// newCgroup fails on a system with another version, or without permission.
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
	_ = g.write("memory.swap.max", 0) // missing in a kernel without swap
	return g, nil
}

func (g *cgroup) write(name string, value int64) error {
	file, err := os.OpenFile(filepath.Join(g.dir.Name(), name), os.O_WRONLY, 0) // never creates a file outside of a control group
	if err != nil {
		return err
	}
	_, err = file.WriteString(strconv.FormatInt(value, 10))
	return errors.Join(err, file.Close())
}

// peak returns the peak memory of the group, in MiB.
func (g *cgroup) peak() (int, error) {
	text, err := os.ReadFile(filepath.Join(g.dir.Name(), "memory.peak"))
	if err != nil {
		return 0, err
	}
	bytes, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return int(bytes >> 20), err
}

// remove waits briefly for ended processes to disappear.
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

// ticksPerSecond is the kernel's unit of CPU time, which is the same on all Linux systems that Go supports.
const ticksPerSecond = 100

// CPU returns the CPU time of the process.
func (p *Process) CPU() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("read CPU time: %w", err)
	}
	// The name of the program, in parentheses, may contain spaces.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	const user, system = 11, 12
	if len(fields) <= system {
		return 0, fmt.Errorf("read CPU time: %q is too short", text)
	}
	var ticks int64
	for _, field := range []string{fields[user], fields[system]} {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read CPU time: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond, nil
}

// PeakRSS returns the peak resident memory of the process, in MiB.
func (p *Process) PeakRSS() (int, error) { return p.memory("VmHWM:") }

// RSS returns the resident memory of the process, in MiB.
func (p *Process) RSS() (int, error) { return p.memory("VmRSS:") }

// Peak returns the peak memory of a process, in MiB, and the source of the figure: its control group where bridges are
// limited, which includes the kernel's memory, or otherwise its resident pages.
func (p *Process) Peak() (mib int, from string, err error) {
	if p.group != nil {
		mib, err = p.group.peak()
		return mib, "memory.peak", err
	}
	mib, err = p.PeakRSS()
	return mib, "VmHWM", err
}

func (p *Process) memory(name string) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("read memory: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			kib, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				return 0, fmt.Errorf("read memory: %w", err)
			}
			return kib / 1024, nil
		}
	}
	return 0, fmt.Errorf("read memory: no %s", name)
}

// Profile writes profiles of this process to the files that CPUPROFILE and MEMPROFILE name. The memory profile is taken
// when ctx ends, before the drain.
func Profile(ctx context.Context) (stop func(), err error) {
	stopCPU, err := profileCPU(os.Getenv("CPUPROFILE"))
	if err != nil {
		return nil, err
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		<-ctx.Done()
		if err := profileMemory(os.Getenv("MEMPROFILE")); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
		}
	}()
	return func() {
		stopCPU()
		if ctx.Err() != nil {
			<-written
		}
	}, nil
}

func profileCPU(path string) (stop func(), err error) {
	if path == "" {
		return func() {}, nil
	}
	file, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	return func() {
		pprof.StopCPUProfile()
		_ = file.Close()
	}, nil
}

func profileMemory(path string) error {
	if path == "" {
		return nil
	}
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	defer func() { _ = file.Close() }()
	runtime.GC()
	if err := pprof.WriteHeapProfile(file); err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	return nil
}
