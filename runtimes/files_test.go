package runtimes

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEverySourceOfAServerIsAmongItsFiles(t *testing.T) {
	t.Parallel()
	for dir, files := range map[string]Files{"nodejs": NodeJS(), "python": Python()} {
		written := t.TempDir()
		require.NoError(t, files.Write(written))
		for _, part := range []string{"lib", "sdk", "function_server"} {
			err := filepath.WalkDir(filepath.Join(dir, part), func(path string, entry fs.DirEntry, err error) error {
				if os.IsNotExist(err) {
					return nil // the other language's
				}
				require.NoError(t, err)
				if ext := filepath.Ext(path); entry.IsDir() || ext != ".js" && ext != ".py" && ext != ".json" {
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

func TestFilesHaveAHashOfTheirOwn(t *testing.T) {
	t.Parallel()
	first, err := NodeJS().Hash()
	require.NoError(t, err)
	again, err := NodeJS().Hash()
	require.NoError(t, err)
	require.Equal(t, first, again)
	other, err := Python().Hash()
	require.NoError(t, err)
	require.NotEqual(t, first, other)
}
