package cli

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInitIsACommandOfItsOwn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	got := run(t, "", "init", "hello", "--directory", dir)
	require.Equal(t, 0, got.code, got.err)
	require.Contains(t, got.out, "rouse dev "+filepath.Join(dir, "hello"))
	require.FileExists(t, filepath.Join(dir, "hello", "handler.js"))

	got = run(t, "", "init", "hello", "--directory", dir)
	require.Equal(t, 1, got.code)
	require.Contains(t, got.err, "it is there already; nothing was written: take another name or --directory")

	got = run(t, "", "init", "Bad_Name", "--directory", dir)
	require.Equal(t, 2, got.code)
	require.Contains(t, got.err, `"Bad_Name" cannot be the name of a Function`)
}
