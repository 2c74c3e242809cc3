package apirules

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/apirule"
)

func TestAnAnswerOfAGatewayIsBounded(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answer  http.HandlerFunc
		message string
	}{
		"an error":                        {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, "status 500"},
		"a gateway of an earlier release": {http.NotFound, "status 404"},
		"a way to another place": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/", http.StatusFound)
		}, "status 302"},
		"no report": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) }, "invalid character"},
		"no end": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"apiRules":{"`))
			for piece := []byte(strings.Repeat("a", 1<<20)); ; {
				if _, err := w.Write(piece); err != nil {
					return
				}
			}
		}, "unexpected EOF"},
		"a long header": {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("A", strings.Repeat("a", 1<<20)) }, "server response headers exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := askAt(t, tc.answer)
			require.ErrorContains(t, err, tc.message)
			require.ErrorContains(t, err, "ask gateway 10.0.0.1 for its APIRules")
		})
	}
	report, err := askAt(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method+" "+r.URL.Path != "GET /apirules" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(`{"apiRules":{"shop/price":{"fingerprint":"f","problems":[{"rule":1,"attribute":"a","message":"m"}]}}}`))
	})
	require.NoError(t, err)
	require.Equal(t, apirule.Report{APIRules: map[string]apirule.Loaded{
		"shop/price": {Fingerprint: "f", Problems: []apirule.LoadedProblem{{Rule: 1, Attribute: "a", Message: "m"}}},
	}}, report)
}

// askAt asks a gateway that answers like that.
func askAt(t *testing.T, answer http.HandlerFunc) (apirule.Report, error) {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	asks := newCaller(func(ctx context.Context, network, address string) (net.Conn, error) {
		require.Equal(t, "10.0.0.1:9091", address)
		return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
	})
	return asks.Loaded(t.Context(), "10.0.0.1")
}
