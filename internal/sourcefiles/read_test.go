package sourcefiles

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
	return dir
}

const functionYAML = "apiVersion: serverless.kyma-project.io/v1alpha2\nkind: Function\nmetadata: {name: price}\n"

func TestAFolderIsReadWithoutManifestsPackagesAndWhatMayBeSecret(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{
		"function.yaml": functionYAML, "subscription.yml": "kind: Subscription\n", "kustomization.yaml": "resources: []\n",
		"handler.js": "handler", "lib/util.js": "util", "config.yaml": "kind: of blue\n", "logo.svg": "<svg/>",
		".env": "A=b", "lib/.env.local": "A=b", ".npmrc": "token", "server.pem": "key", "id_rsa": "key", "tls.key": "key",
		"secrets.local.yaml": "kind: Secret\n", "node_modules/left/index.js": "left", "lib/__pycache__/util.pyc": "x", "handler.js~": "old",
		"draft.js": "draft", "build/out.js": "out", "build/kept.js": "kept", "lib/local.js": "local",
		".gitignore": "build/*\n", ".rouseignore": "/draft.js\n!build/kept.js\n!.env\n!*.pem\n", "lib/.rouseignore": "local.js\n",
		"other/function.yaml": functionYAML, "other/handler.js": "other",
	})
	files, err := Read(dir)
	require.NoError(t, err)
	require.Equal(t, []string{"build/kept.js", "config.yaml", "handler.js", "lib/util.js", "logo.svg"}, files.Names())
	again, err := Read(dir)
	require.NoError(t, err)
	require.Equal(t, files.Digest(), again.Digest())
}

func TestATreeIsReadAsACommitHasIt(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{
		"function.yaml": functionYAML, "handler.js": "handler", ".npmrc": "registry", "a name.js": "spaces", "sub/function.yaml": functionYAML,
		".git/config": "secret", "node_modules/left/index.js": "left", ".gitignore": "*.log\n", "x.log": "log", ".rouseignore": "handler.js\n",
	})
	files, err := ReadTree(dir)
	require.NoError(t, err)
	require.Equal(t, []string{".gitignore", ".npmrc", ".rouseignore", "a name.js", "function.yaml", "handler.js", "sub/function.yaml"}, files.Names())
}

func TestAFolderWithALinkThatLeavesItIsRefused(t *testing.T) {
	t.Parallel()
	outside := write(t, map[string]string{"secret": "secret", "folder/file": "secret"})
	for name, target := range map[string]string{
		"an absolute file":   filepath.Join(outside, "secret"),
		"an absolute folder": filepath.Join(outside, "folder"),
		"a relative path":    "../../../../../../../../etc/hostname",
		"nothing":            "missing",
		"itself":             "link",
		"a folder":           "lib",
		"a hidden file":      ".env",
		"a key":              "lib/server.pem",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := write(t, map[string]string{"handler.js": "handler", "lib/util.js": "util", "lib/server.pem": "key", ".env": "A=b"})
			require.NoError(t, os.Symlink(target, filepath.Join(dir, "link")))
			_, err := Read(dir)
			require.ErrorContains(t, err, `link "link" leads `)
		})
	}
}

func TestALinkWithinTheFolderIsTheFileThatItLeadsTo(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{"handler.js": "handler", "lib/util.js": "util"})
	require.NoError(t, os.Symlink("lib/util.js", filepath.Join(dir, "util.js")))
	files, err := Read(dir)
	require.NoError(t, err)
	require.Equal(t, "util", string(files["util.js"]))
}

func TestAPipeIsRefusedAndNotWaitedFor(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{"handler.js": "handler"})
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	ended := make(chan error, 1)
	go func() { _, err := Read(dir); ended <- err }()
	select {
	case err := <-ended:
		require.ErrorContains(t, err, `"pipe" is neither a file nor a folder`)
	case <-time.After(10 * time.Second):
		require.FailNow(t, "reading waits for the pipe")
	}
}

func TestAFolderThatIsTooLargeIsRefusedByItsLargestFile(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{"handler.js": "handler"})
	video, err := os.Create(filepath.Join(dir, "video.mp4"))
	require.NoError(t, err)
	require.NoError(t, video.Truncate(2<<30))
	require.NoError(t, video.Close())
	_, err = Read(dir)
	require.ErrorContains(t, err, "the files take more than 1.0 MiB; the largest that was read is video.mp4 with 2048.0 MiB")
}

func TestTooManyFilesAreRefused(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	for i := range MaxFiles + 1 {
		files[fmt.Sprintf("f%d.js", i)] = "x"
	}
	_, err := Read(write(t, files))
	require.ErrorContains(t, err, "there are more than 1000 files")
}

func TestAFolderWithoutFilesIsRefused(t *testing.T) {
	t.Parallel()
	_, err := Read(write(t, map[string]string{"function.yaml": functionYAML, ".env": "A=b"}))
	require.ErrorContains(t, err, "there are no files")
	_, err = Read(filepath.Join(t.TempDir(), "missing"))
	require.ErrorContains(t, err, "no such file")
}

func TestNamesThatNoConfigMapCarriesAreRefused(t *testing.T) {
	t.Parallel()
	_, err := Read(write(t, map[string]string{"handler.js": "handler", "my file.js": "x"}))
	require.ErrorContains(t, err, `"my file.js" has a character`)
}
