package builder

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/runtimes/language"
)

// packLayer sends a directory as Install does, and packs what comes as Push does.
func packLayer(t *testing.T, dir, place string) layer {
	t.Helper()
	entries, err := list(dir)
	require.NoError(t, err)
	var sent bytes.Buffer
	require.NoError(t, writeTar(&sent, place, entries))
	sent.WriteString(handoverEnd)
	packed, err := readLayer(&sent, place, filepath.Join(t.TempDir(), "layer"), 0)
	require.NoError(t, err)
	return packed
}

func TestALayerDependsOnNamesBytesAndTheRightToExecuteOnly(t *testing.T) {
	t.Parallel()
	pack := func(change func(dir string)) layer {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "handler.js"), commonJS)
		write(t, filepath.Join(dir, "node_modules/lodash/index.js"), "x")
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "node_modules/.bin"), 0o755))
		require.NoError(t, os.Symlink("../lodash/index.js", filepath.Join(dir, "node_modules/.bin/lodash")))
		change(dir)
		return packLayer(t, dir, "/usr/src/app/function")
	}
	handler := func(dir string) string { return filepath.Join(dir, "handler.js") }
	want := pack(func(string) {})
	for name, tc := range map[string]struct {
		change func(dir string)
		same   bool
	}{
		"the directory": {func(string) {}, true},
		"times":         {func(dir string) { require.NoError(t, os.Chtimes(handler(dir), time.Unix(1, 0), time.Unix(1, 0))) }, true},
		"who may read":  {func(dir string) { require.NoError(t, os.Chmod(handler(dir), 0o400)) }, true},
		"npm's own records": {func(dir string) {
			write(t, filepath.Join(dir, "node_modules/.package-lock.json"), "{}")
			write(t, filepath.Join(dir, "node_modules/.cache/x/y"), "{}")
		}, true},
		"credentials of package registries": {func(dir string) {
			write(t, filepath.Join(dir, ".npmrc"), "token")
			write(t, filepath.Join(dir, "pip.conf"), "token")
		}, true},
		"the history of a repository": {func(dir string) { write(t, filepath.Join(dir, ".git/config"), "x") }, true},
		"who may execute":             {func(dir string) { require.NoError(t, os.Chmod(handler(dir), 0o755)) }, false},
		"the content":                 {func(dir string) { write(t, handler(dir), commonJS+" ") }, false},
		"an empty directory":          {func(dir string) { require.NoError(t, os.Mkdir(filepath.Join(dir, "empty"), 0o755)) }, false},
		"a file of the same name deeper down": {func(dir string) {
			write(t, filepath.Join(dir, "node_modules/lodash/.npmrc"), "x")
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changed := pack(tc.change)
			require.Equal(t, tc.same, want.digest == changed.digest)
			require.Equal(t, tc.same, want.diffID == changed.diffID)
		})
	}
}

func TestALayerBelongsToRootAndCanBeReadByAll(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "handler.js"), commonJS)
	long := strings.Repeat("a-long-name/", 30) + "file"
	write(t, filepath.Join(dir, long), "x")
	require.NoError(t, os.Chmod(filepath.Join(dir, "handler.js"), 0o600))
	require.NoError(t, os.Symlink("handler.js", filepath.Join(dir, "index.js")))
	packed := packLayer(t, dir, "/kubeless")
	lines := strings.Split(output(t, dir, "tar", "--utc", "--numeric-owner", "-tvzf", packed.file), "\n")
	require.Contains(t, lines[0], "drwxr-xr-x 0/0")
	require.Contains(t, lines[0], "1970-01-01 00:00 kubeless/")
	all := strings.Join(lines, "\n")
	require.Contains(t, all, "kubeless/"+long)
	require.Regexp(t, `-rw-r--r-- 0/0 +\d+ 1970-01-01 00:00 kubeless/handler.js`, all)
	require.Regexp(t, `lrwxrwxrwx 0/0 .* kubeless/index.js -> handler.js`, all)
	info, err := os.Stat(packed.file)
	require.NoError(t, err)
	require.Equal(t, packed.size, info.Size())
}

func TestALayerThatIsTooLargeNamesWhatTakesTheSpace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for file, size := range map[string]int{
		"handler.js": 10, "node_modules/small/index.js": 1 << 20, "node_modules/@scope/large/a": 3 << 20,
		"node_modules/@scope/large/b/c": 9 << 20, ".local/pandas/x.so": 5 << 20,
	} {
		write(t, filepath.Join(dir, file), strings.Repeat("x", size))
	}
	pack := func(maxSize int64) error {
		entries, err := list(dir)
		require.NoError(t, err)
		return checkSize(entries, maxSize)
	}
	require.NoError(t, pack(0))
	require.NoError(t, pack(18<<20+10))
	var failed *reasonError
	require.ErrorAs(t, pack(18<<20+9), &failed)
	require.Equal(t, language.ImageTooLarge, failed.reason)
	require.Contains(t, failed.message, "take 18 MiB, and 18 MiB are allowed")
	require.Contains(t, failed.message, "node_modules/@scope/large 12 MiB, .local/pandas 5.0 MiB, node_modules/small 1.0 MiB")
}
