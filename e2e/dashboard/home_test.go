package dashboard

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// serve serves the pages with an API until the test ends.
func serve(t *testing.T, api *http.ServeMux) *httptest.Server {
	t.Helper()
	files := http.FileServer(http.Dir("../../dashboard/pages"))
	api.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.URL.Path, ".") {
			r.URL.Path = "/"
		}
		files.ServeHTTP(w, r)
	})
	server := httptest.NewServer(api)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server
}

// answers makes an API answer at a path.
func answers(api *http.ServeMux, path string, value any) {
	api.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(value) }) // the page may be gone
}

// streams makes an API send one event at a path, and keep the stream open.
func streams(api *http.ServeMux, path, name string, value any) {
	api.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		send(w, name, value)
		<-r.Context().Done()
	})
}

func send(w http.ResponseWriter, name string, value any) {
	text, _ := json.Marshal(value) // it is made of maps
	_, _ = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, text)
	w.(http.Flusher).Flush()
}

// startLogin serves the pages of a cluster to a user without a session, whose tokens it refuses.
func startLogin(t *testing.T) *httptest.Server {
	t.Helper()
	api := http.NewServeMux()
	refuse := func(path, text string) {
		api.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, text) // the page may be gone
		})
	}
	refuse("/api/v1/", `{"error": "log in first", "login": "token"}`)
	refuse("/api/v1/login", `{"error": "this token is not valid in the cluster, or has expired: make one with kubectl create token", "login": "token"}`)
	return serve(t, api)
}

// startEmpty serves the pages of a home in which nothing has happened yet, with its Functions and Subscriptions by key.
func startEmpty(t *testing.T, changes bool, functions, subscriptions map[string]any) *httptest.Server {
	t.Helper()
	api := http.NewServeMux()
	answers(api, "/api/v1/about", map[string]any{
		"home": "local", "name": "/shop", "version": "devel", "runtimes": []string{"nodejs22"}, "user": map[string]any{"name": "local", "changes": changes},
	})
	answers(api, "/api/v1/events", map[string]any{"records": []any{}})
	answers(api, "/api/v1/event", map[string]any{"records": []any{}})
	answers(api, "/api/v1/trace", nil)
	answers(api, "/api/v1/deadletters", map[string]any{"deadletters": []any{}})
	streams(api, "/api/v1/events/live", "records", map[string]any{"records": []any{}})
	streams(api, "/api/v1/live", "state", map[string]any{"set": map[string]any{"functions": functions, "subscriptions": subscriptions}})
	for key, fn := range functions {
		answers(api, "/api/v1/functions/"+key, fn)
		streams(api, "/api/v1/functions/"+key+"/log", "lines", map[string]any{"lines": []any{}})
		streams(api, "/api/v1/functions/"+key+"/build", "lines", map[string]any{"lines": []any{}})
	}
	return serve(t, api)
}
