package rig

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// Where there are no control groups, or they are of another version, nothing is written that looks like one.
func TestAPlainDirectoryIsNoControlGroup(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	_, err := newCgroup(root, 1<<30)
	require.ErrorContains(t, err, "memory.peak")
	left, err := os.ReadDir(root)
	require.NoError(t, err)
	require.Empty(t, left)
	_, err = newCgroup(root+"/none", 1<<30)
	require.ErrorIs(t, err, os.ErrNotExist)
}
