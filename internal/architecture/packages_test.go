package architecture

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// shortest is the number of lines below which a package joins its neighbor.
const shortest = 60

// short lists the packages below that number, with the reason why each is a package of its own.
var short = map[string]string{
	"charts":                         "go:embed reads only what lies below its file",
	"cmd/rouse":                      "a process",
	"e2e/sleepwake":                  "a process",
	"eventbridge/replica":            "eventbridge's own tests import jetstream, so neither of them can make both",
	"internal/applyconfig":           "pure builders of two controllers import it",
	"internal/testing/never":         "tests of packages that loopback imports use it",
	"internal/testing/output":        "tests of packages with nothing else in common read output while it is written",
	"runtimes/golang/function/crash": "a build imports it before everything else of a Function",
	"runtimes/languages":             "the languages import what it would join",
}

func TestAPackageIsWorthARowOrJoinsItsNeighbor(t *testing.T) {
	t.Parallel()
	found := map[string]bool{}
	for _, pkg := range list(t) {
		path := strings.TrimPrefix(pkg.ImportPath, module)
		lines, files := 0, 0
		for _, file := range sources(t, path) {
			if filepath.Base(file) == "doc.go" {
				continue
			}
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			lines += bytes.Count(text, []byte("\n"))
			files++
		}
		if files == 0 || lines >= shortest {
			continue // a package without such files holds tests
		}
		found[path] = true
		require.Contains(t, short, path, "%s has %d lines: join a package that uses it, or give its reason here", path, lines)
	}
	for path := range short {
		require.True(t, found[path], "%s is no short package any more", path)
	}
}
