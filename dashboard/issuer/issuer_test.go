package issuer

import (
	"net/http"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/testing/oidctest"
)

func options() Options {
	return Options{URL: "https://login.example.com/realms/one", ClientID: "rouse", Home: "https://rouse.example.com"}
}

func TestOptionsNameWhatIsWrong(t *testing.T) {
	t.Parallel()
	made, err := New(options(), logr.Discard())
	require.NoError(t, err)
	require.Equal(t, "login.example.com", made.Name())
	require.Empty(t, made.LogOut(), "nothing is known of the issuer before the first login")
	for name, c := range map[string]struct {
		change func(o *Options)
		says   string
	}{
		"an issuer without TLS":        {func(o *Options) { o.URL = "http://login.example.com" }, "https://issuer.example.com"},
		"an issuer with a password":    {func(o *Options) { o.URL = "https://me:secret@login.example.com" }, "https://issuer.example.com"},
		"an issuer with parameters":    {func(o *Options) { o.URL += "?a=b" }, "https://issuer.example.com"},
		"a dashboard without TLS":      {func(o *Options) { o.Home = "http://rouse.example.com" }, "https://rouse.example.com"},
		"a dashboard below a path":     {func(o *Options) { o.Home += "/dashboard" }, "without a path"},
		"a dashboard without a scheme": {func(o *Options) { o.Home = "rouse.example.com" }, "https://rouse.example.com"},
		"no client":                    {func(o *Options) { o.ClientID = "" }, "client ID"},
		"a certificate that is none":   {func(o *Options) { o.CA = []byte("ca.crt") }, "no certificate"},
	} {
		o := options()
		c.change(&o)
		_, err := New(o, logr.Discard())
		require.ErrorContains(t, err, c.says, name)
	}
	for _, home := range []string{"http://localhost:8080", "http://127.0.0.1:8080", "http://[::1]:8080"} {
		o := options()
		o.Home = home
		_, err := New(o, logr.Discard())
		require.NoError(t, err, "behind a port-forward there is no TLS")
	}
}

func TestOnlyCodesOfErrorsAreTold(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{
		"access_denied": "access_denied", "": "unknown", "<b>": "unknown", "a b": "unknown", strings.Repeat("a", 41): "unknown", "line\nbreak": "unknown",
	} {
		require.Equal(t, want, wordOf(code))
	}
}

func TestNothingIsAskedWithoutTLS(t *testing.T) {
	t.Parallel()
	at, err := oidctest.Start(oidctest.Behaviour{})
	require.NoError(t, err)
	t.Cleanup(at.Close)
	client, err := newClient(at.CA())
	require.NoError(t, err)
	get := func(address string) error {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
		require.NoError(t, err)
		response, err := client.Do(request)
		if err == nil {
			_ = response.Body.Close()
		}
		return err
	}
	require.NoError(t, get(at.URL))
	require.ErrorIs(t, get(strings.Replace(at.URL, "https", "http", 1)), errInsecure)
	at.Close()
	require.Error(t, get(at.URL))
	require.ErrorIs(t, get(at.URL), errAway)
}
