package components

import (
	"archive/zip"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/e2e/cluster/state"
)

func TestInterpreterIsLaidOutLikeAnInstallation(t *testing.T) {
	t.Parallel()
	python := Python312().CPython
	for name, want := range map[string]string{
		"bin/python3.12":              "bin/python3.12",
		"libpython3.12.so.1.0":        "lib/libpython3.12.so.1.0",
		"libffi.so.7":                 "lib/python3.12/lib-dynload/libffi.so.7",
		"lib/python3.12/os.py":        "lib/python3.12/os.py",
		"lib/python3.12/json/tool.py": "lib/python3.12/json/tool.py",
		"lib/python3.12/lib-dynload/_ssl.cpython-312-x86_64-linux-gnu.so": "lib/python3.12/lib-dynload/_ssl.cpython-312-x86_64-linux-gnu.so",
		"lib/python3.12/test/test_os.py":                                  "",
		"lib/python3.12/unittest/test/x.py":                               "",
		"lib/python3.12/site-packages/pip/main.py":                        "",
		"lib/python3.12/config-3.12-x86_64-linux-gnu/Makefile":            "",
		"bin/pip3":         "",
		"libjnipython.so":  "",
		"libffi.so":        "",
		"include/Python.h": "",
		"":                 "",
	} {
		got, mode := python.place(name)
		require.Equal(t, want, got, name)
		if name == "bin/python3.12" {
			require.Equal(t, os.FileMode(0o755), mode)
		}
	}
}

// archive makes an archive like the presets': without modes, and with their folders.
func archive(t *testing.T, files map[string]string) string {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "cpython.jar"))
	require.NoError(t, err)
	writer := zip.NewWriter(file)
	for name, content := range files {
		entry, err := writer.Create(name)
		require.NoError(t, err)
		_, err = entry.Write([]byte(content))
		require.NoError(t, err)
	}
	require.NoError(t, writer.Close())
	require.NoError(t, file.Close())
	return file.Name()
}

func TestAnInterpreterIsUnpackedWithModes(t *testing.T) {
	t.Parallel()
	python := Python312().CPython
	top := "org/bytedeco/cpython/" + platforms["amd64"] + "/"
	dir := t.TempDir()
	require.NoError(t, python.unpack(archive(t, map[string]string{
		top + "bin/": "", top + "bin/python3.12": "program", top + "lib/python3.12/os.py": "library", top + "libffi.so": "unused", "bin/python3.12": "elsewhere",
	}), "amd64", dir))
	info, err := os.Stat(filepath.Join(dir, "bin", "python3.12"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o111), info.Mode()&0o111)
	content, err := os.ReadFile(filepath.Join(dir, "lib", "python3.12", "os.py"))
	require.NoError(t, err)
	require.Equal(t, "library", string(content))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 2)
}

func TestArchiveWithPathsOutsideOfItselfIsRejected(t *testing.T) {
	t.Parallel()
	python := Python312().CPython
	top := "org/bytedeco/cpython/" + platforms["amd64"] + "/"
	dir := filepath.Join(t.TempDir(), "here")
	err := python.unpack(archive(t, map[string]string{top + "lib/python3.12/../../../outside.py": "x"}), "amd64", dir)
	require.ErrorContains(t, err, "outside.py")
	require.NoFileExists(t, filepath.Join(filepath.Dir(dir), "outside.py"))
}

func TestArchiveWithAnotherHashIsRejected(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "cpython.jar")
	require.NoError(t, state.Write(file, "content"))
	sum := sha256.Sum256([]byte("content"))
	require.NoError(t, checkSum(file, "cpython", hex.EncodeToString(sum[:])))
	require.ErrorContains(t, checkSum(file, "cpython", strings.Repeat("0", 64)), "cpython has the SHA-256 "+hex.EncodeToString(sum[:])+" and not 0000")
	require.Error(t, checkSum(file+".gone", "cpython", ""))
}

func TestKeyOfAnInterpreterChangesWithItsArchive(t *testing.T) {
	t.Parallel()
	builder, _ := repository(t)
	first := Python312()
	other := first
	changed := *first.CPython
	changed.Jar.Version = "3.12.99-1"
	other.CPython = &changed
	before, err := builder.key(first)
	require.NoError(t, err)
	after, err := builder.key(other)
	require.NoError(t, err)
	require.NotEqual(t, before, after)
	again, err := builder.key(Python312())
	require.NoError(t, err)
	require.Equal(t, before, again)
}

func TestRequirementOfAWheelAllowsOnlyItsHashes(t *testing.T) {
	t.Parallel()
	wheel := Wheel{Package: "hello", Version: "1.2.3", Hashes: []string{"aa", "bb"}}
	require.Equal(t, "hello==1.2.3 --hash=sha256:aa --hash=sha256:bb\n", wheel.requirement())
}

func TestKeyOfAWheelChangesWithItsVersionAndHash(t *testing.T) {
	t.Parallel()
	builder, _ := repository(t)
	key := func(version, hash string) string {
		key, err := builder.key(Component{Name: "hello", Wheel: Wheel{Package: "hello", Version: version, File: "hello", Hashes: []string{hash}}})
		require.NoError(t, err)
		return key
	}
	require.NotEqual(t, key("1", "aa"), key("2", "aa"))
	require.NotEqual(t, key("1", "aa"), key("1", "bb"))
}
