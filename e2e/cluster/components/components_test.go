package components

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/e2e/cluster/state"
)

// repository makes a checkout with one module.
func repository(t *testing.T) (Builder, string) {
	t.Helper()
	root := t.TempDir()
	module := filepath.Join(root, "module")
	require.NoError(t, state.Write(filepath.Join(module, "go.mod"), "module example.org/m\n\ngo 1.26.0\n"))
	require.NoError(t, state.Write(filepath.Join(module, "go.sum"), ""))
	require.NoError(t, state.Write(filepath.Join(module, "main.go"), "package main\n\nfunc main() { println(\"hello\") }\n"))
	return Builder{Repository: root, Cache: state.Cache(t.TempDir()), Logs: t.TempDir()}, module
}

func TestKeyChangesWithTheInputsOfTheBinary(t *testing.T) {
	t.Parallel()
	base := Component{Name: "hello", Module: "module", Package: "."}
	cases := map[string]struct {
		change func(t *testing.T, module string)
		with   Component
		same   bool
	}{
		"nothing":               {with: base, same: true},
		"another file":          {with: base, same: true, change: write("README.md")},
		"the time it takes":     {with: Component{Name: "hello", Module: "module", Package: ".", About: "1 s"}, same: true},
		"the module's versions": {with: base, change: write("go.mod")},
		"the checksums":         {with: base, change: write("go.sum")},
		"the main package":      {with: base, change: write("main.go")},
		"the flags":             {with: Component{Name: "hello", Module: "module", Package: ".", LDFlags: "-X a=b"}},
		"the links":             {with: Component{Name: "hello", Module: "module", Package: ".", Links: []string{"kubectl"}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			builder, module := repository(t)
			before, err := builder.key(base)
			require.NoError(t, err)
			if tc.change != nil {
				tc.change(t, module)
			}
			after, err := builder.key(tc.with)
			require.NoError(t, err)
			require.Equal(t, tc.same, before == after)
		})
	}
}

func write(name string) func(*testing.T, string) {
	return func(t *testing.T, module string) {
		t.Helper()
		require.NoError(t, state.Write(filepath.Join(module, name), "changed"))
	}
}

func TestBuildPutsTheBinaryAndItsLinksIntoTheCacheOnce(t *testing.T) {
	t.Parallel()
	builder, _ := repository(t)
	hello := Component{Name: "hello", Module: "module", Package: ".", Links: []string{"bonjour"}}
	require.False(t, builder.Cached(hello))
	built, err := builder.Build(t.Context(), hello)
	require.NoError(t, err)
	require.True(t, built.New)
	require.True(t, builder.Cached(hello))
	target, err := filepath.EvalSymlinks(built.Path("bonjour"))
	require.NoError(t, err)
	require.Equal(t, built.Path("hello"), target)

	again, err := builder.Build(t.Context(), hello)
	require.NoError(t, err)
	require.False(t, again.New)
	require.Equal(t, built.Dir, again.Dir)
}

func TestFailedBuildLeavesNothingInTheCache(t *testing.T) {
	t.Parallel()
	builder, module := repository(t)
	require.NoError(t, state.Write(filepath.Join(module, "main.go"), "package main\n\nfunc main() { undefined() }\n"))
	_, err := builder.Build(t.Context(), Component{Name: "hello", Module: "module", Package: "."})
	require.ErrorContains(t, err, "build hello")
	left, err := os.ReadDir(builder.Cache.Path("components"))
	require.NoError(t, err)
	require.Empty(t, left)
}
