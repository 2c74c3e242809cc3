package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// tier is a named check. Its commands run in order, each even if a previous one failed.
type tier struct {
	name     string
	commands []command
}

type command struct {
	dir  string
	argv []string
}

// stage consists of lanes that run concurrently, and the tiers of a lane run one after the other.
type stage [][]tier

// outcome is the result of a tier.
type outcome struct {
	tier   string
	took   time.Duration
	result string
	log    string
}

const (
	passed = "passed"
	failed = "FAILED"
	notRun = "not run"
)

// cleanUp is the maximum duration of an interrupted tier: the end-to-end tests remove their cluster.
const cleanUp = 5 * time.Minute

// reportEvery is the interval at which concurrently running tiers are listed: CI takes a long silence for a hang.
const reportEvery = time.Minute

// runTiers runs stages of make targets as described by usage.
func runTiers(ctx context.Context, out io.Writer, root string, specification []string) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	var stages []stage
	for _, text := range specification {
		var lanes stage
		for lane := range strings.SplitSeq(text, "|") {
			var tiers []tier
			for name := range strings.FieldsSeq(lane) {
				tiers = append(tiers, tier{name, []command{{root, []string{"make", name}}}})
			}
			lanes = append(lanes, tiers)
		}
		stages = append(stages, lanes)
	}
	return newRunner(out, root, "tiers").run(ctx, stages)
}

// runner runs tiers and records their outcomes in the order in which they ended.
type runner struct {
	out        io.Writer
	root, logs string

	mutex    sync.Mutex
	running  map[string]time.Time
	outcomes []outcome
}

func newRunner(out io.Writer, root, name string) *runner {
	return &runner{out: out, root: root, logs: filepath.Join(root, "bin", name), running: map[string]time.Time{}}
}

// run runs the stages and prints the table and the failures.
func (r *runner) run(ctx context.Context, stages []stage) error {
	for _, lanes := range stages {
		alone := len(lanes) == 1
		stop := func() {}
		if !alone {
			stop = r.reportRunning()
		}
		var group sync.WaitGroup
		for _, lane := range lanes {
			group.Go(func() {
				for _, each := range lane {
					r.runTier(ctx, each, alone)
				}
			})
		}
		group.Wait()
		stop()
	}
	return r.summarize(ctx)
}

// runTier streams the output of a tier that runs alone, and prints the output of others if they fail.
func (r *runner) runTier(ctx context.Context, t tier, alone bool) {
	done := outcome{tier: t.name, result: notRun, log: filepath.Join(r.logs, t.name+".log")}
	if ctx.Err() == nil {
		r.printf("== %s: started\n", t.name)
		r.mark(t.name, true)
		begun := time.Now()
		done.result = r.runCommands(ctx, t, done.log, alone)
		done.took = time.Since(begun)
		r.mark(t.name, false)
		if done.result == failed && !alone {
			text, _ := os.ReadFile(done.log)
			r.printf("== %s: FAILED, its output:\n%s", t.name, text)
		}
		r.printf("== %s: %s after %.0f s\n", t.name, done.result, done.took.Seconds())
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.outcomes = append(r.outcomes, done)
}

func (r *runner) runCommands(ctx context.Context, t tier, log string, alone bool) string {
	result := passed
	var logs []string
	for n, each := range t.commands {
		part := fmt.Sprintf("%s.%d", log, n)
		_ = os.Remove(part) // from an earlier run
		stop := func() {}
		if alone {
			stop = follow(r.out, part)
		}
		err := step{dir: each.dir, argv: each.argv, log: part, grace: cleanUp}.run(ctx)
		stop()
		if err != nil {
			result = failed
			r.note(part, fmt.Sprintf("suite: %s: %v\n", strings.Join(each.argv, " "), err))
		}
		logs = append(logs, part)
	}
	if err := join(log, logs); err != nil {
		r.printf("suite: keep the output of %s: %v\n", t.name, err)
	}
	return result
}

// note appends to a log, which does not exist if the command could not be started.
func (r *runner) note(log, text string) {
	file, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644) //nolint:gosec // logs are not secret
	if err == nil {
		_, err = io.WriteString(file, text)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		r.printf("suite: write %s: %v\n", log, err)
	}
}

// join concatenates files into one and removes them.
func join(path string, parts []string) error {
	var all []byte
	for _, part := range parts {
		text, err := os.ReadFile(part) //nolint:gosec // a log
		if err != nil {
			return err
		}
		all = append(all, text...)
		if err := os.Remove(part); err != nil {
			return err
		}
	}
	return os.WriteFile(path, all, 0o644) //nolint:gosec // logs are not secret
}

func (r *runner) mark(tier string, runs bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if runs {
		r.running[tier] = time.Now()
	} else {
		delete(r.running, tier)
	}
}

func (r *runner) reportRunning() (stop func()) {
	ended, finished := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(finished)
		ticker := time.NewTicker(reportEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ended:
				return
			case <-ticker.C:
				var parts []string
				r.mutex.Lock()
				for name, since := range r.running {
					parts = append(parts, fmt.Sprintf("%s for %.0f s", name, time.Since(since).Seconds()))
				}
				r.mutex.Unlock()
				slices.Sort(parts)
				r.printf("== running: %s\n", strings.Join(parts, ", "))
			}
		}
	}()
	return func() { close(ended); <-finished }
}

func (r *runner) summarize(ctx context.Context) error {
	table := tabwriter.NewWriter(r.out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "\ntier\tseconds\tresult")
	var problems []string
	for _, done := range r.outcomes {
		_, _ = fmt.Fprintf(table, "%s\t%.0f\t%s\n", done.tier, done.took.Seconds(), done.result)
		if done.result != failed {
			continue
		}
		text, _ := os.ReadFile(done.log)
		for _, each := range failuresOf(done.tier, string(text), r.root) {
			problems = append(problems, fmt.Sprintf("  %s: %s\n    again: %s\n", done.tier, each.what, each.again))
		}
		for _, reason := range reasonsOf(string(text)) {
			problems = append(problems, "    "+reason+"\n")
		}
	}
	_ = table.Flush()
	if ctx.Err() != nil {
		r.printf("\ninterrupted\n")
		return errFailed
	}
	if len(problems) > 0 {
		r.printf("\nfailed (all output is in %s):\n%s", r.logs, strings.Join(problems, ""))
		return errFailed
	}
	return nil
}

func (r *runner) printf(format string, args ...any) { _, _ = fmt.Fprintf(r.out, format, args...) }
