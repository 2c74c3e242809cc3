package builder

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/runtimes/languages"
)

func TestSourcesAreDealtOutBySizeAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for file, size := range map[string]int{
		"handler.py": 10, "assets/logo.svg": 1 << 20, ".local/big/a.py": 400 << 10, ".local/big/deep/b.py": 400 << 10,
		".local/middle/a.py": 300 << 10, ".local/small.py": 200 << 10, ".local/binary.so": 1 << 20, ".local/empty/__init__.py": 0,
	} {
		write(t, filepath.Join(dir, file), strings.Repeat("#", size))
	}
	python, err := languages.Of("python312")
	require.NoError(t, err)
	shards, err := shardsOf(python, dir)
	require.NoError(t, err)
	in := func(names ...string) []string {
		for i, name := range names {
			names[i] = filepath.Join(dir, name)
		}
		return names
	}
	require.Equal(t, [][]string{in(".local/big"), in(".local/middle"), in(".local/small.py", "handler.py", ".local/empty")}, shards)
}

func TestPythonFilesThatDoNotCompileDoNotFailTheBuild(t *testing.T) {
	t.Parallel()
	j := newJob(t, buildplan.Plan{Runtime: "python312", Git: &buildplan.Git{}})
	j.git = repository(t, map[string]string{"handler.py": python, "old.py": "print 'Python 2'\n", "token.py": "raise RuntimeError\n"})
	result := j.prepared(t)
	require.Empty(t, result.Reason, result.Message)
	compiled, err := filepath.Glob(filepath.Join(j.o.Function, "__pycache__", "*.pyc"))
	require.NoError(t, err)
	require.Len(t, compiled, 2)
}
