package docs

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	namedTest   = regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9]+)`")
	namedAttack = regexp.MustCompile(`attack "([^"]+)"`)
)

// A threat model is worth what its tests are.
func TestEachTestThatTheThreatModelNamesIsThere(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("security.md")
	require.NoError(t, err)
	tests := namedTest.FindAllStringSubmatch(string(page), -1)
	require.Greater(t, len(tests), 20)
	for _, test := range tests {
		requireSource(t, "func "+test[1]+"(", "_test.go")
	}
	attacks := namedAttack.FindAllStringSubmatch(string(page), -1)
	require.Greater(t, len(attacks), 5)
	for _, attack := range attacks {
		requireSource(t, `"`+attack[1]+`"`, ".go")
	}
}

func requireSource(t *testing.T, text, ending string) {
	t.Helper()
	found, err := exec.CommandContext(t.Context(), "grep", "-rlF", "--include=*"+ending, text, "..").Output()
	require.NoError(t, err, "nothing says %s", text)
	require.NotEmpty(t, strings.TrimSpace(string(found)))
}
