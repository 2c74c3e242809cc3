package docs

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	link       = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	codeBlock  = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	codeSpan   = regexp.MustCompile("`[^`\n]*`")
	heading    = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	notInASlug = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	picture    = regexp.MustCompile(`(?:\]\(|src="|srcset=")([^")]+\.(?:png|svg))[")]`)
	nodeNeeded = regexp.MustCompile(`Node\.js (\d+(?:\.\d+)?) or newer`)
)

// pages returns the text of each page in Markdown for users and contributors, by its path from the repository's root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, root := range []string{"../README.md", "../CONTRIBUTING.md", "../SECURITY.md", "../docs", "../samples", "../e2e/cluster/README.md"} {
		require.NoError(t, filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".md" {
				return err
			}
			text, err := os.ReadFile(path)
			texts[filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator)))] = string(text)
			return err
		}))
	}
	require.Greater(t, len(texts), 50)
	return texts
}

// anchors returns what a page's headings are linked by, as GitHub derives it.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	for _, title := range heading.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
		plain := link.ReplaceAllString(title[1], "")
		found[strings.ReplaceAll(notInASlug.ReplaceAllString(strings.ToLower(plain), ""), " ", "-")] = true
	}
	return found
}

func TestEachLinkOfThePagesLeadsToAFileAndAHeading(t *testing.T) {
	t.Parallel()
	texts := pages(t)
	for page, text := range texts {
		prose := codeSpan.ReplaceAllString(codeBlock.ReplaceAllString(text, ""), "")
		for _, found := range link.FindAllStringSubmatch(prose, -1) {
			target, anchor, _ := strings.Cut(found[1], "#")
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			file := page
			if target != "" {
				file = filepath.ToSlash(filepath.Join(filepath.Dir(page), filepath.FromSlash(target)))
				if _, err := os.Stat(filepath.Join("..", filepath.FromSlash(file))); err != nil {
					t.Errorf("%s links to %s, which does not exist", page, found[1])
					continue
				}
			}
			if linked, isPage := texts[file]; isPage && anchor != "" && !anchors(linked)[anchor] {
				t.Errorf("%s links to %s, which has no such heading", page, found[1])
			}
		}
	}
}

// A blank line ends a table: the rows below it are shown as text.
func TestNoTableOfThePagesIsCutOff(t *testing.T) {
	t.Parallel()
	rule := regexp.MustCompile(`^\|[-:| ]+\|$`)
	for page, text := range pages(t) {
		lines := strings.Split(codeBlock.ReplaceAllString(text, ""), "\n")
		for i, row := range lines {
			first := strings.HasPrefix(row, "|") && (i == 0 || !strings.HasPrefix(lines[i-1], "|"))
			if first && (i+1 == len(lines) || !rule.MatchString(lines[i+1])) {
				t.Errorf("%s: the row %q belongs to no table", page, row)
			}
		}
	}
}

func TestThePagesNameTheOldestNodeThatRuns(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../runtimes/nodejs/package.json")
	require.NoError(t, err)
	var manifest struct {
		Engines struct{ Node string }
	}
	require.NoError(t, json.Unmarshal(text, &manifest))
	needed := strings.TrimPrefix(manifest.Engines.Node, ">=")
	require.NotEmpty(t, needed)
	mentions := 0
	for page, text := range pages(t) {
		for _, found := range nodeNeeded.FindAllStringSubmatch(text, -1) {
			mentions++
			if found[1] != needed {
				t.Errorf("%s asks for Node.js %s, and the runtimes for %s", page, found[1], needed)
			}
		}
	}
	require.Greater(t, mentions, 3)
}

// A clone has all pictures of the past, so they are few and small.
func TestEveryPictureIsThereAndShownByAPage(t *testing.T) {
	t.Parallel()
	shown := map[string]bool{}
	for page, text := range pages(t) {
		for _, found := range picture.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(found[1], "://") {
				shown[filepath.Join("..", filepath.Dir(page), found[1])] = true
			}
		}
	}
	files, err := filepath.Glob("images/*")
	require.NoError(t, err)
	bytes := int64(0)
	for _, file := range files {
		info, err := os.Stat(file)
		require.NoError(t, err)
		bytes += info.Size()
		require.True(t, shown[filepath.Join("../docs", file)], "no page shows %s", file)
	}
	require.Less(t, bytes, int64(5<<20)/2)
	for file := range shown {
		require.FileExists(t, file)
	}
}
