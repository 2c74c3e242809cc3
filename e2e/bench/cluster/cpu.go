package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// cpuTimes is the CPU time of the machine's processes by their command. The local cluster runs on the machine that measures it.
type cpuTimes map[string]time.Duration

// readCPU sums the times of threads, which the kernel counts in nanoseconds. Processes that have ended are not in it.
func readCPU() cpuTimes {
	times := cpuTimes{}
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, process := range processes {
		command := commandOf(process)
		threads, _ := filepath.Glob(filepath.Join(process, "task", "*", "schedstat"))
		for _, thread := range threads {
			text, err := os.ReadFile(thread) // it may have ended
			if err != nil {
				continue
			}
			ran, _, _ := strings.Cut(string(text), " ")
			nanoseconds, _ := strconv.ParseInt(ran, 10, 64)
			times[command] += time.Duration(nanoseconds)
		}
	}
	return times
}

func commandOf(process string) string {
	line, _ := os.ReadFile(filepath.Join(process, "cmdline"))
	program, _, _ := strings.Cut(string(line), "\x00")
	if program == "" {
		return "kernel"
	}
	return filepath.Base(program)
}

// cpuRecord sums what processes took in several starts of pods.
type cpuRecord struct {
	sum    cpuTimes
	starts int
}

// watch adds what processes take from now until the address of a pod is known. The returned function waits for that.
func (r *cpuRecord) watch(ctx context.Context, addressed <-chan struct{}) (add func()) {
	if r == nil {
		return func() {}
	}
	before, after := readCPU(), make(chan cpuTimes, 1)
	go func() {
		select {
		case <-addressed:
			after <- readCPU()
		case <-ctx.Done():
			after <- before
		}
	}()
	return func() {
		r.starts++
		for command, took := range <-after {
			r.sum[command] += max(took-before[command], 0)
		}
	}
}

// printCPU prints the milliseconds that processes took until a pod had its address, the largest differences first.
func printCPU(wakes, bares *cpuRecord) {
	of := func(r *cpuRecord, command string) float64 {
		return float64(r.sum[command].Microseconds()) / 1000 / float64(max(r.starts, 1))
	}
	commands := slices.Collect(maps.Keys(wakes.sum))
	slices.SortFunc(commands, func(a, b string) int {
		return int(1000 * ((of(wakes, b) - of(bares, b)) - (of(wakes, a) - of(bares, a))))
	})
	fmt.Printf("%-30s %8s %8s\n", "CPU ms until the address, of", "wake", "bare")
	for _, command := range commands {
		if wake, bare := of(wakes, command), of(bares, command); max(wake, bare) >= 1 {
			fmt.Printf("%-30s %8.1f %8.1f\n", command, wake, bare)
		}
	}
	fmt.Println()
}
