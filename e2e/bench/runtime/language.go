package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
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
