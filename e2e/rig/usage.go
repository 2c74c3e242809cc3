package rig

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// ticksPerSecond is the kernel's unit of CPU time, which is the same on all Linux that Go runs on.
const ticksPerSecond = 100

// CPU is the processor time that the process has used.
func (p *Process) CPU() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("read CPU time: %w", err)
	}
	// The name of the program, in parentheses, may have spaces.
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

// PeakRSS is the most memory that the process has had, in MiB.
func (p *Process) PeakRSS() (int, error) { return p.memory("VmHWM:") }

// RSS is the memory that the process has, in MiB.
func (p *Process) RSS() (int, error) { return p.memory("VmRSS:") }

// Peak is the most memory that a process has had, in MiB, and where the figure is from: its control group where the bridges
// are limited, which counts the kernel's as well, and otherwise the pages that it had.
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
