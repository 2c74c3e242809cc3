package rig

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
)

// profile writes profiles of a bridge to the files that CPUPROFILE and MEMPROFILE name. What is in memory counts at the
// moment that ctx ends, before the drain.
func profile(ctx context.Context) (stop func(), err error) {
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
