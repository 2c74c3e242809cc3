package git

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/rouse-run/rouse/internal/testing/gittest"
)

// stolen is a server's text that a tenant must not be able to read.
const stolen = "stolen-words"

func packet(text string) string { return fmt.Sprintf("%04x%s", len("0000")+len(text), text) }

func TestNoErrorHasTextOfTheServer(t *testing.T) {
	t.Parallel()
	advertisement := func(lines ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, request *http.Request) {
			w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
			if request.Method == http.MethodPost {
				w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
				_, _ = io.WriteString(w, packet("NAK\n")+packet("\x03"+stolen))
				return
			}
			_, _ = io.WriteString(w, packet("# service=git-upload-pack\n")+"0000"+strings.Join(lines, "")+"0000")
		}
	}
	main := packet(strings.Repeat("a", 40) + " refs/heads/main\x00side-band-64k shallow allow-reachable-sha1-in-want\n")
	for name, answer := range map[string]http.HandlerFunc{
		"the text of a failure":        status(http.StatusInternalServerError),
		"the text of a refusal":        status(http.StatusForbidden),
		"the text of a missing page":   status(http.StatusNotFound),
		"the text of another status":   status(http.StatusTeapot),
		"the place of a redirect":      redirect("http://" + stolen + ".invalid/info/refs"),
		"the path of a redirect":       redirect("/" + stolen),
		"the scheme of a redirect":     redirect(stolen + "://x/info/refs"),
		"an error in place of a list":  advertisement(packet("ERR " + stolen + "\n")),
		"a malformed list":             advertisement(packet(stolen + "\n")),
		"a capability":                 advertisement(strings.Replace(main, "shallow", "object-format="+stolen, 1)),
		"a page":                       func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, stolen) },
		"an error in place of objects": advertisement(main),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(answer)
			t.Cleanup(server.Close)
			err := client(t, nil).Fetch(t.Context(), Repository{URL: server.URL + "/shop.git"},
				Commit{Hash: strings.Repeat("a", 40), Reference: "main"}, t.TempDir())
			require.Error(t, err)
			require.NotContains(t, err.Error(), stolen)
		})
	}
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Www-Authenticate", "Basic realm="+stolen)
		w.WriteHeader(code)
		_, _ = io.WriteString(w, stolen)
	}
}

func redirect(to string) http.HandlerFunc {
	return func(w http.ResponseWriter, request *http.Request) {
		if strings.Contains(request.URL.Path, stolen) {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusFound)
	}
}

func TestErrorsContainNoNamesOfACertificate(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: stolen}, Issuer: pkix.Name{CommonName: stolen},
		DNSNames: []string{stolen + ".example.org"}, NotAfter: time.Now().Add(time.Hour),
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{certificate}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	_, err = client(t, nil).List(t.Context(), Repository{URL: strings.Replace(server.URL, "127.0.0.1", "localhost", 1) + "/shop.git"})
	requireKind(t, Certificate, err)
	require.NotContains(t, err.Error(), stolen)
}

// serveSSH accepts every client, and fails the command with text on stderr.
func serveSSH(t *testing.T, complaint string) string {
	t.Helper()
	private, _ := gittest.Key(t)
	signer, err := ssh.ParsePrivateKey(private)
	require.NoError(t, err)
	return serveSSHBy(t, signer, complaint)
}

func serveSSHBy(t *testing.T, signer ssh.Signer, complaint string) string {
	t.Helper()
	config := &ssh.ServerConfig{NoClientAuth: true}
	config.AddHostKey(signer)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan struct{})
	t.Cleanup(func() {
		require.NoError(t, listener.Close())
		<-ended
	})
	go func() {
		defer close(ended)
		for {
			accepted, err := listener.Accept()
			if err != nil {
				return
			}
			_, channels, requests, err := ssh.NewServerConn(accepted, config)
			if err != nil {
				continue
			}
			go ssh.DiscardRequests(requests)
			for offered := range channels {
				complain(offered, complaint)
			}
		}
	}()
	return "ssh://git@" + listener.Addr().String() + "/shop.git"
}

func complain(offered ssh.NewChannel, complaint string) {
	channel, requests, err := offered.Accept()
	if err != nil {
		return
	}
	for request := range requests {
		_ = request.Reply(true, nil)
		if request.Type == "exec" {
			_, _ = io.WriteString(channel.Stderr(), complaint)
			_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{1}))
			_ = channel.Close()
		}
	}
}

func TestErrorsOfSSHCommandsAreClassifiedWithoutTheirText(t *testing.T) {
	t.Parallel()
	skipStrict(t, "ssh://")
	private, _ := gittest.Key(t)
	key, err := ParseSecret(AuthKey, "", map[string][]byte{"key": private})
	require.NoError(t, err)
	for complaint, kind := range map[string]Kind{
		"fatal: '" + stolen + "' does not appear to be a git repository": RepositoryNotFound,
		"remote: " + stolen: Unreadable,
	} {
		_, err := client(t, nil).List(t.Context(), Repository{URL: serveSSH(t, complaint), Credentials: key})
		requireKind(t, kind, err)
		require.NotContains(t, err.Error(), stolen)
	}
}

func TestHintsContainOnlyPlainShortNames(t *testing.T) {
	t.Parallel()
	for _, reference := range []string{"mian", "nothing-like-it"} {
		seen := newSelection([]string{reference})
		for _, name := range []string{
			branches + "main", branches + "<b>" + stolen, branches + "a\nb", tags + "mai\x1b", branches + strings.Repeat(stolen, 100),
		} {
			seen.see([]byte(name), []byte(strings.Repeat("a", 40)))
		}
		_, err := seen.references().Resolve(reference)
		require.ErrorContains(t, err, "but main. Correct")
		require.NotContains(t, err.Error(), stolen)
	}
}

// proxied returns a client of a proxy that responds itself and counts requests.
func proxied(t *testing.T) (*Client, *atomic.Int64) {
	t.Helper()
	var asked atomic.Int64
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		asked.Add(1)
		if strings.Contains(request.URL.Path, "moved") {
			http.Redirect(w, request, "http://169.254.169.254/shop.git/info/refs?service=git-upload-pack", http.StatusFound)
			return
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	t.Cleanup(proxy.Close)
	address, err := url.Parse(proxy.URL)
	require.NoError(t, err)
	c, err := newClient(Options{}, http.ProxyURL(address))
	require.NoError(t, err)
	return c, &asked
}

func TestProxyMayHaveAnyAddressButGetsNoDeniedRequest(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		url   string
		kind  Kind
		asked int64
	}{
		"a host that only the proxy can resolve": {"http://git.invalid/shop.git", RepositoryNotFound, 1},
		"a host behind a redirect":               {"http://git.invalid/moved.git", Forbidden, 1},
		"an address of a cloud":                  {"http://169.254.169.254/shop.git", Forbidden, 0},
		"this machine by its name":               {"http://localhost/shop.git", Forbidden, 0},
		"this machine over TLS":                  {"https://127.0.0.1/shop.git", Forbidden, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, asked := proxied(t)
			_, err := c.List(t.Context(), Repository{URL: tc.url})
			requireKind(t, tc.kind, err)
			require.Equal(t, tc.asked, asked.Load())
		})
	}
}

func TestCredentialsDoNotFollowToAnotherHost(t *testing.T) {
	t.Parallel()
	var leaked atomic.Bool
	thief := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if request.Header.Get("Authorization") != "" {
			leaked.Store(true)
		}
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(thief.Close)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		http.Redirect(w, request, thief.URL+request.URL.RequestURI(), http.StatusFound)
	}))
	t.Cleanup(server.Close)
	basic, err := ParseSecret(AuthBasic, "", map[string][]byte{"username": []byte("me"), "password": []byte("secret")})
	require.NoError(t, err)
	_, err = client(t, nil).List(t.Context(), Repository{URL: server.URL + "/shop.git", Credentials: basic})
	requireKind(t, Authentication, err)
	require.False(t, leaked.Load())
}

func TestSilentServerIsAbandonedAtTheDeadline(t *testing.T) {
	t.Parallel()
	private, _ := gittest.Key(t)
	key, err := ParseSecret(AuthKey, "", map[string][]byte{"key": private})
	require.NoError(t, err)
	for name, scheme := range map[string]string{"SSH": "ssh://git@", "HTTP": "http://"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listener, err := new(net.ListenConfig).Listen(context.WithoutCancel(t.Context()), "tcp", "127.0.0.1:0")
			require.NoError(t, err)
			t.Cleanup(func() { _ = listener.Close() })
			left := make(chan struct{})
			go func() {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				buffer := make([]byte, 1024)
				for err == nil { // neither reads nor writes until the client disconnects
					_, err = conn.Read(buffer)
				}
				close(left)
			}()
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // enough to connect on a busy machine
			defer cancel()
			repository := Repository{URL: scheme + listener.Addr().String() + "/shop.git"}
			if name == "SSH" {
				repository.Credentials = key
			}
			_, err = client(t, nil).List(ctx, repository)
			requireKind(t, Unreachable, err)
			select {
			case <-left:
			case <-t.Context().Done():
				require.FailNow(t, "the connection is still open")
			}
		})
	}
}

func TestEndlessResponseIsNotReadToItsEnd(t *testing.T) {
	t.Parallel()
	packet := func(text string) string { return fmt.Sprintf("%04x%s", len("0000")+len(text), text) }
	hash := strings.Repeat("a", 40)
	first, line := packet(hash+" HEAD\x00symref=HEAD:refs/heads/main\n"), packet(hash+" refs/heads/"+strings.Repeat("b", 31)+"\n")
	var sent atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
		_, err := w.Write([]byte("001e# service=git-upload-pack\n0000" + first))
		block := []byte(strings.Repeat(line, 1000))
		for err == nil {
			var n int
			n, err = w.Write(block)
			sent.Add(int64(n))
		}
	}))
	t.Cleanup(server.Close)
	_, err := client(t, nil).List(t.Context(), Repository{URL: server.URL + "/shop.git"})
	requireKind(t, Unreadable, err)
	require.ErrorContains(t, err, "lists more than 32 MiB")
	require.Less(t, sent.Load(), int64(2*maxAdvertised))
}
