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

func TestThisMachineIsRead(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(directory, "fn.yaml"), []byte(`apiVersion: serverless.kyma-project.io/v1alpha2
kind: Function
metadata: {name: greeter, namespace: orders}
spec: {runtime: nodejs22, source: {inline: {source: "x"}}}
---
apiVersion: serverless.kyma-project.io/v1alpha2
kind: Function
metadata: {name: odd, namespace: orders}
spec: {runtime: ruby}
`), 0o600))
	m, err := readMachine(t.Context(), directory)
	require.NoError(t, err)
	require.Equal(t, 1, m.Folder.Functions)
	require.NotEmpty(t, m.Folder.Errors)
	require.Equal(t, []string{"orders/greeter"}, m.Languages[0].Functions)
	require.Equal(t, "Node.js", m.Languages[0].Title)
	require.NotEmpty(t, m.Languages[0].Version+m.Languages[0].Problem)
	require.Len(t, m.Languages, 3)
	require.Len(t, m.Ports, 3)
	for _, disk := range m.Disks {
		require.Positive(t, disk.Free)
		require.Empty(t, disk.Problem)
	}
}
