package command_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/e2e/cluster/command"
)

func TestRunReturnsStandardOutput(t *testing.T) {
	t.Parallel()
	out, err := command.Command{Name: "sh", Args: []string{"-c", "echo out; echo err >&2"}}.Run(t.Context())
	require.NoError(t, err)
	require.Equal(t, "out\n", out)
}

func TestErrorCarriesTheEndOfTheOutput(t *testing.T) {
	t.Parallel()
	for name, log := range map[string]string{"kept": "", "in a log": filepath.Join(t.TempDir(), "deep", "log")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := command.Command{Name: "sh", Args: []string{"-c", "seq 100; exit 3"}, Log: log}.Run(t.Context())
			var failed *command.Error
			require.ErrorAs(t, err, &failed)
			require.Equal(t, log, failed.Log)
			require.Regexp(t, `^76\n(.+\n)+100$`, failed.Tail)
		})
	}
}

func TestCancelKillsTheChildrenToo(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := command.Command{Name: "sh", Args: []string{"-c", "sleep 60 & wait"}}.Run(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Less(t, time.Since(began), 30*time.Second)
}

func TestAwait(t *testing.T) {
	t.Parallel()
	calls := 0
	err := command.Await(t.Context(), time.Minute, time.Millisecond, "ready", func(context.Context) error {
		calls++
		if calls < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, 3, calls)

	reason := errors.New("connection refused")
	err = command.Await(t.Context(), 10*time.Millisecond, time.Millisecond, "ready", func(context.Context) error { return reason })
	require.ErrorIs(t, err, reason)
	require.ErrorContains(t, err, "ready not within 10ms")
}
