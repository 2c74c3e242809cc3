package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"
)

func TestTheFileLetsTheUserIn(t *testing.T) {
	t.Parallel()
	o := &options{login: t.TempDir(), out: filepath.Join(t.TempDir(), "htpasswd")}
	require.NoError(t, os.WriteFile(filepath.Join(o.login, "username"), []byte("rouse"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(o.login, "password"), []byte("open sesame"), 0o600))
	require.NoError(t, o.Validate())
	require.NoError(t, o.write())

	text, err := os.ReadFile(o.out)
	require.NoError(t, err)
	user, hash, found := strings.Cut(strings.TrimSuffix(string(text), "\n"), ":")
	require.True(t, found)
	require.Equal(t, "rouse", user)
	require.NoError(t, bcrypt.CompareHashAndPassword([]byte(hash), []byte("open sesame")))
	require.Error(t, bcrypt.CompareHashAndPassword([]byte(hash), []byte("open barley")))
}

func TestWhatIsMissingIsNamed(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, (&options{}).Validate(), "--login: must be a directory\n--out: must be a file")
	err := (&options{login: t.TempDir(), out: filepath.Join(t.TempDir(), "htpasswd")}).write()
	require.ErrorContains(t, err, "username")
	require.ErrorContains(t, err, "password")
}
