package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rouse-run/rouse/e2e/framework"
	"github.com/rouse-run/rouse/e2e/rig"
	"github.com/rouse-run/rouse/e2e/verbs"
)

// benchDev measures how long a saved file takes until rouse sync --watch says that the cluster answers with it, and how long the first
// rouse deploy of a Function of 20 files takes, whose image is built.
func benchDev(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("dev", flag.ExitOnError)
	rounds := flags.Int("rounds", 20, "how many saves")
	program := flags.String("rouse", "bin/rouse", "the built command")
	_ = flags.Parse(args)
	ctx, cancel := context.WithTimeout(ctx, 30*time.Minute)
	defer cancel()
	_, namespace, end, err := framework.ConnectWithin(ctx, "bench")
	if err != nil {
		return err
	}
	defer end()
	folder, err := os.MkdirTemp("", "rouse-bench-")
	if err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	rouse := verbs.Rouse{Program: *program, Where: []string{"--kubeconfig", os.Getenv("KUBECONFIG"), "-n", namespace}}
	if err := writeTwenty(folder); err != nil {
		return err
	}
	began := time.Now()
	if _, err := rouse.Run(ctx, "deploy", folder); err != nil {
		return err
	}
	deployed := time.Since(began)
	fmt.Printf("deploy of 20 files %.2f s\n", deployed.Seconds())
	saves, err := syncSaves(ctx, rouse, folder, *rounds)
	if err != nil {
		return err
	}
	fmt.Printf("dev cluster_sync_p50_ms=%.0f deploy_20_files_s=%.1f\n", rig.Milliseconds(saves, 50), deployed.Seconds())
	return nil
}

// writeTwenty writes a Function of 20 files of the source.
func writeTwenty(folder string) error {
	files := map[string]string{"function.yaml": `apiVersion: serverless.kyma-project.io/v1alpha2
kind: Function
metadata: {name: twenty}
spec:
  annotations: {rouse.run/files: twenty-files}
  runtime: nodejs22
  scaleConfig: {minReplicas: 1, maxReplicas: 1}
  source: {inline: {source: "// handler.ts"}}
`}
	var imports, sum strings.Builder
	for i := range 19 {
		files[fmt.Sprintf("lib/part%d.ts", i)] = fmt.Sprintf("export const part%d = (): string => '%d'\n", i, i)
		fmt.Fprintf(&imports, "import { part%d } from './lib/part%d'\n", i, i)
		fmt.Fprintf(&sum, " + part%d()", i)
	}
	files["handler.ts"] = imports.String() + "export const main = (): string => ''" + sum.String() + "\n"
	for name, content := range files {
		path := filepath.Join(folder, name)
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			err = os.WriteFile(path, []byte(content), 0o600)
		}
		if err != nil {
			return fmt.Errorf("write a Function: %w", err)
		}
	}
	return nil
}

// syncSaves saves a file again and again, and returns how long each took until the cluster answered with it.
func syncSaves(ctx context.Context, rouse verbs.Rouse, folder string, rounds int) (took []time.Duration, err error) {
	ctx, stop := context.WithCancel(ctx)
	command := rouse.Command(ctx, "sync", "--watch", folder)
	command.Stderr = os.Stderr
	out, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		stop()
		return nil, fmt.Errorf("start rouse sync: %w", err)
	}
	defer func() {
		stop()
		_ = command.Wait() // it was interrupted
	}()
	lines := bufio.NewScanner(out)
	answers := func() error {
		for lines.Scan() {
			if strings.Contains(lines.Text(), "function/twenty answers") {
				return nil
			}
		}
		return errors.Join(errors.New("rouse sync ended before its time"), lines.Err())
	}
	if err := answers(); err != nil {
		return nil, err
	}
	for round := range rounds {
		began := time.Now()
		text := fmt.Sprintf("export const part7 = (): string => 'save %d'\n", round)
		if err := os.WriteFile(filepath.Join(folder, "lib", "part7.ts"), []byte(text), 0o600); err != nil {
			return nil, fmt.Errorf("save a file: %w", err)
		}
		if err := answers(); err != nil {
			return nil, err
		}
		took = append(took, time.Since(began))
		fmt.Printf("save %2d  %5d ms\n", round+1, took[round].Milliseconds())
	}
	answer, err := rouse.Run(ctx, "invoke", "twenty")
	if err == nil && !strings.Contains(string(answer), fmt.Sprintf("save %d", rounds-1)) {
		err = fmt.Errorf("the cluster answers %.100q", answer)
	}
	return took, err
}
