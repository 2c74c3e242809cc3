package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/cli/doctor"
	"github.com/rouse-run/rouse/cli/exit"
)

func TestDoctorEndsWithTheWorstThatItFinds(t *testing.T) {
	t.Parallel()
	wrong := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(wrong, "fn.yaml"), []byte("apiVersion: serverless.kyma-project.io/v1alpha2\nkind: Function\nmetadata: {name: a}\nspec: {}\n"), 0o600))
	for name, tc := range map[string]struct {
		args []string
		code exit.Code
		says string
	}{
		"a folder with a problem":       {[]string{"--dir", wrong}, exit.Failed, "failure"},
		"a folder that is not":          {[]string{"--dir", filepath.Join(wrong, "none")}, exit.Failed, "name the folder with --dir"},
		"a cluster that is not":         {[]string{"--context", "nowhere", "--kubeconfig", filepath.Join(wrong, "none")}, exit.Unreachable, "read the kubeconfig"},
		"an argument that is not taken": {[]string{"orders"}, exit.Usage, `unknown command "orders"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := run(t, "", append([]string{"doctor"}, tc.args...)...)
			require.Equal(t, int(tc.code), got.code, "%s%s", got.out, got.err)
			require.Contains(t, got.out+got.err, tc.says)
		})
	}
}

func TestDoctorWritesItsReportForPrograms(t *testing.T) {
	t.Parallel()
	got := run(t, "", "doctor", "--dir", t.TempDir(), "-o", "json")
	var report doctor.Report
	require.NoError(t, json.Unmarshal([]byte(got.out), &report), got.out+got.err)
	require.Len(t, report.Findings, report.OK+report.Warnings+report.Failures)
	require.NotEmpty(t, report.Findings)
	require.Equal(t, report.Failures > 0, got.code == int(exit.Failed))
}
