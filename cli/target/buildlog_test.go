package target

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
)

// buildPods are a build that runs and one that had ended before.
const buildPods = `{"kind":"PodList","apiVersion":"v1","items":[
	{"metadata":{"name":"old"},"status":{"phase":"Failed","initContainerStatuses":[{"name":"fetch","state":{"terminated":{"exitCode":1}}}]}},
	{"metadata":{"name":"new"},"status":{"phase":"Running",
		"initContainerStatuses":[{"name":"fetch","state":{"terminated":{"exitCode":0}}}],
		"containerStatuses":[{"name":"install","state":{"running":{}}},{"name":"push","state":{"waiting":{"reason":"PodInitializing"}}}]}}]}`

// The pods of an API server without a kubelet have no logs, so another server plays both.
func TestTheLogOfABuildIsThatOfItsContainersAsTheyRun(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		switch {
		case strings.HasSuffix(r.URL.Path, "/pods"):
			w.Header().Set("Content-Type", "application/json")
			if query.Get("labelSelector") != "serverless.kyma-project.io/function-name=pricing,serverless.kyma-project.io/resource=job" {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			_, _ = io.WriteString(w, buildPods)
		case strings.HasSuffix(r.URL.Path, "/pods/new/log"):
			_, _ = fmt.Fprintf(w, "2026-01-01T00:00:00.5Z %s runs\n", query.Get("container"))
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(server.Close)
	conn, err := Open(Options{Context: "admin", Kubeconfig: kubeconfig(t, &rest.Config{Host: server.URL}, "shop")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	objects, err := conn.Objects()
	require.NoError(t, err)

	ctx, stop := context.WithCancel(t.Context())
	var lines []string
	err = objects.BuildLog(ctx, "shop", "pricing", func(line Line) {
		lines = append(lines, line.Function+" "+line.Replica+": "+line.Text)
		if len(lines) == 2 {
			stop()
		}
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, []string{"pricing fetch: fetch runs", "pricing install: install runs"}, lines)
}

const functionsPods = `{"kind":"PodList","apiVersion":"v1","items":[
	{"metadata":{"name":"a-1","labels":{"serverless.kyma-project.io/function-name":"a"}}},
	{"metadata":{"name":"b-1","labels":{"serverless.kyma-project.io/function-name":"b"}}}]}`

func TestLogsOfAllFunctionsOfANamespaceAreMergedByTime(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Query().Get("labelSelector") == "serverless.kyma-project.io/function-name,serverless.kyma-project.io/resource=deployment":
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, functionsPods)
		case strings.HasSuffix(r.URL.Path, "/pods/a-1/log"):
			_, _ = io.WriteString(w, "2026-01-01T00:00:00.1Z one\n2026-01-01T00:00:00.3Z three\n")
		case strings.HasSuffix(r.URL.Path, "/pods/b-1/log"):
			_, _ = io.WriteString(w, "2026-01-01T00:00:00.2Z two\n")
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(server.Close)
	conn, err := Open(Options{Context: "admin", Kubeconfig: kubeconfig(t, &rest.Config{Host: server.URL}, "shop")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	var lines []string
	require.NoError(t, conn.Log(t.Context(), "shop", "", LogOptions{Tail: -1}, func(line Line) { lines = append(lines, line.Function+": "+line.Text) }))
	require.Equal(t, []string{"a: one", "b: two", "a: three"}, lines)
}
