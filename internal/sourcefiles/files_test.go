package sourcefiles

import (
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/runtimes/nodejs"
	"github.com/rouse-run/rouse/runtimes/python"
)

func TestFilesTravelInAConfigMapUnchanged(t *testing.T) {
	t.Parallel()
	files := Files{
		"handler.py": []byte("import lib\n"), "lib/__init__.py": {}, "lib/deep/er.py": []byte("x = 1\n"), "logo.png": {0x89, 'P', 0xff, 0},
	}
	text, binary, err := files.Data()
	require.NoError(t, err)
	require.Equal(t, map[string]string{"handler.py": "import lib\n", "lib..__init__.py": "", "lib..deep..er.py": "x = 1\n"}, text)
	back, err := FromConfigMap(text, binary)
	require.NoError(t, err)
	require.Equal(t, files.Digest(), back.Digest())
	require.Equal(t, files.Names(), back.Names())
}

func TestKeysThatLeaveTheFunctionsDirectoryAreRefused(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"..", "...", "....etc..passwd", "a....b", "a..", "..a", "a...", "a.....b"} {
		_, err := FromConfigMap(map[string]string{key: "x"}, nil)
		require.ErrorContains(t, err, "is no path of a file below the Function's directory", key)
	}
}

func TestFilesThatCannotLieBesideEachOtherAreRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		files map[string]string
		want  string
	}{
		"a file that is a folder": {map[string]string{"a": "", "a..b": ""}, `"a" is a file and the folder of "a/b"`},
		"names in two cases":      {map[string]string{"Lib.js": "", "lib.js": ""}, `"Lib.js" and "lib.js" differ only in case`},
		"no keys":                 {nil, "it has no keys"},
		"too many bytes":          {map[string]string{"a.js": strings.Repeat("a", MaxBytes), "b.js": "b"}, "the files take 1.0 MiB, and 1.0 MiB are allowed; the largest is a.js"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := FromConfigMap(tc.files, nil)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestPathsThatNoKeyCarriesAreRefused(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"a b.js":                 "has a character that no key of a ConfigMap may have",
		"ü.js":                   "has a character that no key of a ConfigMap may have",
		"a..b.js":                "stands for a slash",
		strings.Repeat("a", 254): "is too long",
		"a/../b":                 "stands for a slash",
		"/a":                     "is no path",
	} {
		_, err := KeyOf(name)
		require.ErrorContains(t, err, want, name)
	}
}

func TestDigestChangesWithPathsAndContents(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for name, files := range map[string]Files{
		"one":             {"a": []byte("b")},
		"another content": {"a": []byte("c")},
		"another path":    {"b": []byte("b")},
		"none":            {},
		"two":             {"a": []byte("b"), "c": nil},
		"moved boundary":  {"a": []byte("b1:c0:")},
	} {
		digest := files.Digest()
		require.NotContains(t, seen, digest, name)
		require.Equal(t, digest, maps.Clone(files).Digest())
		seen[digest] = name
	}
}

func TestFilesTakePrecedenceOverTheInlineSource(t *testing.T) {
	t.Parallel()
	node, python := nodejs.Language(), python.Language()
	only := Files{"lib/util.js": []byte("lib")}
	require.Equal(t, []string{"handler.js", "lib/util.js", "package.json"}, only.Over(node, "inline", `{"type":"module"}`).Names())
	require.Equal(t, []string{"lib/util.js"}, only.Over(node, " ", "").Names())

	for _, handler := range []string{"handler.mjs", "handler.ts"} {
		all := Files{handler: []byte("own"), "package.json": []byte("{}")}.Over(node, "inline", "other")
		require.Equal(t, []string{handler, "package.json"}, all.Names())
		require.Equal(t, "{}", string(all["package.json"]))
	}
	named := Files{"src/index.js": []byte("own"), "package.json": []byte(`{"main": "./src/index.js"}`)}
	require.NotContains(t, named.Over(node, "inline", ""), "handler.js")
	require.Equal(t, "own", string(Files{"handler.py": []byte("own")}.Over(python, "inline", "")["handler.py"]))
	require.Contains(t, Files{"handler.ts": nil}.Over(python, "inline", ""), "handler.py")
}
