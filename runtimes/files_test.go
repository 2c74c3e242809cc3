package runtimes

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/runtimes/languages"
)

func TestEverySourceOfAServerIsAmongItsFiles(t *testing.T) {
	t.Parallel()
	for _, language := range languages.All() {
		dir := language.Folder
		files, err := Of(dir)
		require.NoError(t, err, "add the files to the patterns of go:embed")
		written := t.TempDir()
		require.NoError(t, files.Write(written))
		for _, part := range []string{"lib", "sdk", "function_server", "function"} {
			err := filepath.WalkDir(filepath.Join(dir, part), func(path string, entry fs.DirEntry, err error) error {
				if os.IsNotExist(err) {
					return nil // of the other language
				}
				require.NoError(t, err)
				if ext := filepath.Ext(path); entry.IsDir() || ext != ".js" && ext != ".py" && ext != ".json" && ext != ".go" {
					return nil
				}
				want, err := os.ReadFile(path)
				require.NoError(t, err)
				below, err := filepath.Rel(dir, path)
				require.NoError(t, err)
				got, err := os.ReadFile(filepath.Join(written, below))
				require.NoError(t, err, "add it to the patterns of go:embed")
				require.Equal(t, string(want), string(got))
				return nil
			})
			require.NoError(t, err)
		}
		require.FileExists(t, filepath.Join(written, "layer.sh"))
	}
}

func TestFilesOfLanguagesHaveDifferentHashes(t *testing.T) {
	t.Parallel()
	hashes := map[string]string{}
	for _, language := range languages.All() {
		files, err := Of(language.Folder)
		require.NoError(t, err)
		first, err := files.Hash()
		require.NoError(t, err)
		again, err := files.Hash()
		require.NoError(t, err)
		require.Equal(t, first, again)
		require.NotContains(t, hashes, first, "%s has the files of %s", language.Name, hashes[first])
		hashes[first] = language.Name
	}
}
