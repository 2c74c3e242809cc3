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

// Pages name the tests of their promises.
func TestEveryTestNamedInThePagesExists(t *testing.T) {
	t.Parallel()
	for page, least := range map[string]int{"security.md": 80, "operations.md": 14} {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		tests := namedTest.FindAllStringSubmatch(string(text), -1)
		require.Greater(t, len(tests), least, page)
		for _, test := range tests {
			requireSource(t, "func "+test[1]+"(", "_test.go")
		}
	}
}

func TestEveryAttackNamedInTheThreatModelExists(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("security.md")
	require.NoError(t, err)
	attacks := namedAttack.FindAllStringSubmatch(string(page), -1)
	require.Greater(t, len(attacks), 5)
	for _, attack := range attacks {
		requireSource(t, `"`+attack[1]+`"`, ".go")
	}
}

func requireSource(t *testing.T, text, ending string) {
	t.Helper()
	found, err := exec.CommandContext(t.Context(), "grep", "-rlF", "--include=*"+ending, text, "..").Output()
	require.NoError(t, err, "no source has %s", text)
	require.NotEmpty(t, strings.TrimSpace(string(found)))
}
