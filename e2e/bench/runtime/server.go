package runtime

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
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// greeting is what every server answers.
const greeting = "Hello, World!"

// language is one runtime: its folder, its bare server and its two APIs.
type language struct {
	name string
	// command runs a script.
	command string
	bare    string
	apis    []api
}

type api struct {
	name    string
	runtime string
	handler string
}

func languages() []language {
	return []language{
		{
			name: "nodejs", command: "node", bare: "bench_bare.js",
			apis: []api{
				{"legacy", "nodejs22", "exports.main = () => '" + greeting + "';\n"},
				{"modern", "nodejs26", "exports.main = (req, res) => { res.send('" + greeting + "'); };\n"},
			},
		},
		{
			name: "python", command: "python3", bare: "bench_bare.py",
			apis: []api{
				{"legacy", "python312", "def main(event, context):\n    return '" + greeting + "'\n"},
				{"modern", "python314", "def main():\n    return '" + greeting + "'\n"},
			},
		},
	}
}

// servers builds the language's image layer below directory and lists what to measure, the bare server first. None
// are the answer when the bare server is not there to compare with.
func (l language) servers(ctx context.Context, root, directory, collector string) ([]*server, error) {
	folder := filepath.Join(root, "runtimes", l.name)
	bare := filepath.Join(folder, l.bare)
	if _, err := os.Stat(bare); err != nil {
		fmt.Printf("%s is left out: %v\n", l.name, err)
		return nil, nil
	}
	layer := filepath.Join(directory, l.name)
	build := exec.CommandContext(ctx, filepath.Join(folder, "layer.sh"), layer)
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return nil, fmt.Errorf("build the layer of %s: %w", l.name, err)
	}
	img, err := readImage(filepath.Join(folder, "image.json"))
	if err != nil {
		return nil, err
	}
	// The packages of the layer are there for the bare server too: it runs on the same HTTP server.
	packages := "PYTHONPATH=" + filepath.Join(layer, "usr/src/app/site-packages")
	bareName := l.name + " bare"
	found := []*server{{name: bareName, command: []string{l.command, bare}, env: []string{"FUNC_PORT=0", "GREETING=" + greeting, packages}}}
	for _, a := range l.apis {
		env, err := a.environment(img, directory)
		if err != nil {
			return nil, err
		}
		command := relocate(img.Entrypoint, layer)
		traced := append(slices.Clone(env), "TRACE_COLLECTOR_ENDPOINT="+collector)
		found = append(found,
			&server{name: l.name + " " + a.name, of: bareName, command: command, env: env},
			&server{name: l.name + " " + a.name + " traced", of: bareName, traced: true, command: command, env: traced})
	}
	return found, nil
}

// environment is what the controller gives a Function, as far as it matters here.
func (a api) environment(img image, directory string) ([]string, error) {
	source, err := encode(a.handler)
	if err != nil {
		return nil, err
	}
	env := []string{
		"FUNC_PORT=0", "FUNC_NAME=hello", "SERVICE_NAMESPACE=bench", "FUNC_RUNTIME=" + a.runtime,
		"FUNC_HANDLER_SOURCE=" + source, "MOD_NAME=handler", "FUNC_HANDLER=main",
		"TERMINATION_LOG_PATH=" + os.DevNull, "TMPDIR=" + directory,
	}
	for name, value := range img.Env {
		env = append(env, name+"="+value)
	}
	return env, nil
}

// relocate is the entry point of an image whose root is somewhere else.
func relocate(entrypoint []string, root string) []string {
	moved := make([]string, 0, len(entrypoint))
	for _, argument := range entrypoint {
		if strings.HasPrefix(argument, "/") {
			argument = filepath.Join(root, argument)
		}
		moved = append(moved, argument)
	}
	return moved
}

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
