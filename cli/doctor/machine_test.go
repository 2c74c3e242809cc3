package doctor

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/cli/output"
)

// lines returns the findings that are not ok, or all of a check.
func lines(r Report, check string) []string {
	var found []string
	for _, finding := range r.Findings {
		if finding.Check == check || check == "" && finding.Level != OK {
			found = append(found, string(finding.Level)+" "+finding.Check+": "+finding.Message+" / "+finding.Remedy)
		}
	}
	return found
}

func healthyMachine() Machine {
	return Machine{
		Directory: "orders",
		Languages: []Language{{Name: "nodejs", Title: "Node.js", Path: "/usr/bin/node", Version: "22.18.0"}},
		Ports:     []Port{{Number: 8080, Use: "the publish endpoint", Flag: "--port"}},
		Disks:     []Disk{{Use: "events", Folder: "/state", Variable: "XDG_STATE_HOME", Free: 4096 * mebibyte}},
		Folder:    Folder{Functions: 3},
	}
}

func TestAMachineIsExamined(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*Machine)
		want   string // of the only finding that is not ok
	}{
		"healthy": {func(*Machine) {}, ""},
		"an interpreter that no Function needs": {
			func(m *Machine) { m.Languages[0].Problem = "there is no node on the PATH; install Node.js" },
			"warning nodejs: there is no node on the PATH; no Function of the folder needs it / install Node.js",
		},
		"an interpreter that a Function needs": {
			func(m *Machine) {
				m.Languages[0].Problem, m.Languages[0].Functions = "node is Node.js 18.1, which is too old; install Node.js", []string{"orders/pricing"}
			},
			"failure nodejs: node is Node.js 18.1, which is too old, and orders/pricing needs it / install Node.js",
		},
		"a port that is taken": {
			func(m *Machine) { m.Ports[0].Taken = true },
			"warning ports: port 8080 is taken by another program, so the publish endpoint gets any other port / end that program, or choose another port with --port",
		},
		"a port that local mode has": {func(m *Machine) { m.Ports[0].Taken, m.Running = true, 7 }, ""},
		"little space": {
			func(m *Machine) { m.Disks[0].Free = 100 * mebibyte },
			"warning disk: /state has 100 MiB left for events / make room on the disk of /state, or set XDG_STATE_HOME to a folder on another",
		},
		"no space": {
			func(m *Machine) { m.Disks[0].Free = 12 * mebibyte },
			"failure disk: /state has 12 MiB left for events, and local mode needs 64 / make room on the disk of /state, or set XDG_STATE_HOME to a folder on another",
		},
		"a folder of another user": {
			func(m *Machine) { m.Disks[0].Problem = "you may not write into /" },
			"failure disk: /state cannot be used for events: you may not write into / / correct the permissions of /state, or set XDG_STATE_HOME to another folder",
		},
		"an object that does not run": {
			func(m *Machine) { m.Folder.Errors = []string{"fn.yaml:1: no"} },
			"failure manifests: fn.yaml:1: no / correct the file; docs/local.md says what is read",
		},
		"a folder that is not": {
			func(m *Machine) { m.Folder.Problem = "folder x does not exist" },
			"failure manifests: folder x does not exist / name the folder with --dir",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := healthyMachine()
			tc.change(&m)
			require.Equal(t, tc.want, strings.Join(lines(m.Examine(), ""), "\n"))
		})
	}
}

func TestManyProblemsAreCounted(t *testing.T) {
	t.Parallel()
	m := healthyMachine()
	m.Folder.Errors = []string{"1", "2", "3", "4", "5", "6", "7"}
	found := lines(m.Examine(), "manifests")
	require.Len(t, found, maxNamed+1)
	require.Contains(t, found[maxNamed], "and 2 more")
}

func TestAReportHasALineForEachFindingAndOneWithTheCounts(t *testing.T) {
	t.Parallel()
	m := healthyMachine()
	m.Ports[0].Taken = true
	m.Folder.Errors = []string{"fn.yaml:1: \x1b[31mno"}
	var out bytes.Buffer
	require.NoError(t, m.Examine().Print(&out, output.Style{}))
	require.Contains(t, out.String(), "ok        nodejs      Node.js 22.18.0 at /usr/bin/node\n")
	require.Contains(t, out.String(), "  do: end that program, or choose another port with --port\n")
	require.True(t, strings.HasSuffix(out.String(), "\nthis machine and orders: 2 ok, 1 warning, 1 failure\n"), out.String())
	require.NotContains(t, out.String(), "\x1b", "manifests must not write to the terminal")
}
