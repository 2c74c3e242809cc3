// Command runtime measures how many requests a second a Function's server answers on one core, beside the bare HTTP
// server that it is built on: what it leaves is what the runtime's features cost. Servers take turns, round by round,
// so that all see the same machine; the load comes from another core.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

const (
	serverCore = "0"
	loadCore   = "1"
	// pinned marks the process that runs on loadCore.
	pinned = "BENCH_RUNTIME_PINNED"
)

type options struct {
	rounds      int
	connections int
	duration    time.Duration
	root        string
}

func main() {
	var o options
	flag.IntVar(&o.rounds, "rounds", 7, "how often each server gets its turn")
	flag.IntVar(&o.connections, "connections", 16, "how many connections are busy at once")
	flag.DurationVar(&o.duration, "duration", time.Second, "how long a turn is")
	flag.StringVar(&o.root, "root", ".", "the repository's root")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench-runtime:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop has run
	}
}

func run(ctx context.Context, o options) error {
	if err := pin(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	root, err := filepath.Abs(o.root)
	if err != nil {
		return fmt.Errorf("find the repository: %w", err)
	}
	directory, err := os.MkdirTemp("", "bench-runtime-")
	if err != nil {
		return fmt.Errorf("make a directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(directory) }()

	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusOK)
	}))
	defer collector.Close()

	fmt.Println("building the layers and starting the servers ...")
	var servers []*server
	for _, l := range languages() {
		found, err := l.servers(ctx, root, directory, collector.URL+"/v1/traces")
		if err != nil {
			return err
		}
		servers = append(servers, found...)
	}
	for _, s := range servers {
		defer s.stop()
		if err := s.start(ctx); err != nil {
			return err
		}
	}
	if err := measure(ctx, servers, o); err != nil {
		return err
	}
	return report(os.Stdout, servers)
}

// pin moves this process to the core of the load, once: there is no way to move all threads of a running one.
func pin() error {
	if os.Getenv(pinned) != "" {
		return nil
	}
	if runtime.NumCPU() < 2 {
		return errors.New("needs two cores: one for the server, one for the load")
	}
	taskset, err := exec.LookPath("taskset")
	if err != nil {
		return fmt.Errorf("pin to a core: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("pin to a core: %w", err)
	}
	arguments := append([]string{taskset, "-c", loadCore, self}, os.Args[1:]...)
	return syscall.Exec(taskset, arguments, append(os.Environ(), pinned+"=1"))
}

// measure lets every server warm up, and then gives them turns.
func measure(ctx context.Context, servers []*server, o options) error {
	for round := range o.rounds + 1 {
		for _, s := range servers {
			l, err := drive(ctx, s.address, o.connections, o.duration)
			if err != nil {
				return fmt.Errorf("drive %s: %w; it printed: %s", s.name, err, s.output)
			}
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("drive %s: %w", s.name, err)
			}
			if round > 0 {
				s.loads = append(s.loads, l)
			}
			if s.rss, err = memory(s.process.Process.Pid); err != nil {
				return err
			}
		}
	}
	return nil
}
