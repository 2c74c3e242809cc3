package admin

import (
	"net/http"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/skew"
)

func TestClientsThatAreNotServedAnyMoreAreToldWhichVersionIsNeeded(t *testing.T) {
	t.Parallel()
	h := newHandler(t, &fakeStore{}, logr.Discard())
	h.side = skew.Side{Level: 4, Oldest: 3, Version: "v0.4.0"}
	from := func(level string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(skew.Header, "level="+level+"; oldest=1; version=v0.2.0") }
	}
	for name, tc := range map[string]struct {
		change func(*http.Request)
		want   int
	}{
		"an older one that is served":    {from("3"), http.StatusOK},
		"a later one":                    {from("5"), http.StatusOK},
		"one that is too old":            {from("2"), http.StatusBadRequest},
		"one that says nothing, as curl": {func(*http.Request) {}, http.StatusOK},
		"one that says nonsense":         {func(r *http.Request) { r.Header.Set(skew.Header, "x") }, http.StatusOK},
	} {
		answered := ask(h, http.MethodGet, "/v1/subscriptions", "", tc.change)
		require.Equal(t, tc.want, answered.Code, name)
		require.Equal(t, h.side.String(), answered.Header().Get(skew.Header), name)
		if tc.want != http.StatusOK {
			require.Contains(t, answered.Body.String(), "use rouse v0.4.0", name)
		}
	}
}

func TestStrangersDoNotLearnTheVersion(t *testing.T) {
	t.Parallel()
	answered := ask(newHandler(t, &fakeStore{}, logr.Discard()), http.MethodGet, "/v1/subscriptions", "",
		func(r *http.Request) { r.Header.Del("Authorization") })
	require.Equal(t, http.StatusUnauthorized, answered.Code)
	require.Empty(t, answered.Header().Get(skew.Header))
}
