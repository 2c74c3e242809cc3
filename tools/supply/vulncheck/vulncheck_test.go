package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// database is a folder with one entry: strings.Repeat of the standard library is vulnerable in every version.
func database(t *testing.T, modified time.Time) string {
	t.Helper()
	dir := t.TempDir()
	const id = "GO-2000-0001"
	write := func(name string, value any) {
		text, err := json.Marshal(value)
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o750))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	write("index/db.json", map[string]any{"modified": modified})
	write("index/modules.json", []any{map[string]any{"path": "stdlib", "vulns": []any{map[string]any{"id": id, "modified": modified}}}})
	write("ID/"+id+".json", map[string]any{
		"schema_version": "1.3.1", "id": id, "modified": modified, "published": modified, "summary": "it repeats too much",
		"affected": []any{map[string]any{
			"package":            map[string]any{"name": "stdlib", "ecosystem": "Go"},
			"ranges":             []any{map[string]any{"type": "SEMVER", "events": []any{map[string]any{"introduced": "0"}}}},
			"ecosystem_specific": map[string]any{"imports": []any{map[string]any{"path": "strings", "symbols": []any{"Repeat"}}}},
		}},
	})
	return dir
}

func program(t *testing.T, body string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.com/program\n\ngo 1.26\n"), 0o600))
	source := "package main\n\nimport \"strings\"\n\nfunc main() { " + body + " }\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(source), 0o600))
	return dir
}

type ran struct {
	code          int
	out, messages string
}

func vulncheck(t *testing.T, dir string, environment map[string]string) ran {
	t.Helper()
	var out, messages bytes.Buffer
	code := run(t.Context(), []string{"-C", dir, "./..."}, func(name string) string { return environment[name] }, &out, &messages)
	return ran{code, out.String(), messages.String()}
}

func TestAReachableVulnerabilityFailsAndOneThatIsNotPasses(t *testing.T) {
	t.Parallel()
	asked := map[string]string{"GOVULNDB": "file://" + database(t, time.Now()), "VULNDB_REQUIRED": "1"}

	failed := vulncheck(t, program(t, `println(strings.Repeat("a", 3))`), asked)
	require.Equal(t, 1, failed.code, failed)
	require.Contains(t, failed.out, "it repeats too much")
	require.Contains(t, failed.out, "reachable: strings.Repeat, from example.com/program.main")
	require.Contains(t, failed.out, "no version fixes it yet")
	require.Contains(t, failed.out, "vulnerabilities: reachable=1 ")

	passed := vulncheck(t, program(t, `println(strings.Contains("a", "b"))`), asked)
	require.Equal(t, 0, passed.code, passed)
	require.Contains(t, passed.out, "vulnerabilities: reachable=0 required_and_not_reachable=1 ")
}

func TestWithoutAnAnswerNothingPassesSilently(t *testing.T) {
	t.Parallel()
	refusing := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(refusing.Close)
	empty := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		zipped := gzip.NewWriter(w)
		_, _ = zipped.Write([]byte("{}"))
		_ = zipped.Close()
	}))
	t.Cleanup(empty.Close)
	away := httptest.NewServer(http.NotFoundHandler())
	away.Close()
	for name, tc := range map[string]struct{ database, want string }{
		"an address that nobody answers": {away.URL, "is unreachable"},
		"a server that refuses":          {refusing.URL, "it answers 404"},
		"a database without a time":      {empty.URL, "its index has no time"},
		"a folder that is not there":     {"file://" + filepath.Join(t.TempDir(), "none"), "is unreachable"},
		"a copy of long ago":             {"file://" + database(t, time.Now().Add(-40*24*time.Hour)), "40 days old"},
	} {
		dir := program(t, `println(strings.Repeat("a", 3))`)
		got := vulncheck(t, dir, map[string]string{"GOVULNDB": tc.database})
		require.Equal(t, 0, got.code, name)
		require.True(t, strings.HasPrefix(got.out, "vulnerabilities: not checked: the database "), "%s: %s", name, got.out)
		require.Contains(t, got.out, tc.want, name)
		got = vulncheck(t, dir, map[string]string{"GOVULNDB": tc.database, "VULNDB_REQUIRED": "1"})
		require.Equal(t, 1, got.code, name)
		require.Contains(t, got.out, "not checked", name)
	}
}

func TestAProgramThatDoesNotCompileIsAFailureAndNoPass(t *testing.T) {
	t.Parallel()
	got := vulncheck(t, program(t, `nothing(strings.ToUpper(""))`), map[string]string{"GOVULNDB": "file://" + database(t, time.Now())})
	require.Equal(t, 1, got.code)
	require.NotContains(t, got.out, "reachable=0")
}

func TestAStreamThatBreaksOffIsAnError(t *testing.T) {
	t.Parallel()
	for _, stream := range []string{"", "{", `{"progress":{"message":"x"}}`, `{"config":{}}`} {
		_, err := read(strings.NewReader(stream))
		require.Error(t, err, stream)
	}
}
