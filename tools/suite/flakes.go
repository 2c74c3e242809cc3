package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// runLimit is the timeout of one run of a package's tests, after which it fails with the stacks of all goroutines.
const runLimit = 15 * time.Minute

// binary is a package's compiled test binary. It is built by the first run and removed by the last.
type binary struct {
	of   *pkg
	path string
	once sync.Once
	err  error
	left atomic.Int64
}

// flaky is a test that failed in one run.
type flaky struct{ folder, test, seed, log string }

// flakes runs the tests of each package the given number of times. Twice as many test binaries run as there are cores,
// so that each test runs on a busy machine.
func flakes(ctx context.Context, out io.Writer, root string, runs int, patterns []string) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	if runs < 1 {
		return fmt.Errorf("-runs is %d: a test has to run at least once", runs)
	}
	packages, err := list(ctx, root, patterns...)
	if err != nil {
		return err
	}
	logs := filepath.Join(root, "bin", "flakes")
	if err := os.RemoveAll(logs); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "rouse-flakes-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	f := &flakeRun{out: out, root: root, logs: logs}
	f.runAll(ctx, dir, packages, runs)
	return f.report(ctx, runs)
}

// flakeRun collects the failures.
type flakeRun struct {
	out        io.Writer
	root, logs string
	mutex      sync.Mutex
	failed     []flaky
}

func (f *flakeRun) runAll(ctx context.Context, dir string, packages []*pkg, runs int) {
	type job struct {
		binary *binary
		run    int
	}
	jobs := make(chan job)
	var workers sync.WaitGroup
	for range 2 * runtime.NumCPU() {
		workers.Go(func() {
			for each := range jobs {
				f.runOnce(ctx, each.binary, each.run)
			}
		})
	}
	for _, p := range packages {
		if len(p.TestGoFiles)+len(p.XTestGoFiles) == 0 {
			continue
		}
		name := strings.ReplaceAll(strings.TrimPrefix(p.ImportPath, module+"/"), "/", "-")
		one := &binary{of: p, path: filepath.Join(dir, name+".test")}
		one.left.Store(int64(runs))
		for run := 1; run <= runs && ctx.Err() == nil; run++ {
			jobs <- job{one, run}
		}
	}
	close(jobs)
	workers.Wait()
}

// runOnce runs a package's tests once, in the package's folder like go test. It removes the log of a run that passed.
func (f *flakeRun) runOnce(ctx context.Context, b *binary, run int) {
	folder := strings.TrimPrefix(b.of.ImportPath, module+"/")
	name := strings.TrimSuffix(filepath.Base(b.path), ".test")
	b.once.Do(func() {
		log := filepath.Join(f.logs, name+".compile.log")
		b.err = step{f.root, []string{"go", "test", "-c", "-race", "-vet=off", "-o", b.path, b.of.ImportPath}, log, time.Second}.run(ctx)
		f.keep(ctx, b.err, folder, log)
	})
	if b.err == nil {
		log := filepath.Join(f.logs, fmt.Sprintf("%s.%d.log", name, run))
		begun := time.Now()
		err := step{b.of.Dir, []string{b.path, "-test.shuffle=on", "-test.parallel=4", "-test.timeout=" + runLimit.String()}, log, time.Second}.run(ctx)
		result := passed
		if err != nil {
			result = failed
		}
		_, _ = fmt.Fprintf(f.out, "flakes: %s run %d %s after %.1f s\n", folder, run, result, time.Since(begun).Seconds())
		f.keep(ctx, err, folder, log)
	}
	if b.left.Add(-1) == 0 {
		_ = os.Remove(b.path)
	}
}

var (
	shuffleSeed = regexp.MustCompile(`^-test\.shuffle (\d+)`)
	// noTest stands for a failure without a failed test, such as a data race after the last one.
	noTest = "(no test: see the log)"
)

// keep records the failures in a log, and removes the log of a run that passed or was interrupted.
func (f *flakeRun) keep(ctx context.Context, err error, folder, log string) {
	if err == nil || ctx.Err() != nil {
		_ = os.Remove(log)
		return
	}
	text, _ := os.ReadFile(log) //nolint:gosec // its name is made above
	var tests []string
	seed := "none"
	for line := range strings.SplitSeq(string(text), "\n") {
		if found := match(shuffleSeed, line); found != "" {
			seed = found
		}
		if name := match(failedTest, line) + match(timedOutTest, line); name != "" && !slices.Contains(tests, name) {
			tests = append(tests, name)
		}
	}
	if len(tests) == 0 {
		tests = []string{noTest}
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	for _, test := range tests {
		f.failed = append(f.failed, flaky{folder, test, seed, log})
	}
}

// report lists each failure of each test, and the total number of tests that ever failed.
func (f *flakeRun) report(ctx context.Context, runs int) error {
	slices.SortFunc(f.failed, func(a, b flaky) int {
		return strings.Compare(a.folder+" "+a.test+" "+a.log, b.folder+" "+b.test+" "+b.log)
	})
	tests := map[string]bool{}
	for _, each := range f.failed {
		tests[each.folder+" "+each.test] = true
		_, _ = fmt.Fprintf(f.out, "failed %s %s seed=%s log=%s\n", each.folder, each.test, each.seed, each.log)
		if each.seed != "none" {
			_, _ = fmt.Fprintf(f.out, "    again: make test-unit PACKAGES=./%s SHUFFLE=%s\n", each.folder, each.seed)
		}
	}
	if ctx.Err() != nil {
		_, _ = fmt.Fprintf(f.out, "flakes: interrupted\n")
		return errFailed
	}
	_, _ = fmt.Fprintf(f.out, "flakes runs=%d failed=%d\n", runs, len(tests))
	if len(tests) > 0 {
		return errFailed
	}
	return nil
}
