package registry

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/dialguard"
)

// stolen is a server's text that a tenant must not be able to read.
const stolen = "stolen-words"

// guarded returns a tenant's registry: loopback stands for its network, and 127.0.0.2 for a denied address.
func guarded(host string) Registry {
	return Registry{Host: host, Insecure: true, Guard: &dialguard.Guard{
		AllowLoopback: true, Denied: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")},
	}}
}

// at serves on an address, and counts connections.
func at(t *testing.T, address string, handler http.HandlerFunc) (host string, connections *atomic.Int64) {
	t.Helper()
	connections = &atomic.Int64{}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address+":0")
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(handler)
	require.NoError(t, server.Listener.Close())
	server.Listener = listener
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	return listener.Addr().String(), connections
}

func ask(t *testing.T, registry Registry) error {
	t.Helper()
	client, err := New(registry)
	if err != nil {
		return err
	}
	_, _, err = client.Digest(t.Context(), "shop-price", "1")
	return err
}

func TestGuardedRegistryGetsNoRequestAtADeniedAddress(t *testing.T) {
	t.Parallel()
	host, connections := at(t, "127.0.0.1", func(http.ResponseWriter, *http.Request) {})
	_, port, err := net.SplitHostPort(host)
	require.NoError(t, err)
	for _, name := range []string{"127.0.0.1", "localhost", "0.0.0.0"} {
		for _, insecure := range []bool{true, false} {
			err := ask(t, Registry{Host: name + ":" + port, Insecure: insecure, Guard: &dialguard.Guard{}})
			require.ErrorIs(t, err, ErrDenied)
			require.NotErrorIs(t, err, ErrUnavailable)
		}
	}
	require.Zero(t, connections.Load())
	require.NotErrorIs(t, ask(t, Registry{Host: host, Insecure: true}), ErrDenied, "the operator's own may be anywhere")
	require.NotZero(t, connections.Load())
}

func TestGuardedRegistryLeadsToNoDeniedAddress(t *testing.T) {
	t.Parallel()
	for name, lead := range map[string]func(w http.ResponseWriter, request *http.Request, target string){
		"by a redirect": func(w http.ResponseWriter, request *http.Request, target string) {
			http.Redirect(w, request, "https://"+target+"/", http.StatusTemporaryRedirect)
		},
		"by the realm of its tokens": func(w http.ResponseWriter, _ *http.Request, target string) {
			w.Header().Set("Www-Authenticate", `Bearer realm="https://`+target+`/token",service="x"`)
			w.WriteHeader(http.StatusUnauthorized)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			secret, connections := at(t, "127.0.0.1", func(http.ResponseWriter, *http.Request) {})
			_, port, err := net.SplitHostPort(secret)
			require.NoError(t, err)
			host, _ := at(t, "127.0.0.2", func(w http.ResponseWriter, request *http.Request) { lead(w, request, "localhost:"+port) })
			registry := Registry{Host: host, Insecure: true, Guard: &dialguard.Guard{
				AllowLoopback: true, Denied: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("::1/128")},
			}}
			require.ErrorIs(t, ask(t, registry), ErrDenied)
			require.Zero(t, connections.Load())
		})
	}
}

func TestGuardedRegistryIsNotReachedThroughAProxyEither(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	proxy, _ := at(t, "127.0.0.1", func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusNotFound)
	})
	through := http.ProxyURL(&url.URL{Scheme: "http", Host: proxy})
	for host, want := range map[string]int64{"169.254.169.254": 0, "localhost:5000": 0, "registry.invalid": 1} {
		asked.Store(0)
		transport, err := NewTransport(TransportOptions{Guard: &dialguard.Guard{}, Insecure: []string{host}, proxy: through})
		require.NoError(t, err)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host+"/v2/", nil)
		require.NoError(t, err)
		response, err := transport.RoundTrip(request)
		if want == 0 {
			require.ErrorIs(t, err, dialguard.ErrDenied)
		} else {
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
		}
		require.Equal(t, want, asked.Load(), host)
	}
}

func TestNoErrorHasTextOfTheServer(t *testing.T) {
	t.Parallel()
	answer := func(code int, headers map[string]string, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for key, value := range headers {
				w.Header().Set(key, value)
			}
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
		}
	}
	afterPing := func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, request *http.Request) {
			if request.URL.Path != "/v2/" {
				next(w, request)
			}
		}
	}
	diagnosis := `{"errors": [{"code": "DENIED", "message": "` + stolen + `", "detail": "` + stolen + `"}, {"code": "` + stolen + `"}]}`
	for name, handler := range map[string]http.HandlerFunc{
		"the text of a failure":    answer(http.StatusBadGateway, nil, stolen),
		"the text of a refusal":    answer(http.StatusForbidden, nil, diagnosis),
		"the text of a teapot":     answer(http.StatusTeapot, nil, stolen),
		"an unknown challenge":     answer(http.StatusUnauthorized, map[string]string{"Www-Authenticate": stolen}, ""),
		"a malformed realm":        answer(http.StatusUnauthorized, map[string]string{"Www-Authenticate": `Bearer realm="` + stolen + `"`}, ""),
		"another place":            answer(http.StatusFound, map[string]string{"Location": "https://" + stolen + ".invalid/"}, ""),
		"no place":                 answer(http.StatusFound, map[string]string{"Location": stolen + "://x"}, ""),
		"a malformed digest":       afterPing(answer(http.StatusOK, map[string]string{"Docker-Content-Digest": stolen, "Content-Type": "x"}, "")),
		"a redirect without end":   func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/"+stolen, http.StatusFound) },
		"a malformed list":         afterPing(answer(http.StatusOK, nil, stolen)),
		"a list with another page": afterPing(answer(http.StatusOK, map[string]string{"Link": stolen}, "{}")),
		"a malformed token": func(w http.ResponseWriter, request *http.Request) {
			if request.URL.Path == "/token" {
				_, _ = io.WriteString(w, `{"password": "`+stolen+`"}`)
				return
			}
			w.Header().Set("Www-Authenticate", `Bearer realm="http://`+request.Host+`/token",service="x"`)
			w.WriteHeader(http.StatusUnauthorized)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host, _ := at(t, "127.0.0.1", handler)
			client, err := New(guarded(host))
			require.NoError(t, err)
			_, _, digestErr := client.Digest(t.Context(), "shop-price", "1")
			_, tagsErr := client.Tags(t.Context(), "shop-price")
			_, repositoriesErr := client.Repositories(t.Context())
			failed := 0
			for _, err := range []error{digestErr, tagsErr, repositoriesErr, client.DeleteTag(t.Context(), "shop-price", "1")} {
				if err == nil {
					continue
				}
				failed++
				require.NotContains(t, err.Error(), stolen)
				require.NotContains(t, Explain(err).Error(), stolen)
				require.Less(t, len(err.Error()), 300)
			}
			require.NotZero(t, failed)
		})
	}
}

func TestEndlessResponseIsNotReadToItsEnd(t *testing.T) {
	t.Parallel()
	var sent atomic.Int64
	host, _ := at(t, "127.0.0.1", func(w http.ResponseWriter, _ *http.Request) {
		block := []byte(strings.Repeat("[", 1<<16))
		for err := error(nil); err == nil && sent.Load() < 20*maxAnswer; {
			var n int
			n, err = w.Write(block)
			sent.Add(int64(n))
		}
	})
	client, err := New(guarded(host))
	require.NoError(t, err)
	_, err = client.Tags(t.Context(), "shop-price")
	require.Error(t, err)
	require.Less(t, sent.Load(), int64(10*maxAnswer))
}
