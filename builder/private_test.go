package builder

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/runtimes/language"
)

// indexes are an npm registry and a Python index with one package, secret-sauce. They let in who knows the
// password, and their certificate is signed by no trusted authority.
type indexes struct {
	*httptest.Server
	ca []byte
}

const indexPassword = "open-sesame"

func startIndexes(t *testing.T) *indexes {
	t.Helper()
	mux := http.NewServeMux()
	server := httptest.NewUnstartedServer(mux)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	behind := func(header string, serve http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, request *http.Request) {
			if request.Header.Get("Authorization") != header {
				w.Header().Set("WWW-Authenticate", `Basic realm="packages"`)
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			serve(w, request)
		}
	}
	bearer := "Bearer " + indexPassword
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("cook:"+indexPassword))
	archive, wheel := npmPackage(t), pythonWheel(t)
	mux.HandleFunc("/npm/secret-sauce", behind(bearer, func(w http.ResponseWriter, _ *http.Request) {
		sum := sha512.Sum512(archive)
		_ = json.NewEncoder(w).Encode(map[string]any{
			"name": "secret-sauce", "dist-tags": map[string]string{"latest": "1.0.0"},
			"versions": map[string]any{"1.0.0": map[string]any{
				"name": "secret-sauce", "version": "1.0.0", "hasInstallScript": true,
				"dist": map[string]string{
					"tarball":   server.URL + "/npm/secret-sauce.tgz",
					"integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:]),
				},
			}},
		})
	}))
	mux.HandleFunc("/npm/secret-sauce.tgz", behind(bearer, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(archive) }))
	mux.HandleFunc("/simple/secret-sauce/", behind(basic, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, `<a href="/wheels/`+wheelName+`">`+wheelName+`</a>`)
	}))
	mux.HandleFunc("/wheels/"+wheelName, behind(basic, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(wheel) }))
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return &indexes{Server: server, ca: ca}
}

const wheelName = "secret_sauce-1.0.0-py3-none-any.whl"

func npmPackage(t *testing.T) []byte {
	t.Helper()
	var text bytes.Buffer
	compressed := gzip.NewWriter(&text)
	archive := tar.NewWriter(compressed)
	for name, content := range map[string]string{
		"package/package.json": `{"name": "secret-sauce", "version": "1.0.0", "scripts": {"postinstall": "node -e \"require('fs').writeFileSync('made', 'it')\""}}`,
		"package/index.js":     "module.exports = 'garlic'",
	} {
		require.NoError(t, archive.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))}))
		_, err := io.WriteString(archive, content)
		require.NoError(t, err)
	}
	require.NoError(t, archive.Close())
	require.NoError(t, compressed.Close())
	return text.Bytes()
}

func pythonWheel(t *testing.T) []byte {
	t.Helper()
	var text bytes.Buffer
	archive := zip.NewWriter(&text)
	info := "secret_sauce-1.0.0.dist-info/"
	for name, content := range map[string]string{
		"secret_sauce.py": "flavour = 'garlic'\n",
		info + "METADATA": "Metadata-Version: 2.1\nName: secret-sauce\nVersion: 1.0.0\n",
		info + "WHEEL":    "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		info + "RECORD":   "secret_sauce.py,,\n" + info + "METADATA,,\n" + info + "WHEEL,,\n" + info + "RECORD,,\n",
	} {
		file, err := archive.Create(name)
		require.NoError(t, err)
		_, err = io.WriteString(file, content)
		require.NoError(t, err)
	}
	require.NoError(t, archive.Close())
	return text.Bytes()
}

func TestPrivatePackagesBehindAPrivateAuthority(t *testing.T) {
	t.Parallel()
	server := startIndexes(t)
	host := strings.TrimPrefix(server.URL, "https://")
	for name, tc := range map[string]struct {
		runtime, dependencies string
		setup                 string // name of the package manager's file
		open, closed          string
		made                  string
	}{
		"npm": {
			runtime: "nodejs24", dependencies: `{"dependencies": {"secret-sauce": "^1.0.0"}}`, setup: ".npmrc",
			open:   "registry=" + server.URL + "/npm/\n//" + host + "/npm/:_authToken=" + indexPassword + "\n",
			closed: "registry=" + server.URL + "/npm/\n", made: "node_modules/secret-sauce/made",
		},
		"pip": {
			runtime: "python314", dependencies: "secret-sauce>=1", setup: "pip.conf",
			open:   "[global]\nindex-url = https://cook:" + indexPassword + "@" + host + "/simple/\n",
			closed: "[global]\nindex-url = " + server.URL + "/simple/\n", made: ".local/secret_sauce.py",
		},
	} {
		prepare := func(t *testing.T, setup string, ca []byte) (*job, buildplan.Result) {
			t.Helper()
			j := newJob(t, buildplan.Plan{Function: "shop/price", Runtime: tc.runtime, Dependencies: tc.dependencies})
			j.o.Cache = "" // what another test may know is a secret here
			write(t, filepath.Join(j.o.Packages, tc.setup), setup)
			if ca != nil {
				write(t, filepath.Join(j.o.Input, buildplan.CAFile), string(ca))
			}
			result := j.builder().Prepare(t.Context())
			for _, text := range []string{result.Message, result.Log, j.output.String(), j.log.String()} {
				require.NotContains(t, text, indexPassword)
			}
			return j, result
		}
		t.Run(name+" with credentials", func(t *testing.T) {
			t.Parallel()
			j, result := prepare(t, tc.open, server.ca)
			require.Empty(t, result.Reason, "%s\n%s", result.Message, j.output)
			require.FileExists(t, filepath.Join(j.o.Function, tc.made))
		})
		t.Run(name+" without credentials", func(t *testing.T) {
			t.Parallel()
			j, result := prepare(t, tc.closed, server.ca)
			require.Equal(t, language.PackageForbidden, result.Reason, "%s\n%s", result.Message, j.output)
			require.Contains(t, result.Message, "serverless-package-registry-config")
		})
		t.Run(name+" without the authority", func(t *testing.T) {
			t.Parallel()
			j, result := prepare(t, tc.open, nil)
			require.Equal(t, language.PackagesUnreachable, result.Reason, "%s\n%s", result.Message, j.output)
			require.Contains(t, result.Message, "caBundle")
		})
	}
}
