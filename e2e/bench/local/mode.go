package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rouse-run/rouse/e2e/verbs"
)

const (
	// bound is how long any step may take.
	bound = 2 * time.Minute
	look  = 50 * time.Millisecond
)

// mode is a local mode with a Function of each language.
type mode struct {
	folder string
	rouse  verbs.Rouse
}

// start returns when all Functions sleep.
func (m mode) start(ctx context.Context) (stop func(), err error) {
	for _, l := range languages() {
		if err := os.WriteFile(filepath.Join(m.folder, l.name+".yaml"), []byte(l.manifest()), 0o600); err != nil {
			return nil, fmt.Errorf("write a Function: %w", err)
		}
	}
	running, end := context.WithCancel(ctx)
	dev := verbs.Rouse{Program: m.rouse.Program, Env: m.rouse.Env}.Command(running, "dev", m.folder, "--plain", "--cooldown", "200ms")
	if err := dev.Start(); err != nil {
		end()
		return nil, fmt.Errorf("start local mode: %w", err)
	}
	stop = func() {
		end()
		_ = dev.Wait() // it was interrupted
	}
	for _, l := range languages() {
		if err := m.awaitAsleep(ctx, l); err != nil {
			stop()
			return nil, err
		}
	}
	return stop, nil
}

// wake publishes an event and returns how long after it was stored its handler printed a line.
func (m mode) wake(ctx context.Context, l language, round int) (time.Duration, error) {
	if err := m.awaitAsleep(ctx, l); err != nil {
		return 0, err
	}
	id := fmt.Sprintf("%s-%d-%d", l.name, round, time.Now().UnixNano())
	if _, err := m.rouse.Run(ctx, "publish", "--type", "wake."+l.name, "--source", "bench", "--id", id, "--data", "{}"); err != nil {
		return 0, err
	}
	var printed struct {
		Time time.Time
		Text string
	}
	err := m.rouse.Follow(ctx, func(line []byte) bool {
		return json.Unmarshal(line, &printed) == nil && strings.HasSuffix(printed.Text, "took "+id)
	}, "logs", "--follow", "bench/"+l.name, "-o", "json")
	if err != nil {
		return 0, err
	}
	var stored struct{ Time time.Time }
	if err := m.rouse.Read(ctx, &stored, "events", "tail", "--id", id, "--kind", "stored", "--since", "5m", "--limit", "1"); err != nil {
		return 0, err
	}
	return printed.Time.Sub(stored.Time), nil
}

// awaitAsleep waits until a Function has no replica. Local mode has no other way to be asked.
func (m mode) awaitAsleep(ctx context.Context, l language) error {
	var last error
	for deadline := time.Now().Add(bound); time.Now().Before(deadline); time.Sleep(look) {
		var functions []struct {
			Name, Phase string
		}
		last = m.rouse.Read(ctx, &functions, "functions")
		for _, f := range functions {
			if f.Name == l.name && f.Phase == "asleep" {
				return nil
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return errors.Join(fmt.Errorf("%s does not fall asleep within %s", l.name, bound), last)
}
