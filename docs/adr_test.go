package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// decisions returns the title and the text of each decision, by its file's name.
func decisions(t *testing.T) (titles, texts map[string]string) {
	t.Helper()
	files, err := filepath.Glob("adr/0*.md")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	titles, texts = map[string]string{}, map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		title, _, _ := strings.Cut(string(text), "\n")
		titles[filepath.Base(file)], texts[filepath.Base(file)] = title, string(text)
	}
	return titles, texts
}

func TestTheIndexOfDecisionsHasEachTitleStatusAndDate(t *testing.T) {
	t.Parallel()
	index, err := os.ReadFile("adr/README.md")
	require.NoError(t, err)
	row := regexp.MustCompile(`(?m)^\| (\d+) \| \[([^\]]+)\]\(([^)]+)\) \| (accepted|superseded by \[\d+\]\([^)]+\)) \| (\d{4}-\d\d-\d\d) \|$`)
	rows := row.FindAllStringSubmatch(string(index), -1)
	titles, texts := decisions(t)
	require.Len(t, rows, len(titles), "each decision has a row, and each row a decision")
	for _, cells := range rows {
		number, title, file, status, date := cells[1], cells[2], cells[3], cells[4], cells[5]
		require.Equal(t, "# "+number+". "+title, titles[file], "the index and %s", file)
		state, _, _ := strings.Cut(status, " [")
		require.Contains(t, texts[file], "\nStatus: "+state, "the index and %s", file)
		require.Contains(t, texts[file], date, "the index and %s", file)
	}
}

// The code and the pages name a decision by its number, which may have left the folder.
func TestEachDecisionThatIsNamedExists(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "grep", "-rnoE", "--include=*.go", "--include=*.md", "--include=*.yaml", "--include=Makefile", "--exclude-dir=node_modules", `\bADR [0-9]+`, "..").Output()
	require.NoError(t, err)
	titles, _ := decisions(t)
	numbers := map[string]bool{"14": true} // how its garbage was collected is superseded by 76, which says so
	for _, title := range titles {
		number, _, _ := strings.Cut(strings.TrimPrefix(title, "# "), ".")
		numbers[number] = true
	}
	mentions := strings.Split(strings.TrimSpace(string(out)), "\n")
	require.Greater(t, len(mentions), 40)
	for _, mention := range mentions {
		_, number, _ := strings.Cut(mention, "ADR ")
		require.True(t, numbers[number], "%s: no such decision", mention)
	}
}
