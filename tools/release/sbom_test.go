package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestModulesAreReadFromABinary(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "release")
	_, err := program{}.Run(t.Context(), "go", "build", "-o", binary, ".") // a test's binary contains less information
	require.NoError(t, err)
	found, err := goModules(binary, binary)
	require.NoError(t, err)
	var names []string
	for _, each := range found {
		names = append(names, each.Name)
	}
	require.Contains(t, names, "stdlib")
	require.Contains(t, names, "github.com/spdx/tools-golang")
}

func TestPackagesOfRuntimesComeFromTheirLockFiles(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		file, content string
		want          []component
	}{
		"npm, without development packages": {
			"package-lock.json",
			`{"packages": {"": {}, "sdk": {"version": "0.0.1"}, "node_modules/sdk": {"version": "0.0.1", "dev": true}, "node_modules/@opentelemetry/api": {"version": "1.9.0"}, "node_modules/a/node_modules/b": {"version": "2.0.0"}, "node_modules/eslint": {"version": "9.0.0", "dev": true}}}`,
			[]component{
				{Name: "@opentelemetry/api", Version: "1.9.0", Locator: "pkg:npm/%40opentelemetry/api@1.9.0"},
				{Name: "b", Version: "2.0.0", Locator: "pkg:npm/b@2.0.0"},
			},
		},
		"pip": {
			"requirements.txt", "flask==3.1.3 \\\n    --hash=sha256:00\n# flask==1\n",
			[]component{{Name: "flask", Version: "3.1.3", Locator: "pkg:pypi/flask@3.1.3"}},
		},
		"neither": {"main.go", "package main", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, test.file), []byte(test.content), 0o600))
			found, err := runtimePackages(dir)
			require.NoError(t, err)
			require.Equal(t, test.want, found)
		})
	}
}

func TestDocumentIsReproducible(t *testing.T) {
	t.Parallel()
	document := sbomDocument{Name: "rouse", Version: "v0.1.0", Created: time.Unix(0, 0), Contents: []component{{Name: "stdlib", Version: "go1.26.0", Locator: "pkg:golang/stdlib@go1.26.0"}}}
	one, two := filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "two")
	require.NoError(t, document.Write(one))
	require.NoError(t, document.Write(two))
	first, err := os.ReadFile(one)
	require.NoError(t, err)
	second, err := os.ReadFile(two)
	require.NoError(t, err)
	require.Equal(t, string(first), string(second))
	var read map[string]any
	require.NoError(t, json.Unmarshal(first, &read))
	require.Equal(t, "SPDX-2.3", read["spdxVersion"])
	require.Len(t, read["packages"], 2)
}
