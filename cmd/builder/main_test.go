package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/internal/testing/envtest"
	"github.com/rouse-run/rouse/internal/testing/loopback"
	"github.com/rouse-run/rouse/runtimes/language"
)

func TestFirstArgumentSelectsTheCommand(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{}, {"serve"}, {"--help"}} {
		var stderr bytes.Buffer
		require.Equal(t, 2, start(args, io.Discard, &stderr))
		require.Contains(t, stderr.String(), "fetch, install, push or prepare")
	}
	for _, args := range [][]string{{"push", "--work-dir="}, {"prepare", "--port=1"}} {
		require.Equal(t, 2, start(args, io.Discard, io.Discard), args)
	}
}

func TestCopyIsIdenticalToTheProgram(t *testing.T) {
	t.Parallel()
	to := t.TempDir()
	for range 2 { // like a restarted container
		require.NoError(t, envtest.Write(func() error { return copyProgram(to) }))
	}
	output, err := exec.CommandContext(t.Context(), filepath.Join(to, "builder"), "-test.list", "CopyIsIdentical").CombinedOutput()
	require.NoError(t, err, string(output))
	require.Contains(t, string(output), "TestCopyIsIdenticalToTheProgram")
	require.ErrorContains(t, copyProgram(filepath.Join(to, "nowhere")), "write the copy")
}

func TestTheResultIsTheTerminationMessageAndTheExitCode(t *testing.T) {
	t.Parallel()
	address := loopback.Address(t)
	for name, tc := range map[string]struct {
		command string
		plan    buildplan.Plan
		code    int
		want    language.Reason
	}{
		"prepared":             {"prepare", buildplan.Plan{Runtime: "nodejs22", Source: "exports.main = () => 1"}, 0, ""},
		"does not compile":     {"prepare", buildplan.Plan{Runtime: "nodejs22", Source: "exports.main = ("}, 1, language.SourceInvalid},
		"no registry responds": {"push", buildplan.Plan{Runtime: "nodejs22", Base: "base:1", Target: address + "/a:1"}, 1, language.RegistryUnavailable},
		"a key that is too large": {"fetch", buildplan.Plan{
			Runtime: "nodejs22", Git: &buildplan.Git{URL: "ssh://git@" + address + "/shop.git", Auth: "key"},
		}, 1, language.SourceUnavailable},
		"an unsupported repository": {"fetch", buildplan.Plan{Runtime: "nodejs22", Git: &buildplan.Git{URL: "file:///etc"}}, 1, language.SourceUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			text, err := buildplan.EncodePlan(tc.plan)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(root, buildplan.PlanFile), text, 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(root, "key"), make([]byte, 20<<10), 0o600)) // in place of the Git credentials
			require.NoError(t, os.Mkdir(filepath.Join(root, "function"), 0o700))
			source := filepath.Join(root, "source")
			require.NoError(t, os.Mkdir(source, 0o700))
			handover, err := os.MkdirTemp("", "h") //nolint:usetesting // a name that leaves room for that of a socket
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, os.RemoveAll(handover)) })
			message := filepath.Join(root, "termination-log")
			run := func(command, work, message string) int {
				return start([]string{
					command, "--input-dir", root, "--registry-dir", root, "--git-dir", root, "--packages-dir", root,
					"--source-dir", source, "--binary-dir", root, "--handover-dir", handover,
					"--work-dir", filepath.Join(root, work), "--function-dir", filepath.Join(root, "function"), "--termination-log", message,
				}, io.Discard, io.Discard)
			}
			var beside sync.WaitGroup
			if tc.command == "push" {
				beside.Go(func() { run("install", "beside", filepath.Join(root, "other-log")) })
			}
			require.Equal(t, tc.code, run(tc.command, "work", message))
			beside.Wait()
			text, err = os.ReadFile(message)
			require.NoError(t, err)
			result, err := buildplan.DecodeResult(string(text))
			require.NoError(t, err)
			require.Equal(t, tc.want, result.Reason, result.Message)
			if tc.code == 0 {
				require.FileExists(t, filepath.Join(root, "function", "handler.js"))
			}
		})
	}
}
