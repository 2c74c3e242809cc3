package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/rouse-run/rouse/e2e/rig"
	"github.com/rouse-run/rouse/e2e/verbs"
)

// benchDev measures how long a saved file takes until the Function of its folder answers with it, in local mode, for a Function that is awake and has
// files. With -cluster it also runs the part of the benchmark that needs one, whose figures stand at the end of the same line.
func benchDev(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("dev", flag.ExitOnError)
	rounds := flags.Int("rounds", 20, "how many saves of each language")
	program := flags.String("rouse", "bin/rouse", "the built command")
	cluster := flags.Bool("cluster", false, "also measure rouse sync and rouse deploy on the cluster that KUBECONFIG names")
	_ = flags.Parse(args)
	ctx, cancel := context.WithTimeout(ctx, 40*time.Minute)
	defer cancel()
	line, err := runDev(ctx, *rounds, *program)
	if err == nil && *cluster {
		var inCluster string
		inCluster, err = devInCluster(ctx, *program)
		line += " " + inCluster
	}
	if err == nil {
		fmt.Println(line)
	}
	return err
}

// devInCluster returns the figures of the other half, which needs the client of Kubernetes.
func devInCluster(ctx context.Context, program string) (string, error) {
	command := exec.CommandContext(ctx, "go", "run", "./e2e/bench/cluster", "dev", "-rouse", program)
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("measure in the cluster: %w", err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	for _, line := range lines[:len(lines)-1] {
		fmt.Println(line)
	}
	return strings.TrimPrefix(lines[len(lines)-1], "dev "), nil
}

// savedLanguage is a Function of two files, of which one has the answer.
type savedLanguage struct {
	name, runtime, handlerFile, handler, file, text string
}

func savedLanguages() []savedLanguage {
	return []savedLanguage{
		{"node", "nodejs22", "handler.js", "exports.main = () => require('./text')\n", "text.js", "module.exports = '%s'\n"},
		{"python", "python312", "handler.py", "import text\n\n\ndef main(event, context):\n    return text.TEXT\n", "text.py", "TEXT = '%s'\n"},
		{
			"go", "go126", "handler.go", "package handler\n\nimport (\n\t\"io\"\n\t\"net/http\"\n)\n\n" +
				"func Handle(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }\n",
			"text.go", "package handler\n\nconst text = \"%s\"\n",
		},
		{
			"typescript", "nodejs22", "handler.ts", "import { text } from './text'\nexport const main = (): string => text\n",
			"text.ts", "export const text: string = '%s'\n",
		},
	}
}

func (l savedLanguage) save(folder, text string) error {
	if err := os.WriteFile(filepath.Join(folder, l.name, l.file), fmt.Appendf(nil, l.text, text), 0o600); err != nil {
		return fmt.Errorf("save a file: %w", err)
	}
	return nil
}

func (l savedLanguage) write(folder string) error {
	const manifest = `apiVersion: serverless.kyma-project.io/v1alpha2
kind: Function
metadata: {name: %[1]s, namespace: bench}
spec:
  annotations: {rouse.run/files: %[1]s-files}
  runtime: %[2]s
  scaleConfig: {minReplicas: 1, maxReplicas: 1}
  source: {inline: {source: "the files"}}
`
	dir := filepath.Join(folder, l.name)
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "function.yaml"), fmt.Appendf(nil, manifest, l.name, l.runtime), 0o600)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, l.handlerFile), []byte(l.handler), 0o600)
	}
	if err != nil {
		return fmt.Errorf("write a Function: %w", err)
	}
	return l.save(folder, "first")
}

func runDev(ctx context.Context, rounds int, program string) (line string, err error) {
	folder, err := os.MkdirTemp("", "rouse-bench-")
	if err != nil {
		return "", fmt.Errorf("make a folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	for _, l := range savedLanguages() {
		if err := l.write(folder); err != nil {
			return "", err
		}
	}
	rouse := verbs.Rouse{Program: program, Where: []string{"--dir", folder}, Env: []string{"XDG_STATE_HOME=" + folder + "/.state"}}
	running, end := context.WithCancel(ctx)
	dev := verbs.Rouse{Program: program, Env: rouse.Env}.Command(running, "dev", folder, "--plain")
	if err := dev.Start(); err != nil {
		end()
		return "", fmt.Errorf("start local mode: %w", err)
	}
	defer func() {
		end()
		_ = dev.Wait() // it was interrupted
	}()
	figures := []string{"dev"}
	for _, l := range savedLanguages() {
		took, err := l.measure(ctx, rouse, folder, rounds)
		if err != nil {
			return "", fmt.Errorf("%s: %w", l.name, err)
		}
		name := l.name
		if name == "node" {
			name = "save_to_answer_node_p50_ms"
		}
		figures = append(figures, fmt.Sprintf("%s=%.0f", name, rig.Milliseconds(took, 50)))
	}
	return strings.Join(figures, " "), nil
}

// measure returns the times from a save until the Function answers with what was saved.
func (l savedLanguage) measure(ctx context.Context, rouse verbs.Rouse, folder string, rounds int) (times []time.Duration, err error) {
	url, err := urlOf(ctx, rouse, l.name)
	if err != nil {
		return nil, err
	}
	if _, err := awaitText(ctx, url, "first"); err != nil {
		return nil, err
	}
	for round := range rounds {
		text := fmt.Sprintf("save-%d", round)
		began := time.Now()
		if err := l.save(folder, text); err != nil {
			return nil, err
		}
		took, err := awaitTextSince(ctx, url, text, began)
		if err != nil {
			return nil, err
		}
		times = append(times, took)
		fmt.Printf("save %2d  %-10s %5d ms\n", round+1, l.name, took.Milliseconds())
	}
	return times, nil
}

// urlOf returns the address of a Function.
func urlOf(ctx context.Context, rouse verbs.Rouse, name string) (string, error) {
	var last error
	for deadline := time.Now().Add(bound); time.Now().Before(deadline) && ctx.Err() == nil; time.Sleep(look) {
		var functions []struct{ Name, URL string }
		last = rouse.Read(ctx, &functions, "functions")
		for _, f := range functions {
			if f.Name == name && f.URL != "" {
				return f.URL, nil
			}
		}
	}
	return "", errors.Join(fmt.Errorf("it has no address within %s", bound), last, ctx.Err())
}

func awaitText(ctx context.Context, url, text string) (time.Duration, error) {
	return awaitTextSince(ctx, url, text, time.Now())
}

// awaitTextSince asks until the answer is the text, and returns how long after began that was.
func awaitTextSince(ctx context.Context, url, text string, began time.Time) (time.Duration, error) {
	const pause = 2 * time.Millisecond
	var last error
	for deadline := time.Now().Add(bound); time.Now().Before(deadline) && ctx.Err() == nil; time.Sleep(pause) {
		answer, err := answerOf(ctx, url)
		if err == nil && answer == text {
			return time.Since(began), nil
		}
		last = errors.Join(err, fmt.Errorf("the last answer was %.100q", answer))
	}
	return 0, errors.Join(fmt.Errorf("it does not answer %s within %s", text, bound), last, ctx.Err())
}

func answerOf(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", fmt.Errorf("ask the Function: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", fmt.Errorf("ask the Function: %w", err)
	}
	text, err := io.ReadAll(response.Body)
	return string(text), errors.Join(err, response.Body.Close())
}
