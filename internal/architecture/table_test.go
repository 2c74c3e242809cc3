package architecture

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// rule is a row of the table in docs/architecture.md.
type rule struct {
	imports []string // folders of this module
	pure    bool
}

const (
	tableHead = "| folder | owns | may import |\n|---|---|---|\n"
	nothing   = "nothing of ours"
)

var (
	quoted     = regexp.MustCompile("`([^`]+)`")
	quotedList = regexp.MustCompile("^`[^`]+`(, `[^`]+`)*$")
)

// rules reads the table, by folder.
func rules(t *testing.T) map[string]rule {
	t.Helper()
	page, err := os.ReadFile("../../docs/architecture.md")
	require.NoError(t, err)
	_, rows, found := strings.Cut(string(page), tableHead)
	require.True(t, found, "docs/architecture.md has no table with the head %q", tableHead)
	table := map[string]rule{}
	for line := range strings.Lines(rows) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		require.Len(t, cells, 3, line)
		folders, owns, imports := strings.TrimSpace(cells[0]), strings.TrimSpace(cells[1]), strings.TrimSpace(cells[2])
		require.Regexp(t, quotedList, folders, line)
		row := rule{pure: strings.HasSuffix(owns, "; pure")}
		if imports != nothing {
			require.Regexp(t, quotedList, imports, "folders or %q, and no other words: %s", nothing, line)
			row.imports = names(imports)
		}
		for _, folder := range names(folders) {
			require.NotContains(t, table, folder, "it has two rows")
			require.DirExists(t, "../../"+folder)
			table[folder] = row
		}
	}
	return table
}

func names(cell string) []string {
	var all []string
	for _, match := range quoted.FindAllStringSubmatch(cell, -1) {
		all = append(all, match[1])
	}
	return all
}

// ruleOf is the rule of the longest folder that the package lies in.
func ruleOf(table map[string]rule, path string) (folder string, row rule) {
	for candidate, r := range table {
		if within(path, candidate) && len(candidate) > len(folder) {
			folder, row = candidate, r
		}
	}
	return folder, row
}

func within(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, folder+"/")
}
