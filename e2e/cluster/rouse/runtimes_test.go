package rouse

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTableOfRuntimesListsTheTestedVersions(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/compatibility.md")
	require.NoError(t, err)
	_, after, found := strings.Cut(string(page), "\n| runtime |")
	require.True(t, found)
	table, _, _ := strings.Cut(after, "\n\n")
	rows := map[string]string{}
	for _, row := range regexp.MustCompile("\n\\| `([a-z0-9]+)` \\| ([^|]+) \\|").FindAllStringSubmatch(table, -1) {
		rows[row[1]] = row[2]
	}
	want := map[string]string{}
	for _, runtime := range Catalogue() {
		words := strings.Fields(runtime.Really)
		want[runtime.Name] = words[0] + " " + words[1]
	}
	require.Equal(t, want, rows)
}
