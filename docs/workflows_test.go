package docs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// workflow is what these tests read of one.
type workflow struct {
	On          any               `yaml:"on"`
	Permissions map[string]string `yaml:"permissions"`
	Jobs        map[string]struct {
		Timeout int `yaml:"timeout-minutes"`
		Steps   []struct {
			Uses string         `yaml:"uses"`
			Run  string         `yaml:"run"`
			With map[string]any `yaml:"with"`
		} `yaml:"steps"`
	} `yaml:"jobs"`
}

func workflows(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../.github/workflows/*.yaml")
	require.NoError(t, err)
	require.Greater(t, len(files), 5)
	texts := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		texts[filepath.Base(file)] = string(text)
	}
	return texts
}

func TestActionsArePinnedByDigestWithTheirVersionBeside(t *testing.T) {
	t.Parallel()
	pinned := regexp.MustCompile(`^([\w./-]+)@([0-9a-f]{40}) # (v\d+\.\d+\.\d+)$`)
	digests := map[string]string{}
	for file, text := range workflows(t) {
		for line := range strings.SplitSeq(text, "\n") {
			_, action, found := strings.Cut(line, "uses: ")
			if !found {
				continue
			}
			parts := pinned.FindStringSubmatch(action)
			require.NotNil(t, parts, "%s: %s", file, action)
			// Parts of a repository, such as codeql-action/init, are pinned together.
			names := strings.SplitN(parts[1], "/", 3)
			repository, pin := names[0]+"/"+names[1], parts[2]+" "+parts[3]
			if known := digests[repository]; known != "" {
				require.Equal(t, known, pin, "%s pins another version of %s", file, repository)
			}
			digests[repository] = pin
		}
	}
	require.Greater(t, len(digests), 5)
}

func TestWorkflowsHaveTheLeastRightsAndAnEnd(t *testing.T) {
	t.Parallel()
	for file, text := range workflows(t) {
		var w workflow
		require.NoError(t, yaml.Unmarshal([]byte(text), &w), file)
		require.Equal(t, map[string]string{"contents": "read"}, w.Permissions, "%s: more is for single jobs", file)
		require.NotContains(t, text, "pull_request_target", "%s: it would run a stranger's change with our rights", file)
		require.NotEmpty(t, w.Jobs, file)
		for name, job := range w.Jobs {
			require.Positive(t, job.Timeout, "%s: %s", file, name)
			for _, step := range job.Steps {
				if strings.HasPrefix(step.Uses, "actions/checkout@") {
					require.Equal(t, false, step.With["persist-credentials"], "%s: %s", file, name)
				}
				require.NotContains(t, step.Run, "${{", "%s: %s: a shell would run what an author wrote; use env", file, name)
			}
		}
	}
}

func TestWorkflowsCallTargetsOfMakeThatExist(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile("../Makefile")
	require.NoError(t, err)
	called := regexp.MustCompile(`\bmake ([a-z][a-z0-9-]*)`)
	found := 0
	for file, text := range workflows(t) {
		var w workflow
		require.NoError(t, yaml.Unmarshal([]byte(text), &w), file)
		for _, job := range w.Jobs {
			for _, step := range job.Steps {
				for _, call := range called.FindAllStringSubmatch(step.Run, -1) {
					found++
					_, _, there := strings.Cut(string(makefile), "\n"+call[1]+":")
					require.True(t, there, "%s calls make %s", file, call[1])
				}
			}
		}
	}
	require.Greater(t, found, 5)
}

func TestIssueFormsAskForSomethingUnderNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../.github/ISSUE_TEMPLATE/*.yaml")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 2)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		if filepath.Base(file) == "config.yaml" {
			var config struct {
				Links []struct{ Name, URL, About string } `yaml:"contact_links"`
			}
			require.NoError(t, yaml.Unmarshal(text, &config))
			require.NotEmpty(t, config.Links)
			continue
		}
		var form struct {
			Name, Description string
			Body              []struct {
				Type       string         `yaml:"type"`
				ID         string         `yaml:"id"`
				Attributes map[string]any `yaml:"attributes"`
			}
		}
		require.NoError(t, yaml.Unmarshal(text, &form), file)
		require.NotEmpty(t, form.Name, file)
		require.NotEmpty(t, form.Description, file)
		ids := map[string]bool{}
		for _, field := range form.Body {
			require.Contains(t, []string{"markdown", "input", "textarea", "dropdown", "checkboxes"}, field.Type, file)
			if field.Type == "markdown" {
				require.NotEmpty(t, field.Attributes["value"], file)
				continue
			}
			require.NotEmpty(t, field.Attributes["label"], file)
			require.False(t, field.ID == "" || ids[field.ID], "%s: %q", file, field.ID)
			ids[field.ID] = true
		}
		require.NotEmpty(t, ids, file)
	}
}

func TestOwnersAndUpdatesNameFilesThatExist(t *testing.T) {
	t.Parallel()
	owners, err := os.ReadFile("../.github/CODEOWNERS")
	require.NoError(t, err)
	for line := range strings.Lines(string(owners)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "#" || fields[0] == "*" {
			continue
		}
		require.Greater(t, len(fields), 1, line)
		require.True(t, strings.HasPrefix(fields[0], "/"), line)
		requireMatch(t, fields[0])
	}
	text, err := os.ReadFile("../renovate.json")
	require.NoError(t, err)
	var renovate struct {
		Rules []struct {
			Files []string `json:"matchFileNames"`
		} `json:"packageRules"`
		Managers []struct {
			Files   []string `json:"managerFilePatterns"`
			Matches []string `json:"matchStrings"`
		} `json:"customManagers"`
	}
	require.NoError(t, json.Unmarshal(text, &renovate))
	for _, rule := range renovate.Rules {
		for _, file := range rule.Files {
			requireMatch(t, "/"+strings.ReplaceAll(file, "**", "*"))
		}
	}
	require.NotEmpty(t, renovate.Managers)
	for _, manager := range renovate.Managers {
		for _, pattern := range manager.Files {
			requireRenovates(t, strings.Trim(pattern, "/"), manager.Matches)
		}
	}
}

func requireMatch(t *testing.T, pattern string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(strings.TrimSuffix(pattern, "/"))))
	require.NoError(t, err)
	require.NotEmpty(t, found, pattern)
}

// requireRenovates is for patterns of files in Go's form: a version that a custom manager is to find has to be there.
func requireRenovates(t *testing.T, file string, matches []string) {
	t.Helper()
	expression, err := regexp.Compile(file)
	require.NoError(t, err)
	hits := 0
	for _, folder := range []string{"../.github/workflows"} {
		entries, err := os.ReadDir(folder)
		require.NoError(t, err)
		for _, entry := range entries {
			name := strings.TrimPrefix(folder, "../") + "/" + entry.Name()
			if !expression.MatchString(name) {
				continue
			}
			text, err := os.ReadFile("../" + name)
			require.NoError(t, err)
			for _, match := range matches {
				hits += len(regexp.MustCompile(strings.ReplaceAll(match, "(?<", "(?P<")).FindAllString(string(text), -1))
			}
		}
	}
	require.Positive(t, hits, "%s: %v", file, matches)
}
