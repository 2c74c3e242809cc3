package git

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/testing/gittest"
)

// proxied is a client of a proxy that answers itself and counts.
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

func TestAProxyOfTheInstallationMayBeAnywhereButIsAskedForNothingThatIsForbidden(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		url   string
		kind  Kind
		asked int64
	}{
		"a host that only the proxy knows": {"http://git.invalid/shop.git", RepositoryNotFound, 1},
		"a host behind a redirect":         {"http://git.invalid/moved.git", Forbidden, 1},
		"an address of a cloud":            {"http://169.254.169.254/shop.git", Forbidden, 0},
		"this machine by its name":         {"http://localhost/shop.git", Forbidden, 0},
		"this machine over TLS":            {"https://127.0.0.1/shop.git", Forbidden, 0},
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

func TestAServerThatIsSilentIsLeftWhenTheTimeIsUp(t *testing.T) {
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
				for err == nil { // reads and writes nothing, until the client is gone
					_, err = conn.Read(buffer)
				}
				close(left)
			}()
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // enough to connect, however busy the machine
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

func TestAnAnswerWithoutEndIsNotReadToItsEnd(t *testing.T) {
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
