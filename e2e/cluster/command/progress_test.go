package command_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/e2e/cluster/command"
)

func TestStepPrintsOneAlignedLine(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	report := command.NewProgress(&out)
	err := report.Step(t.Context(), "etcd", func(_ context.Context, detail command.Detail) error {
		detail("%s", "https://10.0.0.1\nsecond line")
		return nil
	})
	require.NoError(t, err)
	require.Regexp(t, `^ok   etcd +https://10\.0\.0\.1 +0\.0s\n$`, out.String())
}

func TestExplainNamesTheStepAndShowsTheEndOfTheLog(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	report := command.NewProgress(&out)
	err := report.Step(t.Context(), "kubelet", func(context.Context, command.Detail) error {
		return &command.Error{Command: "kubelet", Log: "/logs/kubelet.log", Tail: "first\nlast words", Err: errors.New("exit status 1")}
	})
	require.Error(t, err)
	out.Reset()
	report.Explain(err)
	require.Equal(t, "\nfailed in step \"kubelet\":\n  kubelet: exit status 1\n\nend of /logs/kubelet.log:\n  | first\n  | last words\n", out.String())
}
