package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// once runs make targets that check the dependencies of the binaries, unless they succeeded with the same dependencies
// today on this machine. The day is included because new vulnerabilities become known.
func once(ctx context.Context, out io.Writer, root string, targets []string) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	cache, err := cacheDir()
	if err != nil {
		return err
	}
	key, err := dependenciesKey(ctx, root, time.Now())
	if err != nil {
		return fmt.Errorf("hash the dependencies of the binaries: %w", err)
	}
	failures := 0
	for _, target := range targets {
		stamp := filepath.Join(cache, "checked", target+"-"+key)
		if _, err := os.Stat(stamp); err == nil {
			_, _ = fmt.Fprintf(out, "%s: skipped, it succeeded today with the same dependencies (make %s runs it again)\n", target, target)
			continue
		}
		log := filepath.Join(root, "bin", "once", target+".log")
		_ = os.Remove(log)
		stop := follow(out, log)
		err := step{root, []string{"make", target}, log, time.Second}.run(ctx)
		stop()
		if err == nil {
			err = keepStamp(stamp, log)
		}
		if err != nil {
			failures++
			_, _ = fmt.Fprintf(out, "suite: make %s: %v\n", target, err)
		}
	}
	if failures > 0 {
		return errFailed
	}
	return nil
}

// notChecked is printed by the check of vulnerabilities when it succeeds without a response of the database.
const notChecked = "not checked"

// keepStamp marks the targets as done, unless the log shows that a check was skipped.
func keepStamp(stamp, log string) error {
	text, err := os.ReadFile(log) //nolint:gosec // it was just written
	if err != nil || strings.Contains(string(text), notChecked) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(stamp), 0o755); err != nil { //nolint:gosec // as all of the cache
		return err
	}
	return os.WriteFile(stamp, nil, 0o644) //nolint:gosec // it is empty
}

func cacheDir() (string, error) {
	if dir := os.Getenv("ROUSE_CACHE"); dir != "" {
		return dir, nil
	}
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "rouse"), err
}

// dependenciesKey hashes the day, the toolchain, the versions of modules, the checks themselves with their exceptions,
// and the third-party packages that the binaries import on each system.
func dependenciesKey(ctx context.Context, root string, now time.Time) (string, error) {
	hash := sha256.New()
	add := func(part string) { _, _ = fmt.Fprintf(hash, "%d:%s", len(part), part) }
	add(now.UTC().Format(time.DateOnly))
	add(os.Getenv("VULNDB_REQUIRED") + " " + os.Getenv("GOVULNDB"))
	for _, argv := range [][]string{
		{"go", "version"},
		{"env", "GOOS=linux", "go", "list", "-deps", "-f", "{{.ImportPath}}", "./cmd/...", "./runtimes/..."},
		{"env", "GOOS=darwin", "go", "list", "-deps", "-f", "{{.ImportPath}}", "./cmd/...", "./runtimes/..."},
	} {
		text, err := output(ctx, root, argv...)
		if err != nil {
			return "", err
		}
		lines := slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return strings.HasPrefix(line, module+"/") })
		slices.Sort(lines)
		add(strings.Join(lines, "\n"))
	}
	for _, path := range []string{"go.mod", "go.sum", "tools/supply"} {
		err := filepath.WalkDir(filepath.Join(root, path), func(file string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			text, err := os.ReadFile(file) //nolint:gosec // a file of the repository
			add(strings.TrimPrefix(file, root))
			add(string(text))
			return err
		})
		if err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(hash.Sum(nil))[:16], nil
}
