package supply

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// database makes a folder with one entry: strings.Repeat of the standard library is vulnerable in every version.
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
		"database_specific": map[string]any{"url": "https://pkg.go.dev/vuln/" + id},
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

// run returns the output of a script, and whether it succeeded.
func run(t *testing.T, environment []string, script string, args ...string) (printed string, passed bool) {
	t.Helper()
	command := exec.CommandContext(t.Context(), script, args...)
	command.Env = append(os.Environ(), environment...)
	out, err := command.CombinedOutput()
	return string(out), err == nil
}

func TestOnlyReachableVulnerabilitiesFail(t *testing.T) {
	t.Parallel()
	required := []string{"GOVULNDB=file://" + database(t, time.Now()), "VULNDB_REQUIRED=1"}

	printed, passed := run(t, required, "./vulncheck.sh", program(t, `println(strings.Repeat("a", 3))`), "./...")
	require.False(t, passed, printed)
	require.Contains(t, printed, "it repeats too much")
	require.Contains(t, printed, "strings.Repeat")

	printed, passed = run(t, required, "./vulncheck.sh", program(t, `println(strings.Contains("a", "b"))`), "./...")
	require.True(t, passed, printed)
	require.Contains(t, printed, "Your code is affected by 0 vulnerabilities")

	printed, passed = run(t, required, "./vulncheck.sh", program(t, `nothing(strings.ToUpper(""))`), "./...")
	require.False(t, passed, "it does not compile: %s", printed)
}

func TestMissingDatabaseIsReported(t *testing.T) {
	t.Parallel()
	refusing := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(refusing.Close)
	empty := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) }))
	t.Cleanup(empty.Close)
	away := httptest.NewServer(http.NotFoundHandler())
	away.Close()
	dir := program(t, `println(strings.Repeat("a", 3))`)
	for name, tc := range map[string]struct{ database, want string }{
		"an address without a server": {away.URL, "is unreachable"},
		"a server that refuses":       {refusing.URL, "404"},
		"a database without a time":   {empty.URL, "has no time in its index"},
		"a missing folder":            {"file://" + filepath.Join(t.TempDir(), "none"), "is unreachable"},
		"an outdated copy":            {"file://" + database(t, time.Now().Add(-40*24*time.Hour)), "40 days old"},
	} {
		printed, passed := run(t, []string{"GOVULNDB=" + tc.database, "VULNDB_REQUIRED="}, "./vulncheck.sh", dir, "./...")
		require.True(t, passed, name)
		require.True(t, strings.HasPrefix(printed, "vulnerabilities: not checked: the database "), "%s: %s", name, printed)
		require.Contains(t, printed, tc.want, name)
		printed, passed = run(t, []string{"GOVULNDB=" + tc.database, "VULNDB_REQUIRED=1"}, "./vulncheck.sh", dir, "./...")
		require.False(t, passed, name)
		require.Contains(t, printed, "not checked", name)
	}
}

// repository makes a repository with one commit for each message after a first one without a sign-off.
func repository(t *testing.T, messages ...string) string {
	t.Helper()
	dir := t.TempDir()
	git := func(args ...string) {
		all := append([]string{"-C", dir, "-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "commit.gpgsign=false"}, args...)
		printed, err := exec.CommandContext(t.Context(), "git", all...).CombinedOutput()
		require.NoError(t, err, string(printed))
	}
	git("init", "-q", "-b", "main")
	git("commit", "-q", "--allow-empty", "-m", "Begin")
	git("branch", "base")
	for _, message := range messages {
		git("commit", "-q", "--allow-empty", "-m", message)
	}
	git("checkout", "-q", "-b", "side", "base")
	git("commit", "-q", "--allow-empty", "-m", "Aside\n\nSigned-off-by: Ada <ada@example.com>")
	git("checkout", "-q", "main")
	git("merge", "-q", "--no-ff", "-m", "Merge it, which needs no sign-off", "side")
	return dir
}

func TestCommitsWithoutTheirAuthorsSignOffAreReported(t *testing.T) {
	t.Parallel()
	const signed = "Signed-off-by: Ada <ada@example.com>"
	for name, tc := range map[string]struct {
		messages []string
		want     string // empty: success
	}{
		"none":                        {},
		"signed off":                  {messages: []string{"Add it\n\nBecause.\n\n" + signed, "Mend it\n\n" + signed}},
		"among other lines":           {messages: []string{"Add it\n\nReviewed-by: Bob <bob@example.com>\n" + signed}},
		"in another case":             {messages: []string{"Add it\n\nSigned-off-by: Ada <Ada@Example.com>"}},
		"not signed off":              {messages: []string{"Add it\n\n" + signed, "Forget it"}, want: "(Forget it) has no line"},
		"by another person":           {messages: []string{"Add it\n\nSigned-off-by: Bob <bob@example.com>"}, want: "of its author <ada@example.com>"},
		"in the text, not at the end": {messages: []string{"Add it\n\n" + signed + "\n\nand more"}, want: "(Add it) has no line"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			printed, passed := run(t, nil, "./signoff.sh", repository(t, tc.messages...), "base..main")
			require.Equal(t, tc.want == "", passed, printed)
			require.Contains(t, printed, tc.want)
		})
	}
}

func TestUnknownRangeOfCommitsFails(t *testing.T) {
	t.Parallel()
	dir := repository(t)
	for _, args := range [][]string{{dir, "nowhere..main"}, {dir, "--output=/tmp/x"}, {dir}} {
		_, passed := run(t, nil, "./signoff.sh", args...)
		require.False(t, passed, args)
	}
}
