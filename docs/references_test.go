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

// shared lists what tenants and strangers share. What is missing here and in the table is found by the next review.
var shared = []string{
	"reconcile workers", "Git checks", "lists of references", "SSH keys", "answers of registries", "build slots", "image collection", "hand-overs to stand-ins", "rollouts of settings", "HTTP activation ports",
	"registry: requests", "registry: manifests", "registry: bytes", "registry: uploads", "registry: tags", "conversion webhook: memory", "conversion webhook: CPU",
	"gateway: connections", "gateway: requests under way", "gateway: waiting requests", "gateway: HTTP/2 streams", "gateway: wakes", "gateway: headers of answers",
	"gateway: JWT verifications", "gateway: JWKS places", "gateway: large JWKS answers", "gateway: streams of the load", "publishing: connections", "publishing: memory", "publishing: token reviews",
	"publishing: events that wait to be stored", "publishing: events that are stored together", "publishing: replies that are being stored",
	"dashboard: streams", "dashboard: sessions", "dashboard: logins", "dashboard: logins that have begun at the issuer", "admin API: slots", "admin API: token reviews", "filters: CPU", "filters: memory", "deliveries: memory", "retries", "dead letters", "stream of events",
	"events that one event causes", "Schedules", "delayed events", "work on what is due", "Doors", "Doors: requests that are read", "Doors: memory", "Doors: places to compute", "Doors: keys", "Doors: known deliveries", "journal", "last wakes", "Events", "logs of debugging", "metrics", "scaler: questions to pods", "scaler: triggers that it follows",
}

// Each resource has its total, its share, its bound in time, what who is over it gets, and a test that attacks it.
func TestSharedResourcesHaveAShareAndATest(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("security.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(page), "\n## What is shared\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	rows := map[string][]string{}
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) > 1 {
			rows[strings.TrimSpace(cells[0])] = cells
		}
	}
	for _, resource := range shared {
		cells := rows[resource]
		require.Len(t, cells, 6, "the table has no row of six cells for %q", resource)
		for _, cell := range cells {
			require.NotEmpty(t, strings.TrimSpace(cell), resource)
		}
		tests := namedTest.FindAllStringSubmatch(cells[5], -1)
		require.NotEmpty(t, tests, "no test attacks %q", resource)
		for _, test := range tests {
			requireSource(t, "func "+test[1]+"(", "_test.go")
		}
	}
	require.Len(t, rows, len(shared)+2, "a row is not in the list of this test") // and the head with its rule
}

func requireSource(t *testing.T, text, ending string) {
	t.Helper()
	found, err := exec.CommandContext(t.Context(), "grep", "-rlF", "--include=*"+ending, text, "..").Output()
	require.NoError(t, err, "no source has %s", text)
	require.NotEmpty(t, strings.TrimSpace(string(found)))
}
