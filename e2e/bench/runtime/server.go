package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const startLimit = 20 * time.Second

var listening = regexp.MustCompile(`listening on \S*:(\d+)`)

// server is one process that is measured. For the bare ones it is a script of a few lines on the same HTTP server.
type server struct {
	name    string
	of      string // the bare server of the same language; empty for that itself
	traced  bool   // spans are collected, which the share in the last line is not about
	command []string
	env     []string

	process *exec.Cmd
	output  *output
	address string
	loads   []load
	rss     int
}

// start pins the server to its core and waits until it listens.
func (s *server) start(ctx context.Context) error {
	s.output = &output{}
	s.process = exec.CommandContext(ctx, "taskset", append([]string{"-c", serverCore}, s.command...)...)
	s.process.Env = append(os.Environ(), s.env...)
	s.process.Stdout, s.process.Stderr = s.output, s.output
	if err := s.process.Start(); err != nil {
		return fmt.Errorf("start %s: %w", s.name, err)
	}
	deadline := time.Now().Add(startLimit)
	for time.Now().Before(deadline) {
		if match := listening.FindStringSubmatch(s.output.String()); match != nil {
			s.address = "127.0.0.1:" + match[1]
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return fmt.Errorf("%s does not listen after %s; it printed: %s", s.name, startLimit, s.output)
}

func (s *server) stop() {
	if s.process == nil || s.process.Process == nil {
		return
	}
	_ = s.process.Process.Signal(syscall.SIGTERM)
	timer := time.AfterFunc(5*time.Second, func() { _ = s.process.Process.Kill() })
	defer timer.Stop()
	_ = s.process.Wait()
}

// memory is the resident set in MiB of the process and all it has started.
func memory(pid int) (int, error) {
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0, fmt.Errorf("read memory of process: %w", err)
	}
	match := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(status)
	if match == nil {
		return 0, errors.New("process has no resident set")
	}
	kib, err := strconv.Atoi(string(match[1]))
	if err != nil {
		return 0, fmt.Errorf("read memory of process: %w", err)
	}
	total := kib / 1024
	children, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task/*/children"))
	if err != nil {
		return 0, fmt.Errorf("list children: %w", err)
	}
	for _, file := range children {
		list, err := os.ReadFile(file)
		if err != nil {
			continue // a thread that has ended
		}
		for child := range strings.FieldsSeq(string(list)) {
			if number, err := strconv.Atoi(child); err == nil {
				more, _ := memory(number)
				total += more
			}
		}
	}
	return total, nil
}

// output keeps what a server prints.
type output struct {
	mutex  sync.Mutex
	buffer bytes.Buffer
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.buffer.Write(p)
}

// String is everything so far.
func (o *output) String() string {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.buffer.String()
}

// encode packs a handler's source as the controller does.
func encode(source string) (string, error) {
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	if _, err := writer.Write([]byte(source)); err != nil {
		return "", fmt.Errorf("pack handler: %w", err)
	}
	if err := writer.Close(); err != nil {
		return "", fmt.Errorf("pack handler: %w", err)
	}
	return base64.StdEncoding.EncodeToString(packed.Bytes()), nil
}

// image is what a runtime's image.json says.
type image struct {
	Entrypoint []string          `json:"entrypoint"`
	Env        map[string]string `json:"env"`
}

func readImage(file string) (image, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return image{}, fmt.Errorf("read image: %w", err)
	}
	var img image
	if err := json.Unmarshal(content, &img); err != nil {
		return image{}, fmt.Errorf("read image %s: %w", file, err)
	}
	return img, nil
}
