package sources

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
)

func TestCommitsFollowEachOtherAndReplaceAllFiles(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "repository.git")
	git(t, "", "init", "--quiet", "--bare", dir)
	at := time.Unix(1_700_000_000, 0)
	git(t, commitStream("main", false, at, map[string]string{"price/handler.js": "1\n", "package.json": "{}"}), "-C", dir, "fast-import", "--quiet")
	git(t, commitStream("main", true, at, map[string]string{"price/handler.js": "2\n"}), "-C", dir, "fast-import", "--quiet")
	require.Equal(t, "2", git(t, "", "-C", dir, "rev-list", "--count", "main"))
	require.Equal(t, "price/handler.js", git(t, "", "-C", dir, "ls-tree", "-r", "--name-only", "main"))
	require.Equal(t, "2", git(t, "", "-C", dir, "show", "main:price/handler.js"))
}

func git(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "git", args...)
	command.Stdin = strings.NewReader(stdin)
	out, err := command.CombinedOutput()
	require.NoError(t, err, string(out))
	return strings.TrimSpace(string(out))
}

func TestNPMArchiveHasTheLayoutOfNPMPack(t *testing.T) {
	t.Parallel()
	archive, err := npmArchive("@shop/greeting", map[string]string{"index.js": "module.exports = 'hi'"})
	require.NoError(t, err)
	compressed, err := gzip.NewReader(bytes.NewReader(archive))
	require.NoError(t, err)
	got := map[string]string{}
	for reader := tar.NewReader(compressed); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		text, err := io.ReadAll(reader)
		require.NoError(t, err)
		got[header.Name] = string(text)
	}
	require.Equal(t, "module.exports = 'hi'", got["package/index.js"])
	require.JSONEq(t, `{"name":"@shop/greeting","version":"1.0.0","main":"index.js"}`, got["package/package.json"])

	document, err := npmDocument("@shop/greeting", "http://sources/x.tgz", archive, nil)
	require.NoError(t, err)
	var read struct {
		Versions map[string]struct{ Dist map[string]string }
	}
	require.NoError(t, json.Unmarshal(document, &read))
	require.Equal(t, "http://sources/x.tgz", read.Versions["1.0.0"].Dist["tarball"])
	require.True(t, strings.HasPrefix(read.Versions["1.0.0"].Dist["integrity"], "sha512-"))
}

func TestAWheelHoldsItsModule(t *testing.T) {
	t.Parallel()
	wheel, err := wheelOf("shop_greeting", "TEXT = 'hi'\n")
	require.NoError(t, err)
	archive, err := zip.NewReader(bytes.NewReader(wheel), int64(len(wheel)))
	require.NoError(t, err)
	module, err := archive.Open("shop_greeting.py")
	require.NoError(t, err)
	text, err := io.ReadAll(module)
	require.NoError(t, err)
	require.Equal(t, "TEXT = 'hi'\n", string(text))
}

func TestKeyIsInOpenSSHsFormat(t *testing.T) {
	t.Parallel()
	private, authorized, err := newKey()
	require.NoError(t, err)
	signer, err := ssh.ParsePrivateKey([]byte(private))
	require.NoError(t, err)
	require.Equal(t, authorized, string(ssh.MarshalAuthorizedKey(signer.PublicKey())))
}
