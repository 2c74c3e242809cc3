package target

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/skew"
)

func TestABridgeThatNoLongerServesThisClientNamesTheVersionToUse(t *testing.T) {
	t.Parallel()
	told := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		told <- r.Header.Get(skew.Header)
		w.Header().Set(skew.Header, skew.Side{Level: skew.Level + 2, Oldest: skew.Level + 1, Version: "v9.1.0"}.String())
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprint(w, `{"error":"no"}`)
	}))
	t.Cleanup(server.Close)
	_, err := New(Admin{URL: server.URL, Token: "t"}).Work(t.Context(), "shop")
	require.ErrorIs(t, err, skew.ErrClientTooOld)
	require.ErrorContains(t, err, "use rouse v9.1.0")
	require.Equal(t, exit.Unreachable, exit.CodeOf(err))
	require.Equal(t, skew.This(daemon.Version()).String(), <-told)
}

func TestOnlyWhatAnOlderBridgeDoesNotUnderstandIsExplainedByItsVersion(t *testing.T) {
	t.Parallel()
	client := skew.Side{Level: 3, Oldest: 2, Version: "v0.3.0"}
	older := skew.Side{Level: 2, Oldest: 1, Version: "v0.2.0"}.String()
	for name, tc := range map[string]struct {
		header  string
		status  int
		message string
		want    error
	}{
		"an unknown parameter":     {older, http.StatusBadRequest, "there is no parameter", skew.ErrServerTooOld},
		"an unknown path":          {older, http.StatusNotFound, skew.NoSuchPath, skew.ErrServerTooOld},
		"an unknown method":        {older, http.StatusMethodNotAllowed, "use POST", skew.ErrServerTooOld},
		"a missing dead letter":    {older, http.StatusNotFound, "there is no such dead letter", nil},
		"a missing right":          {older, http.StatusForbidden, "no", nil},
		"the same release":         {client.String(), http.StatusBadRequest, "namespace: no", nil},
		"a bridge that tells none": {"", http.StatusBadRequest, "namespace: no", nil},
	} {
		response := &http.Response{StatusCode: tc.status, Header: http.Header{}}
		response.Header.Set(skew.Header, tc.header)
		require.ErrorIs(t, unfit(client, response, tc.message), tc.want, name)
	}
}
