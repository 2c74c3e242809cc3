package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rouse-run/rouse/internal/testing/screen"
)

// step is one thing to do, or to wait for.
type step func(ctx context.Context, s *screen.Screen) error

// parse reads a script.
func parse(script string) ([]step, error) {
	var steps []step
	for part := range strings.SplitSeq(script, ";") {
		verb, what, found := strings.Cut(strings.TrimSpace(part), ":")
		if !found {
			return nil, fmt.Errorf("step %q of the script is none of see:TEXT, gone:TEXT, type:KEYS and pause:TIME", part)
		}
		made, err := stepOf(verb, what)
		if err != nil {
			return nil, fmt.Errorf("step %q of the script: %w", part, err)
		}
		steps = append(steps, made)
	}
	return steps, nil
}

func stepOf(verb, what string) (step, error) {
	switch verb {
	case "see":
		return func(ctx context.Context, s *screen.Screen) error {
			return s.Await(ctx, func(text string) bool { return strings.Contains(text, what) })
		}, nil
	case "gone":
		return func(ctx context.Context, s *screen.Screen) error {
			return s.Await(ctx, func(text string) bool { return !strings.Contains(text, what) })
		}, nil
	case "type":
		keys, err := strconv.Unquote(`"` + what + `"`)
		if err != nil {
			return nil, fmt.Errorf("read the keys, which may have escapes such as \\r: %w", err)
		}
		return func(_ context.Context, s *screen.Screen) error { return s.Type(keys) }, nil
	case "pause":
		length, err := time.ParseDuration(what)
		if err != nil {
			return nil, fmt.Errorf("read the time: %w", err)
		}
		return func(ctx context.Context, _ *screen.Screen) error { return pause(ctx, length) }, nil
	default:
		return nil, fmt.Errorf("%q is none of see, gone, type and pause", verb)
	}
}

func pause(ctx context.Context, length time.Duration) error {
	select {
	case <-time.After(length):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("pause: %w", ctx.Err())
	}
}
