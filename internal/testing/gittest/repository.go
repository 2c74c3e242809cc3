package gittest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Repository is a bare one on disk.
type Repository struct {
	Dir string // parent
	// Name is below Dir.
	Name string
}

// New makes an empty repository that gives out single commits and parts, as the large hosts do.
func New(t testing.TB) *Repository {
	t.Helper()
	_, err := exec.LookPath("git")
	require.NoError(t, err, `git is missing: run "make packages"`)
	r := &Repository{Dir: t.TempDir(), Name: "shop.git"}
	r.git(t, "", "init", "--quiet", "--bare", "--initial-branch=main", r.path())
	r.Configure(t, "uploadpack.allowAnySHA1InWant", "true")
	r.Configure(t, "uploadpack.allowFilter", "true")
	return r
}

func (r *Repository) path() string { return filepath.Join(r.Dir, r.Name) }

// Configure sets an option of the server's side.
func (r *Repository) Configure(t testing.TB, key, value string) {
	t.Helper()
	r.git(t, r.path(), "config", key, value)
}

// Link is the content of a file that becomes a symbolic link to the rest of it.
const Link = "link:"

// Commit replaces the files of a branch and returns the commit.
func (r *Repository) Commit(t testing.TB, branch string, files map[string]string) string {
	t.Helper()
	work := t.TempDir()
	r.git(t, work, "init", "--quiet", "--initial-branch="+branch)
	if r.has(branch) {
		r.git(t, work, "pull", "--quiet", r.path(), branch)
		r.git(t, work, "rm", "--quiet", "-r", ".")
	}
	for name, content := range files {
		file := filepath.Join(work, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		if target, ok := strings.CutPrefix(content, Link); ok {
			require.NoError(t, os.Symlink(target, file))
			continue
		}
		require.NoError(t, os.WriteFile(file, []byte(content), 0o644))
	}
	r.git(t, work, "add", "--all")
	r.git(t, work, "commit", "--quiet", "--allow-empty", "--message", "a change")
	r.git(t, work, "push", "--quiet", r.path(), branch)
	return r.git(t, work, "rev-parse", "HEAD")
}

// CommitSpecial puts an executable file, a plain one and a submodule in place of the files of a branch.
func (r *Repository) CommitSpecial(t testing.TB, branch string) string {
	t.Helper()
	inner := r.Commit(t, branch, map[string]string{"run.sh": "#!/bin/sh\n", "plain.txt": "plain"})
	work := t.TempDir()
	r.git(t, work, "clone", "--quiet", "--branch="+branch, r.path(), ".")
	r.git(t, work, "update-index", "--chmod=+x", "run.sh")
	r.git(t, work, "update-index", "--add", "--cacheinfo", "160000,"+inner+",module")
	r.git(t, work, "commit", "--quiet", "--message", "a module")
	r.git(t, work, "push", "--quiet", "origin", branch)
	return r.git(t, work, "rev-parse", "HEAD")
}

// Tag makes an annotated tag of a branch.
func (r *Repository) Tag(t testing.TB, name, branch string) {
	t.Helper()
	r.git(t, r.path(), "tag", "--annotate", "--message", "a release", name, branch)
}

// Many gives a commit so many more branches, named bulk/0000000 and so on.
func (r *Repository) Many(t testing.TB, commit string, branches int) {
	t.Helper()
	r.git(t, r.path(), "pack-refs", "--all", "--prune")
	file, err := os.OpenFile(filepath.Join(r.path(), "packed-refs"), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	first, err := os.ReadFile(file.Name())
	require.NoError(t, err)
	head, rest, _ := strings.Cut(string(first), "\n")
	require.NoError(t, file.Truncate(0))
	text := []byte(head + "\n")
	for i := range branches {
		text = fmt.Appendf(text, "%s refs/heads/bulk/%07d\n", commit, i) // sorted before main
	}
	_, err = file.Write(append(text, rest...))
	require.NoError(t, err)
}

func (r *Repository) has(branch string) bool {
	return exec.Command("git", "-C", r.path(), "rev-parse", "--verify", "--quiet", branch).Run() == nil //nolint:noctx // local and short
}

func (r *Repository) git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "git", args...)
	command.Dir = dir
	command.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org")
	out, err := command.CombinedOutput()
	require.NoError(t, err, "git %v: %s", args, out)
	return strings.TrimSpace(string(out))
}
