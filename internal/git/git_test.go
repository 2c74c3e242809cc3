package git

import (
	"context"
	"crypto/fips140"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/dialguard"
	"github.com/rouse-run/rouse/internal/testing/gittest"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

func client(t *testing.T, ca []byte) *Client {
	t.Helper()
	c, err := New(Options{CA: ca, Guard: dialguard.Guard{AllowLoopback: true}})
	require.NoError(t, err)
	return c
}

func requireKind(t *testing.T, kind Kind, err error) {
	t.Helper()
	var explained *Error
	require.ErrorAs(t, err, &explained)
	require.Equal(t, kind, explained.Kind, "%v", err)
}

var files = map[string]string{
	"README.md":            "about",
	"price/handler.js":     "module.exports.main = () => 1",
	"price/lib/deep.js":    "deep",
	"price/link.js":        gittest.Link + "lib/deep.js",
	"other/handler.js":     "other",
	"with space/a file.js": "spaces",
}

// read returns the contents of all files below a directory.
func read(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		found[name] = string(content)
		return err
	}))
	return found
}

func TestBranchesTagsAndCommitsAreResolved(t *testing.T) {
	t.Parallel()
	repository := gittest.New(t)
	first := repository.Commit(t, "main", files)
	repository.Tag(t, "v1", "main")
	second := repository.Commit(t, "main", map[string]string{"README.md": "newer"})
	feature := repository.Commit(t, "feature/new", files)
	wanted := map[string]string{
		"main": second, "refs/heads/main": second, "v1": first, "refs/tags/v1": first, "feature/new": feature, first: first,
	}
	references, err := client(t, nil).List(t.Context(), Repository{URL: repository.HTTP(t, "", "").Address()},
		append(slices.Collect(maps.Keys(wanted)), "mian")...)
	require.NoError(t, err)
	for reference, want := range wanted {
		found, err := references.Resolve(reference)
		require.NoError(t, err, reference)
		require.Equal(t, want, found, reference)
	}
	_, err = references.Resolve("mian")
	requireKind(t, ReferenceNotFound, err)
	require.ErrorContains(t, err, `there is no branch or tag "mian", but main. Correct`)
}

func TestACommitIsFetchedFromEveryKindOfServer(t *testing.T) {
	t.Parallel()
	private, public := gittest.Key(t)
	key, err := ParseSecret(AuthKey, "kubernetes.io/ssh-auth", map[string][]byte{"ssh-privatekey": private})
	require.NoError(t, err)
	basic, err := ParseSecret(AuthBasic, "kubernetes.io/basic-auth", map[string][]byte{"username": []byte("me"), "password": []byte("secret")})
	require.NoError(t, err)
	for name, serve := range map[string]func(*testing.T, *gittest.Repository) (Repository, []byte){
		"HTTP": func(t *testing.T, r *gittest.Repository) (Repository, []byte) {
			t.Helper()
			return Repository{URL: r.HTTP(t, "", "").Address()}, nil
		},
		"HTTP with a password": func(t *testing.T, r *gittest.Repository) (Repository, []byte) {
			t.Helper()
			return Repository{URL: r.HTTP(t, "me", "secret").Address(), Credentials: basic}, nil
		},
		"HTTPS with a private CA": func(t *testing.T, r *gittest.Repository) (Repository, []byte) {
			t.Helper()
			server := r.HTTPS(t, "", "")
			return Repository{URL: server.Address()}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
		},
		"SSH": func(t *testing.T, r *gittest.Repository) (Repository, []byte) {
			t.Helper()
			return Repository{URL: r.SSH(t, public).URL, Credentials: key}, nil
		},
		"SSH with a verified host": func(t *testing.T, r *gittest.Repository) (Repository, []byte) {
			t.Helper()
			server := r.SSH(t, public)
			verified, err := ParseSecret(AuthKey, "Opaque", map[string][]byte{"key": private, "known_hosts": server.KnownHosts})
			require.NoError(t, err)
			return Repository{URL: server.URL, Credentials: verified}, nil
		},
		"a server that gives out branches only": func(t *testing.T, r *gittest.Repository) (Repository, []byte) {
			t.Helper()
			r.Configure(t, "uploadpack.allowAnySHA1InWant", "false")
			r.Configure(t, "uploadpack.allowFilter", "false")
			return Repository{URL: r.HTTP(t, "", "").Address()}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			repository := gittest.New(t)
			commit := repository.Commit(t, "main", files)
			repository.Commit(t, "main", map[string]string{"README.md": "the branch has moved on"})
			source, ca := serve(t, repository)
			skipStrict(t, source.URL)
			c := client(t, ca)
			for baseDir, want := range map[string]map[string]string{
				"price":        {"handler.js": files["price/handler.js"], "lib/deep.js": "deep", "link.js": "deep"},
				"/price/lib/ ": {"deep.js": "deep"},
				"with space":   {"a file.js": "spaces"},
				"/": {
					"README.md": "about", "price/handler.js": files["price/handler.js"], "price/lib/deep.js": "deep", "price/link.js": "deep",
					"other/handler.js": "other", "with space/a file.js": "spaces",
				},
			} {
				into := t.TempDir()
				require.NoError(t, c.Fetch(t.Context(), source, Commit{Hash: commit, Reference: "main", BaseDir: baseDir}, into))
				require.Equal(t, want, read(t, into), baseDir)
			}
		})
	}
}

func TestErrorNamesTheRemedy(t *testing.T) {
	t.Parallel()
	repository := gittest.New(t)
	commit := repository.Commit(t, "main", files)
	private, _ := gittest.Key(t)
	_, public := gittest.Key(t)
	stranger, err := ParseSecret(AuthKey, "", map[string][]byte{"key": private})
	require.NoError(t, err)
	basic, err := ParseSecret(AuthBasic, "", map[string][]byte{"username": []byte("me"), "password": []byte("hunter2")})
	require.NoError(t, err)
	wrongHost := repository.SSH(t, public)
	friendKey, friendPublic := gittest.Key(t)
	friend, err := ParseSecret(AuthKey, "", map[string][]byte{"key": friendKey})
	require.NoError(t, err)
	host := repository.SSH(t, friendPublic)
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }))
	t.Cleanup(page.Close)
	down := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(strings.Repeat("down ", 1<<20)))
	}))
	t.Cleanup(down.Close)
	for name, tc := range map[string]struct {
		repository Repository
		commit     Commit
		kind       Kind
		want       string
	}{
		"no credentials": {
			Repository{URL: repository.HTTP(t, "me", "secret").Address()}, Commit{}, Authentication, "name a Secret with credentials",
		},
		"wrong credentials": {
			Repository{URL: repository.HTTP(t, "me", "secret").Address(), Credentials: basic}, Commit{}, Authentication, "Correct the credentials in the Secret",
		},
		"a key for HTTP": {
			Repository{URL: repository.HTTP(t, "", "").Address(), Credentials: stranger}, Commit{}, Authentication, "Use an ssh URL",
		},
		"a wrong key":        {Repository{URL: wrongHost.URL, Credentials: stranger}, Commit{}, Authentication, "Correct the credentials"},
		"no key":             {Repository{URL: wrongHost.URL}, Commit{}, Authentication, "an ssh URL needs a key"},
		"an unknown CA":      {Repository{URL: repository.HTTPS(t, "", "").Address()}, Commit{}, Certificate, "CA bundle"},
		"no such repository": {Repository{URL: repository.HTTP(t, "", "").URL + "/nothing.git"}, Commit{}, RepositoryNotFound, "there is no repository"},
		"no such repository over SSH": {
			Repository{URL: host.Elsewhere("/nothing.git"), Credentials: friend}, Commit{}, RepositoryNotFound, "there is no repository",
		},
		"no such commit over SSH": {
			Repository{URL: host.URL, Credentials: friend}, Commit{Hash: strings.Repeat("a", 40), Reference: "main"}, ReferenceNotFound, "cannot be fetched",
		},
		"a web page":               {Repository{URL: page.URL + "/shop.git"}, Commit{}, RepositoryNotFound, "is not a Git repository"},
		"a host that is down":      {Repository{URL: down.URL + "/shop.git"}, Commit{}, Unreadable, "503"},
		"no server":                {Repository{URL: "http://" + loopback.Address(t) + "/shop.git"}, Commit{}, Unreachable, "does not answer"},
		"an unknown host name":     {Repository{URL: "https://nowhere.invalid/shop.git"}, Commit{}, Unreachable, "is not known"},
		"no TLS on that port":      {Repository{URL: strings.Replace(repository.HTTP(t, "", "").Address(), "http:", "https:", 1)}, Commit{}, Certificate, "Use http://"},
		"no such directory":        {Repository{URL: repository.HTTP(t, "", "").Address()}, Commit{Hash: commit, Reference: "main", BaseDir: "prices"}, DirectoryNotFound, `"prices"`},
		"no such commit":           {Repository{URL: repository.HTTP(t, "", "").Address()}, Commit{Hash: strings.Repeat("a", 40), Reference: "main"}, ReferenceNotFound, "cannot be fetched"},
		"a local path":             {Repository{URL: "/etc"}, Commit{}, InvalidURL, "Use https://"},
		"a file":                   {Repository{URL: "file:///etc"}, Commit{}, InvalidURL, "Use https://"},
		"the git protocol":         {Repository{URL: "git://example.org/shop.git"}, Commit{}, InvalidURL, "Use https://"},
		"an empty repository":      {Repository{URL: gittest.New(t).HTTP(t, "", "").Address()}, Commit{}, ReferenceNotFound, "is empty"},
		"the password is redacted": {Repository{URL: strings.Replace(repository.HTTP(t, "me", "x").Address(), "http://", "http://me:hunter2@", 1)}, Commit{}, Authentication, "me:xxxxx@"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			skipStrict(t, tc.repository.URL)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			c, err := newClient(Options{Guard: dialguard.Guard{AllowLoopback: true}}, http.ProxyURL(nil)) // a proxy may not be able to resolve the name
			require.NoError(t, err)
			if tc.commit.Hash == "" {
				_, err = c.List(ctx, tc.repository)
			} else {
				err = c.Fetch(ctx, tc.repository, tc.commit, t.TempDir())
			}
			requireKind(t, tc.kind, err)
			require.ErrorContains(t, err, tc.want)
			require.NotContains(t, err.Error(), "hunter2")
			require.Less(t, len(err.Error()), 2*maxMessage)
		})
	}
}

func TestHostWithAnUnknownKeyIsRejected(t *testing.T) {
	t.Parallel()
	repository := gittest.New(t)
	private, public := gittest.Key(t)
	server, other := repository.SSH(t, public), repository.SSH(t, public)
	_, port, _ := strings.Cut(server.Host, ":")
	_, otherPort, _ := strings.Cut(other.Host, ":")
	known := strings.Replace(string(other.KnownHosts), otherPort, port, 1)
	credentials, err := ParseSecret(AuthKey, "", map[string][]byte{"key": private, "known_hosts": []byte(known)})
	require.NoError(t, err)
	_, err = client(t, nil).List(t.Context(), Repository{URL: server.URL, Credentials: credentials})
	requireKind(t, HostKey, err)
}

func TestDeniedAddressesAreNotDialled(t *testing.T) {
	t.Parallel()
	c, err := New(Options{})
	require.NoError(t, err)
	server := gittest.New(t).HTTP(t, "", "")
	_, port, _ := strings.Cut(strings.TrimPrefix(server.URL, "http://"), ":")
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "169.254.169.254", "0.0.0.0", "224.0.0.1"} {
		for _, url := range []string{fmt.Sprintf("http://%s:%s/shop.git", host, port), fmt.Sprintf("ssh://git@%s:%s/shop.git", host, port)} {
			credentials := Credentials{}
			if strings.HasPrefix(url, "ssh") {
				private, _ := gittest.Key(t)
				credentials, err = ParseSecret(AuthKey, "", map[string][]byte{"key": private})
				require.NoError(t, err)
			}
			_, err := c.List(t.Context(), Repository{URL: url, Credentials: credentials})
			requireKind(t, Forbidden, err)
		}
	}
	require.Zero(t, server.Requests())
}

func TestRedirectIsCheckedLikeAURL(t *testing.T) {
	t.Parallel()
	for _, target := range []string{"file:///etc/passwd", "http://169.254.169.254/latest"} {
		server := httptest.NewServer(http.RedirectHandler(target, http.StatusFound))
		t.Cleanup(server.Close)
		c, err := New(Options{})
		require.NoError(t, err)
		allowing := client(t, nil)
		_, err = allowing.List(t.Context(), Repository{URL: server.URL + "/shop.git"})
		require.Error(t, err, target)
		_, err = c.List(t.Context(), Repository{URL: server.URL + "/shop.git"})
		requireKind(t, Forbidden, err)
	}
}

func TestLinkOutOfTheDirectoryIsRejected(t *testing.T) {
	t.Parallel()
	for _, target := range []string{"/etc/passwd", "../../secret", "../other/handler.js"} {
		repository := gittest.New(t)
		commit := repository.Commit(t, "main", map[string]string{"price/link": gittest.Link + target, "other/handler.js": "x"})
		err := client(t, nil).Fetch(t.Context(), Repository{URL: repository.HTTP(t, "", "").Address()},
			Commit{Hash: commit, Reference: "main", BaseDir: "price"}, t.TempDir())
		require.ErrorContains(t, err, "out of spec.source.gitRepository.baseDir")
	}
}

func TestLinksThatTogetherLeadOutAreRejected(t *testing.T) {
	t.Parallel()
	repository := gittest.New(t)
	commit := repository.Commit(t, "main", map[string]string{
		"price/a/b/up": gittest.Link + "../..", "price/out": gittest.Link + "a/b/up/../../etc", "price/handler.js": "x",
	})
	err := client(t, nil).Fetch(t.Context(), Repository{URL: repository.HTTP(t, "", "").Address()},
		Commit{Hash: commit, Reference: "main", BaseDir: "price"}, t.TempDir())
	require.ErrorContains(t, err, "the link out leads out")
}

func TestDanglingAndCircularLinksAreKept(t *testing.T) {
	t.Parallel()
	repository := gittest.New(t)
	links := map[string]string{"nowhere": "missing/file", "circle": "circle", "throughafile": "handler.js/x", "up": "lib/../handler.js"}
	content := map[string]string{"handler.js": "x", "lib/a.js": "y"}
	for name, target := range links {
		content[name] = gittest.Link + target
	}
	commit := repository.Commit(t, "main", content)
	into := t.TempDir()
	require.NoError(t, client(t, nil).Fetch(t.Context(), Repository{URL: repository.HTTP(t, "", "").Address()}, Commit{Hash: commit, Reference: "main"}, into))
	for name, target := range links {
		kept, err := os.Readlink(filepath.Join(into, name))
		require.NoError(t, err)
		require.Equal(t, target, kept)
	}
}

func TestModesAreKeptWithoutSubmodulesAndGitsOwnFiles(t *testing.T) {
	t.Parallel()
	repository := gittest.New(t)
	commit := repository.CommitSpecial(t, "main")
	into := t.TempDir()
	require.NoError(t, client(t, nil).Fetch(t.Context(), Repository{URL: repository.HTTP(t, "", "").Address()}, Commit{Hash: commit, Reference: "main"}, into))
	require.Equal(t, map[string]string{"run.sh": "#!/bin/sh\n", "plain.txt": "plain"}, read(t, into))
	for name, want := range map[string]fs.FileMode{"run.sh": 0o700, "plain.txt": 0o600} { // the other bits depend on the umask
		info, err := os.Stat(filepath.Join(into, name))
		require.NoError(t, err)
		require.Equal(t, want, info.Mode()&0o700, name)
	}
}

func TestOnlyTheRequestedDirectoryIsTransferred(t *testing.T) {
	t.Parallel()
	repository := gittest.New(t)
	large := strings.Repeat("x", 1<<20)
	content := map[string]string{"price/handler.js": "small"}
	for i := range 8 {
		content[fmt.Sprintf("data/%d.bin", i)] = strconv.Itoa(i) + large
	}
	commit := repository.Commit(t, "main", content)
	server := repository.HTTP(t, "", "")
	into := t.TempDir()
	require.NoError(t, client(t, nil).Fetch(t.Context(), Repository{URL: server.Address()}, Commit{Hash: commit, Reference: "main", BaseDir: "price"}, into))
	require.Equal(t, map[string]string{"handler.js": "small"}, read(t, into))
	require.EqualValues(t, 4, server.Requests(), "the commit and then one file, each with the references before it")
}

func TestSecretsOfEveryFormAreRead(t *testing.T) {
	t.Parallel()
	private, _ := gittest.Key(t)
	for name, tc := range map[string]struct {
		authType, secretType string
		data                 map[string][]byte
		want                 string
	}{
		"basic":                  {AuthBasic, "kubernetes.io/basic-auth", map[string][]byte{"username": []byte("a"), "password": []byte("hunter2")}, ""},
		"basic in any Secret":    {AuthBasic, "Opaque", map[string][]byte{"username": []byte("a"), "password": []byte("hunter2")}, ""},
		"basic without password": {AuthBasic, "Opaque", map[string][]byte{"username": []byte("a")}, "missing 'password'"},
		"key":                    {AuthKey, "kubernetes.io/ssh-auth", map[string][]byte{"ssh-privatekey": private}, ""},
		"key in any Secret":      {AuthKey, "Opaque", map[string][]byte{"key": private}, ""},
		"key without key":        {AuthKey, "Opaque", map[string][]byte{"ssh-privatekey": private}, "missing 'key'"},
		"key that is malformed":  {AuthKey, "Opaque", map[string][]byte{"key": []byte("no")}, "is not a usable private key"},
		"basic in an SSH Secret": {AuthBasic, "kubernetes.io/ssh-auth", map[string][]byte{"ssh-privatekey": private}, "inconsistent secret type"},
		"key in a basic Secret":  {AuthKey, "kubernetes.io/basic-auth", map[string][]byte{"username": []byte("a")}, "inconsistent secret type"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			credentials, err := ParseSecret(tc.authType, tc.secretType, tc.data)
			if tc.want != "" {
				require.ErrorContains(t, err, tc.want)
				return
			}
			require.NoError(t, err)
			dir := t.TempDir()
			for key, content := range tc.data {
				require.NoError(t, os.WriteFile(filepath.Join(dir, key), content, 0o600))
			}
			mounted, err := ReadDir(tc.authType, dir)
			require.NoError(t, err)
			require.Equal(t, credentials, mounted)
			requireSilent(t, credentials)
		})
	}
}

// requireSilent prints credentials in all ways, alone and inside other values.
func requireSilent(t *testing.T, credentials Credentials) {
	t.Helper()
	repository := Repository{URL: "https://example.org/shop.git", Credentials: credentials}
	var logged strings.Builder
	slog.New(slog.NewTextHandler(&logged, nil)).Info("message", "credentials", credentials, "pointer", &credentials, "repository", repository)
	encoded, err := json.Marshal(repository)
	require.NoError(t, err)
	texts := []string{logged.String(), string(encoded), fmt.Sprint(credentials), fmt.Sprintf("%#v", credentials), fmt.Sprintf("%#v", repository)}
	for _, verb := range []string{"%v", "%+v", "%s", "%q", "%d", "%x"} {
		texts = append(texts, fmt.Sprintf(verb, credentials), fmt.Sprintf(verb, &credentials), fmt.Sprintf(verb, repository))
	}
	for _, text := range texts {
		for _, secret := range []string{"PRIVATE KEY", "hunter2", "80 82 73 86", "50524956", "68756e74657232"} { // also as numbers
			require.NotContains(t, text, secret)
		}
	}
}

// skipStrict skips SSH repositories in FIPS 140-3's strict mode, in which the SSH library fails. Functions do not
// support SSH there.
func skipStrict(t *testing.T, url string) {
	t.Helper()
	if fips140.Enforced() && strings.HasPrefix(url, "ssh://") {
		t.Skip("Git over SSH fails in the strict mode")
	}
}
