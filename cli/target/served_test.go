package target

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/internal/skew"
)

func TestAClusterWithOtherVersionsOfTheResourcesSaysWhichSideHasToChange(t *testing.T) {
	t.Parallel()
	const group, earlier, later = "/apis/serverless.kyma-project.io", "/v1alpha1", "/v1beta1"
	list := func(version string) string {
		return `{"kind":"APIGroup","name":"serverless.kyma-project.io","versions":[{"groupVersion":"serverless.kyma-project.io` + version +
			`","version":"` + version[1:] + `"}]}`
	}
	const functions, repositories = `{"resources":[{"name":"functions"},{"name":"functions/status"}]}`, `{"resources":[{"name":"gitrepositories"}]}`
	for name, tc := range map[string]struct {
		answers map[string]string
		want    error
		text    string
	}{
		"no Rouse":              {text: "Rouse is not installed there"},
		"another resource only": {answers: map[string]string{group: list(earlier), group + earlier: repositories}, text: "Rouse is not installed there"},
		"an earlier release": {
			answers: map[string]string{group: list(earlier), group + earlier: functions}, want: skew.ErrServerTooOld, text: "serves functions in v1alpha1",
		},
		"a later release": {
			answers: map[string]string{group: list(later), group + later: functions}, want: skew.ErrClientTooOld, text: "the cluster serves v1beta1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				answer, found := tc.answers[r.URL.Path]
				w.Header().Set("Content-Type", "application/json")
				if !found {
					w.WriteHeader(http.StatusNotFound)
					answer = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
				}
				_, _ = w.Write([]byte(answer))
			}))
			t.Cleanup(server.Close)
			conn, err := Open(Options{Context: "admin", Kubeconfig: kubeconfig(t, &rest.Config{Host: server.URL}, "default")})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, conn.Close()) })
			_, err = conn.Functions(t.Context(), "default")
			require.Equal(t, exit.Unreachable, exit.CodeOf(err))
			require.ErrorContains(t, err, tc.text)
			if tc.want != nil {
				require.ErrorIs(t, err, tc.want)
			}
		})
	}
}
